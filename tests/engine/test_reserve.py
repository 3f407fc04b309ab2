"""Reserve: who gets quota in a cycle, who is told to go, and where the others end up."""

from __future__ import annotations

import pytest

from muster.engine.assignment import Assignment
from muster.engine.stages.reserve import held_for_later
from muster.model.plan import Evict, Finish, Hold, Requeue, Reserve, Return
from muster.model.queue import CheckRule, Order
from muster.model.reason import Code
from muster.model.settings import Settings
from muster.model.workload import CheckState
from tests.engine.builders import (
    ANY,
    GPU,
    GPUS,
    LOWER,
    STOPS_EARLY,
    evicted,
    in_line,
    name_of,
    node_of,
    parked,
    plan_of,
    preempts,
    queue,
    quota,
    reserved,
    run_cycle,
    run_cycles,
    running,
    state_of,
    waits,
    workload,
)

RECLAIMED, LOST, SHORT = Code.RECLAIMED, Code.LOST_TO_ANOTHER, Code.WAITING_FOR_QUOTA
WAITING = Code.WAITING_FOR_PREEMPTED_WORKLOADS


def a(gpus=4, **rules):
    return queue("a", cohort="x", gpus=gpus, preemption=preempts(**rules))


def b(gpus=4, **rules):
    return queue("b", cohort="x", gpus=gpus, preemption=preempts(**rules))


C = queue("c", cohort="x")

# Stories of one cycle --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "gets", "goes", "waits_for"),
    [
        pytest.param([a(), workload("w", queue="a")], {"w"}, {}, {}, id="there is room"),
        pytest.param(
            [a(), workload("w1", queue="a"), workload("w2", queue="a", priority=1)],
            {"w2"},
            {},
            {},
            id="one head a queue",
        ),
        pytest.param(
            [a(), workload("w", gpus=5, queue="a")], set(), {}, {"w": Code.EXCEEDS_MAX_QUOTA}, id="more than there is"
        ),
        pytest.param(
            [a(), running("r", gpus=4, queue="a"), workload("w", queue="a")],
            set(),
            {},
            {"w": SHORT},
            id="all is in use",
        ),
        pytest.param(
            [a(), b(), workload("w1", gpus=5, queue="a"), workload("w2", gpus=5, queue="b", priority=1)],
            {"w2"},
            {},
            {"w1": LOST},
            id="two want to borrow, one can",
        ),
        pytest.param(
            [a(), b(), workload("w1", gpus=5, queue="a", priority=9), workload("w2", gpus=4, queue="b")],
            {"w2"},
            {},
            {"w1": LOST},
            id="the one that need not borrow goes first",
        ),
        pytest.param(
            [a(reclaim=ANY), b(), running("r", gpus=8, queue="b"), workload("w", gpus=4, queue="a")],
            set(),
            {"r": RECLAIMED},
            {"w": WAITING},
            id="a borrower makes way for the owner",
        ),
        pytest.param(
            [a(reclaim=ANY), b(), running("r", gpus=8, queue="b", is_evicted=True), workload("w", gpus=4, queue="a")],
            set(),
            {},
            {"w": WAITING},
            id="one that was told already is not told again",
        ),
        pytest.param(
            [
                a(reclaim=ANY),
                b(),
                queue("c", cohort="x", gpus=2, preemption=preempts(reclaim=ANY)),
                running("r", gpus=10, queue="b"),
                workload("w1", gpus=4, queue="a"),
                workload("w2", gpus=2, queue="c", queued_at=1),
            ],
            set(),
            {"r": RECLAIMED},
            {"w1": WAITING, "w2": WAITING},
            id="two wait for the same one to go",
        ),
        pytest.param(
            [
                a(reclaim=ANY),
                b(),
                C,
                running("r", gpus=8, queue="b"),
                workload("w1", gpus=4, queue="a"),
                workload("w2", gpus=4, queue="c"),
            ],
            set(),
            {"r": RECLAIMED},
            {"w1": WAITING, "w2": SHORT},
            id="what is being freed is not for everybody",
        ),
    ],
)
def test_one_cycle(parts, gets, goes, waits_for):
    plan = plan_of(*parts)
    assert (set(reserved(plan)), evicted(plan), waits(plan)) == (gets, goes, waits_for)


def test_reason_of_an_eviction_names_who_comes():
    plan = plan_of(a(reclaim=ANY), b(), running("r", gpus=8, queue="b"), workload("w", gpus=4, queue="a"))
    (eviction,) = plan.evictions
    assert (eviction.queue, eviction.in_favour_of) == ("a", "default/w")
    assert eviction.reason.text == "default/w takes back what queue a had lent"


