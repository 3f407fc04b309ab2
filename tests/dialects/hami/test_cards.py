"""Annotations to the table and back: cards of nodes, asks and claims of pods, and what a decision writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.app.plugins import vendors
from muster.dialects.hami.cards import (
    card_ask,
    card_requests,
    held_slices,
    pod_tag,
    shares_of_container,
    slice_annotations,
    table_devices,
    whole_slices,
)
from muster.dialects.hami.read import held_shares
from muster.engine.node_table import NodeTable
from muster.engine.node_table_rows import TableNode, slice_demand
from muster.engine.slices import choose
from muster.model.device import Share
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.slices import PodTag, Slices
from muster.vendors.nvidia import VENDOR
from tests.dialects.hami.builders import device, limits, pod

ALLOCATED, REGISTER = "hami.io/vgpu-devices-allocated", "hami.io/node-nvidia-register"
CARDS = (device("a"), device("b"))
KNOWN = tuple(vendors().values())


def node(*cards: dict[str, Any]) -> Fields:
    items = [{"count": 10, "devmem": 1000, "devcore": 100, "type": "NVIDIA", "health": True, **card} for card in cards]
    return Fields({"metadata": {"annotations": {REGISTER: json.dumps(items)}}})


def claiming(text: str, *asked: dict[str, str], phase: str = "Running", **annotations: str) -> Fields:
    """A pod on a node whose annotation says what it holds."""
    metadata = {"name": "p", "namespace": "n", "annotations": {ALLOCATED: text, **annotations}}
    containers = [{"resources": {"limits": one}} for one in asked or ({},)]
    return Fields(
        {"metadata": metadata, "spec": {"nodeName": "x", "containers": containers}, "status": {"phase": phase}}
    )


def held(text: str, *asked: dict[str, str], **parts: Any) -> tuple[dict[str, tuple[int, int]], list[str]]:
    """Memory and cores by card that count as held, and what is wrong."""
    found = held_slices(claiming(text, *asked), CARDS, (VENDOR,), **parts)
    shares = found.slices.shares if found.slices else ()
    return {share.uuid: (share.memory_mib, share.cores) for share in shares}, [str(one) for one in found.problems]


# Nodes ---------------------------------------------------------------------------------------------------------------


def test_cards_of_a_node():
    read = table_devices(node({"id": "b", "index": 1}, {"id": "a"}), (VENDOR,))
    assert [one.uuid for one in read.devices] == ["a", "b"] and not read.problems
    twice = table_devices(node({"id": "a"}, {"id": "a", "devmem": 9}), (VENDOR,))
    assert [one.memory_mib for one in twice.devices] == [1000]
    assert "twice" in str(twice.problems[0])
    assert table_devices(Fields({}), (VENDOR,)).devices == ()


def test_cards_that_are_only_counted():
    status = {"allocatable": {"amd.com/gpu": "2", "kunlunxin.com/xpu": "1", "nvidia.com/gpu": "8"}}
    read = table_devices(Fields({"metadata": {"name": "n"}, "status": status}), KNOWN)
    assert {one.uuid: one.memory_mib for one in read.devices} == {"n-AMD-0": 0, "n-AMD-1": 0, "n-kunlun-0": 98304}
    assert not any(one.is_counted for one in read.devices) and not read.problems
    none = {"allocatable": {"amd.com/gpu": "0", "kunlunxin.com/xpu": "-1"}}
    assert table_devices(Fields({"status": none}), KNOWN).problems == ()
    many = {"allocatable": {"amd.com/gpu": "1e9"}}
    assert "at most 1024" in str(table_devices(Fields({"status": many}), KNOWN).problems[0])


# Asks ----------------------------------------------------------------------------------------------------------------


def test_what_a_pod_asks():
    asked = card_requests(pod(limits(1, mem=300), limits(), card_policy="binpack", uuids="a"), (VENDOR,))
    assert asked is not None and [len(requests) for requests in asked.by_container] == [1, 0]
    ask = card_ask(asked, (VENDOR,))
    assert ask.pod.orders["NVIDIA"].policy == "binpack" and ask.pod.wishes["NVIDIA"].uuids == {"a"}
    assert card_requests(pod({}), (VENDOR,)) is None


def test_annotations_that_say_nothing_of_cards_do_not_tell_pods_apart():
    def ask(**annotations: str):
        metadata = {"annotations": annotations}
        spec = {"containers": [{"resources": {"limits": limits(1, mem=300)}}]}
        asked = card_requests(Fields({"metadata": metadata, "spec": spec}), (VENDOR,))
        assert asked is not None
        return card_ask(asked, (VENDOR,))

    assert ask() == ask(**{"hami.io/bind-time": "5", "example.com/mine": "x"})
    assert ask() != ask(**{"nvidia.com/use-gputype": "A100"})
    assert ask() != ask(**{"muster.dev/card-anti-affinity": "app=web"})
    with pytest.raises(InvalidObject):
        ask(**{"muster.dev/card-affinity": "app in web"})


def test_how_others_see_a_pod():
    labelled = Fields({"metadata": {"namespace": "n", "labels": {"b": "2", "a": "1"}}})
    assert pod_tag(labelled) == PodTag("n", (("a", "1"), ("b", "2")))


# Claims --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "asked", "want", "problem"),
    [
        pytest.param("a,NVIDIA,300,20:;", limits(1, mem=300), {"a": (300, 20)}, "", id="a plain claim"),
        pytest.param("z,NVIDIA,300,20:;", {}, {}, "which the node has not", id="a card that is not there"),
        pytest.param("a,NVIDIA,9999,20:;", {}, {"a": (1000, 20)}, "more than the card", id="more memory than it has"),
        pytest.param("a,NVIDIA,10,900:;", {}, {"a": (10, 100)}, "more than the card", id="more cores than it has"),
        pytest.param("a,NVIDIA,1,0:;", limits(1, mem=300), {"a": (1000, 100)}, "less memory", id="less than it asks"),
        pytest.param("a,NVIDIA,-1,0:;", {}, {}, "memory", id="nonsense of a pod without cards"),
        pytest.param(
            "a,NVIDIA,x,0:;", limits(1), {"a": (1000, 100), "b": (1000, 100)}, "memory", id="a claim nobody can read"
        ),
        pytest.param("", limits(1), {}, "", id="no claim"),
    ],
)
def test_claims(text, asked, want, problem):
    shares, problems = held(text, asked)
    assert shares == want
    assert problem in " ".join(problems) and bool(problems) == bool(problem)


def test_what_was_granted_stands():
    granted = Slices((Share(uuid="a", memory_mib=300),))
    assert held("a,NVIDIA,300,0:;", granted=granted) == ({"a": (300, 0)}, [])
    for forged in ("a,NVIDIA,1,0:;", "b,NVIDIA,300,0:;", "a,NVIDIA,x,0:;"):
        shares, problems = held(forged, limits(1), granted=granted)
        assert shares == {"a": (300, 0)} and problems
    ended = held_slices(claiming("a,NVIDIA,300,0:;", phase="Succeeded"), CARDS, (VENDOR,))
    assert ended.slices is None


def test_a_selector_nobody_can_read_is_reported():
    found = held_slices(claiming("a,NVIDIA,1,0:;", **{"muster.dev/card-anti-affinity": "="}), CARDS, (VENDOR,))
    assert found.slices is not None and found.slices.apart is None and len(found.problems) == 1
    assert found.slices.pod == "n/p"


claims = st.builds(
    lambda uuid, memory, cores: f"{uuid},NVIDIA,{memory},{cores}:",
    st.sampled_from(["a", "b", "z", ""]),
    st.one_of(st.integers(-5, 2**33), st.text("0x-", max_size=3)),
    st.integers(-1, 2**31),
)


@given(
    st.lists(st.lists(claims, max_size=3).map("".join), max_size=3), st.sampled_from([{}, limits(1), limits(2, mem=9)])
)
def test_no_claim_makes_a_card_freer(containers, asked):
    table = NodeTable([TableNode(name="x", devices=CARDS)])
    before = [table.slices.memory[:, 0].tolist(), table.slices.cores[:, 0].tolist(), table.cards[0].tolist()]
    wanted = slice_demand({}, card_ask(card_requests(pod(limits(1, mem=1)), (VENDOR,)), (VENDOR,)))
    text = "".join(container + ";" for container in containers)
    found = held_slices(claiming(text, asked), CARDS, (VENDOR,))
    if found.slices is None:
        return
    table.charge(0, wanted, found.slices, is_hold=True)
    after = [table.slices.memory[:, 0].tolist(), table.slices.cores[:, 0].tolist(), table.cards[0].tolist()]
    for was, now in zip(before, after, strict=True):
        assert all(0 <= less <= more for less, more in zip(now, was, strict=True))
    table.release(0, wanted, found.slices)
    assert [table.slices.memory[:, 0].tolist(), table.slices.cores[:, 0].tolist(), table.cards[0].tolist()] == before


# Decisions -----------------------------------------------------------------------------------------------------------


def test_a_decision_is_written_and_read_again():
    here = TableNode(name="x", devices=CARDS)
    table = NodeTable([here])
    asking = pod(limits(1, mem=300, cores=20), {}, limits(1, mem=800))
    asked = card_requests(asking, (VENDOR,))
    assert asked is not None
    got = choose(table, 0, card_ask(asked, (VENDOR,)))
    assert isinstance(got, Slices)
    written = slice_annotations(asking, got, (VENDOR,), node=here, now_s=7)
    assert written["hami.io/vgpu-node"] == "x" and written["hami.io/vgpu-time"] == "7"
    assert written[ALLOCATED] == "b,NVIDIA,300,20:;a,NVIDIA,800,0:;"
    placed = Fields({**asking.values, "metadata": {**asking.child("metadata").values, "annotations": written}})
    again = held_shares(placed, (VENDOR,))
    assert again is not None and [(one.uuid, one.memory_mib, one.cores) for one in again.shares["NVIDIA"]] == [
        (one.uuid, one.memory_mib, one.cores) for one in got.shares
    ]
    assert not held_slices(placed, CARDS, (VENDOR,), granted=got).problems


def asking(*counts: int, init: int = 0) -> dict[str, Any]:
    """A pod whose containers c0, c1, … ask for so many whole cards, the first ones before the others run."""
    made = [
        {"name": f"c{number}", "resources": {"limits": {"nvidia.com/gpu": str(count)} if count else {}}}
        for number, count in enumerate(counts)
    ]
    return {"metadata": {}, "spec": {"initContainers": made[:init], "containers": made[init:]}}


@pytest.mark.parametrize(
    ("asked", "names", "want"),
    [
        pytest.param(asking(1), ["b"], ["b"], id="one"),
        pytest.param(asking(0, 1), ["a"], ["", "a"], id="the first container asks for none"),
        pytest.param(asking(1, 1), ["b", "a"], ["b", "a"], id="one each"),
        pytest.param(asking(2, 1, 1, init=1), ["a", "b"], ["a b", "a", "b"], id="the first gives back what it had"),
        pytest.param(asking(1), ["c"], None, id="a card that the node has not"),
        pytest.param(asking(2), ["a"], None, id="fewer than it asks for"),
    ],
)
def test_whole_cards_are_written_so_that_each_container_finds_its_own(asked, names, want):
    slices = whole_slices(Fields(asked), names, (VENDOR,), CARDS)
    if want is None:
        assert slices is None
        return
    assert slices is not None
    written = slice_annotations(Fields(asked), slices, (VENDOR,), node=TableNode(name="x", devices=CARDS), now_s=1)
    kept = Fields({"metadata": {"annotations": written}, "spec": asked["spec"]})
    found = [shares_of_container(kept, f"c{number}", VENDOR) for number in range(len(want))]
    assert [" ".join(share.uuid for share in shares) for shares in found] == want
    assert all(share.memory_mib == CARDS[0].memory_mib for shares in found for share in shares)


# Other vendors -------------------------------------------------------------------------------------------------------


def asking(annotations: dict[str, str] | None = None, **amounts: str) -> Fields:
    given = {name.replace("_", "-"): amount for name, amount in amounts.items()}
    limited = {f"huawei.com/Ascend910B3{name.removeprefix('count')}": amount for name, amount in given.items()}
    return Fields(
        {"metadata": {"annotations": annotations or {}}, "spec": {"containers": [{"resources": {"limits": limited}}]}}
    )


def test_only_cards_of_the_vendor_named_will_do():
    asked = card_requests(
        asking({"hami.io/use-Ascend910B3-uuid": "a", "nvidia.com/use-gputype": "x"}, count="1"), KNOWN
    )
    assert asked.is_by_name and asked.is_sliced
    assert asked.annotations == (("hami.io/use-Ascend910B3-uuid", "a"),)
    assert list(card_ask(asked, KNOWN).pod.vendors) == ["Ascend910B3"]


def test_pods_are_read_as_the_webhook_stores_them():
    asked = card_requests(asking(count="1", _memory="10000"), KNOWN)
    assert asked.by_container[0][0].memory_mib == 16384


@pytest.mark.parametrize(
    "amounts",
    [{"count": "1", "_memory": "70000"}, {"count": "2", "_memory": "1"}, {"count": "1e12"}, {"_memory": "5"}],
    ids=["more than a chip", "parts of two", "very many", "no number of chips"],
)
def test_what_no_chip_could_give_is_a_mistake(amounts):
    with pytest.raises(InvalidObject, match=r"huawei\.com/Ascend910B3"):
        card_requests(asking(**amounts), KNOWN)


def test_nothing_of_a_card_is_no_mistake():
    assert card_requests(asking(count="0"), KNOWN) is None
