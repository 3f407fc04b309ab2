"""Fair order: at every branching the side goes first that would have borrowed least, as the ledger stands then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.engine.tournament import Tournament
from muster.model.settings import FairSharing, Settings
from tests.engine.builders import (
    ANY,
    GPUS,
    cohort,
    name_of,
    preempts,
    remembered,
    reserved,
    run_cycle,
    running,
    state_of,
    workload,
)
from tests.engine.fair_builders import FAIR, TOP, entries_of, fair, order_of, team


def head(home, gpus=1, **fields):
    """The workload that waits in a queue, by the queue's name."""
    return workload(home, gpus=gpus, queue=home, **fields)


def used(home, gpus):
    return running(f"{home}-old", gpus=gpus, queue=home)


# Two queues of one cohort ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "want"),
    [
        pytest.param([team("a"), team("b"), used("a", 2), head("a"), head("b")], "ba", id="who has borrowed least"),
        pytest.param([team("a"), team("b"), head("a", 2), head("b", 1)], "ba", id="with what it asks for"),
        pytest.param(
            [team("a"), team("b", weight=3), used("a", 1), used("b", 2), head("a"), head("b")], "ba", id="by weight"
        ),
        pytest.param([team("a", weight=0), team("b"), used("b", 5), head("a"), head("b")], "ba", id="no weight: last"),
        pytest.param(
            [team("a"), team("b", 1, weight=0), used("b", 1), head("a", 3), head("b", 1)],
            "ab",
            id="whatever it has",
        ),
        pytest.param([team("a"), team("b", 2), head("a"), head("b", 2)], "ba", id="who borrows nothing goes first"),
        pytest.param([team("a"), team("b"), head("a"), head("b", priority=1)], "ba", id="as much: by priority"),
        pytest.param([team("a"), team("b"), head("a", queued_at=2), head("b", queued_at=1)], "ba", id="then by time"),
        pytest.param([team("a"), team("b"), head("a"), head("b")], "ab", id="then by the name of the queue"),
    ],
)
def test_order_in_a_cohort(parts, want):
    assert "".join(order_of(state_of(cohort(TOP, gpus=10), *parts, settings=FAIR))) == want


def test_within_its_quota_goes_before_a_smaller_share_only_where_the_setting_says_so():
    """`b` borrows nothing of what it asks for now, but has borrowed in another flavor."""
    parts = [
        cohort(TOP, flavors={"red": 10, "green": 10}),
        team("a", flavors={"red": 0}),
        team("b", flavors={"red": 2, "green": 0}),
        running("b-old", gpus=4, queue="b", flavor="green"),
        head("a"),
        head("b"),
    ]
    assert order_of(state_of(*parts, settings=FAIR)) == ["b", "a"]
    assert order_of(state_of(*parts, settings=fair(favours_non_borrowing=False))) == ["a", "b"]


def test_priorities_of_different_queues_do_not_count_where_the_setting_says_so():
    parts = [cohort(TOP, gpus=10), team("a"), team("b"), head("a", queued_at=1), head("b", queued_at=2, priority=9)]
    by_time = Settings(fair_sharing=FairSharing(), orders_by_priority=False)
    assert order_of(state_of(*parts, settings=FAIR)) == ["b", "a"]
    assert order_of(state_of(*parts, settings=by_time)) == ["a", "b"]


@pytest.mark.parametrize(("is_first", "want"), [(False, ["a", "b"]), (True, ["b", "a"])])
def test_one_who_waits_for_its_victims_goes_first_where_the_setting_says_so(is_first, want):
    settings = Settings(fair_sharing=FairSharing(), preemptors_first=is_first)
    state = state_of(cohort(TOP, gpus=10), team("a"), team("b"), used("b", 2), head("a"), head("b"), settings=settings)
    state.preemptors.add("default/b")
    assert order_of(state) == want


# The ledger moves on ---------------------------------------------------------------------------------------------

TREE = [
    cohort(TOP, gpus=12),
    cohort("x", parent=TOP),
    cohort("y", parent=TOP),
    team("a", cohort="x"),
    team("b", cohort="x"),
    team("c", cohort="y"),
    team("d", cohort="y"),
]


@pytest.mark.parametrize(
    ("parts", "want"),
    [
        pytest.param([head("a"), head("b"), head("c"), head("d")], "acbd", id="sides take turns"),
        pytest.param([used("c", 2), *map(head, "abcd")], "abdc", id="until they have as much"),
        pytest.param([used("a", 1), used("c", 2), *map(head, "abcd")], "badc", id="inside a side as well"),
        pytest.param([head("a", 3), head("b", 2), head("c", 2), head("d", 3)], "bcad", id="each with what it asks for"),
        pytest.param([head("a"), head("b"), head("c")], "acb", id="a side without a head stays out"),
    ],
)
def test_order_in_a_tree(parts, want):
    assert "".join(order_of(state_of(*TREE, *parts, settings=FAIR))) == want


def test_order_follows_what_is_charged_between_two_entries():
    state = state_of(*TREE, *map(head, "abcd"), settings=FAIR)
    assert "".join(order_of(state, charges=False)) == "abcd", "nobody is given anything: nobody falls back"
    entries = entries_of(state)
    handed_out = iter(Tournament(entries, state.ledger, state.settings))
    assert name_of(next(handed_out).workload.key) == "a"
    state.ledger.charge(state.tree.nodes["a"], {GPUS: 5})
    assert [name_of(entry.workload.key) for entry in handed_out] == ["c", "d", "b"]


def test_weights_of_inner_cohorts_count():
    heavy = [replace(part, weight=3.0) if part.name == "y" else part for part in TREE]
    assert "".join(order_of(state_of(*heavy, *map(head, "abcd"), settings=FAIR))) == "cdab"


def test_judging_leaves_no_trace():
    state = state_of(*TREE, *map(head, "abcd"), settings=FAIR)
    entries = entries_of(state)
    before = remembered(state)
    assert len(list(Tournament(entries, state.ledger, state.settings))) == 4
    assert remembered(state) == before


# Several trees ---------------------------------------------------------------------------------------------------


def test_those_who_share_with_nobody_go_before_trees_in_the_order_of_their_names():
    state = state_of(
        team("alone", 5, cohort=None),
        team("b", 1, cohort="second"),
        team("c", 1, cohort="first"),
        head("alone"),
        head("b"),
        head("c"),
        settings=FAIR,
    )
    assert order_of(state) == ["alone", "c", "b"]


def test_refused_heads_take_no_part_and_are_handed_out_too():
    state = state_of(team("a"), team("b"), head("a", namespace="elsewhere"), head("b"), settings=FAIR)
    assert order_of(state) == ["a", "b"]


def test_cycle_gives_in_fair_order():
    state = state_of(
        cohort(TOP, gpus=3),
        team("a", preemption=preempts(reclaim=ANY)),
        team("b"),
        used("a", 2),
        head("a", queued_at=1, priority=5),
        head("b", queued_at=2),
        settings=FAIR,
    )
    assert reserved(run_cycle(state)) == {"b": "default"}
