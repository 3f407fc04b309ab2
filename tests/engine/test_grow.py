"""Growing and shrinking: elastic workloads get more pods while they run, and lose those above their minimum."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.controllers.deciding import run_cycles as run_to_the_end
from muster.engine.invariants import differences, violations
from muster.engine.stages.grow import without_slots
from muster.model.plan import Amend, Shrink
from muster.model.pod_rules import NodeRules, PodRules
from muster.model.queue import CheckRule
from muster.model.reason import Code
from muster.model.topology import TopologyRequest
from muster.model.workload import CheckState, PodSetAdmission
from tests.engine.builders import (
    CPU,
    GPU,
    LOWER,
    counts,
    evicted,
    key_of,
    pod_set,
    preempts,
    queue,
    run_cycle,
    run_cycles,
    usage_of,
    waits,
    workload,
)
from tests.engine.slot_builders import (
    PLAIN,
    RACK,
    amended,
    free_cards,
    held,
    machine,
    on,
    placing_state,
    plain_queue,
    shrunk,
    started,
    where,
)
from tests.stopwatch import is_done_within

HOME = queue("team-a", gpus=99, preemption=preempts(within=LOWER))
ON_RED = PodRules(nodes=NodeRules(selector=(("pool", "red"),)))


def elastic(name, pods, least, **fields):
    return workload(name, pods=pods, least=least, is_elastic=True, **fields)


def left(state, name):
    """The pods that were told to leave a workload have left."""
    one = state.workloads[key_of(name)]
    given = tuple(without_slots(pods, one.leaving_slots.get(pods.name, ())) for pods in one.admission.pod_sets)
    state.take(replace(one, admission=replace(one.admission, pod_sets=given), leaving_slots={}))


# Growing -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "want"),
    [
        pytest.param(elastic("w", 6, 2), 2, id="as many as fit"),
        pytest.param(elastic("w", 6, 3), None, id="not below its minimum"),
        pytest.param(elastic("w", 6, 1, pods_least=3), None, id="nor below that of all together"),
        pytest.param(elastic("w", 2, 1), 2, id="no more than it wants"),
    ],
)
def test_start(one, want):
    state = placing_state(HOME, machine("a", 2), one)
    assert counts(run_cycle(state)) == ({"w": (want,)} if want else {})


def test_grows_as_room_comes():
    state = placing_state(HOME, machine("a", 2), elastic("w", 6, 2))
    run_cycle(state)
    for name, want in (("b", {"a": 2, "b": 3}), ("c", {"a": 2, "b": 3, "c": 1})):
        state.put_node(machine(name, 3))
        assert amended(run_cycle(state)) == {"w": want}
        assert not list(violations(state))
    assert amended(run_cycle(state)) == {}
    assert usage_of(state)["team-a"] == {("default", GPU): 6}


def test_grows_when_another_tree_gives_a_node_back():
    others = [plain_queue(), held(workload("other", queue=PLAIN, gpus=2), [on("a", 2, 3)])]
    state = placing_state(HOME, machine("a", 4), *others, elastic("w", 4, 2))
    run_cycle(state)
    assert where(state, "w") == {"a": 2}
    state.drop(key_of("other"))
    assert amended(run_cycle(state)) == {"w": {"a": 4}}


def test_grows_only_within_quota_and_borrows_nothing_that_is_taken():
    state = placing_state(queue("team-a", gpus=3), machine("a", 8), elastic("w", 6, 2))
    assert counts(run_cycle(state)) == {"w": (3,)}
    assert amended(run_cycle(state)) == {}


def test_one_that_is_not_elastic_stays_as_it_started():
    state = placing_state(HOME, machine("a", 2), workload("w", pods=4, least=2))
    run_cycle(state)
    state.put_node(machine("b", 8))
    assert amended(run_cycle(state)) == {}


def test_one_that_waits_for_a_check_grows_once_it_is_admitted():
    home = replace(HOME, checks=(CheckRule(name="budget"),))
    state = placing_state(home, machine("a", 2), elastic("w", 4, 2))
    run_cycle(state)
    state.put_node(machine("b", 2))
    assert amended(run_cycle(state)) == {}
    one = state.workloads[key_of("w")]
    state.take(replace(one, checks={"budget": CheckState.READY}, is_admitted=True))
    assert amended(run_cycle(state)) == {"w": {"a": 2, "b": 2}}


def test_starting_goes_before_growing():
    state = placing_state(HOME, machine("a", 2), elastic("w", 4, 2), workload("v", pods=2, queued_at=1))
    run_cycle(state)
    state.put_node(machine("b", 3))
    plan = run_cycle(state)
    assert (started(plan), amended(plan)) == ({"v": {"b": 2}}, {})
    assert amended(run_cycle(state)) == {"w": {"a": 2, "b": 1}}


def test_those_behind_a_head_start_before_anybody_grows():
    """The first in line is too big and holds nothing back: the second gets the card, not one that runs already."""
    line = [workload("big", gpus=9, priority=5), workload("small", priority=1, gpus=1), workload("last", gpus=2)]
    state = placing_state(HOME, machine("a", 2), elastic("w", 9, 2, priority=9), *line)
    run_cycle(state)
    assert where(state, "w") == {"a": 2}
    state.put_node(machine("b", 1))
    run_cycles(state, 5)
    assert (where(state, "small"), where(state, "w")) == ({"b": 1}, {"a": 2})
    state.put_node(machine("c", 1))
    assert [amended(plan) for plan in run_cycles(state, 4)].count({"w": {"a": 2, "c": 1}}) == 1


@pytest.mark.parametrize(
    ("one", "want"),
    [
        pytest.param(workload("big", gpus=1, pods=4, priority=5), {"a": 2}, id="what it needs more of is left to it"),
        pytest.param(
            workload("big", gpus=1, pods=4, queued_at=-1), {"a": 2}, id="the one that waits longer goes first"
        ),
        pytest.param(workload("big", gpus=1, pods=4, queued_at=9), {"a": 2, "b": 3}, id="one behind it has to wait"),
        pytest.param(workload("big", gpus=4, priority=5), {"a": 2, "b": 3}, id="no pod of it could use a part"),
        pytest.param(
            workload("big", pods=99, priority=5), {"a": 2, "b": 3}, id="one that could never run holds nothing"
        ),
        pytest.param(
            workload("big", pod_sets=(pod_set(count=4, rules=ON_RED),), priority=5),
            {"a": 2, "b": 3},
            id="nodes that it may not use are free to others",
        ),
    ],
)
def test_growth_leaves_room_to_those_that_wait_before_it(one, want):
    """Three cards are free, and one that waits for four."""
    low = held(workload("low", gpus=4, priority=9), [on("c", 0, 1, 2, 3)])
    nodes = [machine("a", 2), machine("b", 3), machine("c", 4, labels={"pool": "red"})]
    state = placing_state(
        queue("team-a", gpus=999), *nodes, low, held(elastic("w", 6, 2), [on("a", 0), on("a", 1)]), one
    )
    run_cycles(state, 4)
    assert where(state, "w") == want
    assert not list(violations(state))


@pytest.mark.parametrize(("priority", "want"), [(5, 2), (-5, 5)], ids=["it goes first", "it is behind"])
def test_growth_leaves_quota_to_those_that_wait_before_it(priority, want):
    """Nodes have room for both; of the quota of the cohort three cards are left, and one waits for its own four."""
    homes = [queue("team-a", gpus=1, cohort="all"), queue("team-b", gpus=4, cohort="all")]
    big = workload("big", queue="team-b", pods=4, priority=priority)
    runs = held(elastic("w", 9, 2), [on("a", 0), on("a", 1)])
    state = placing_state(*homes, machine("a", 99), runs, big)
    run_cycles(state, 4)
    assert sum(where(state, "w").values()) == want
    assert not list(violations(state))


def test_growth_does_not_look_at_all_who_wait():
    """However many wait before it, room is held for a few of them, and growing takes no time to speak of."""
    many = [workload(f"v{n}", pods=4 + n, priority=5, queued_at=n) for n in range(300)]
    runs = held(elastic("w", 9, 2), [on("a", 0), on("a", 1)])
    state = placing_state(queue("team-a", gpus=9999), machine("a", 5), machine("b", 999, amounts={CPU: 0}), runs, *many)
    run_cycles(state, 310)
    state.drop_node("b")
    state.put_node(machine("c", 1))
    assert is_done_within(3.0, lambda: run_cycles(state, 310))
    assert where(state, "w") == {"a": 2}


def test_the_most_important_grows_first():
    low, high = held(elastic("low", 4, 1), [on("a", 0)]), held(elastic("high", 3, 1, priority=5), [on("a", 1)])
    state = placing_state(HOME, machine("a", 2), machine("b", 2), low, high)
    assert amended(run_cycle(state)) == {"high": {"a": 1, "b": 2}}


def test_grows_where_it_must_be():
    request = TopologyRequest(required=RACK)
    pods = pod_set(count=4, least=2, topology=request)
    one = workload("w", pod_sets=(pods,), is_elastic=True, queue=PLAIN)
    state = placing_state(plain_queue(), machine("a", 2, rack="1"), one)
    run_cycle(state)
    state.put_node(machine("b", 9, rack="2"))
    assert amended(run_cycle(state)) == {}
    state.put_node(machine("c", 1, rack="1"))
    assert amended(run_cycle(state)) == {"w": {"a": 2, "c": 1}}


def test_one_that_leaves_does_not_grow():
    low = elastic("w", 4, 2)
    state = placing_state(HOME, machine("a", 2), low)
    run_cycle(state)
    state.take(workload("big", gpus=2, priority=9))
    assert evicted(run_cycle(state, victims_leave=False)) == {"w": Code.PREEMPTED_IN_QUEUE}
    state.put_node(machine("b", 1))
    assert amended(run_cycle(state, victims_leave=False)) == {}


def test_nobody_grows_in_the_cycle_in_which_he_is_told_to_go():
    state = placing_state(HOME, machine("a", 2), elastic("w", 4, 2))
    run_cycle(state)
    state.put_node(machine("b", 1))
    state.take(workload("big", gpus=2, priority=9))
    plan = run_cycle(state, victims_leave=False)
    assert (evicted(plan), amended(plan)) == ({"w": Code.PREEMPTED_IN_QUEUE}, {})


# Shrinking -----------------------------------------------------------------------------------------------------------


def running_with(pods, least, **fields):
    one = elastic("w", pods, least, **fields)
    return held(one, [on("a", card) for card in range(pods)])


@pytest.mark.parametrize(
    ("least", "asked", "shrinks", "evicts"),
    [
        pytest.param(1, 2, {"w": {"a": 2}}, {}, id="pods above the minimum go"),
        pytest.param(2, 2, {"w": {"a": 2}}, {}, id="down to the minimum"),
        pytest.param(3, 2, {}, {"w": Code.PREEMPTED_IN_QUEUE}, id="below it all go"),
        pytest.param(1, 1, {"w": {"a": 1}}, {}, id="no more than needed"),
    ],
)
def test_pods_above_the_minimum_leave_for_others(least, asked, shrinks, evicts):
    state = placing_state(HOME, machine("a", 4), running_with(4, least), workload("v", gpus=asked, priority=5))
    plan = run_cycle(state, victims_leave=False)
    assert (shrunk(plan), evicted(plan)) == (shrinks, evicts)
    assert not list(violations(state))


def test_minimum_of_all_together_is_kept_too():
    state = placing_state(HOME, machine("a", 4), running_with(4, 0, pods_least=3), workload("v", gpus=2, priority=5))
    plan = run_cycle(state, victims_leave=False)
    assert (shrunk(plan), evicted(plan)) == ({}, {"w": Code.PREEMPTED_IN_QUEUE})


def test_life_of_a_shrinking_workload():
    """Its pods are told once; the place is kept for who asked; it runs on, and grows again when there is room."""
    state = placing_state(HOME, machine("a", 4), running_with(4, 1), workload("v", gpus=2, priority=5))
    plan = run_cycle(state, victims_leave=False)
    assert waits(plan) == {"v": Code.WAITING_FOR_PREEMPTED_WORKLOADS}
    state.take(workload("small", queued_at=7))
    again = run_cycle(state, victims_leave=False)
    assert (shrunk(again), started(again), amended(again)) == ({}, {}, {})
    left(state, "w")
    assert usage_of(state)["team-a"] == {("default", GPU): 2}
    assert started(run_cycle(state)) == {"v": {"a": 1}}
    assert (where(state, "w"), free_cards(state, "a")) == ({"a": 2}, 0)
    state.drop(key_of("v"))
    assert started(run_cycle(state)) == {"small": {"a": 1}}
    assert amended(run_cycle(state)) == {"w": {"a": 3}}
    assert not list(violations(state))


def test_pods_that_leave_already_are_nothing_to_spare():
    """Four pods, two of them needed: two were told to go for one, so that another one gets none of the rest."""
    one = elastic("w", 4, 2)
    runs = held(one, [on("a", 0), on("a", 1), on("b", 0), on("b", 1)])
    home = replace(HOME, preemption=preempts(within=LOWER))
    state = placing_state(
        home,
        queue("team-b", cohort=None, gpus=9),
        machine("a", 2),
        machine("b", 2),
        runs,
        workload("v", gpus=2, priority=5),
    )
    first = run_cycle(state, victims_leave=False)
    assert sum(shrunk(first)["w"].values()) == 2
    state.take(workload("u", gpus=2, priority=6))
    for _ in range(3):
        run_cycle(state, victims_leave=False)
        assert not list(violations(state))
    one = state.workloads[key_of("w")]
    told = sum(len(slots) for slots in one.leaving_slots.values())
    assert one.is_evicted or told == 2


def test_equal_slots_are_told_one_by_one():
    """Pods without cards have equal slots on a node; each that has to go is told, and no other counts as told."""
    pods = pod_set(count=3, least=1, requests={CPU: 1})
    one = workload("w", pod_sets=(pods,), queue=PLAIN, is_elastic=True)
    runs = held(one, [on("a")] * 3)
    big = workload("v", pod_sets=(pod_set(requests={CPU: 1}),), queue=PLAIN, priority=5)
    state = placing_state(plain_queue(), machine("a", 0, cpu=3), runs, big)
    assert shrunk(run_cycle(state, victims_leave=False)) == {"w": {"a": 1}}
    state.take(replace(big, key=key_of("v"), pod_sets=(pod_set(requests={CPU: 2}),)))
    plan = run_cycle(state, victims_leave=False)
    assert shrunk(plan) == {"w": {"a": 2}}, "the one that was told before does not stand for both"
    assert sum(isinstance(one, Shrink) for one in plan.decisions) == 1


def test_same_after_a_restart():
    state = placing_state(HOME, machine("a", 4), running_with(4, 1), workload("v", gpus=2, priority=5))
    run_cycle(state, victims_leave=False)
    left(state, "w")
    run_cycle(state)
    assert not list(differences(state, placing_state(HOME, machine("a", 4), *state.workloads.values())))


def test_slots_are_given_back_one_by_one():
    given = PodSetAdmission(name="x", count=3, flavors={}, usage={CPU: 6}, slots=(on("a"), on("a"), on("b")))
    assert without_slots(given, (on("a"),)) == replace(given, count=2, usage={CPU: 4}, slots=(on("a"), on("b")))
    assert without_slots(given, ()) == given


def test_whoever_runs_cycles_until_nothing_changes_lets_them_grow():
    """Growing comes a cycle after the last one was tried; nobody has to wait for something else to happen first."""
    state = placing_state(HOME, machine("a", 2), elastic("w", 4, 2), workload("v", gpus=9, priority=-1))
    assert set(run_to_the_end(state, state.now).decisions) == {key_of("w")}
    state.put_node(machine("b", 1))
    (amend,) = run_to_the_end(state, state.now).decisions[key_of("w")]
    assert isinstance(amend, Amend)
    assert where(state, "w") == {"a": 2, "b": 1}
    assert run_to_the_end(state, state.now).cycles == 1
