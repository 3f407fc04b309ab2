"""Fair victims: whom to take from, whether that is fair, and who is spared after all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.model.reason import Code
from tests.engine.builders import (
    ANY,
    LOWER,
    NEVER,
    cohort,
    evicted,
    holders_of,
    key_of,
    plan_of,
    preempts,
    queue,
    quota,
    remembered,
    run_cycle,
    run_until_quiet,
    running,
    state_of,
    waits,
    workload,
)
from tests.engine.fair_builders import FAIR, FINAL, INITIAL, TOP, fair, fair_victims, team

OWN, BACK, FAIRLY = Code.PREEMPTED_IN_QUEUE, Code.RECLAIMED, Code.RECLAIMED_FAIR_SHARE


def jobs(home, *sizes, **fields):
    """Running workloads of a queue, the last one started last."""
    return [
        running(f"{home}{number}", gpus=size, queue=home, reserved_at=float(number), **fields)
        for number, size in enumerate(sizes, start=1)
    ]


def ask(gpus=1, home="a", **fields):
    return workload("w", gpus=gpus, queue=home, **fields)


# By what right ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "asked", "want"),
    [
        pytest.param([team("a", 2), *jobs("a", 1, 1)], ask(priority=1), {"a2": OWN}, id="of its own, the latest"),
        pytest.param([team("a", 2), *jobs("a", 1, 1)], ask(), {}, id="of its own, but of the same priority"),
        pytest.param([team("a", 2), team("b"), *jobs("b", 1, 1)], ask(), {"b2": BACK}, id="its own quota back"),
        pytest.param([team("a", 2), team("b", 2), *jobs("b", 2)], ask(3), {}, id="not what is another's own"),
        pytest.param(
            [cohort(TOP, gpus=4), team("a"), team("b"), *jobs("b", 1, 1, 1, 1)],
            ask(),
            {"b4": FAIRLY},
            id="from one who has more than it would have",
        ),
        pytest.param(
            [cohort(TOP, gpus=4), team("a"), team("b"), *jobs("a", 1, 1), *jobs("b", 1, 1)],
            ask(),
            {},
            id="not from one who has as much as it",
        ),
        pytest.param(
            [cohort(TOP, gpus=3), team("a"), team("b"), *jobs("a", 1), *jobs("b", 1, 1)],
            ask(),
            {},
            id="nor where the two would only change places",
        ),
        pytest.param(
            [cohort(TOP, gpus=3), team("a", preemption=preempts()), team("b"), *jobs("b", 1, 1, 1)],
            ask(),
            {},
            id="where its queue takes from nobody",
        ),
        pytest.param(
            [cohort(TOP, gpus=2), team("a", preemption=preempts(reclaim=LOWER)), team("b"), *jobs("b", 1, 1)],
            ask(priority=1),
            {"b2": FAIRLY},
            id="of lower priority",
        ),
        pytest.param(
            [cohort(TOP, gpus=2), team("a", preemption=preempts(reclaim=LOWER)), team("b"), *jobs("b", 1, 1)],
            ask(),
            {},
            id="only of lower priority",
        ),
        pytest.param([team("a", 1, cohort=None), *jobs("a", 1)], ask(priority=1), {"a1": OWN}, id="without a cohort"),
        pytest.param([team("a", 1, cohort=None), *jobs("a", 1)], ask(2, priority=1), {}, id="that would not help"),
    ],
)
def test_who_has_to_leave(parts, asked, want):
    state = state_of(*parts, settings=FAIR)
    before = remembered(state)
    assert fair_victims(state, asked) == want
    assert remembered(state) == before, "a search leaves no trace"


def test_nobody_is_sought_where_there_is_no_candidate():
    state = state_of(team("a", 1), team("b", 1), *jobs("b", 1), settings=FAIR)
    assert fair_victims(state, ask(2)) == {}


# Strategies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategies", "has", "want"),
    [
        pytest.param([FINAL], 1, {"b3": FAIRLY}, id="final: 2 and 2, as much"),
        pytest.param([FINAL], 2, {}, id="final: 3 and 2 would be more"),
        pytest.param([INITIAL], 1, {"b3": FAIRLY}, id="initial: 2 before 3 is less"),
        pytest.param([INITIAL], 2, {}, id="initial: 3 before 3 is not less"),
    ],
)
def test_strategy(strategies, has, want):
    """`a` has one or two and asks for one more; `b` has three."""
    parts = [cohort(TOP, gpus=3 + has), team("a"), team("b"), *jobs("a", *[1] * has), *jobs("b", 1, 1, 1)]
    assert fair_victims(state_of(*parts, settings=fair(strategies=tuple(strategies))), ask()) == want


LARGE_VICTIM = [cohort(TOP, gpus=6), team("a"), team("b"), *jobs("a", 1), *jobs("b", 5)]


@pytest.mark.parametrize(
    ("strategies", "want"),
    [
        pytest.param([FINAL], {}, id="final: b would be left with nothing"),
        pytest.param([INITIAL], {"b1": FAIRLY}, id="initial: b had more"),
        pytest.param([FINAL, INITIAL], {"b1": FAIRLY}, id="both: the second one is asked last"),
        pytest.param([INITIAL, FINAL], {"b1": FAIRLY}, id="the first one named is asked first"),
    ],
)
def test_large_victim(strategies, want):
    assert fair_victims(state_of(*LARGE_VICTIM, settings=fair(strategies=tuple(strategies))), ask()) == want


def test_second_look_takes_one_of_each_queue():
    """Two of five would be fair to take only in the second look, and two of them are needed."""
    parts = [cohort(TOP, gpus=10), team("a"), team("b"), *jobs("b", 5, 5)]
    assert fair_victims(state_of(*parts, settings=FAIR), ask(6)) == {}
    parts = [cohort(TOP, gpus=14), team("a"), team("b"), team("c"), *jobs("b", 7), *jobs("c", 7)]
    assert fair_victims(state_of(*parts, settings=fair(strategies=(FINAL,))), ask(6)) == {}
    assert fair_victims(state_of(*parts, settings=FAIR), ask(6)) == {"b1": FAIRLY}


def test_smaller_one_of_the_queue_is_found_where_the_first_would_be_too_much():
    parts = [cohort(TOP, gpus=8), team("a"), team("b"), *jobs("b", 2, 5)]
    assert fair_victims(state_of(*parts, settings=fair(strategies=(FINAL,))), ask(3)) == {"b1": FAIRLY}


# Weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "theirs", "want"),
    [
        pytest.param(1, 1, {"b4": FAIRLY}, id="equals"),
        pytest.param(1, 3, {}, id="three times the weight may have three times as much"),
        pytest.param(3, 1, {"b4": FAIRLY}, id="so may the preemptor"),
        pytest.param(0, 1, {}, id="without weight it takes from nobody who has one"),
        pytest.param(1, 0, {"b4": FAIRLY}, id="from those without weight it takes all"),
        pytest.param(0, 0, {"b4": FAIRLY}, id="without weights, by what they have"),
    ],
)
def test_weights(mine, theirs, want):
    parts = [cohort(TOP, gpus=5), team("a", weight=mine), team("b", weight=theirs)]
    parts += [*jobs("a", 1), *jobs("b", 1, 1, 1, 1)]
    assert fair_victims(state_of(*parts, settings=FAIR), ask()) == want


def test_own_quota_is_taken_back_without_weight_and_without_comparing():
    parts = [team("a", 1, weight=0), team("b", 3, weight=9), *jobs("b", 4)]
    assert fair_victims(state_of(*parts, settings=FAIR), ask()) == {"b1": BACK}
    assert fair_victims(state_of(*parts, settings=fair(spares_nominal_comparison=False)), ask()) == {"b1": FAIRLY}


def test_comparing_where_own_quota_is_not_spared_it():
    """With less than nothing borrowed its share is nothing, which is never more than anybody's."""
    parts = [team("a", 2), team("b"), *jobs("b", 1, 1)]
    compared = fair(spares_nominal_comparison=False)
    assert fair_victims(state_of(*parts, settings=compared), ask(2)) == {"b1": FAIRLY, "b2": FAIRLY}