def test_loser_is_told_who_won():
    plan = plan_of(a(), b(), workload("w1", gpus=5, queue="a"), workload("w2", gpus=5, queue="b", priority=1))
    assert plan.verdicts["default/w1"].reason.value("winner") == "default/w2"


# Overlapping victims ---------------------------------------------------------------------------------------------

OVERLAP = [
    a(reclaim=ANY),
    b(),
    queue("c", cohort="x", gpus=2, preemption=preempts(reclaim=ANY)),
    running("big", gpus=8, queue="b", priority=1),
    running("small", gpus=2, queue="b", priority=2),
    workload("w1", gpus=4, queue="a"),
    workload("w2", gpus=2, queue="c", queued_at=1),
]


@pytest.mark.parametrize(
    ("recomputes", "want", "counts"),
    [
        pytest.param(True, {"w1": WAITING, "w2": WAITING}, {("c", "deferred_fit"): 1}, id="searches again"),
        pytest.param(False, {"w1": WAITING, "w2": LOST}, {}, id="steps back"),
    ],
)
def test_victims_that_another_has_named(recomputes, want, counts):
    plan = plan_of(*OVERLAP, settings=Settings(recomputes_overlap=recomputes))
    assert evicted(plan) == {"big": RECLAIMED}
    assert waits(plan) == want
    assert dict(plan.recomputed_targets) == counts
    assert dict(plan.skipped_preemptions) == ({} if recomputes else {"c": 1})


# Nobody to preempt -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "settings", "other_gets"),
    [
        pytest.param({"reclaim": LOWER}, Settings(), False, id="what it could have is held for it"),
        pytest.param({"reclaim": ANY}, Settings(), True, id="not where it can take it back at any time"),
    ],
)
def test_one_that_cannot_preempt_holds_its_place(rules, settings, other_gets):
    plan = plan_of(
        a(4, **rules),
        queue("c", cohort="x"),
        running("r", gpus=2, queue="a", priority=9),
        workload("w1", gpus=4, queue="a", priority=9),
        workload("w2", gpus=1, queue="c"),
        settings=settings,
    )
    assert ("w2" in reserved(plan)) is other_gets
    assert waits(plan)["w1"] is SHORT


def test_preemptor_holds_its_place_where_preemptors_go_first():
    parts = [
        a(4, reclaim=ANY),
        queue("c", cohort="x"),
        running("r", gpus=2, queue="a"),
        workload("w1", gpus=4, queue="a"),
        workload("w2", gpus=1, queue="c"),
    ]
    state = state_of(*parts, settings=Settings(preemptors_first=True))
    state.preemptors.add("default/w1")
    assert "w2" not in reserved(run_cycle(state))


@pytest.mark.parametrize(
    ("level", "used", "asked", "held"),
    [
        pytest.param(0, 1, 2, 2, id="all that it asks for"),
        pytest.param(0, 3, 2, 1, id="no more than its share"),
        pytest.param(0, 6, 2, 0, id="nothing above its share"),
        pytest.param(1, 3, 9, 5, id="a borrower up to its limit"),
        pytest.param(1, 3, 2, 2, id="or all that it asks for"),
    ],
)
def test_held_for_later(level, used, asked, held):
    state = state_of(queue("a", cohort="x", gpus=quota(4, borrow=4)), running("r", gpus=used, queue="a"))
    assignment = Assignment(pod_sets=(), usage={GPUS: asked}, level=level)
    assert held_for_later(node_of(state, "a"), assignment) == {GPUS: held}


# Checks, gates, slices, readiness --------------------------------------------------------------------------------

CHECKED = queue("a", gpus=4, checks=(CheckRule(name="budget"), CheckRule(name="spot", flavors=frozenset(["spot"]))))


@pytest.mark.parametrize(
    ("checks", "is_admitted"),
    [
        pytest.param({}, False, id="a check to pass"),
        pytest.param({"budget": CheckState.PENDING}, False, id="which is pending"),
        pytest.param({"budget": CheckState.READY}, True, id="which has passed; the other flavor's does not count"),
        pytest.param({"budget": CheckState.READY, "extra": CheckState.PENDING}, False, id="one of the workload's own"),
    ],
)
def test_admitted_at_once_or_after_checks(checks, is_admitted):
    (reserve,) = plan_of(CHECKED, workload("w", queue="a", checks=checks)).reserves
    assert reserve.is_admitted is is_admitted


