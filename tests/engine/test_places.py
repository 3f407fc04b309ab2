"""Places in a cycle: where a flavor has a topology quota alone is not enough, and a place may come later than it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.engine.second_pass import SecondPass
from muster.model.flavor import Flavor
from muster.model.plan import Amend, Retry
from muster.model.queue import CheckRule
from muster.model.reason import Code
from muster.model.settings import Settings
from muster.model.topology import HOSTNAME, BoundPod, Node, PlacedPods, TopologyAssignment, TopologyRequest
from muster.model.workload import CheckState
from tests.engine.builders import (
    FLAVOR,
    GPU,
    LOWER,
    evicted,
    key_of,
    parked,
    pod_set,
    preempts,
    queue,
    reserved,
    run_cycle,
    running,
    state_of,
    waits,
    workload,
)

RACK = "example.com/rack"
LEVELS = (RACK, HOSTNAME)
RACKS = Flavor(name=FLAVOR, topology="racks", topology_levels=LEVELS)
IN_ONE_RACK = TopologyRequest(required=RACK)
ROOMY = queue("team-a", gpus=99, preemption=preempts(within=LOWER))


def node(rack, host, gpus=4, **fields):
    labels = {RACK: rack, HOSTNAME: host}
    return Node(name=host, labels=labels, allocatable={GPU: gpus, "pods": 99}, **fields)


def pods(count, gpus=1, request=IN_ONE_RACK):
    return (pod_set(count=count, gpus=gpus, topology=request),)


def near(name, count, gpus=1, **fields):
    """A workload whose pods must be in one rack."""
    return workload(name, pod_sets=pods(count, gpus), **fields)


def placed(name, hosts, count, **fields):
    """A running workload with so many pods on each host."""
    one = running(name, pod_sets=pods(count * len(hosts)), **fields)
    place = TopologyAssignment((HOSTNAME,), tuple(PlacedPods((host,), count) for host in hosts))
    given = replace(one.admission.pod_sets[0], place=place)
    return replace(one, admission=replace(one.admission, pod_sets=(given,)))


def place_of(admission):
    """Pods by host."""
    place = admission.pod_sets[0].place
    return {domain.values[-1]: domain.count for domain in place.domains} if place is not None else None


def places(plan):
    return {one.workload.removeprefix("default/"): place_of(one.admission) for one in plan.reserves}


TWO_RACKS = [RACKS, node("r1", "a"), node("r1", "b"), node("r2", "c")]

# The first pass --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "want", "waits_for"),
    [
        pytest.param([near("w", 3)], {"w": {"c": 3}}, {}, id="the tightest rack"),
        pytest.param([near("w", 6)], {"w": {"a": 4, "b": 2}}, {}, id="the one that has room"),
        pytest.param([near("w", 9)], {}, {"w": Code.TOPOLOGY_PLACEMENT_FAILED}, id="no rack could ever hold it"),
        pytest.param([near("w", 1, gpus=5)], {}, {"w": Code.TOPOLOGY_PLACEMENT_FAILED}, id="nor any host"),
        pytest.param(
            [placed("r", "a", 3), placed("s", "c", 3), near("w", 6)],
            {},
            {"w": Code.WAITING_FOR_QUOTA},
            id="others are there",
        ),
        pytest.param(
            [BoundPod(key="kube-system/agent", node="c", requests={GPU: 2}), near("w", 3)],
            {"w": {"a": 3}},
            {},
            id="pods of nobody's take room too",
        ),
        pytest.param(
            [workload("w", pod_sets=pods(3, request=TopologyRequest(is_unconstrained=True)))],
            {"w": {"a": 3}},
            {},
            id="anywhere",
        ),
    ],
)
def test_place(parts, want, waits_for):
    plan = run_cycle(state_of(ROOMY, *TWO_RACKS, *parts))
    assert places(plan) == want
    assert waits(plan) == waits_for


def test_somebody_leaves_for_a_place_although_there_is_quota():
    state = state_of(ROOMY, *TWO_RACKS, placed("low", "c", 3), placed("also", "a", 2), near("w", 7, priority=1))
    assert evicted(run_cycle(state)) == {"also": Code.PREEMPTED_IN_QUEUE}
    assert places(run_cycle(state)) == {"w": {"a": 4, "b": 3}}


@pytest.mark.parametrize(("recomputes", "second"), [(True, {"w2": {"a": 3}}), (False, {})])
def test_two_that_want_the_same_place(recomputes, second):
    state = state_of(
        queue("team-a", gpus=9),
        queue("team-b", gpus=9),
        *TWO_RACKS,
        near("w1", 3, queue="team-a"),
        near("w2", 3, queue="team-b", queued_at=1),
        settings=Settings(recomputes_places=recomputes),
    )
    plan = run_cycle(state)
    assert places(plan) == {"w1": {"c": 3}, **second}
    assert waits(plan) == ({} if recomputes else {"w2": Code.LOST_TO_ANOTHER})


def test_one_that_waits_for_a_place_holds_it_against_those_behind():
    state = state_of(
        queue("team-a", gpus=9),
        queue("team-b", gpus=9),
        RACKS,
        node("r1", "a"),
        placed("r", "a", 1),
        near("big", 4, queue="team-a", priority=1),
        near("small", 3, queue="team-b"),
    )
    plan = run_cycle(state)
    assert (places(plan), set(waits(plan))) == ({}, {"big", "small"})


# Nodes and pods come and go --------------------------------------------------------------------------------------


def test_new_node_calls_those_back_who_found_no_place():
    state = state_of(ROOMY, RACKS, node("r1", "a"), near("w", 6))
    run_cycle(state)
    assert parked(state) == {"w"}
    state.put_node(node("r1", "b"))
    assert places(run_cycle(state)) == {"w": {"a": 4, "b": 2}}


def test_lost_node_and_foreign_pods_leave_less_room():
    state = state_of(ROOMY, *TWO_RACKS, near("w", 5))
    state.drop_node("b")
    assert places(run_cycle(state)) == {}
    state.put_node(node("r1", "b"))
    state.put_pod(BoundPod(key="kube-system/agent", node="b", requests={GPU: 4}))
    assert places(run_cycle(state)) == {}
    state.drop_pod("kube-system/agent")
    assert places(run_cycle(state)) == {"w": {"a": 4, "b": 1}}


def test_nodes_mean_nothing_where_no_flavor_has_a_topology():
    state = state_of(ROOMY, workload("w"))
    state.put_node(node("r1", "a"))
    state.put_pod(BoundPod(key="kube-system/agent", node="a", requests={GPU: 4}))
    state.drop_pod("kube-system/agent")
    state.drop_node("a")
    assert reserved(run_cycle(state)) == {"w": FLAVOR}


def test_place_is_given_back_with_the_quota():
    state = state_of(ROOMY, RACKS, node("r1", "a"), placed("r", "a", 4), near("w", 4))
    run_cycle(state)
    state.drop(key_of("r"))
    assert places(run_cycle(state)) == {"w": {"a": 4}}


# The second pass -------------------------------------------------------------------------------------------------

LATER = replace(ROOMY, checks=(CheckRule(name="nodes", delays_place=True),))


def test_place_is_decided_when_the_check_that_makes_nodes_is_ready():
    state = state_of(LATER, RACKS, near("w", 3))
    plan = run_cycle(state)
    (reserve,) = plan.reserves
    assert (place_of(reserve.admission), reserve.is_admitted) == (None, False)
    state.put_node(node("r1", "a"))
    waiting = state.workloads[key_of("w")]
    state.take(replace(waiting, checks={"nodes": CheckState.READY}))
    assert run_cycle(state, after_s=0.5).decisions == (), "not at once"
    (amend,) = run_cycle(state, after_s=0.5).decisions
    assert isinstance(amend, Amend)
    assert (place_of(amend.admission), amend.is_admitted) == ({"a": 3}, True)
    assert run_cycle(state, after_s=60).decisions == ()


def test_place_is_looked_for_again_and_again_with_growing_delays():
    state = state_of(LATER, RACKS, near("w", 3))
    run_cycle(state)
    state.take(replace(state.workloads[key_of("w")], checks={"nodes": CheckState.READY}))
    tries = [bool(run_cycle(state, after_s=1).decisions) for _ in range(8)]
    assert tries == [True, False, True, False, False, False, True, False]
    state.put_node(node("r1", "a"))
    assert [type(one) for one in run_cycle(state, after_s=30).decisions] == [Amend]


@pytest.mark.parametrize(
    ("nodes", "is_fast", "want"),
    [
        pytest.param([node("r1", "d")], True, "moves", id="another host of the rack"),
        pytest.param([node("r2", "c")], True, "leaves", id="only another rack"),
        pytest.param([node("r2", "c")], False, "retries", id="and somebody may mend the node"),
    ],
)
def test_node_that_failed_is_replaced(nodes, is_fast, want):
    state = state_of(
        ROOMY,
        RACKS,
        node("r1", "a", is_ready=False),
        node("r1", "b"),
        *nodes,
        placed("w", "ab", 3, unhealthy_nodes=("a",)),
        settings=Settings(replaces_nodes_fast=is_fast),
    )
    plan = run_cycle(state, after_s=1)
    if want == "moves":
        (amend,) = plan.decisions
        assert (place_of(amend.admission), amend.replaced_node) == ({"b": 3, "d": 3}, "a")
        assert state.workloads[key_of("w")].unhealthy_nodes == ()
    elif want == "leaves":
        assert evicted(plan) == {"w": Code.NODE_FAILURES}
    else:
        assert [type(one) for one in plan.decisions] == [Retry]


def test_second_pass_forgets_those_who_need_no_place():
    waiting = SecondPass()
    failed = placed("w", "a", 1, unhealthy_nodes=("a",))
    waiting.note(failed, 0.0)
    assert (waiting.ready(0.5), waiting.ready(1.0)) == ([], [key_of("w")])
    waiting.note(failed, 5.0)
    assert waiting.ready(1.0) == [key_of("w")], "the first time counts"
    waiting.note(replace(failed, unhealthy_nodes=()), 5.0)
    waiting.retry(key_of("w"), 5.0)
    waiting.forget(key_of("w"))
    assert waiting.ready(99.0) == []


def test_delay_has_a_bound():
    waiting = SecondPass()
    waiting.note(placed("w", "a", 1, unhealthy_nodes=("a",)), 0.0)
    for _ in range(20):
        waiting.retry(key_of("w"), 100.0)
    assert waiting.ready(130.0) == [key_of("w")]


def test_pod_that_stands_for_itself_cannot_move():
    state = state_of(ROOMY, *TWO_RACKS, placed("w", "a", 1, unhealthy_nodes=("a",), is_pod=True))
    assert run_cycle(state, after_s=60).decisions == ()
