"""Deciding plans one cycle and changes nothing; stories over several cycles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.engine import decide as decide_module
from muster.engine.decide import decide
from muster.engine.explain import verdicts_of_all
from muster.model.queue import Order
from muster.model.reason import Code
from muster.model.settings import PreemptionGuards, Settings
from tests.engine.builders import (
    ANY,
    LOWER,
    NEWER,
    NOW,
    evicted,
    evicted_from,
    guarded,
    holders_of,
    in_line,
    parked,
    preempts,
    queue,
    remembered,
    reserved,
    run_cycle,
    run_cycles,
    run_until_quiet,
    running,
    state_of,
    usage_of,
    waits,
    workload,
)

BUSY = [
    queue("a", cohort="x", gpus=4, preemption=preempts(within=LOWER, reclaim=ANY)),
    queue("b", cohort="x", gpus=4, preemption=preempts(reclaim=LOWER)),
    running("borrower", gpus=6, queue="b"),
    workload("owner", gpus=4, queue="a", priority=2),
    workload("other", gpus=2, queue="b", priority=1),
]


def test_deciding_changes_nothing_and_repeats_itself():
    state = state_of(*BUSY)
    state.begin_cycle(NOW)
    before, mark = remembered(state), state.ledger.checkpoint()
    first, second = decide(state), decide(state)
    assert first == second
    assert remembered(state) == before
    assert state.ledger.checkpoint() == mark, "nothing is left to be undone"


def test_order_of_objects_does_not_matter():
    plans = []
    for parts in (BUSY, BUSY[::-1]):
        state = state_of(*parts)
        state.begin_cycle(NOW)
        plans.append(decide(state))
    assert plans[0] == plans[1]


def test_ledger_is_restored_when_a_stage_fails(monkeypatch):
    state = state_of(*BUSY)
    before = usage_of(state)

    def fails(cycle):
        cycle.ledger.charge(state.tree.nodes["a"], {("default", "nvidia.com/gpu"): 3})
        raise ZeroDivisionError

    monkeypatch.setattr(decide_module, "reserve", fails)
    with pytest.raises(ZeroDivisionError):
        decide(state)
    assert usage_of(state) == before


def test_nothing_to_do():
    state = state_of(queue("a", gpus=4))
    plan = run_cycle(state)
    assert (plan.decisions, plan.verdicts, plan.is_empty, plan.cycle) == ((), {}, True, 1)


# Stories ---------------------------------------------------------------------------------------------------------


def test_owner_comes_back_and_the_borrower_waits():
    state = state_of(*BUSY[:4])
    plans = run_until_quiet(state)
    assert evicted(plans[0]) == {"borrower": Code.RECLAIMED}
    assert reserved(plans[1]) == {"owner": "default"}
    assert (in_line(state, "b"), parked(state, "b")) == (set(), {"borrower"})
    state.drop("default/owner")
    assert reserved(run_cycle(state)) == {"borrower": "default"}


def test_strict_line_waits_behind_its_head_and_a_best_effort_line_does_not():
    parts = [workload("big", gpus=9, priority=1), workload("small", gpus=1)]
    strict = state_of(queue("team-a", gpus=4, order=Order.STRICT_FIFO), *parts)
    assert [reserved(plan) for plan in run_cycles(strict, 3)] == [{}, {}, {}]
    best_effort = state_of(queue("team-a", gpus=4), *parts)
    assert [reserved(plan) for plan in run_cycles(best_effort, 2)] == [{}, {"small": "default"}]
    assert parked(best_effort) == {"big"}


def test_those_alike_are_parked_together_and_come_back_together():
    alike = [workload(f"w{n}", gpus=3, kind_key="k") for n in range(4)]
    state = state_of(queue("team-a", gpus=4), running("r", gpus=2), *alike)
    run_cycle(state)
    assert parked(state) == {"w0", "w1", "w2", "w3"}
    state.drop("default/r")
    assert [reserved(plan) for plan in run_cycles(state, 2)] == [{"w0": "default"}, {}]


def test_newer_equals_make_way_in_turn_until_the_oldest_run():
    state = state_of(
        queue("team-a", gpus=2, preemption=preempts(within=NEWER)),
        *(workload(f"w{n}", gpus=1, queued_at=float(n)) for n in (3, 2)),
    )
    run_cycles(state, 2)
    for n in (1, 0):
        state.take(workload(f"w{n}", gpus=1, queued_at=float(n)))
    plans = run_until_quiet(state)
    assert [gone for plan in plans for gone in evicted(plan)] == ["w3", "w2"]
    assert {key.removeprefix("default/") for key in holders_of(state)} == {"w0", "w1"}


# Named limits on preemption --------------------------------------------------------------------------------------


def preempting(settings, **fields):
    """A workload that would preempt another one in the first cycle."""
    return state_of(
        queue("team-a", gpus=4, preemption=preempts(within=LOWER)),
        running("old", gpus=4, reserved_at=NOW, **fields),
        workload("new", gpus=4, priority=1),
        settings=settings,
    )


def test_minimum_run_time():
    state = preempting(guarded(run_time_least_s=60))
    assert evicted(run_cycle(state, after_s=59)) == {}
    state.flush_all()
    assert evicted(run_cycle(state, after_s=1)) == {"old": Code.PREEMPTED_IN_QUEUE}


def test_one_parked_by_a_limit_comes_back_by_itself():
    state = preempting(guarded(run_time_least_s=60))
    assert evicted(run_cycle(state, after_s=59)) == {}
    assert evicted(run_cycle(state, after_s=1)) == {"old": Code.PREEMPTED_IN_QUEUE}


def test_marked_workloads_stay():
    state = preempting(guarded(honours_marks=True), is_preemptible=False)
    assert [evicted(plan) for plan in run_cycles(state, 3)] == [{}, {}, {}]


def test_cool_down_of_a_workload():
    state = preempting(guarded(workload_cool_down_s=60), preempted_at=NOW)
    assert evicted(run_cycle(state, after_s=59)) == {}
    state.flush_all()
    assert evicted(run_cycle(state, after_s=1)) == {"old": Code.PREEMPTED_IN_QUEUE}


def test_cool_down_of_a_queue():
    state = state_of(
        queue("team-a", gpus=4, preemption=preempts(within=LOWER)),
        running("r0", gpus=2),
        running("r1", gpus=2),
        workload("n0", gpus=2, priority=1),
        workload("n1", gpus=2, priority=1, queued_at=1),
        settings=guarded(queue_cool_down_s=60),
    )
    assert len(evicted(run_cycle(state))) == 1
    assert set(reserved(run_cycle(state))) == {"n0"}
    assert evicted(run_cycle(state, after_s=50)) == {}
    state.flush_all()
    assert len(evicted(run_cycle(state, after_s=60))) == 1


# Repeated preemption ---------------------------------------------------------------------------------------------


def preempted_again_and_again(times, **guards):
    """An old workload that a new one has preempted that often; in between the new one had to back off."""
    state = preempting(Settings(guards=PreemptionGuards(**guards)))
    run_cycles(state, 2)
    for _ in range(times - 1):
        backing_off = replace(evicted_from(state.workloads["default/new"]), held_until=state.now + 2)
        state.take(backing_off)
        assert reserved(run_cycle(state)) == {"old": "default"}
        assert evicted(run_cycle(state)) == {"old": Code.PREEMPTED_IN_QUEUE}
        assert reserved(run_cycle(state)) == {"new": "default"}
    return state


@pytest.mark.parametrize(
    ("times", "guards", "is_held_back"),
    [
        pytest.param(2, {}, False, id="twice is no pattern"),
        pytest.param(3, {}, True, id="three times is"),
        pytest.param(3, {"repeat_most": 4}, False, id="as often as the setting says"),
        pytest.param(5, {"repeat_most": 0}, False, id="no bound"),
    ],
)
def test_one_that_is_preempted_again_and_again_is_held_back(times, guards, is_held_back):
    state = preempted_again_and_again(times, **guards)
    state.flush_all()
    code = waits(run_cycle(state))["old"]
    assert (code is Code.HELD_BACK) is is_held_back


def test_one_held_back_is_told_by_whom_and_goes_on_when_that_one_leaves():
    state = preempted_again_and_again(3)
    state.flush_all()
    verdict = verdicts_of_all(state, run_cycle(state))["default/old"]
    assert verdict.reason.value("contender") == "default/new"
    state.drop("default/new")
    assert reserved(run_cycle(state)) == {"old": "default"}


def test_one_preempted_too_often_is_no_victim_of_that_contender_any_more():
    state = preempted_again_and_again(3)
    state.take(replace(evicted_from(state.workloads["default/new"]), held_until=state.now + 2))
    assert reserved(run_cycle(state)) == {"old": "default"}
    assert evicted(run_cycle(state)) == {}
    state.take(workload("newer", gpus=4, priority=2))
    assert evicted(run_cycle(state)) == {"old": Code.PREEMPTED_IN_QUEUE}, "others may still take it"


def test_contender_of_the_same_name_is_another_one():
    state = preempted_again_and_again(3)
    state.drop("default/new")
    assert reserved(run_cycle(state)) == {"old": "default"}
    state.take(workload("new", gpus=4, priority=1, uid="another"))
    assert evicted(run_cycle(state)) == {"old": Code.PREEMPTED_IN_QUEUE}


def test_contender_that_has_changed_is_another_one():
    state = preempted_again_and_again(3)
    state.flush_all()
    assert waits(run_cycle(state)) == {"old": Code.HELD_BACK}
    state.take(replace(evicted_from(state.workloads["default/new"]), kind_key="changed", held_until=state.now + 2))
    assert reserved(run_cycle(state)) == {"old": "default"}
    assert evicted(run_cycle(state)) == {"old": Code.PREEMPTED_IN_QUEUE}