@pytest.mark.parametrize(("is_on", "goes"), [(True, {}), (False, {"r": RECLAIMED})])
def test_closed_preemption_gate(is_on, goes):
    plan = plan_of(
        a(reclaim=ANY),
        b(),
        running("r", gpus=8, queue="b"),
        workload("w", gpus=4, queue="a", preemption_gates=("orchestrator",)),
        settings=Settings(preemption_gates=is_on),
    )
    assert evicted(plan) == goes
    assert waits(plan) == {"w": Code.PREEMPTION_GATED if is_on else WAITING}


def test_slice_takes_over_from_the_older_one():
    plan = plan_of(a(), running("v1", gpus=3, queue="a"), workload("v2", gpus=4, queue="a", replaces="default/v1"))
    assert [type(decision) for decision in plan.decisions] == [Reserve, Finish]
    finish = plan.decisions[1]
    assert (finish.workload, finish.in_favour_of, finish.reason.code) == (
        "default/v1",
        "default/v2",
        Code.SLICE_REPLACED,
    )


def test_admission_is_held_until_pods_are_ready():
    parts = [a(), b(), workload("w1", queue="a"), workload("w2", queue="b", queued_at=1)]
    settings = Settings(blocks_until_ready=True)
    plan = plan_of(*parts, settings=settings)
    assert set(reserved(plan)) == {"w1"}
    assert waits(plan) == {"w2": Code.WAITING_FOR_PODS_READY}
    holds = [decision for decision in plan.decisions if isinstance(decision, Hold)]
    assert holds == [Hold(waiting_for=("default/w1",))]
    plan = plan_of(*parts, running("r", queue="a", is_ready=False), settings=settings)
    assert (reserved(plan), set(waits(plan))) == ({}, {"w1", "w2"})
    assert len([decision for decision in plan.decisions if isinstance(decision, Hold)]) == 1, "said once"
    assert set(reserved(plan_of(*parts[:3], running("r", queue="a"), settings=settings))) == {"w1"}


# Variants --------------------------------------------------------------------------------------------------------

RACE = Settings(concurrent_admission=True)
TWO = queue("a", flavors={"red": 4, "blue": 4})


def variant(name, **fields):
    """A variant for the flavor that it is named after."""
    return workload(name, queue="a", variant_of="uid-train", allowed_flavors=frozenset([name]), **fields)


def running_variant(name, **fields):
    return running(name, queue="a", flavor=name, variant_of="uid-train", allowed_flavors=frozenset([name]), **fields)


@pytest.mark.parametrize(
    ("parts", "gets", "goes", "code"),
    [
        pytest.param([TWO, variant("red")], {"red"}, {}, None, id="nobody else runs"),
        pytest.param(
            [TWO, variant("blue"), running_variant("red")],
            set(),
            {},
            Code.BETTER_VARIANT_RUNS,
            id="a better one runs",
        ),
        pytest.param(
            [TWO, variant("red"), running_variant("blue")],
            set(),
            {"blue": Code.FLAVOR_MIGRATION},
            WAITING,
            id="a worse one makes way",
        ),
        pytest.param(
            [TWO, variant("red"), running_variant("blue", is_evicted=True)],
            set(),
            {},
            WAITING,
            id="or is on its way",
        ),
        pytest.param(
            [
                queue("a", flavors={"green": 4, "red": 4, "blue": 4}, last_acceptable_flavor="green"),
                variant("red"),
                running_variant("blue"),
            ],
            {"red"},
            {},
            None,
            id="not for a flavor that is not worth it",
        ),
        pytest.param([TWO, workload("red", queue="a"), running_variant("blue")], {"red"}, {}, None, id="no relative"),
    ],
)
def test_variants_race(parts, gets, goes, code):
    plan = plan_of(*parts, settings=RACE)
    assert (set(reserved(plan)), evicted(plan)) == (gets, goes)
    assert list(waits(plan).values()) == ([code] if code else [])


