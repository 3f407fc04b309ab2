"""Deadlines: gangs that are not filled in time give everything back, and holds whose victims stay come to an end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.engine.deadlines import GangDeadlines
from muster.engine.invariants import violations
from muster.model.plan import Requeue, Return
from muster.model.queue import Order
from muster.model.reason import Code
from muster.model.settings import Settings
from tests.engine.builders import (
    LOWER,
    evicted,
    key_of,
    pod_set,
    preempts,
    queue,
    run_cycle,
    run_cycles,
    waits,
    workload,
)
from tests.engine.slot_builders import amended, bind, free_cards, gone, held, machine, on, placing_state, started, where

LIMIT_S = 60.0
SETTINGS = Settings(gang_deadline_s=LIMIT_S)
HOME = queue("team-a", gpus=99, preemption=preempts(within=LOWER))


def state_with(*parts, home=HOME):
    return placing_state(home, *parts, settings=SETTINGS)


# The clock -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("now", [0.1, 0.3, 1000.3, 1e9 + 0.7])
def test_time_is_over_at_the_limit_whatever_the_fraction(now):
    deadlines = GangDeadlines(LIMIT_S)
    deadlines.start("w", now)
    deadlines.advance(now + LIMIT_S - 0.01, lambda _: True)
    assert not deadlines.overdue
    deadlines.advance(now + LIMIT_S, lambda _: True)
    assert list(deadlines.overdue) == ["w"]


def test_only_the_last_start_counts():
    deadlines = GangDeadlines(LIMIT_S)
    deadlines.start("w", 0.0)
    deadlines.start("w", 50.0)
    deadlines.advance(LIMIT_S, lambda _: True)
    assert not deadlines.overdue
    deadlines.advance(50.0 + LIMIT_S, lambda _: True)
    assert list(deadlines.overdue) == ["w"]
    deadlines.stop("w")
    assert not deadlines.overdue


def test_pause_ends_by_itself_or_earlier():
    deadlines = GangDeadlines(LIMIT_S)
    deadlines.pause("w", 10.0)
    assert [deadlines.paused_until("w", now) for now in (5.0, 10.0)] == [10.0, None]
    deadlines.pause("w", 20.0)
    deadlines.end_pause("w")
    assert deadlines.paused_until("w", 5.0) is None


# Gangs that are not filled -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [0, 1, 2, 3])
def test_gang_that_is_bound_in_part_gives_everything_back(bound):
    state = state_with(machine("a", 4), workload("w", pods=4))
    run_cycle(state)
    bind(state, "w", bound)
    assert evicted(run_cycle(state, after_s=LIMIT_S - 2)) == {}
    assert evicted(run_cycle(state, after_s=2, victims_leave=False)) == {"w": Code.GANG_DEADLINE}
    assert not list(violations(state))
    assert evicted(run_cycle(state, after_s=LIMIT_S, victims_leave=False)) == {}, "it is told once"
    state.take(gone(state.workloads[key_of("w")]))
    assert free_cards(state, "a") == 4


@pytest.mark.parametrize("fields", [{}, {"is_ready": True}])
def test_gang_that_is_bound_stays(fields):
    state = state_with(machine("a", 4), workload("w", pods=4))
    run_cycle(state)
    bind(state, "w", 4 if not fields else 3, **fields)
    assert not any(evicted(plan) for plan in run_cycles(state, 3, after_s=LIMIT_S))


def test_gang_that_loses_a_pod_has_the_same_time_again():
    state = state_with(machine("a", 4), workload("w", pods=4))
    run_cycle(state)
    bind(state, "w", 4)
    run_cycles(state, 3, after_s=LIMIT_S)
    bind(state, "w", 3)
    assert evicted(run_cycle(state, after_s=LIMIT_S - 1)) == {}
    assert evicted(run_cycle(state, after_s=1)) == {"w": Code.GANG_DEADLINE}


def test_failing_again_and_again_wins_no_time():
    state = state_with(machine("a", 4), workload("w", pods=4))
    run_cycle(state)
    for bound in (3, 1, 2, 0):
        bind(state, "w", bound)
        assert evicted(run_cycle(state, after_s=10)) == {}
    assert evicted(run_cycle(state, after_s=LIMIT_S)) == {"w": Code.GANG_DEADLINE}


def test_elastic_one_that_has_its_minimum_stays():
    state = state_with(machine("a", 4), workload("w", pods=4, least=2, is_elastic=True))
    run_cycle(state)
    bind(state, "w", 2)
    assert evicted(run_cycle(state, after_s=LIMIT_S)) == {}
    bind(state, "w", 1)
    assert evicted(run_cycle(state, after_s=LIMIT_S)) == {"w": Code.GANG_DEADLINE}


def test_pods_that_come_on_top_have_their_own_time():
    state = state_with(machine("a", 2), workload("w", pods=4, least=2, is_elastic=True))
    run_cycle(state)
    bind(state, "w", 2)
    state.begin_cycle(state.now + LIMIT_S - 5)
    state.put_node(machine("b", 2))
    assert amended(run_cycle(state)) == {"w": {"a": 2, "b": 2}}
    assert evicted(run_cycle(state, after_s=10)) == {}


def test_room_of_a_stuck_gang_goes_to_others():
    state = state_with(machine("a", 4), workload("w", pods=4), workload("v", pods=4, queued_at=1))
    assert started(run_cycle(state)) == {"w": {"a": 4}}
    bind(state, "w", 3)
    run_cycle(state, after_s=LIMIT_S)
    state.drop(key_of("w"))
    assert started(run_cycle(state)) == {"v": {"a": 4}}


def test_giving_up_is_no_preemption():
    """Limits on how often a queue may preempt do not count it."""
    state = state_with(machine("a", 4), workload("w", pods=4))
    run_cycle(state)
    assert evicted(run_cycle(state, after_s=LIMIT_S)) == {"w": Code.GANG_DEADLINE}
    assert not state.preempted_last


def test_stuck_gang_on_a_failed_node_is_told_once():
    state = state_with(machine("a", 4), workload("w", pods=4))
    run_cycle(state)
    state.drop_node("a")
    bind(state, "w", 3, is_admitted=True, unhealthy_nodes=("a",))
    plan = run_cycle(state, after_s=LIMIT_S)
    assert [one.reason.code for one in plan.evictions] == [Code.GANG_DEADLINE]


# Holds that come to nothing ------------------------------------------------------------------------------------------


def waiting_for_a_stubborn_one(order=Order.BEST_EFFORT_FIFO):
    """One that needs a whole node of four cards; two are free, and whoever has the others does not leave."""
    stubborn = held(workload("low", pods=2), [on("a", 0), on("a", 1)])
    big = workload("big", gpus=4, priority=9)
    small = workload("small", pods=2, queued_at=5)
    home = replace(HOME, order=order)
    state = state_with(
        queue("team-b", gpus=99), machine("a", 4), stubborn, big, replace(small, queue="team-b"), home=home
    )
    assert evicted(run_cycle(state, victims_leave=False)) == {"low": Code.PREEMPTED_IN_QUEUE}
    return state


def test_others_are_kept_out_while_victims_leave_and_let_in_after_the_deadline():
    state = waiting_for_a_stubborn_one()
    plan = run_cycle(state, victims_leave=False)
    assert (started(plan), evicted(plan)) == ({}, {}), "held, and nobody is told twice"
    late = run_cycle(state, after_s=LIMIT_S, victims_leave=False)
    assert waits(late)["big"] is Code.GAVE_UP_WAITING
    after = run_cycle(state, victims_leave=False)
    assert started(late) | started(after) == {"small": {"a": 2}}
    assert where(state, "low") == {"a": 2}


def test_one_that_gave_up_waits_as_long_before_it_asks_again():
    state = waiting_for_a_stubborn_one()
    state.drop(key_of("small"))
    gave_up = run_cycle(state, after_s=LIMIT_S, victims_leave=False)
    (back,) = [one for one in gave_up.decisions if isinstance(one, Requeue) and one.workload == key_of("big")]
    assert (back.why, back.retry_at) == (Return.GAVE_UP_WAITING, state.now + LIMIT_S)
    codes = [waits(run_cycle(state, after_s=10, victims_leave=False)).get("big") for _ in range(5)]
    assert set(codes) <= {Code.GAVE_UP_WAITING, None}, "it holds nothing meanwhile"
    assert waits(run_cycle(state, after_s=20, victims_leave=False)) == {"big": Code.WAITING_FOR_PREEMPTED_WORKLOADS}


def test_one_that_gave_up_starts_as_soon_as_there_is_room():
    state = waiting_for_a_stubborn_one()
    state.drop(key_of("small"))
    run_cycle(state, after_s=LIMIT_S, victims_leave=False)
    state.take(replace(gone(state.workloads[key_of("low")]), is_active=False))
    assert started(run_cycle(state)) == {"big": {"a": 1}}


def test_strict_line_waits_for_its_head_that_gave_up_and_other_queues_do_not():
    state = waiting_for_a_stubborn_one(Order.STRICT_FIFO)
    state.take(workload("behind", queued_at=9))
    run_cycle(state, after_s=LIMIT_S, victims_leave=False)
    run_cycle(state, victims_leave=False)
    assert (where(state, "small"), where(state, "behind")) == ({"a": 2}, {})


def test_starts_when_its_victims_have_left_in_time():
    state = waiting_for_a_stubborn_one()
    run_cycle(state, after_s=LIMIT_S / 2, victims_leave=False)
    state.take(replace(gone(state.workloads[key_of("low")]), is_active=False))
    assert started(run_cycle(state)) == {"big": {"a": 1}}


def test_pod_sets_of_one_gang_share_its_deadline():
    sets = (pod_set("leader"), pod_set("workers", count=2))
    state = state_with(machine("a", 4), workload("w", pod_sets=sets))
    run_cycle(state)
    bind(state, "w", 2)
    assert evicted(run_cycle(state, after_s=LIMIT_S)) == {"w": Code.GANG_DEADLINE}


def test_it_is_known_when_somebody_is_due_next():
    deadlines = GangDeadlines(10.0)
    assert deadlines.next_due() is None
    deadlines.start("a", 0.0)
    deadlines.start("b", 3.0)
    deadlines.wait("c", 1.0)
    assert deadlines.next_due() == 10.0
    deadlines.stop("a")
    assert deadlines.next_due() == 11.0
    deadlines.end_wait("c")
    assert deadlines.next_due() == 13.0