# Whom to take from -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "want"),
    [
        pytest.param([*jobs("b", 1, 1), *jobs("c", 1, 1, 1)], {"c3": FAIRLY}, id="who has most"),
        pytest.param([*jobs("b", 1, 1, 1), *jobs("c", 1, 1, 1)], {"b3": FAIRLY}, id="as much: first by name of victim"),
        pytest.param(
            [*jobs("b", 1, 1, 1, priority=1), *jobs("c", 1, 1, 1)], {"c3": FAIRLY}, id="as much: lower priority"
        ),
        pytest.param(
            [*jobs("b", 1, 1, 1), *jobs("c", 1, 1, 1, is_evicted=True)], {"c3": FAIRLY}, id="as much: on its way out"
        ),
    ],
)
def test_queue_to_take_from(parts, want):
    gpus = len(parts)
    state = state_of(cohort(TOP, gpus=gpus), team("a"), team("b"), team("c"), *parts, settings=FAIR)
    assert fair_victims(state, ask()) == want


def test_queue_is_chosen_again_after_every_victim():
    state = state_of(
        cohort(TOP, gpus=8),
        team("a"),
        team("b"),
        team("c"),
        *jobs("b", 1, 1, 1, 1),
        *jobs("c", 1, 1, 1, 1),
        settings=FAIR,
    )
    assert fair_victims(state, ask(2)) == {"b4": FAIRLY, "c4": FAIRLY}


