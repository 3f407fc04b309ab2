"""What the policies say of small clusters, worked out by hand. A node is its cards, each with what is free of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.node_table_rows import WHOLE, Demand, Scores, TableNode, demand
from muster.engine.policy import AnyPolicy
from muster.policies import bestfit, binpack, clustering, dotproduct, packing, spread

ALL = (bestfit, binpack, clustering, dotproduct, packing, spread)


def pod(cards: int = 1, milli: int = WHOLE, *, cpu: int = 0) -> Demand:
    return demand({"cpu": cpu}, cards=cards, milli=milli)


def world(*nodes: Sequence[int], cpu: int = 64_000) -> NodeTable:
    """Nodes by what is free of their cards; what is missing is held by one pod for each card."""
    table = NodeTable(
        TableNode(name=f"n{row}", amounts={"cpu": cpu}, cards=len(cards)) for row, cards in enumerate(nodes)
    )
    for row, cards in enumerate(nodes):
        for card, free in enumerate(cards):
            if free < WHOLE:
                table.charge(row, pod(milli=WHOLE - free), (card,))
    return table


def used(count: int, of: int = 8) -> list[int]:
    return [0] * count + [WHOLE] * (of - count)


def scores(policy: AnyPolicy, table: NodeTable, wanted: Demand) -> Scores:
    hook = policy.hooks().score
    assert hook is not None
    return hook(wanted, table.rows())


def placed(policy: AnyPolicy, table: NodeTable, wanted: Demand) -> tuple[int, tuple[int, ...]] | None:
    found = Placer(table, [policy.hooks()]).place(wanted)
    return None if found is None else (found.row, found.cards)


@pytest.mark.parametrize(
    ("policy", "nodes", "wanted", "want"),
    [
        pytest.param(binpack, [used(5), used(1)], pod(), [7.5, 2.5], id="binpack: 6 of 8, 2 of 8"),
        pytest.param(binpack, [[500, 0]], pod(milli=500), [10.0], id="binpack: full"),
        pytest.param(spread, [used(5), used(1)], pod(), [2.5, 7.5], id="spread: 2 of 8 free, 6 of 8 free"),
        # Left of big nodes (128 cores, 8 cards): half the cpu and 7 of 8 cards, or half and 1 of 8.
        pytest.param(bestfit, [used(0), used(6)], pod(), [31, 68], id="bestfit: half of each part"),
        pytest.param(bestfit, [used(6, of=7)], pod(cpu=64_000), [100], id="bestfit: nothing left"),
        # Asked is an eighth of the cards: times all of them, or times a quarter, and half of that.
        pytest.param(dotproduct, [used(0), used(6)], pod(), [93, 98], id="dotproduct: cards only"),
        pytest.param(dotproduct, [used(8)], pod(0, cpu=128_000), [75], id="dotproduct: cpu only"),
        pytest.param(packing, [[400, 1000], [900, 1000]], pod(milli=300), [96, 91], id="packing: the fuller card"),
        pytest.param(packing, [[200, 1000], [1000, 1000]], pod(milli=300), [49, 31], id="packing: the used node"),
        pytest.param(packing, [used(0), used(0, of=2)], pod(), [25, 31], id="packing: the smaller idle node"),
        pytest.param(packing, [used(1), used(4)], pod(4), [46, 46], id="packing: as many whole cards"),
        pytest.param(packing, [used(1), used(0)], pod(0, cpu=1), [0, 0], id="packing: no card, no opinion"),
    ],
)
def test_scores(policy, nodes, wanted, want):
    assert scores(policy.POLICY, world(*nodes), wanted).values.tolist() == want


def test_binpack_of_pods_without_cards_is_the_mean_of_what_they_ask():
    table = NodeTable([TableNode(name="a", amounts={"cpu": 10, "memory": 100})])
    table.charge(0, demand({"cpu": 4}), ())
    assert scores(binpack.POLICY, table, demand({"cpu": 1, "memory": 10})).values.tolist() == [3.0]
    assert scores(spread.POLICY, table, demand({"cpu": 1, "memory": 10})).values.tolist() == [7.0]


def test_clustering_knows_who_is_there():
    table = world(used(0), used(0), used(0), used(0))
    table.charge(0, pod(), (0,))  # only alike
    table.charge(1, pod(), (0,))
    table.charge(1, pod(milli=500), (1,))  # among others
    table.charge(3, pod(2), (0, 1))  # others
    assert scores(clustering.POLICY, table, pod()).values.tolist() == [75 + 3, 50 + 4, 25, 6]
    assert scores(clustering.POLICY, table, pod(milli=100)).values.tolist() == [3, 50 + 4, 25, 6]
    assert scores(clustering.POLICY, table, pod(0, cpu=1)).values.tolist() == [0, 0, 0, 0]
    assert scores(clustering.POLICY, table, pod(9)).values.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("policy", "nodes", "wanted", "want"),
    [
        pytest.param(binpack, [[1000, 700, 400]], pod(milli=300), (0, (2,)), id="binpack: the tightest card"),
        pytest.param(spread, [[400, 700, 900]], pod(milli=300), (0, (2,)), id="spread: the emptiest card"),
        pytest.param(bestfit, [[1000], [600]], pod(milli=600), (1, (0,)), id="bestfit: the tightest node"),
        pytest.param(packing, [[1000], [1000]], pod(), (0, (0,)), id="ties go to the earlier row"),
        pytest.param(spread, [[1000, 200, 1000]], pod(2), (0, (0, 2)), id="several cards"),
        pytest.param(binpack, [[900], [900]], pod(), None, id="no room"),
    ],
)
def test_choice(policy, nodes, wanted, want):
    assert placed(policy.POLICY, world(*nodes), wanted) == want


@pytest.mark.parametrize("policy", ALL, ids=lambda one: one.POLICY.name)
def test_weight_multiplies(policy):
    table, wanted = world([1000, 300], [800, 0]), pod(milli=200, cpu=100)
    plain = scores(policy.POLICY, table, wanted).values
    hook = policy.POLICY.hooks(policy.Arguments(weight=3)).score
    assert (hook(wanted, table.rows()).values == 3 * plain).all()
