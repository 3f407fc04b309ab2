"""Building what decides on nodes: readers, policies, levels and kinds of cards, and the queue of those without one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from muster.app.config import Configuration
from muster.app.intake import NO_QUEUE
from muster.app.placement import CARDS_MOST, node_slots, placement_reader, with_plain_queue
from muster.engine.invariants import violations
from muster.engine.profile import DEFAULT, POD_BY_POD
from muster.engine.state import EngineState
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.flavor import Flavor
from muster.model.reason import Code
from muster.model.topology import HOSTNAME, BoundPod, TopologyRequest, read_node
from tests.engine.builders import (
    GPU,
    evicted,
    key_of,
    pod_set,
    queue,
    run_cycle,
    run_cycles,
    snapshot_of,
    waits,
    workload,
)
from tests.engine.slot_builders import LEVELS, RACK, machine, sharing, slice_of, sliced, started, where

REGISTER = "hami.io/node-nvidia-register"


def state_of_placement(*parts: Any, profile: Any = DEFAULT, without_queue: tuple[str, ...] = ()) -> EngineState:
    """A state built as `muster plan` builds it."""
    snapshot = with_plain_queue(snapshot_of(*parts), profile, without_queue)
    snapshot = replace(snapshot, settings=replace(snapshot.settings, needs_slots=True))
    return EngineState(snapshot, node_slots(snapshot, replace(Configuration(), profile=profile)))


# Those without a queue -----------------------------------------------------------------------------------------------


def test_workload_without_a_queue_needs_nodes_only():
    alone = workload("w", pods=3, queue="")
    state = state_of_placement(machine("a", 2), alone, without_queue=(alone.key,))
    plan = run_cycle(state)
    assert waits(plan) == {"w": Code.WAITING_FOR_NODES}
    state.put_node(machine("b", 2))
    plan = run_cycle(state)
    assert sum(started(plan)["w"].values()) == 3
    assert plan.reserves[0].reason.code is Code.PLACED
    assert not list(violations(state))


def test_those_without_a_queue_go_by_priority():
    low, high = (workload(name, queue="", priority=rank) for name, rank in (("low", 0), ("high", 5)))
    state = state_of_placement(machine("a", 1), low, without_queue=(low.key, high.key))
    assert started(run_cycle(state)) == {"low": {"a": 1}}
    state.take(replace(high, queue=NO_QUEUE))
    assert evicted(run_cycle(state)) == {"low": Code.PREEMPTED_IN_QUEUE}
    assert started(run_cycle(state)) == {"high": {"a": 1}}


def test_those_with_a_queue_keep_it():
    state = state_of_placement(queue("team-a", gpus=1), machine("a", 2), workload("w"), workload("v", queued_at=1))
    run_cycles(state, 2)
    assert (where(state, "w"), where(state, "v")) == ({"a": 1}, {}), "quota counts although nodes have room"


def test_pod_by_pod_gangs_are_torn_apart():
    """What the profile of a plain scheduler does to two gangs: each gets a part, and neither can run."""
    gangs = [workload("v", pods=3, pods_least=3, is_elastic=True), workload("w", pods=3, queued_at=1)]
    state = state_of_placement(machine("a", 2), machine("b", 2), *gangs, profile=POD_BY_POD)
    plans = run_cycles(state, 7)
    assert sum(len(plan.reserves) for plan in plans) == 4
    assert {key.rpartition("-")[0] for key in state.workloads} == {key_of("v"), key_of("w")}
    assert not list(violations(state))


# What is known of nodes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flavors", "labels", "want"),
    [
        pytest.param([], {}, (HOSTNAME,), id="host names alone"),
        pytest.param([], {"topology.kubernetes.io/zone": "x"}, ("topology.kubernetes.io/zone", HOSTNAME), id="zones"),
        pytest.param([Flavor(name="x", topology="t", topology_levels=LEVELS)], {}, LEVELS, id="a topology says so"),
    ],
)
def test_levels(flavors, labels, want):
    snapshot = snapshot_of(machine("a", labels=labels), machine("b", labels=labels), *flavors)
    assert node_slots(snapshot, Configuration()).domains.levels == want


def test_required_rack_without_any_topology_object():
    pods = pod_set(count=2, topology=TopologyRequest(required="topology.kubernetes.io/rack"))
    nodes = [
        machine(name, 1, labels={"topology.kubernetes.io/rack": rack}) for name, rack in zip("abc", "122", strict=True)
    ]
    one = workload("w", pod_sets=(pods,), queue="")
    state = state_of_placement(*nodes, one, without_queue=(one.key,))
    assert started(run_cycle(state)) == {"w": {"b": 1, "c": 1}}
    assert RACK not in nodes[0].labels


def test_slices_fill_cards_in_use_first():
    pods = [
        workload(f"s{n}", pod_sets=(sliced(of=slice_of(memory_mib=4000)),), queue="", queued_at=n) for n in range(4)
    ]
    state = state_of_placement(sharing("a", 2), *pods, without_queue=tuple(one.key for one in pods))
    run_cycles(state, 5)
    cards = {share.uuid for one in state.holders.all() for share in shares_of(one.workload)}
    assert len(cards) == 1


def shares_of(one):
    return [share for given in one.admission.pod_sets for slot in given.slots for share in slot.slices.shares]


# Reading -------------------------------------------------------------------------------------------------------------


def a_node(cards: int = 0, **amounts: str) -> Fields:
    items = [
        {"id": f"c{n}", "index": n, "count": 4, "devmem": 1000, "devcore": 100, "type": "NVIDIA", "health": True}
        for n in range(cards)
    ]
    return Fields(
        {
            "kind": "Node",
            "metadata": {"name": "a", "annotations": {REGISTER: json.dumps(items)} if cards else {}},
            "status": {"allocatable": {"cpu": "4", **amounts}, "conditions": [{"type": "Ready", "status": "True"}]},
        }
    )


def test_cards_of_a_node():
    fields = a_node(cards=2)
    assert [one.uuid for one in placement_reader().node(read_node(fields), fields).devices] == ["c0", "c1"]


@pytest.mark.parametrize(
    "fields", [a_node(**{GPU: "5000"}), a_node(cards=CARDS_MOST + 1)], ids=["counted", "registered"]
)
def test_node_with_more_cards_than_any_machine_is_refused(fields):
    with pytest.raises(InvalidObject):
        placement_reader().node(read_node(fields), fields)


@pytest.mark.parametrize(
    ("claim", "memory_mib"),
    [("c0,NVIDIA,300,0:;", 300), ("c0,NVIDIA,99999,0:;", 1000), ("elsewhere,NVIDIA,300,0:;", 0)],
    ids=["as it says", "no more than there is", "of another node"],
)
def test_foreign_pod_holds_what_it_claims_and_no_more(claim, memory_mib):
    fields, reader = a_node(cards=1), placement_reader()
    node = reader.node(read_node(fields), fields)
    pod = Fields(
        {
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "other", "annotations": {"hami.io/vgpu-devices-allocated": claim}},
            "spec": {"nodeName": "a", "containers": [{"resources": {"limits": {}}}]},
            "status": {"phase": "Running"},
        }
    )
    read = reader.bound_pod(BoundPod(key="other/p", node="a", requests={}), pod, node)
    held = sum(share.memory_mib for share in read.slices.shares) if read.slices is not None else 0
    assert held == memory_mib
    state = state_of_placement(node, read)
    assert not list(violations(state))