@pytest.mark.parametrize(
    ("gpus", "rules", "want"),
    [
        pytest.param(1, preempts(within=LOWER, reclaim=ANY), {"b2": BACK}, id="within its own, others first"),
        pytest.param(1, preempts(within=LOWER), {"a2": OWN}, id="only itself, though it borrows nothing"),
        pytest.param(2, preempts(within=LOWER, reclaim=ANY), {"a2": OWN, "a1": OWN}, id="it would have most"),
    ],
)
def test_own_queue_has_its_turn_by_its_share(gpus, rules, want):
    mine = team("a", 3, preemption=rules)
    state = state_of(mine, team("b", 1), *jobs("a", 1, 1), *jobs("b", 1, 1), settings=FAIR)
    assert fair_victims(state, ask(gpus, priority=1)) == want


BRANCHES = [cohort(TOP, gpus=8), cohort("x", parent=TOP), cohort("y", parent=TOP), cohort("z", parent=TOP)]


@pytest.mark.parametrize(
    ("parts", "want"),
    [
        pytest.param(
            [team("b", cohort="y"), team("c", cohort="z"), *jobs("b", 3), *jobs("c", 1, 1, 1, 1, 1)],
            {"c5": FAIRLY},
            id="the branch that has most",
        ),
        pytest.param(
            [team("b", cohort="y"), team("c", cohort="y"), *jobs("b", 3), *jobs("c", 1, 1, 1, 1, 1)],
            {"c5": FAIRLY},
            id="in it the queue that has most",
        ),
        pytest.param(
            [team("b"), team("c", cohort="z"), *jobs("b", 1, 1, 1, 1), *jobs("c", 1, 1, 1, 1)],
            {"c4": FAIRLY},
            id="a branch before a queue that has as much",
        ),
        pytest.param(
            [team("b"), team("c", cohort="z"), *jobs("b", 1, 1, 1, 1, 1), *jobs("c", 1, 1, 1)],
            {"b5": FAIRLY},
            id="a queue that has more",
        ),
        pytest.param(
            [team("b", cohort="x"), team("c", cohort="y"), *jobs("b", 1, 1, 1, 1, 1), *jobs("c", 1, 1, 1)],
            {"b5": FAIRLY},
            id="its own branch, where that has most",
        ),
        pytest.param(
            [team("b", 8, cohort="y"), team("c", cohort="y"), *jobs("c", 8), *jobs("a", 8)],
            {},
            id="not in a branch that uses only what it brings",
        ),
    ],
)
def test_branch_to_take_from(parts, want):
    state = state_of(*BRANCHES, team("a", cohort="x"), *parts, settings=FAIR)
    assert fair_victims(state, ask()) == want


