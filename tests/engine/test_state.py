"""The engine's state follows objects and plans: who holds quota, who waits, who is called back and when."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from muster.engine.decide import decide
from muster.model.plan import Evict, Plan, Requeue, Reserve, Return, ScanProgress
from muster.model.queue import Order, Stop, SubmitQueue
from muster.model.reason import Code, because
from muster.model.settings import Settings, UsageFairness
from muster.model.workload import Phase
from tests.engine.builders import (
    GPU,
    GPUS,
    LOWER,
    NOW,
    admission_of,
    cohort,
    evicted,
    evicted_from,
    holders_of,
    in_line,
    key_of,
    leaves,
    node_of,
    parked,
    pod_set,
    preempts,
    queue,
    reserved,
    run_cycle,
    running,
    state_of,
    usage_of,
    workload,
)

A = queue("team-a", gpus=4)
B = queue("b", gpus=4)


def gpus_used(state, name="team-a"):
    return node_of(state, name).usage.get(GPUS, 0)


# Objects ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "place"),
    [
        pytest.param(workload("w"), "line", id="it waits"),
        pytest.param(running("w"), "holds", id="it holds quota"),
        pytest.param(running("w", is_admitted=False), "holds", id="even before its checks"),
        pytest.param(running("w", is_evicted=True), "holds", id="until it has left"),
        pytest.param(running("w", is_finished=True), "", id="it has finished"),
        pytest.param(workload("w", is_finished=True), "", id="it has finished without quota"),
        pytest.param(workload("w", is_active=False), "", id="it is set inactive"),
        pytest.param(workload("w", gates=("someone",)), "", id="its admission is gated"),
        pytest.param(workload("w", is_split=True), "", id="its variants wait for it"),
        pytest.param(workload("w", queue="nowhere"), "", id="it names no queue"),
        pytest.param(workload("w", queue="x"), "", id="a cohort is no queue to wait in"),
        pytest.param(workload("w", submit_queue="default/stopped"), "", id="its submit queue is stopped"),
        pytest.param(workload("w", held_until=NOW + 1), "parked", id="it backs off"),
        pytest.param(workload("w", is_held=True), "parked", id="it is held"),
        pytest.param(running("w", queue="nowhere"), "", id="the queue that paid is gone"),
    ],
)
def test_place_of_a_workload(one, place):
    stopped = SubmitQueue(key="default/stopped", queue="team-a", stop=Stop.HOLD)
    state = state_of(queue("team-a", cohort="x", gpus=4), stopped, one)
    found = {"line": in_line(state), "parked": parked(state), "holds": {"w"} if holders_of(state) else set()}
    assert {where for where, names in found.items() if names} == ({place} if place else set())
    assert gpus_used(state) == (1 if place == "holds" else 0)
    assert state.workloads[one.key] is one


def test_gates_count_only_where_they_are_on():
    state = state_of(A, workload("w", gates=("someone",)), settings=Settings(admission_gates=False))
    assert in_line(state) == {"w"}


def test_changed_workload_moves():
    state = state_of(A, B, workload("w", gpus=2))
    state.take(workload("w", gpus=2, queue="b"))
    assert (in_line(state), in_line(state, "b")) == (set(), {"w"})
    state.take(running("w", gpus=2, queue="b"))
    assert (in_line(state, "b"), usage_of(state)) == (set(), {"b": {GPUS: 2}})
    state.take(running("w", gpus=3, queue="team-a"))
    assert usage_of(state) == {"team-a": {GPUS: 3}}
    state.take(running("w", gpus=3, is_finished=True))
    assert (usage_of(state), in_line(state)) == ({}, set())
    state.drop(key_of("w"))
    assert state.workloads == {}


def test_same_event_twice_changes_nothing():
    state = state_of(A, running("w", gpus=2))
    for _ in range(2):
        state.take(running("w", gpus=2))
    assert gpus_used(state) == 2
    for _ in range(2):
        state.drop(key_of("w"))
    assert gpus_used(state) == 0
    assert len(state.holders) == 0


def test_newer_object_is_remembered_without_a_new_charge():
    state = state_of(A, running("w", gpus=2))
    generation = state.generation_of(node_of(state, "team-a"))
    state.take(running("w", gpus=2, priority=7))
    assert state.holders.get(key_of("w")).workload.priority == 7
    assert state.generation_of(node_of(state, "team-a")) == generation


def test_finished_pods_give_their_quota_back():
    state = state_of(A, running("w", pod_sets=(pod_set(count=4),)))
    state.take(replace(state.workloads[key_of("w")], pod_sets=(pod_set(count=4, finished_pods=3),)))
    assert gpus_used(state) == 1


def test_usage_of_a_waiting_workload_that_returns():
    state = state_of(A, running("w", gpus=4), workload("next", gpus=4))
    state.take(evicted_from(state.workloads[key_of("w")]))
    assert (gpus_used(state), in_line(state)) == (0, {"w", "next"})


# Parking ---------------------------------------------------------------------------------------------------------


def parked_one(*parts, **fields):
    """A state in which w is parked because r holds everything."""
    state = state_of(queue("team-a", cohort="x", gpus=4), *parts, running("r", gpus=4), workload("w", gpus=2, **fields))
    run_cycle(state)
    assert parked(state) == {"w"}
    return state


def take_finished(state):
    state.take(replace(state.workloads[key_of("r")], is_finished=True))


def take_evicted(state):
    state.take(evicted_from(replace(state.workloads[key_of("r")], is_active=False)))


def take_smaller(state):
    state.take(running("r", gpus=3))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda state: state.drop(key_of("r")), id="deleted"),
        pytest.param(take_finished, id="finished"),
        pytest.param(take_evicted, id="evicted"),
        pytest.param(take_smaller, id="smaller"),
        pytest.param(lambda state: state.flush("team-a"), id="a change of the queue"),
        pytest.param(lambda state: state.flush("x"), id="a change of the cohort"),
        pytest.param(lambda state: state.flush("b"), id="a change elsewhere in the tree"),
        pytest.param(lambda state: state.flush_all(), id="a change of everything"),
    ],
)
def test_parked_workloads_come_back_when_something_changes(change):
    state = parked_one(queue("b", cohort="x"))
    change(state)
    assert (in_line(state), parked(state)) == ({"w"}, set())


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda state: state.flush("other"), id="another tree"),
        pytest.param(lambda state: state.flush("nowhere"), id="nothing that is there"),
        pytest.param(lambda state: state.take(running("r", gpus=4, priority=3)), id="nothing that frees quota"),
        pytest.param(lambda state: state.take(workload("z", gpus=2)), id="one more that waits"),
        pytest.param(lambda state: state.drop(key_of("unknown")), id="one nobody knew"),
    ],
)
def test_parked_workloads_stay_otherwise(change):
    state = parked_one(queue("other", gpus=1))
    change(state)
    assert "w" in parked(state)


def test_one_whose_namespace_is_not_admitted_stays_parked():
    state = state_of(A, workload("w", namespace="elsewhere"))
    run_cycle(state)
    state.flush_all()
    assert parked(state) == {"w"}


def test_back_off_ends_by_itself():
    state = state_of(A, workload("w", held_until=NOW + 10), workload("gone", held_until=NOW + 10))
    state.drop(key_of("gone"))
    state.begin_cycle(NOW + 9)
    state.flush_all()
    assert parked(state) == {"w"}
    state.begin_cycle(NOW + 10)
    assert in_line(state) == {"w"}


def test_flush_between_planning_and_carrying_out_keeps_a_workload_in_line():
    state = state_of(A, running("r", gpus=4), workload("w", gpus=2))
    state.begin_cycle(NOW)
    plan = decide(state)
    state.drop(key_of("r"))
    state.apply(plan)
    assert in_line(state) == {"w"}


def test_time_does_not_go_back():
    state = state_of(A)
    with pytest.raises(AssertionError, match="time does not go back"):
        state.begin_cycle(NOW - 1)


# Heads -----------------------------------------------------------------------------------------------------------


def test_heads_of_queues_that_take_part():
    state = state_of(
        A,
        queue("held", stop=Stop.HOLD),
        queue("broken", inactive_because="no flavor"),
        queue("empty"),
        *(workload(name, queue=name) for name in ("team-a", "held", "broken")),
    )
    assert [(node.name, one.key) for node, one in state.heads()] == [("team-a", key_of("team-a"))]
    assert {leaf.name for leaf in leaves(state)} == {"team-a", "held", "broken", "empty"}


# Scan progress ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keeps", "cycles_ago", "changed_since", "kind", "is_kept"),
    [
        pytest.param(True, 1, True, "k", True, id="of the last cycle, whatever changed"),
        pytest.param(True, 2, True, "k", False, id="older, and something changed"),
        pytest.param(True, 2, False, "k", True, id="older, and nothing changed"),
        pytest.param(True, 1, False, "other", False, id="the workload changed"),
        pytest.param(False, 1, True, "k", False, id="something changed, and the setting is off"),
        pytest.param(False, 9, False, "other", True, id="nothing changed, and the setting is off"),
    ],
)
def test_how_long_scan_progress_counts(keeps, cycles_ago, changed_since, kind, is_kept):
    state = state_of(A, running("r"), workload("w", kind_key="k"), settings=Settings(keeps_scan_progress=keeps))
    progress = ScanProgress(tried=({GPU: 0},), generation=0, kind_key=kind, cycle=0)
    state.progress[key_of("w")] = progress
    for _ in range(cycles_ago):
        state.begin_cycle(NOW)
    if changed_since:
        state.drop(key_of("r"))
    found = state.progress_of(state.workloads[key_of("w")], node_of(state, "team-a"))
    assert found == (progress if is_kept else None)


def test_nothing_is_known_of_a_search_that_never_was():
    state = state_of(A, workload("w"))
    assert state.progress_of(state.workloads[key_of("w")], node_of(state, "team-a")) is None


def test_generation_counts_changes_of_the_queue_and_of_its_tree():
    state = state_of(queue("team-a", gpus=4, generation=7), running("r"))
    assert state.generation_of(node_of(state, "team-a")) == 7
    state.drop(key_of("r"))
    assert state.generation_of(node_of(state, "team-a")) == 8


# Plans -----------------------------------------------------------------------------------------------------------


def test_plan_is_applied_in_its_own_cycle():
    state = state_of(A)
    with pytest.raises(AssertionError, match="in its own cycle"):
        state.apply(Plan(cycle=3))


def test_reserve_charges_and_forgets_the_search():
    one = workload("w", gpus=3)
    state = state_of(A, one)
    state.progress[one.key] = ScanProgress(tried=(), generation=0, kind_key="", cycle=0)
    state.preemptors.add(one.key)
    reserve = Reserve(
        workload=one.key, admission=admission_of(one, "team-a"), is_admitted=True, reason=because(Code.QUOTA_RESERVED)
    )
    state.apply(Plan(cycle=0, decisions=(reserve,)))
    holder = state.holders.get(one.key)
    assert (gpus_used(state), in_line(state)) == (3, set())
    assert (holder.workload.reserved_at, holder.workload.is_admitted) == (NOW, True)
    assert (state.progress, state.preemptors) == ({}, set())


def test_evicted_workload_keeps_its_quota_until_it_has_left():
    state = state_of(A, running("w", gpus=3), workload("new"))
    evict = Evict(workload=key_of("w"), queue="team-a", in_favour_of=key_of("new"), reason=because(Code.RECLAIMED))
    state.apply(Plan(cycle=0, decisions=(evict,)))
    leaving = state.workloads[key_of("w")]
    assert (leaving.is_evicted, leaving.preempted_at, gpus_used(state)) == (True, NOW, 3)
    assert state.preempted_last == {"team-a": NOW}


def test_telling_somebody_to_go_who_holds_nothing_is_a_mistake():
    state = state_of(A, workload("w"))
    evict = Evict(workload=key_of("w"), queue="team-a", in_favour_of="x", reason=because(Code.RECLAIMED))
    with pytest.raises(AssertionError, match="holds nothing"):
        state.apply(Plan(cycle=0, decisions=(evict,)))


@pytest.mark.parametrize(
    ("why", "is_preemptor"),
    [(Return.PENDING_PREEMPTION, True), (Return.PENDING_MIGRATION, True), (Return.FAILED_AFTER_NOMINATION, False)],
)
def test_requeue_remembers_who_waits_for_victims(why, is_preemptor):
    state = state_of(A, workload("w"))
    state.preemptors.add(key_of("w"))
    state.apply(Plan(cycle=0, decisions=(Requeue(workload=key_of("w"), queue="team-a", why=why),)))
    assert (key_of("w") in state.preemptors) is is_preemptor
    assert in_line(state) == {"w"}


def test_requeue_of_one_that_backs_off_parks_it():
    state = state_of(queue("team-a", order=Order.STRICT_FIFO), workload("w", held_until=NOW + 5))
    requeue = Requeue(workload=key_of("w"), queue="team-a", why=Return.FAILED_AFTER_NOMINATION)
    state.apply(Plan(cycle=0, decisions=(requeue,)))
    assert parked(state) == {"w"}


def test_requeue_to_a_queue_that_is_gone_only_remembers_the_search():
    state = state_of(A)
    progress = ScanProgress(tried=(), generation=0, kind_key="", cycle=0)
    requeue = Requeue(workload=key_of("w"), queue="nowhere", why=Return.NO_FIT, progress=progress)
    state.apply(Plan(cycle=0, decisions=(requeue,)))
    assert state.progress == {key_of("w"): progress}


def test_dropped_workload_leaves_no_trace():
    state = state_of(A, running("old", gpus=4), workload("w"))
    run_cycle(state)
    state.preemptors.add(key_of("w"))
    state.drop(key_of("w"))
    assert (state.progress, state.preemptors, in_line(state), parked(state)) == ({}, set(), set(), set())


def test_slices_and_siblings():
    fields = {"variant_of": "uid-train"}
    state = state_of(
        A,
        running("v1", **fields),
        running("v2", is_admitted=False, **fields),
        running("other"),
        settings=Settings(elastic_slices=False),
    )
    asking = workload("v3", replaces=key_of("v1"), **fields)
    assert [holder.workload.key for holder in state.siblings(asking)] == [key_of("v1")]
    assert list(state.siblings(workload("plain"))) == []
    assert state.older_slice(asking) is None, "slices are off"


def test_pods_that_are_awaited():
    state = state_of(A, running("r1", is_ready=False), running("r2"), running("r3", is_ready=False, is_admitted=False))
    assert list(state.waiting_pods()) == [key_of("r1")]


def test_circles_have_no_line():
    state = state_of(cohort("x", parent="x"), queue("team-a", cohort="x"), workload("w"))
    assert state.lines == {}
    assert reserved(run_cycle(state)) == {}


# Turns by past use -----------------------------------------------------------------------------------------------


def turns(*parts, half_life_s=100.0, sampling_s=10.0):
    """Red has used five cards, blue none; grey has no weight."""
    return state_of(
        queue("team-a", gpus=9, is_usage_ordered=True, preemption=preempts(within=LOWER)),
        SubmitQueue(key="default/red", queue="team-a", consumed={GPU: 5.0}, consumed_at=NOW),
        SubmitQueue(key="default/blue", queue="team-a"),
        SubmitQueue(key="default/grey", queue="team-a", weight=0.0),
        *parts,
        settings=Settings(usage_fairness=UsageFairness(half_life_s=half_life_s, sampling_s=sampling_s)),
    )


def test_submit_queues_take_turns_by_what_they_used():
    state = turns(
        workload("r", submit_queue="default/red", priority=9, gpus=2),
        workload("b1", submit_queue="default/blue", gpus=2),
        workload("b2", submit_queue="default/blue", gpus=2),
    )
    order = [name for _ in range(3) for name in reserved(run_cycle(state, after_s=0))]
    assert order == ["b1", "b2", "r"]


def test_penalty_is_forgiven_when_a_workload_does_not_start():
    state = turns(workload("b", submit_queue="default/blue", gpus=2))
    run_cycle(state, after_s=0)
    assert state.history.used_by("default/blue") > 0
    state.take(evicted_from(state.workloads[key_of("b")]))
    assert state.history.used_by("default/blue") == 0
    run_cycle(state, after_s=0)
    state.take(replace(evicted_from(state.workloads[key_of("b")]), submit_queue="default/red"))
    run_cycle(state, after_s=0)
    state.drop(key_of("b"))
    assert state.history.used_by("default/blue") == 0


def test_use_is_sampled_and_fades():
    state = turns(running("b", submit_queue="default/blue", gpus=4))
    for _ in range(3):
        run_cycle(state, after_s=100)
    assert state.history.consumed("default/blue")[GPU] == pytest.approx(3.0, rel=0.4)
    assert state.history.consumed("default/red")[GPU] < 5.0
    assert state.history.consumed("default/unknown") == {}


def test_submit_queue_without_weight_comes_last():
    state = turns(workload("g", submit_queue="default/grey", priority=9), workload("r", submit_queue="default/red"))
    assert reserved(run_cycle(state, after_s=0)) == {"r": "default"}
    assert state.history.used_by("default/grey") == math.inf
    assert state.history.used_by("default/unknown") == 0


def test_penalty_becomes_past_use_when_a_workload_is_seen_admitted():
    state = turns(workload("b", submit_queue="default/blue", gpus=2))
    run_cycle(state, after_s=0)
    penalty = state.history.used_by("default/blue")
    state.take(state.workloads[key_of("b")])
    assert state.history.consumed("default/blue")[GPU] == pytest.approx(penalty)
    state.take(state.workloads[key_of("b")])
    assert state.history.used_by("default/blue") == pytest.approx(penalty), "once"


def test_past_use_is_forgotten_at_once_without_a_half_life():
    state = turns(running("b", submit_queue="default/blue", gpus=4), half_life_s=0)
    run_cycle(state, after_s=1000)
    assert (state.history.used_by("default/red"), state.history.used_by("default/blue")) == (0, 0)


def test_heaviest_user_of_a_queue_is_preempted_first():
    state = turns(
        running("r", submit_queue="default/red", gpus=5, priority=1),
        running("b", submit_queue="default/blue", gpus=4),
        workload("w", submit_queue="default/blue", gpus=4, priority=2),
    )
    assert set(evicted(run_cycle(state, after_s=0))) == {"r"}


# Phases ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "phase"),
    [
        (workload("w"), Phase.PENDING),
        (running("w", is_admitted=False), Phase.RESERVED),
        (running("w"), Phase.ADMITTED),
        (running("w", is_finished=True), Phase.FINISHED),
    ],
)
def test_phase(one, phase):
    assert one.phase is phase
