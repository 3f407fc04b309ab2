"""The extender's filter: which node, which cards, what is written, and what is left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.dialects.hami.quota import QuotaLine
from muster.model.errors import InvalidObject
from muster.vendors.nvidia import ALLOCATED
from tests.dialects.hami.builders import MEM, device, extender, limits, pod, state


def placed(*pods, start=None, **settings):
    """The nodes and shares of pods placed one after another."""
    now, result = start or state(x="ab", y="cd"), []
    for number, one in enumerate(pods):
        answer = extender(**settings).filter(one, sorted(now.nodes), state=now, now_s=number)
        now = answer.state
        result.append((*answer.nodes, answer.annotations.get(ALLOCATED, "")))
    return result


SMALL = limits(gpus=1, mem=100)


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        pytest.param({}, ["x b", "x a"], id="nodes are packed, cards are spread"),
        pytest.param({"card_policy": "binpack"}, ["x b", "x b"], id="nodes and cards are packed"),
        pytest.param({"node_policy": "spread"}, ["x b", "y d"], id="nodes are spread"),
    ],
)
def test_policies(settings, want):
    got = placed(pod(SMALL, uid="1"), pod(SMALL, uid="2"), **settings)
    assert [f"{node} {text[0]}" for node, text in got] == want


def test_the_pods_own_policy_goes_first():
    got = placed(pod(SMALL, uid="1"), pod(SMALL, uid="2", card_policy="binpack", node_policy="binpack"))
    assert [text[0] for _, text in got] == ["b", "b"]


def test_a_pod_without_cards_passes_everywhere():
    answer = extender().filter(pod(limits(mem=5)), ["x", "z"], state=state(x="a"), now_s=0)
    assert (answer.nodes, dict(answer.annotations)) == (("x", "z"), {})


def test_refusals_are_counted():
    now = state(x="ab")
    answer = extender().filter(pod(limits(gpus=2, mem=2000)), ["x", "z"], state=now, now_s=0)
    assert answer.refused == {"x": "2/2 CardInsufficientMemory", "z": "node unregistered"}
    assert answer.state == now, "a refused request changes nothing"
    answer = extender().filter(pod(limits(gpus=3)), ["x"], state=now, now_s=0)
    assert answer.refused == {"x": "NodeInsufficientDevice"}


def test_containers_share_the_node_and_init_containers_come_before():
    one = pod(limits(gpus=1, mem=600), limits(gpus=1, mem=600), init=(limits(gpus=1, mem=900),))
    ((node, text),) = placed(one, start=state(x="ab"))
    assert (node, text) == ("x", "b,NVIDIA,900,0:;b,NVIDIA,600,0:;a,NVIDIA,600,0:;")
    answer = extender().filter(one, ["x"], state=state(x="ab"), now_s=7)
    (held,) = answer.state.pods
    assert {share.uuid: share.memory_mib for share in held.shares["NVIDIA"]} == {"b": 900, "a": 600}
    assert answer.annotations["hami.io/vgpu-time"] == "7"


def test_empty_containers_keep_their_place_on_cards_of_the_bare_word():
    one = pod({}, SMALL)
    bare = replace(state(), nodes={"x": (device("a", model="NVIDIA"),)})
    assert [text for _, text in placed(one, start=bare)] == [";a,NVIDIA,100,0:;"]
    assert [text for _, text in placed(one, start=state(x="a"))] == ["a,NVIDIA,100,0:;"]


def test_a_pod_that_asks_again_gives_back_what_it_had():
    whole = pod(limits(gpus=1, cores=100), uid="same")
    assert [node for node, _ in placed(whole, whole, start=state(x="a"))] == ["x", "x"]


def test_quota_of_the_namespace():
    now = replace(state(x="ab"), quotas={"n": {MEM: QuotaLine(limit=150)}})
    first = extender().filter(pod(SMALL, uid="1"), ["x"], state=now, now_s=0)
    assert first.state.quotas["n"][MEM] == QuotaLine(100, 150)
    second = extender().filter(pod(SMALL, uid="2"), ["x"], state=first.state, now_s=0)
    assert second.refused == {"x": "2/2 ResourceQuotaNotFit"}


def test_fitting_takes_nothing():
    now = state(x="ab", y="c")
    answer = extender().fitting(pod(limits(gpus=2)), ["x", "y"], now)
    assert (answer.nodes, answer.refused, answer.state) == (("x",), {"y": "NodeInsufficientDevice"}, now)


@pytest.mark.parametrize("weights", ["slot=1,core=1", "slot=0,core=0,memory=0", "slot=1,core=-1,memory=1", "x=1", ""])
def test_weights_that_are_refused(weights):
    with pytest.raises(InvalidObject, match="device-scoring-weights"):
        extender().filter(pod(SMALL, weights=weights), ["x"], state=state(x="a"), now_s=0)


def test_absurd_counts_cost_nothing():
    answer = extender().filter(pod(limits(gpus=10**30)), ["x"], state=state(x="ab"), now_s=0)
    assert answer.refused == {"x": "NodeInsufficientDevice"}