# Where the others end up -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "parts", "why", "stays"),
    [
        pytest.param(Order.BEST_EFFORT_FIFO, [workload("w", gpus=5)], Return.NO_FIT, False, id="steps aside"),
        pytest.param(Order.STRICT_FIFO, [workload("w", gpus=5)], Return.NO_FIT, True, id="blocks a strict line"),
        pytest.param(
            Order.BEST_EFFORT_FIFO,
            [running("r", gpus=4), workload("w")],
            Return.PREEMPTION_NO_CANDIDATES,
            False,
            id="nobody to preempt",
        ),
        pytest.param(
            Order.BEST_EFFORT_FIFO,
            [workload("w", namespace="elsewhere")],
            Return.NAMESPACE_MISMATCH,
            False,
            id="not admitted",
        ),
        pytest.param(
            Order.STRICT_FIFO,
            [workload("w", namespace="elsewhere")],
            Return.NAMESPACE_MISMATCH,
            False,
            id="from no line",
        ),
        pytest.param(
            Order.BEST_EFFORT_FIFO,
            [workload("w", checks={"budget": CheckState.RETRY})],
            Return.GENERIC,
            False,
            id="refused at once",
        ),
    ],
)
def test_requeue(order, parts, why, stays):
    state = state_of(queue("team-a", gpus=4, order=order), *parts)
    plan = run_cycle(state)
    (requeue,) = [decision for decision in plan.decisions if isinstance(decision, Requeue)]
    assert requeue.why is why
    assert (in_line(state), parked(state)) == (({"w"}, set()) if stays else (set(), {"w"}))


def test_loser_of_a_cycle_stays_in_line():
    state = state_of(a(), b(), workload("w1", gpus=5, queue="a"), workload("w2", gpus=5, queue="b", priority=1))
    plan = run_cycle(state)
    (requeue,) = [decision for decision in plan.decisions if isinstance(decision, Requeue)]
    assert (requeue.why, in_line(state, "a")) == (Return.FAILED_AFTER_NOMINATION, {"w1"})


def test_cycle_that_runs_out_of_steps_leaves_the_rest_to_the_next():
    lines = [queue(f"q{n}", gpus=2, preemption=preempts(within=LOWER)) for n in range(4)]
    holders = [running(f"r{n}", gpus=2, queue=f"q{n}") for n in range(4)]
    heads = [workload(f"w{n}", gpus=2, queue=f"q{n}", priority=1, queued_at=n) for n in range(4)]
    state = state_of(*lines, *holders, *heads, settings=Settings(cycle_steps_most=1))
    plan = run_cycle(state)
    assert waits(plan) == {"w0": WAITING, "w1": WAITING, "w2": Code.CYCLE_CUT_SHORT, "w3": Code.CYCLE_CUT_SHORT}
    assert all(in_line(state, f"q{n}") >= {f"w{n}"} for n in range(4)), "nobody is lost"
    assert set(evicted(run_cycle(state))) == {"r2", "r3"}, "the next cycle begins where this one stopped"


# Where a flavor search goes on -----------------------------------------------------------------------------------


def test_next_search_begins_behind_the_flavor_that_was_lost():
    both = {"red": 2, "blue": 2}
    state = state_of(
        queue("a", cohort="x", flavors=both, flavor_rules=STOPS_EARLY),
        queue("b", cohort="x", flavors=both, flavor_rules=STOPS_EARLY),
        workload("w1", gpus=3, queue="a", priority=1),
        workload("w2", gpus=3, queue="b"),
    )
    plans = run_cycles(state, 2)
    assert [reserved(plan) for plan in plans] == [{"w1": "red"}, {"w2": "blue"}]
    assert [len(reserve.considered) for reserve in plans[1].reserves] == [0], "red was not looked at again"


@pytest.mark.parametrize(("keeps", "tried"), [(True, 0), (False, None)])
def test_one_that_came_too_late_keeps_its_progress_where_the_setting_says_so(keeps, tried):
    both = {"red": 2, "blue": 0}
    state = state_of(
        queue("a", cohort="x", flavors=both, flavor_rules=STOPS_EARLY),
        queue("b", cohort="x", flavors=both, flavor_rules=STOPS_EARLY),
        workload("w1", gpus=3, queue="a", priority=1),
        workload("w2", gpus=3, queue="b"),
        settings=Settings(keeps_scan_progress=keeps),
    )
    plan = run_cycle(state)
    assert waits(plan) == {"w2": LOST}
    progress = state.progress.get("default/w2")
    assert (progress.tried[0][GPU] if progress else None) == tried


def test_decisions_come_in_the_order_they_were_taken():
    plan = plan_of(
        a(reclaim=ANY),
        b(),
        C,
        running("r", gpus=8, queue="b"),
        workload("w1", gpus=4, queue="a"),
        workload("w2", queue="c"),
    )
    assert [(type(decision), name_of(decision.workload)) for decision in plan.decisions] == [
        (Evict, "r"),
        (Requeue, "w1"),
        (Requeue, "w2"),
    ]
