"""fgd: the fragmentation of small nodes by hand, the choice of cards, and quick scores against plain ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.node_table_rows import WHOLE, Demand, TableNode, demand
from muster.policies.fgd import POLICY, USUAL_MIX, Arguments, TypicalPod, typical_pods

CPU = 8_000


def pod(cards: int = 1, milli: int = WHOLE, *, cpu: int = 1_000, models: tuple[str, ...] = ()) -> Demand:
    return demand({"cpu": cpu}, cards=cards, milli=milli, models=models)


def mix(*pods: tuple[Demand, int]) -> Arguments:
    return Arguments(typical=tuple(TypicalPod(wanted, weight) for wanted, weight in pods))


def world(*nodes: list[int], cpu: int = CPU, model: str = "") -> NodeTable:
    table = NodeTable(
        TableNode(name=f"n{row}", amounts={"cpu": cpu}, cards=len(cards), model=model)
        for row, cards in enumerate(nodes)
    )
    for row, cards in enumerate(nodes):
        for card, free in enumerate(cards):
            if free < WHOLE:
                table.charge(row, pod(milli=WHOLE - free, cpu=0), (card,))
    return table


# The plain reckoning, as the definition reads --------------------------------------------------------------------


def fragmentation(arguments: Arguments, cpu: int, cards: list[int], model: str) -> float:
    """Weighted sum over typical pods of the free shares that they cannot use."""
    total = 0.0
    pods = min(16, max(1, sum(cards) // WHOLE))
    for one in arguments.typical:
        wants = one.demand
        serving = [free for free in cards if free >= wants.milli]
        runs = wants.cards > 0 and len(serving) >= wants.cards and cpu >= wants.amount("cpu")
        if wants.models and model not in wants.models:
            runs = False
        is_short = arguments.counts_cpu and wants.cards == 1 and cpu < pods * wants.amount("cpu")
        total += one.weight * (sum(cards) - sum(serving) * (0.5 if is_short else 1) if runs else sum(cards))
    return total


def whole_score(typical: tuple[TypicalPod, ...], shrinks: float) -> int:
    cards = shrinks / sum(one.weight for one in typical) / WHOLE
    return int(100 / (1 + math.exp(-cards)))


def plain(arguments: Arguments, table: NodeTable, row: int, wanted: Demand) -> tuple[int, int | None]:
    """The score of a row and the card, for pods of one card at most."""
    cpu, cards = int(table.free[0, row]), table.cards[row].tolist()
    model = table.model_names[table.model[row]]
    before = fragmentation(arguments, cpu, cards, model)
    best: tuple[int, int | None] = (-1, None)
    for card in range(len(cards)) if wanted.cards else [None]:
        left = list(cards)
        if card is not None:
            if left[card] < wanted.milli:
                continue
            left[card] -= wanted.milli
        after = fragmentation(arguments, cpu - wanted.amount("cpu"), left, model)
        score = whole_score(arguments.typical, before - after)
        if score > best[0]:
            best = (score, card)
    return best


FREE = st.integers(0, 20).map(lambda step: 50 * step)
NODES = st.lists(st.lists(FREE, min_size=3, max_size=3), min_size=1, max_size=4)
TYPICAL = (
    TypicalPod(pod(1, 1000, cpu=4_000), 37),
    TypicalPod(pod(1, 450, cpu=2_000), 20),
    TypicalPod(pod(1, 800, cpu=6_000, models=("a", "b")), 11),
    TypicalPod(pod(0, cpu=3_000), 13),
    TypicalPod(pod(2, cpu=1_000), 7),
    TypicalPod(pod(3, 300, cpu=5_000), 5),
)


@given(nodes=NODES, wanted=st.sampled_from([pod(1, milli) for milli in (50, 450, 1000)] + [pod(0), pod(0, cpu=6_500)]))
@pytest.mark.parametrize("model", ["a", "c"])
@pytest.mark.parametrize("counts_cpu", [True, False])
def test_quick_scores_equal_plain_ones(nodes, wanted, model, counts_cpu):
    table = world(*nodes, model=model)
    arguments = Arguments(typical=TYPICAL, counts_cpu=counts_cpu)
    column = Placer(table, [POLICY.hooks(arguments)]).column(wanted)
    for row in range(table.row_count):
        score, card = plain(arguments, table, row, wanted)
        if column.merit[row] >= 0:
            assert column.merit[row] == score
            assert card is None or (column.card is not None and column.card[row] == card)
        else:
            assert wanted.cards and card is None, "only rows without such a card are left out"


@pytest.mark.parametrize("counts_cpu", [True, False])
@pytest.mark.parametrize("different", [21, 2], ids=["many kinds", "few kinds"])
def test_many_rows_score_as_few_do(counts_cpu, different):
    nodes = [[50 * (row * 7 % different), 1000, 50 * (row % different)] for row in range(300)]
    table = world(*nodes)
    arguments = Arguments(typical=TYPICAL, counts_cpu=counts_cpu)
    hook = POLICY.hooks(arguments).score
    assert hook is not None
    for wanted in (pod(1, 300), pod(), pod(0, cpu=2_500), pod(2)):
        many = hook(wanted, table.rows())
        for row in range(300):
            one = Placer(world(nodes[row]), [POLICY.hooks(arguments)]).column(wanted)
            if one.merit[0] >= 0:
                assert one.merit[0] == many.values[row]
                assert one.card is None or (many.card is not None and one.card[0] == many.card[row])


@pytest.mark.parametrize("counts_cpu", [True, False])
def test_rows_of_a_pattern_are_told_apart_where_their_cpu_matters(counts_cpu):
    nodes = [[1000, 1000, 500 * (row % 3)] for row in range(90)]
    table = world(*nodes)
    busy = [pod(0, cpu=1_000 * (row % 9)) for row in range(90)]
    for row, one in enumerate(busy):
        table.charge(row, one, ())
    arguments = Arguments(typical=TYPICAL, counts_cpu=counts_cpu)
    hook = POLICY.hooks(arguments).score
    assert hook is not None
    for wanted in (pod(1, 300), pod(), pod(0, cpu=2_500), pod(2)):
        for rows in (table.rows(), table.rows(np.arange(10, 70))):
            many = hook(wanted, rows)
            for place, row in enumerate(rows.numbers.tolist()):
                one = hook(wanted, table.rows(np.array([row])))
                assert one.values[0] == many.values[place]
                assert one.card is None or (many.card is not None and one.card[0] == many.card[place])


# Stories -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "nodes", "wanted", "want"),
    [
        pytest.param(mix((pod(), 1)), [[1000], [500]], pod(milli=500), (1, (0,)), id="whole cards are kept whole"),
        pytest.param(mix((pod(milli=700), 1)), [[900, 400, 1000]], pod(milli=300), (0, (1,)), id="the useless rest"),
        pytest.param(mix((pod(2), 1)), [[1000, 1000], [1000, 0]], pod(), (1, (0,)), id="pairs are kept"),
        pytest.param(mix((pod(), 1)), [[1000], [1000]], pod(), (0, (0,)), id="ties go to the earlier row"),
        pytest.param(mix((pod(), 1)), [[1000, 1000]], pod(2), (0, (0, 1)), id="several cards"),
        pytest.param(Arguments(), [[1000] * 8, [0] * 7 + [1000]], pod(), (1, (7,)), id="the usual mix"),
        pytest.param(Arguments(typical=()), [[0], [1000]], pod(), (1, (0,)), id="nothing typical"),
    ],
)
def test_choice(arguments, nodes, wanted, want):
    found = Placer(world(*nodes, cpu=64_000), [POLICY.hooks(arguments)]).place(wanted)
    assert found is not None and (found.row, found.cards) == want


def test_pods_without_cards_leave_the_cpu_that_cards_need():
    table = world([1000], [0])
    found = Placer(table, [POLICY.hooks(mix((pod(cpu=CPU), 1)))]).place(pod(0))
    assert found is not None and found.row == 1


def test_typical_pods_are_the_most_frequent_ones():
    pods = [pod()] * 60 + [pod(0)] * 30 + [pod(milli=500)] * 6 + [pod(8)] * 4
    assert typical_pods(pods) == tuple(TypicalPod(*one) for one in [(pod(), 60), (pod(0), 30), (pod(milli=500), 6)])
    assert len(typical_pods(pods, percent=100)) == 4
    assert typical_pods([]) == ()


def test_of_equally_frequent_pods_the_bigger_are_typical():
    pods = [pod()] * 8 + [pod(cpu=3)] + [pod(cpu=5)]
    assert [one.demand for one in typical_pods(pods, percent=90)] == [pod(), pod(cpu=5)]


def test_typical_pods_differ_in_cpu_and_cards_only():
    pods = [demand({"cpu": 1, "memory": amount}, cards=1) for amount in (1, 2, 3)]
    assert typical_pods(pods) == (TypicalPod(demand({"cpu": 1}, cards=1), 3),)


def test_the_usual_mix_adds_up():
    assert sum(one.weight for one in USUAL_MIX) == 100


@pytest.mark.parametrize(("counts_cpu", "want"), [(True, 1), (False, 0)], ids=["each card needs cpu", "as published"])
def test_cpu_is_left_for_a_pod_on_each_free_card(counts_cpu, want):
    """The first node has two cards and cpu for two pods, the second one card: there cpu is to spare."""
    arguments = Arguments(typical=(TypicalPod(pod(cpu=CPU // 2), 1),), counts_cpu=counts_cpu)
    found = Placer(world([1000, 1000], [1000]), [POLICY.hooks(arguments)]).place(pod(0, cpu=CPU // 2))
    assert found is not None and found.row == want
