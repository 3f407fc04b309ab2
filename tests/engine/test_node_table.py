"""The node table: charges are taken back exactly, columns kept equal columns made anew, gangs are all or nothing.

A row of nodes is "name: cards"; pods are named by how much cpu and how many cards they ask for.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.node_table_rows import AMOUNT_CAP, WHOLE, Demand, TableNode, demand
from muster.engine.policy import Hooks
from muster.policies import bestfit, binpack, clustering, dotproduct, fgd, packing, spread

POLICIES = (bestfit, binpack, clustering, dotproduct, fgd, packing, spread)
IDS = [one.POLICY.name for one in POLICIES]


def node(name: str, cards: int = 8, *, cpu: int = 64_000, model: str = "") -> TableNode:
    return TableNode(name=name, amounts={"cpu": cpu, "pods": 20}, cards=cards, model=model)


def world(cards: Mapping[str, int]) -> NodeTable:
    return NodeTable(node(name, count) for name, count in cards.items())


def pod(cpu: int = 1_000, cards: int = 0, milli: int = WHOLE, *models: str) -> Demand:
    return demand({"cpu": cpu, "pods": 1}, cards=cards, milli=milli, models=models)


def placer(table: NodeTable, hooks: Hooks | None = None) -> Placer:
    return Placer(table, [hooks or binpack.POLICY.hooks()])


def facts(table: NodeTable) -> list[list[int]]:
    """Everything that charges change, but for when."""
    count = table.row_count
    parts = (table.free[:, :count], table.cards[:count], table.kinds[:count], table.card_most[:count])
    return [part.tolist() for part in (*parts, table.card_sum[:count])]


# What fits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        pytest.param(pod(), [True, True, True], id="no card"),
        pytest.param(pod(64_001), [False, False, False], id="too much cpu"),
        pytest.param(pod(1, 1), [False, True, True], id="a card"),
        pytest.param(pod(1, 2), [False, False, True], id="two cards"),
        pytest.param(pod(1, 1, 500), [False, True, True], id="half a card"),
        pytest.param(pod(1, 1, WHOLE, "b"), [False, False, True], id="a card of a model"),
        pytest.param(pod(1, 1, WHOLE, "b", "a"), [False, True, True], id="a card of either model"),
        pytest.param(pod(1, 1, WHOLE, "c"), [False, False, False], id="a model nobody has"),
        pytest.param(demand({"example.com/thing": 1}), [False, False, False], id="a resource nobody has"),
        pytest.param(demand({"cpu": 2**100}), [False, False, False], id="an absurd amount"),
    ],
)
def test_fit(wanted, fits):
    table = NodeTable([node("none", 0), node("one", 1, model="a"), node("two", 2, model="b")])
    assert placer(table).fits(wanted).tolist() == fits


def test_an_absurd_node_counts_as_a_very_big_one():
    table = NodeTable([TableNode(name="huge", amounts={"cpu": 2**100})])
    assert table.free[0, 0] == AMOUNT_CAP
    assert placer(table).place(demand({"cpu": 2**61})) is not None


def test_parts_of_cards_do_not_add_up_to_a_card():
    table = world({"a": 2})
    for card in (0, 1):
        table.charge(0, pod(1, 1, 600), (card,))
    assert not placer(table).fits(pod(1, 1, 500)).any()
    assert placer(table).fits(pod(1, 2, 400)).all()


# Changes from outside ------------------------------------------------------------------------------------------------


def test_a_changed_node_keeps_what_is_held():
    table = world({"a": 2})
    table.charge(0, pod(4_000, 1), (0,))
    table.put(node("a", 4, cpu=10_000))
    assert table.free[:, 0].tolist() == [6_000, 19]
    assert table.cards[0].tolist() == [0, WHOLE, WHOLE, WHOLE]


def test_a_node_that_shrank_takes_nobody_until_pods_leave():
    table = world({"a": 2})
    table.charge(0, pod(4_000, 2), (0, 1))
    table.put(node("a", 1, cpu=2_000))
    assert not placer(table).fits(pod(1)).any()
    table.release(0, pod(4_000, 2), (0, 1))
    assert table.cards[0].tolist() == [WHOLE, 0]
    assert placer(table).fits(pod(2_000, 1)).all()


def test_a_node_that_is_gone_takes_nobody_and_may_come_back():
    table = world({"a": 1, "b": 1})
    place = placer(table)
    assert place.fits(pod(1, 1)).tolist() == [True, True]
    table.drop("a")
    table.drop("nobody")
    assert place.fits(pod(1, 1)).tolist() == [False, True]
    table.put(node("a", 1))
    assert place.fits(pod(1, 1)).tolist() == [True, True]


def test_nodes_with_new_columns_may_come_later():
    table = world({"a": 1})
    place = placer(table)
    place.place(pod(1, 1))
    table.put(TableNode(name="b", amounts={"cpu": 9, "pods": 9, "rdma": 1}, cards=4, model="new"))
    found = place.place(demand({"rdma": 1}, cards=3, models=("new",)))
    assert found is not None and table.names[found.row] == "b" and found.cards == (0, 1, 2)
    assert table.row_of("b") == 1


# Charges -------------------------------------------------------------------------------------------------------------


def test_rollback_restores_exactly_and_nests():
    table = world({"a": 2, "b": 2})
    table.charge(0, pod(1, 1, 300), (1,))
    before = facts(table)
    outer = table.checkpoint()
    table.charge(1, pod(5, 2), (0, 1))
    middle = facts(table)
    inner = table.checkpoint()
    table.release(0, pod(1, 1, 300), (1,))
    table.rollback(inner)
    assert facts(table) == middle
    table.rollback(outer)
    assert facts(table) == before


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(lambda table: table.charge(0, pod(1, 1), ()), id="no card named"),
        pytest.param(lambda table: table.charge(0, pod(1, 2), (0, 0)), id="a card twice"),
        pytest.param(lambda table: table.release(0, pod(1, 1), (0,)), id="nothing to give back"),
        pytest.param(lambda table: table.rollback(1), id="a mark of the future"),
        pytest.param(lambda table: Demand((), 1, 0), id="a card of nothing"),
        pytest.param(lambda table: Demand((("cpu", -1),)), id="less than nothing"),
    ],
)
def test_broken_promises_are_caught(mistake):
    with pytest.raises(AssertionError):
        mistake(world({"a": 2}))


# Holds ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted", [pytest.param(pod(60_000, 2), id="whole cards"), pytest.param(pod(60_000, 2, 800), id="parts")]
)
def test_a_place_is_held_before_it_is_free(wanted):
    table = world({"a": 4})
    leaving = pod(10_000, 1, 700)
    for card in (0, 1):
        table.charge(0, leaving, (card,))
    before = facts(table)
    mark = table.checkpoint()
    table.charge(0, wanted, (0, 1), is_hold=True)
    assert table.free[0, 0] < 0 and table.cards[0, :2].max() < 0
    assert not placer(table).fits(pod(1)).any(), "nobody else fits meanwhile"
    table.charge(0, pod(0, 2), (2, 3))  # who is on other cards may still be counted
    with pytest.raises(AssertionError, match="given twice"):
        table.charge(0, pod(0, 1, 1), (0,))
    table.rollback(mark)
    assert facts(table) == before
    table.charge(0, wanted, (0, 1), is_hold=True)
    for card in (1, 0):
        table.release(0, leaving, (card,))
    assert table.free[:, 0].min() >= 0 and table.cards[0].min() >= 0


# Gangs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES, ids=IDS)
@pytest.mark.parametrize(
    ("wanted", "most"),
    [
        pytest.param(pod(1, 1), 12, id="a card each"),
        pytest.param(pod(1, 8), 1, id="eight cards each"),
        pytest.param(pod(1, 1, 400), 24, id="parts of a card"),
        pytest.param(pod(1, 3, 500), 6, id="parts of several cards"),
        pytest.param(pod(30_000), 4, id="no card"),
        pytest.param(pod(1, 9), 0, id="more cards than any node has"),
    ],
)
def test_gangs_are_placed_whole_or_not_at_all(policy, wanted, most):
    table = world({"a": 4, "b": 8})
    place = placer(table, policy.POLICY.hooks())
    before = facts(table)
    assert place.place_many(wanted, most + 1) is None
    assert place.place_many(wanted, 10**12) is None
    assert facts(table) == before
    found = place.place_many(wanted, most)
    assert found is not None and len(found) == most
    assert table.cards.min() >= 0 and table.free.min() >= 0


def test_alike_pods_fill_the_best_node_first():
    table = world({"a": 8, "b": 8})
    table.charge(1, pod(1, 6), tuple(range(6)))
    found = placer(table).place_many(pod(1, 1), 4)
    assert found is not None
    assert [(one.row, one.cards) for one in found] == [(1, (6,)), (1, (7,)), (0, (0,)), (0, (1,))]


def test_spread_pods_go_round_the_nodes():
    table = world({"a": 8, "b": 8, "c": 4})
    found = placer(table, spread.POLICY.hooks()).place_many(pod(1, 1), 5)
    one_by_one = placer(world({"a": 8, "b": 8, "c": 4}), spread.POLICY.hooks())
    singly = [one_by_one.place(pod(1, 1)) for _ in range(5)]
    assert found is not None and list(found) == singly


def test_pods_that_differ_are_placed_whole_or_not_at_all():
    table = world({"a": 2})
    place = placer(table)
    before = facts(table)
    assert place.place_all([pod(1, 1), pod(2, 1, 500), pod(3, 1)]) is None
    assert facts(table) == before
    found = place.place_all([pod(1, 1), pod(2, 1, 500), pod(3, 1, 500)])
    assert found is not None and [one.cards for one in found] == [(0,), (1,), (1,)]


def test_an_empty_table_takes_nobody():
    assert placer(NodeTable()).place(pod()) is None
    assert placer(NodeTable()).place_many(pod(), 1) is None
    assert placer(NodeTable()).place_many(pod(), 0) == ()


# Columns kept --------------------------------------------------------------------------------------------------------

WANTED = (pod(2_000, 1), pod(3_000, 1, 300), pod(9_000, 1, 700), pod(500), pod(8_000, 2), pod(1_000, 4), pod(1, 2, 250))
STEPS = st.lists(
    st.tuples(st.sampled_from(["place", "leave", "mark", "back", "gang"]), st.integers(0, 99)), max_size=40
)


def same(one: Placer, other: Placer) -> None:
    for wanted in WANTED:
        kept, new = one.column(wanted), other.column(wanted)
        np.testing.assert_array_equal(kept.merit, new.merit)
        fits = kept.merit > -np.inf
        if kept.card is not None and new.card is not None:
            np.testing.assert_array_equal(kept.card[fits], new.card[fits])


@pytest.mark.parametrize("policy", POLICIES, ids=IDS)
@given(steps=STEPS)
def test_kept_columns_equal_new_ones(policy, steps):
    table = NodeTable(node(f"n{index}", index % 5, cpu=20_000 + index) for index in range(12))
    hooks = policy.POLICY.hooks()
    place = placer(table, hooks)
    held: list[tuple[int, Demand, tuple[int, ...]]] = []
    marks: list[tuple[int, int]] = []
    for word, number in steps:
        wanted = WANTED[number % len(WANTED)]
        if word == "place" and (found := place.place(wanted)):
            held.append((found.row, wanted, found.cards))
        elif word == "gang" and (gang := place.place_many(wanted, 1 + number % 9)):
            held.extend((one.row, wanted, one.cards) for one in gang)
        elif word == "leave" and held and not marks:
            row, gone, cards = held.pop(number % len(held))
            table.release(row, gone, cards)
        elif word == "mark":
            marks.append((table.checkpoint(), len(held)))
        elif word == "back" and marks:
            mark, count = marks.pop()
            table.rollback(mark)
            del held[count:]
        place.column(wanted)
        count = table.row_count
        assert table.free[:, :count].min() >= 0 and table.cards[:count].min() >= 0
        assert table.cards[:count].max() <= WHOLE
    same(place, placer(table, hooks))
    taken = sum(wanted.card_milli for _, wanted, _ in held)
    assert int(table.card_count.sum()) * WHOLE - int(table.cards.sum()) == taken


def test_old_columns_learn_of_all_that_changed():
    table = world({"a": 8, "b": 8})
    place = placer(table)
    place.column(pod(1, 1))
    for _ in range(500):
        mark = table.checkpoint()
        table.charge(1, pod(7, 1), (0,))
        table.rollback(mark)
    table.charge(1, pod(7, 1), (0,))
    same(place, placer(table))


def test_columns_seen_longest_ago_are_forgotten(monkeypatch):
    monkeypatch.setattr("muster.engine.node_table_columns.COLUMNS_KEPT", 2)
    place = placer(world({"a": 8}))
    first = place.column(pod(1, 1))
    place.column(pod(2, 1))
    assert place.column(pod(1, 1)) is first
    place.column(pod(3, 1))
    place.column(pod(4, 1))
    assert place.column(pod(1, 1)) is not first


def test_several_policies_add_up_and_any_may_refuse():
    table = world({"a": 8, "b": 8})
    table.charge(0, pod(1, 2), (0, 1))
    only_b = Hooks(fit=lambda pod, rows: np.array([name == "b" for name in table.names]))
    wanted = pod(1, 1)
    both = Placer(table, [binpack.POLICY.hooks(binpack.Arguments(weight=2)), spread.POLICY.hooks()])
    assert both.column(wanted).merit.tolist() == [2 * 3.75 + 6.25, 2 * 1.25 + 8.75]
    found = Placer(table, [binpack.POLICY.hooks(), only_b]).place(wanted)
    assert found is not None and found.row == 1