def test_sides_are_compared_where_they_meet():
    """`a` would have little, but its side has as much as the other one: it may take only from its own side."""
    state = state_of(
        cohort(TOP, gpus=8),
        cohort("x", parent=TOP),
        cohort("y", parent=TOP),
        team("a", cohort="x"),
        team("b", cohort="x"),
        team("c", cohort="y"),
        *jobs("b", 1, 1, 1, 1),
        *jobs("c", 1, 1, 1, 1),
        settings=FAIR,
    )
    assert fair_victims(state, ask()) == {"b4": FAIRLY}


# Who is spared ---------------------------------------------------------------------------------------------------


def test_victims_that_are_not_needed_are_given_back():
    """The small ones are taken first, because they came last; the large one alone is enough."""
    state = state_of(cohort(TOP, gpus=9), team("a"), team("b"), *jobs("b", 7, 1, 1), settings=FAIR)
    assert fair_victims(state, ask(3)) == {"b1": FAIRLY}


def test_last_one_taken_is_never_given_back():
    state = state_of(cohort(TOP, gpus=9), team("a", 3), team("b"), *jobs("b", 3, 3, 3, 3), settings=FAIR)
    assert fair_victims(state, ask(3)) == {"b4": BACK}


def test_place_has_to_be_found_too():
    parts = [cohort(TOP, gpus=4), team("a"), team("b"), *jobs("b", 1, 1, 1, 1)]
    state = state_of(*parts, settings=FAIR)
    gone = state.ledger.gone
    assert fair_victims(state, ask(), has_place=lambda: key_of("b3") in gone()) == {"b3": FAIRLY}
    assert fair_victims(state, ask(), has_place=lambda: False) == {}


# In cycles -------------------------------------------------------------------------------------------------------


def test_shares_even_out_cycle_by_cycle():
    waiting = [workload(f"w{n}", queue="a", queued_at=n) for n in range(4)]
    state = state_of(cohort(TOP, gpus=4), team("a"), team("b"), *jobs("b", 1, 1, 1, 1), *waiting, settings=FAIR)
    plans = run_until_quiet(state)
    assert [list(evicted(plan)) for plan in plans if plan.evictions] == [["b4"], ["b3"]]
    assert {key.partition("/")[2] for key in holders_of(state)} == {"w0", "w1", "b1", "b2"}


def test_reclaim_that_is_not_said_counts_as_a_question_to_the_others():
    """Nobody may be taken, yet it waits as one who finds nobody and not as one who may not ask."""
    blank = replace(preempts(), reclaim=type(NEVER)(""))
    parts = [cohort(TOP, gpus=1), team("b"), *jobs("b", 1), workload("w", queue="a")]
    for rules, why in ((blank, "PreemptionNoCandidates"), (preempts(reclaim=NEVER), "NoFit")):
        plan = plan_of(queue("a", cohort=TOP, preemption=rules), *parts, settings=FAIR)
        assert (evicted(plan), plan.decisions[0].why.value) == ({}, why)


def test_limit_on_borrowing_ends_what_others_can_do_for_it():
    mine = team("a", quota(0, borrow=1), preemption=preempts(reclaim=ANY))
    state = state_of(cohort(TOP, gpus=4), mine, team("b"), *jobs("a", 1), *jobs("b", 1, 1, 1), ask(), settings=FAIR)
    plan = run_cycle(state)
    assert (evicted(plan), waits(plan)) == ({}, {"w": Code.WAITING_FOR_QUOTA})
