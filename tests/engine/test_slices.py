"""Slices of cards: what is left of a card, which rows are asked, which card is chosen, and beside whom.

A node is a row of cards with a letter each, of 1000 MiB, 100 % cores and ten slots unless a test says otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from muster.engine.devices import CardReason, CardWishes, Choice
from muster.engine.devices_order import CardOrder
from muster.engine.devices_pod import PodCards
from muster.engine.node_table import NodeTable
from muster.engine.node_table_rows import WHOLE, Placed, TableNode, demand, slice_demand
from muster.engine.slices import cards_fit, cards_room, choose, near_rows
from muster.engine.slices_ask import ANYBODY, CardAsk, Neighbours, read_neighbours, read_selector_text
from muster.model.device import Device, DeviceRequest, Share
from muster.model.errors import InvalidObject
from muster.model.slices import PodTag, Slices
from muster.policies import binpack, spread
from muster.vendors.nvidia import VENDOR


def device(uuid: str, **parts: Any) -> Device:
    usual = {"vendor": "NVIDIA", "model": "NVIDIA A100", "memory_mib": 1000, "slots": 10, "mode": "hami-core"}
    return Device(uuid=uuid, **{**usual, **parts})


def node(name: str, letters: str, **parts: Any) -> TableNode:
    return TableNode(name=name, devices=tuple(device(letter, **parts) for letter in letters))


def world(*letters: str, **parts: Any) -> NodeTable:
    return NodeTable(node(f"n{row}", some, **parts) for row, some in enumerate(letters))


def request(memory: int = 0, *, count: int = 1, percent: int | None = None, cores: int = 0) -> DeviceRequest:
    return DeviceRequest(vendor="NVIDIA", count=count, memory_mib=memory, memory_percent=percent, cores=cores)


def ask(*requests: DeviceRequest, policy: str = "binpack", neighbours: Neighbours = ANYBODY, **wishes: Any) -> CardAsk:
    pod = PodCards(
        requests=tuple({"NVIDIA": one} for one in requests),
        vendors={"NVIDIA": VENDOR},
        wishes={"NVIDIA": CardWishes(**wishes)},
        orders={"NVIDIA": CardOrder(policy)},
    )
    return CardAsk(pod, neighbours)


def pod(wanted: CardAsk):
    return slice_demand({}, wanted, card_memory_mib=1000)


def give(table: NodeTable, row: int, wanted: CardAsk, **parts: Any) -> Slices:
    """Choose and charge; what is not given is a mistake of the test."""
    got = choose(table, row, wanted, **parts)
    assert isinstance(got, Slices), got
    table.charge(row, pod(wanted), got)
    return got


def names(got: Slices | Choice) -> str:
    return "".join(share.uuid for share in got.shares)


def left(table: NodeTable, card: int = 0) -> tuple[int, ...]:
    """Thousandths, memory, cores and slots that are left of a card of the first row."""
    columns = table.slices
    return int(table.cards[0, card]), *(int(one[card, 0]) for one in (columns.memory, columns.cores, columns.slots))


# What is left of a card ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "want"),
    [
        pytest.param({}, (1000, 1000, 100, 10), id="all of it"),
        pytest.param({"is_healthy": False}, (0, 1000, 100, 10), id="a sick card"),
        pytest.param({"is_cordoned": True}, (0, 1000, 100, 10), id="a cordoned card"),
        pytest.param({"slots": 0}, (0, 1000, 100, 0), id="a card that nobody may share"),
        pytest.param({"memory_mib": 0}, (0, 0, 100, 10), id="a card of unknown memory"),
        pytest.param({"cores": 0}, (1000, 1000, 0, 10), id="a card that is not shared by cores"),
        pytest.param({"mode": "mig"}, (0, 1000, 100, 10), id="a card that is cut by its driver"),
        pytest.param({"memory_mib": 2000, "cores": 200}, (1000, 2000, 200, 10), id="an oversubscribed card"),
    ],
)
def test_what_a_new_card_has(parts, want):
    assert left(world("a", **parts)) == want


@pytest.mark.parametrize(
    ("wanted", "want"),
    [
        pytest.param(request(250), (750, 750, 100, 9), id="by memory"),
        pytest.param(request(100, cores=40), (600, 900, 60, 9), id="by the scarcer of memory and cores"),
        pytest.param(request(percent=30), (700, 700, 100, 9), id="by per cent"),
        pytest.param(request(), (999, 1000, 100, 9), id="a sharer of nothing keeps the card from being whole"),
        pytest.param(request(100, cores=100), (0, 900, 0, 9), id="exclusive by its cores"),
        pytest.param(request(1000), (0, 0, 100, 9), id="all memory"),
    ],
)
def test_what_a_slice_leaves(wanted, want):
    table = world("a")
    got = give(table, 0, ask(wanted))
    assert left(table) == want
    table.release(0, pod(ask(wanted)), got)
    assert left(table) == (1000, 1000, 100, 10)


def test_parts_are_rounded_together_not_one_by_one():
    table = world("a", memory_mib=1001)
    for count in range(1, 4):
        table.charge(0, demand({}, cards=1, milli=333), (0,))
        assert left(table)[0] == WHOLE - 333 * count
    assert left(table) == (1, 1, 0, 7)
    assert not cards_fit(pod(ask(request(0))), table.rows()).any(), "one thousandth is no per cent of the cores"


def test_no_slot_no_card():
    table = world("a", slots=2)
    give(table, 0, ask(request(10)))
    table.charge(0, demand({}, cards=1, milli=10), (0,))
    assert left(table) == (0, 980, 99, 0)
    assert not cards_fit(demand({}, cards=1, milli=1), table.rows()).any()
    assert choose(table, 0, ask(request(10))).counts == {CardReason.SHARERS: 1}


def test_a_whole_card_is_nobody_elses():
    table = world("a", cores=0)
    table.charge(0, demand({}, cards=1), (0,))
    assert left(table) == (0, 0, 0, 0)
    assert choose(table, 0, ask(request(0))).counts == {CardReason.SHARERS: 1}


def test_oversubscribed_memory_is_given_out():
    table = world("a", memory_mib=2000)
    for _ in range(2):
        give(table, 0, ask(request(1000)))
    assert left(table)[:2] == (0, 0)


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(lambda table: [give(table, 0, ask(request(600))) for _ in range(2)], id="more than there is"),
        pytest.param(lambda table: table.charge(0, demand({}, cards=1), (0,)), id="a whole card that is shared"),
        pytest.param(lambda table: table.charge(0, demand({}, cards=1, milli=901), (0,)), id="a part too big"),
        pytest.param(
            lambda table: table.charge(0, pod(ask(request(1))), Slices((Share(uuid="a", memory_mib=901),))),
            id="a slice too big",
        ),
        pytest.param(
            lambda table: table.release(0, pod(ask(request(1))), Slices((Share(uuid="a", memory_mib=1),))),
            id="what nobody holds",
        ),
    ],
)
def test_no_card_is_given_twice(mistake):
    table = world("a")
    give(table, 0, ask(request(100)))
    with pytest.raises(AssertionError):
        mistake(table)


# Nodes that change ---------------------------------------------------------------------------------------------------


def test_cards_that_come_go_and_return_keep_what_is_held():
    table = world("abc")
    give(table, 0, ask(request(300), uuids=frozenset("b")))
    table.charge(0, demand({}, cards=1, milli=500), (2,))
    table.put(node("n0", "cd"))
    assert [card.device.uuid for card in table.slices.cards_of(0)] == ["c", "d"]
    assert table.card_count[0] == 2
    assert table.cards[0].tolist() == [1000, 0, 500], "the new card stands where nothing was held"
    table.put(node("n0", "bcde"))
    used = {card.device.uuid: card.use.memory_mib for card in table.slices.cards_of(0)}
    assert used == {"b": 300, "c": 500, "d": 0, "e": 0}


def test_a_sick_card_keeps_its_pods_and_takes_no_more():
    table = world("ab")
    got = give(table, 0, ask(request(300), uuids=frozenset("a")))
    table.put(TableNode(name="n0", devices=(device("a", is_healthy=False), device("b"))))
    assert names(choose(table, 0, ask(request(10)))) == "b"
    table.release(0, pod(ask(request(300), uuids=frozenset("a"))), got)
    table.put(node("n0", "ab"))
    assert left(table) == (1000, 1000, 100, 10)


def test_counted_cards_that_become_known_stay_held():
    table = NodeTable([TableNode(name="n0", cards=3)])
    table.charge(0, demand({}, cards=2), (0, 2))
    early = Slices((Share(uuid="b", memory_mib=400),), pod="early")
    table.charge(0, pod(ask(request(400))), early, is_hold=True)
    assert table.cards[0].tolist() == [0, 1000, 0]
    table.put(node("n0", "ab"))
    assert table.cards[0].tolist() == [0, 600, -1000]
    table.release(0, demand({}, cards=2), (0, 2))
    assert table.cards[0].tolist() == [1000, 600, 0]
    table.put(TableNode(name="n0", cards=3))
    assert table.card_count[0] == 0, "a mere count does not tell which cards there are"


def test_two_cards_of_one_name_are_one():
    table = world("aab")
    assert table.card_count[0] == 2
    assert [card.device.uuid for card in table.slices.cards_of(0)] == ["a", "b"]


# Screening -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        pytest.param(ask(request(500)), [True, True, False], id="memory"),
        pytest.param(ask(request(501)), [False, True, False], id="more memory"),
        pytest.param(ask(request(percent=50)), [True, True, False], id="half of whatever card"),
        pytest.param(ask(request(500, count=2)), [False, True, False], id="two cards"),
        pytest.param(ask(request(10, cores=60)), [False, True, False], id="cores"),
        pytest.param(ask(request(10, cores=100)), [False, True, False], id="a card for itself"),
        pytest.param(ask(request(10), is_alone=True), [False, True, False], id="nobody else now"),
        pytest.param(ask(request(10), request(900)), [False, True, False], id="every container is asked"),
        pytest.param(ask(request(10), models=("t4",)), [False, False, False], id="another model"),
        pytest.param(ask(request(10), modes="mig"), [False, False, False], id="another mode"),
        pytest.param(ask(request(10), uuids=frozenset("c")), [False, True, False], id="a card by name"),
        pytest.param(ask(request(10), uuids=frozenset("z")), [False, False, False], id="a card that nobody has"),
        pytest.param(ask(request(10, count=2), is_on_one_numa=True), [False, False, False], id="one NUMA node"),
    ],
)
def test_rows_that_could_fit(wanted, fits):
    two = tuple(device(letter, numa=numa) for numa, letter in enumerate("bc"))
    table = NodeTable([node("n0", "a"), TableNode(name="n1", devices=two), TableNode(name="n2", cards=8)])
    give(table, 0, ask(request(500, cores=50)))
    assert cards_fit(pod(wanted), table.rows()).tolist() == fits
    assert cards_fit(pod(wanted), table.rows(np.array([1, 0]))).tolist() == [fits[1], fits[0]]


def test_how_many_could_fit():
    table = NodeTable(
        [node("n0", "ab", memory_mib=1000), node("n1", "c", memory_mib=500), TableNode(name="n2", cards=1)]
    )
    assert cards_room(pod(ask(request(400))), table.rows()).tolist() == [4, 1, 0]
    assert cards_room(pod(ask(request(percent=25, cores=30))), table.rows()).tolist() == [6, 3, 0]
    assert cards_room(pod(ask(request(1, count=2))), table.rows()).tolist() == [10, 5, 0]
    assert cards_room(demand({}, cards=1, milli=400), table.rows()).tolist() == [4, 2, 2]


def test_asks_that_mean_the_same_share_their_columns():
    one, same, other = ask(request(10)), ask(request(10)), ask(request(11))
    assert one == same and len({one, same, other}) == 2
    assert pod(one) == pod(same) and pod(one) != pod(other)
    assert ask(request(10), uuids=frozenset("a")) != one


@pytest.mark.parametrize(
    ("wanted", "cards", "milli"),
    [
        pytest.param(ask(request(250)), 1, 250, id="memory of a usual card"),
        pytest.param(ask(request(1)), 1, 10, id="in steps of a per cent"),
        pytest.param(ask(request(250, cores=40)), 1, 400, id="the larger of both"),
        pytest.param(ask(request(percent=100, count=4)), 4, 1000, id="whole cards"),
        pytest.param(ask(request(percent=100), request(cores=100)), 2, 1000, id="whole cards of two containers"),
        pytest.param(ask(request(100), request(200)), 1, 200, id="containers may share a card"),
        pytest.param(ask(request(5000)), 1, 1000, id="more than a card"),
    ],
)
def test_what_policies_see_of_a_pod(wanted, cards, milli):
    seen = pod(wanted)
    assert (seen.cards, seen.milli) == (cards, milli)


def test_memory_of_cards_of_unknown_size_counts_as_next_to_nothing():
    assert slice_demand({}, ask(request(5000))).milli == 10


# The exact choice ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "want"),
    [pytest.param("binpack", "bc", id="the fullest first"), pytest.param("spread", "ac", id="the emptiest first")],
)
def test_cards_are_chosen_by_their_fullness(policy, want):
    table = world("abc")
    give(table, 0, ask(request(300), uuids=frozenset("b")))
    give(table, 0, ask(request(200), uuids=frozenset("c")))
    assert names(choose(table, 0, ask(request(100, count=2), policy=policy))) == want


def test_nodes_are_scored_with_the_pod_on_them():
    """Six of eight cards in use once the pod is there are 7.5, two of eight 2.5; spread is the other way round."""
    table = world("abcdefgh", "ijklmnop")
    for row, count in ((0, 5), (1, 1)):
        give(table, row, ask(request(percent=100, count=count, cores=100)))
    wanted = pod(ask(request(percent=100, cores=100)))
    assert binpack.POLICY.hooks().score(wanted, table.rows()).values.tolist() == [7.5, 2.5]
    assert spread.POLICY.hooks().score(wanted, table.rows()).values.tolist() == [2.5, 7.5]


def test_the_exact_try_decides():
    table = world("a")
    both = ask(request(600), request(600))
    assert cards_fit(pod(both), table.rows()).all()
    got = choose(table, 0, both)
    assert isinstance(got, Choice) and got.text == "1/1 CardInsufficientMemory"
    assert names(choose(table, 0, ask(request(500), request(500)))) == "a"


def test_what_each_container_got_is_known():
    table = world("ab")
    got = give(table, 0, ask(request(600), request(500)))
    assert [(share.uuid, share.memory_mib) for share in got.shares] == [("b", 600), ("a", 500)]
    ((vendor, containers),) = got.given
    assert vendor == "NVIDIA" and [len(shares) for shares in containers] == [1, 1]
    assert Placed(0, slices=got).held is got and Placed(0, (1,)).held == (1,)


def test_quota_is_asked():
    table = world("ab")
    got = choose(table, 0, ask(request(10)), is_within_quota=lambda _vendor, shares: False)
    assert isinstance(got, Choice) and got.counts == {CardReason.QUOTA: 2}


def test_a_try_leaves_no_trace():
    table = world("ab")
    first = choose(table, 0, ask(request(100)))
    assert choose(table, 0, ask(request(100))) == first
    assert left(table) == left(table, 1) == (1000, 1000, 100, 10)


# Neighbours ----------------------------------------------------------------------------------------------------------

WEB, BATCH = PodTag("team", (("app", "web"),)), PodTag("team", (("app", "batch"),))
NEAR_WEB = Neighbours(near=read_selector_text("app=web"))
APART_FROM_WEB = Neighbours(apart=read_selector_text("app=web"))


def on(card: str, tag: PodTag, **parts: Any) -> tuple[CardAsk, PodTag]:
    return ask(request(100), uuids=frozenset(card), **parts), tag


def test_affinity_wants_the_same_card():
    table = world("abc", "d")
    wanted, tag = on("b", WEB)
    give(table, 0, wanted, tag=tag)
    near = ask(request(100), neighbours=NEAR_WEB)
    assert names(choose(table, 0, near, tag=BATCH)) == "b"
    assert near_rows(table, near, BATCH).tolist() == [True, False]
    got = choose(table, 1, near, tag=BATCH)
    assert isinstance(got, Choice) and not got.fits
    assert not choose(table, 0, near, tag=replace(BATCH, namespace="other")).shares, "pods of one namespace only"
    both = ask(request(100), neighbours=NEAR_WEB, uuids=frozenset("a"))
    assert not choose(table, 0, both, tag=BATCH).shares, "a card by name that is not the neighbour's"


def test_the_first_of_those_who_want_each_other_goes_anywhere():
    table = world("ab", "c")
    near = ask(request(100), neighbours=NEAR_WEB)
    assert near_rows(table, near, WEB) is None and near_rows(table, ask(request(1)), WEB) is None
    assert near_rows(table, near, BATCH).tolist() == [False, False]
    first = give(table, 0, near, tag=WEB)
    assert names(give(table, 0, near, tag=WEB)) == names(first)
    assert not choose(table, 1, near, tag=WEB).shares


def test_anti_affinity_works_both_ways():
    table = world("ab")
    apart = ask(request(100), neighbours=APART_FROM_WEB)
    wanted, tag = on("b", WEB)
    give(table, 0, wanted, tag=tag)
    assert names(give(table, 0, apart, tag=BATCH)) == "a"
    for _ in range(2):
        assert names(give(table, 0, ask(request(100), policy="spread"), tag=WEB)) == "b", "it was not asked to come"
    assert names(choose(table, 0, ask(request(100), uuids=frozenset("a")), tag=replace(WEB, namespace="x"))) == "a"


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        pytest.param("app=web", {"app": "web"}, {}, id="equal"),
        pytest.param(" app == web ", {"app": "web"}, {"app": "x"}, id="equal, with blanks"),
        pytest.param("app!=web", {}, {"app": "web"}, id="not equal holds without the label"),
        pytest.param("app in (web, db),tier", {"app": "db", "tier": ""}, {"app": "db"}, id="one of, and present"),
        pytest.param("app notin (web),!old", {"app": "x"}, {"app": "x", "old": "1"}, id="none of, and absent"),
        pytest.param("x.io/app=", {"x.io/app": ""}, {"x.io/app": "a"}, id="empty value"),
    ],
)
def test_selectors_as_text(text, yes, no):
    selector = read_selector_text(text)
    assert selector.matches(yes) and not selector.matches(no)


@pytest.mark.parametrize("text", ["", ",", "a=b,", "a b", "a in b", "a in (b", "=b", "a=b=c", "a/b/c=d", "a=-", "(a)"])
def test_selectors_that_are_refused(text):
    with pytest.raises(InvalidObject, match="card-affinity"):
        read_neighbours({"muster.dev/card-affinity": text})
