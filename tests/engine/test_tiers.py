"""How opinions combine: one table per rule. A tier is written as a list of what its policies say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.node_table_rows import Scores, TableNode, demand
from muster.engine.policy import Hooks, Vote
from muster.engine.standing import PodStanding
from muster.engine.tiers import Tiers
from tests.groups import pod_of, standing

PERMIT, ABSTAIN, REJECT = Vote.PERMIT, Vote.ABSTAIN, Vote.REJECT
SILENT = object()  # a policy that has no such hook

STANDING = standing("b")


def pods(names: str) -> list[PodStanding]:
    return [pod_of(STANDING, name) for name in names]


def tiers(hook: str, said: Sequence[Sequence[object]]) -> Tiers:
    """Policies that always say the same to one question."""

    def policy(answer: Any) -> Hooks:
        return Hooks() if answer is SILENT else Hooks(**{hook: lambda *_: answer})

    return Tiers([policy(answer) for answer in tier] for tier in said)


# Order ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", ["compare_queues", "compare_workloads", "compare_pods"])
@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param([], 0, id="no policies"),
        pytest.param([[0, -1], [1]], -1, id="the first opinion in the first tier"),
        pytest.param([[0, SILENT], [], [2]], 2, id="no opinion there, then the next tier's"),
        pytest.param([[3, -5]], 3, id="within a tier the first one, however strong the second"),
        pytest.param([[0], [0]], 0, id="nobody cares"),
    ],
)
def test_comparing(hook, said, want):
    assert getattr(tiers(hook, said), hook)(STANDING, STANDING) == want


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param([[SILENT]], None, id="nobody shares out"),
        pytest.param([[SILENT], [{"a": {}}, {"b": {}}]], {"a": {}}, id="the first that does"),
    ],
)
def test_shares(said, want):
    assert tiers("shares", said).shares({}) == want


# Letting in ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param([], False, id="no policies"),
        pytest.param([[SILENT]], False, id="nobody asked"),
        pytest.param([[False], [False, True]], True, id="one yes anywhere"),
        pytest.param([[False], [False]], False, id="no yes"),
    ],
)
def test_overused(said, want):
    assert tiers("overused", said).is_overused("queue") is want


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param([], True, id="no policies"),
        pytest.param([[SILENT], [True]], True, id="all that are asked"),
        pytest.param([[True], [True, False]], False, id="one no anywhere"),
    ],
)
def test_allocatable(said, want):
    assert tiers("allocatable", said).is_allocatable("queue", *pods("a")) is want


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param([], False, id="no policies"),
        pytest.param([[SILENT], [SILENT]], False, id="nobody asked"),
        pytest.param([[True, True]], True, id="a tier of one mind"),
        pytest.param([[True, False], [True]], False, id="a no in the tier decides"),
        pytest.param([[SILENT], [True], [False]], True, id="the first tier that speaks, and no other"),
    ],
)
def test_starving(said, want):
    assert tiers("starving", said).is_starving(STANDING) is want


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param([], True, id="no policies"),
        pytest.param([[ABSTAIN], [ABSTAIN, SILENT]], True, id="nobody votes"),
        pytest.param([[PERMIT], [REJECT]], True, id="a permit ends the tiers"),
        pytest.param([[PERMIT, REJECT]], False, id="a reject in the same tier counts more"),
        pytest.param([[REJECT], [PERMIT]], False, id="a reject ends them too"),
        pytest.param([[ABSTAIN], [REJECT]], False, id="who abstains passes on"),
    ],
)
def test_enqueueable(said, want):
    assert tiers("enqueueable", said).is_enqueueable(STANDING) is want


# Victims -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", ["preempt", "reclaim"])
@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param([], "", id="no policies"),
        pytest.param([["ab", "bc"]], "b", id="a tier intersects"),
        pytest.param([["a"], ["b"]], "a", id="the first tier that agrees decides"),
        pytest.param([[None], ["b"]], "b", id="an abstaining tier passes on"),
        pytest.param([["ab", None, SILENT]], "ab", id="who abstains forbids nothing"),
        pytest.param([["a", "b"], ["c"]], "c", id="the empty intersection passes on"),
        pytest.param([["", "a"], ["c"]], "c", id="so does a policy that names nobody"),
        pytest.param([["a", "b", "ab"]], "", id="what two have ruled out the third does not bring back"),
        pytest.param([["a", "b"], [None]], "", id="nobody agrees on anybody"),
    ],
)
def test_victims(hook, said, want):
    named = [[frozenset(one) if isinstance(one, str) else one for one in tier] for tier in said]
    assert getattr(tiers(hook, named), hook)(*pods("x"), pods("abc")) == frozenset(want)


def test_preempting_does_not_ask_those_for_reclaiming():
    both = tiers("reclaim", [[frozenset("a")]])
    assert both.preempt(*pods("x"), pods("a")) == frozenset()


OPINIONS = st.lists(st.lists(st.none() | st.frozensets(st.sampled_from("abc")), max_size=4), max_size=4)


@given(said=OPINIONS, data=st.data())
def test_victims_are_agreed_on_whatever_the_order_within_a_tier(said, data):
    shuffled = [data.draw(st.permutations(tier)) for tier in said]
    spoken = [[one for one in tier if one is not None] for tier in said]
    agreed = [frozenset.intersection(*tier) for tier in spoken if tier]
    want = next((one for one in agreed if one), frozenset())
    assert tiers("preempt", shuffled).preempt(*pods("x"), pods("abc")) == want


# Nodes ---------------------------------------------------------------------------------------------------------------


def placed(said: Tiers) -> int | None:
    """The row of the best of three nodes."""
    table = NodeTable(TableNode(name=name, amounts={"cpu": 10}) for name in "abc")
    found = Placer(table, said.hooks).find(demand({"cpu": 1}))
    return None if found is None else found.row


def scores(*values: float) -> Scores:
    return Scores(np.array(values))


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param([[scores(0, 3, 2)]], 1, id="one policy"),
        pytest.param([[scores(0, 3, 2)], [scores(0, 0, 2)]], 2, id="tiers are summed"),
        pytest.param([[SILENT, scores(5, 0, 0), scores(0, 4, 4)]], 0, id="and so are policies"),
    ],
)
def test_scores_are_summed(said, want):
    assert placed(tiers("score", said)) == want


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param([[[False, True, True]], [[True, False, True]]], 2, id="all must let it in"),
        pytest.param([[[False, True, True], [True, False, False]]], None, id="no node that all let it in"),
    ],
)
def test_fit_is_all(said, want):
    masks = [[np.array(one) for one in tier] for tier in said]
    assert placed(tiers("fit", masks)) == want
