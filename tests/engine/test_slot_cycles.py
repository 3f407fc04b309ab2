"""Cycles that decide on nodes: all or nothing, minimums, flavors and racks, lost nodes, and verdicts for the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.engine.decide import decide
from muster.engine.invariants import node_facts, unsafe_places, violations
from muster.model.flavor import Flavor
from muster.model.plan import Amend, Retry
from muster.model.pod_rules import NodeRules, PodRules
from muster.model.podspec import PodShape
from muster.model.queue import CheckRule
from muster.model.reason import Code
from muster.model.settings import Settings
from muster.model.topology import HOSTNAME, TopologyRequest
from muster.model.workload import CheckState
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
    remembered,
    reserved,
    run_cycle,
    run_cycles,
    waits,
    workload,
)
from tests.engine.slot_builders import (
    LEVELS,
    PLAIN,
    RACK,
    SIZE_MIB,
    amended,
    free_cards,
    gone,
    held,
    machine,
    on,
    placing_state,
    plain_queue,
    sharing,
    slice_of,
    sliced,
    slots_of,
    started,
    where,
)

HOME = queue("team-a", gpus=99)
IN_ONE_RACK = TopologyRequest(required=RACK)
TWO_RACKS = [machine("a", 2, rack="1"), machine("b", 2, rack="1"), machine("c", 3, rack="2")]
RACKS = Flavor(name="default", topology="racks", topology_levels=LEVELS)


def pool(name, node, gpus, **fields):
    return machine(node, gpus, labels={"pool": name}, **fields)


def pools(*names):
    return [Flavor(name=name, labels={"pool": name}) for name in names]


# All or nothing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "want", "code"),
    [
        pytest.param(workload("w", pods=4), {"a": 2, "b": 2}, None, id="just fits"),
        pytest.param(workload("w", pods=5), None, Code.WAITING_FOR_NODES, id="one too many"),
        pytest.param(workload("w", gpus=3), None, Code.WAITING_FOR_NODES, id="no node is so big"),
        pytest.param(workload("w", pods=0), {}, None, id="no pods need no node"),
        pytest.param(
            workload("w", pod_sets=(pod_set("x", count=3), pod_set("y", count=2))),
            None,
            Code.WAITING_FOR_NODES,
            id="pod sets start together",
        ),
        pytest.param(
            workload("w", pod_sets=(pod_set("x", count=0), pod_set("y", count=2))),
            {"a": 2},
            None,
            id="one set is empty",
        ),
        pytest.param(workload("w", pods=9, least=3), {"a": 2, "b": 2}, None, id="as many as fit above the minimum"),
        pytest.param(workload("w", pods=9, least=5), None, Code.WAITING_FOR_NODES, id="not below the minimum"),
        pytest.param(
            workload("w", pod_sets=(pod_set("x", count=4, least=1), pod_set("y", gpus=2)), pods_least=3),
            {"a": 2, "b": 1},
            None,
            id="a minimum of each and of all",
        ),
    ],
)
@pytest.mark.parametrize("policy", ["fgd", "binpack"])
def test_start(one, want, code, policy):
    state = placing_state(HOME, machine("a", 2), machine("b", 2), one, policy=policy)
    before = node_facts(slots_of(state))
    plan = run_cycle(state)
    if want is None:
        assert (started(plan), waits(plan)) == ({}, {"w": code})
        assert node_facts(slots_of(state)) == before, "a refusal leaves no trace"
    else:
        assert sum(started(plan)["w"].values()) == sum(want.values())
    assert not list(violations(state))


def test_two_gangs_do_not_block_each_other():
    """Ten cards, a gang of eight and one of five: one runs, the other waits whole, and runs after it."""
    gangs = [workload("eight", pods=8), workload("five", pods=5, queued_at=1)]
    state = placing_state(HOME, *(machine(name, 2) for name in "abcde"), *gangs)
    assert set(started(run_cycle(state))) == {"eight"}
    assert waits(run_cycle(state)) == {"five": Code.WAITING_FOR_NODES}
    state.drop(key_of("eight"))
    assert set(started(run_cycle(state))) == {"five"}


def test_nothing_is_sold_twice_in_one_cycle():
    """Two queues have quota for the same last cards: the second one is tried on what the first one left."""
    homes = [HOME, queue("team-b", gpus=99)]
    state = placing_state(*homes, machine("a", 3), workload("v", pods=2), workload("w", pods=2, queue="team-b"))
    plan = run_cycle(state)
    assert len(started(plan)) == 1
    assert set(waits(plan).values()) <= {Code.LOST_TO_ANOTHER, Code.WAITING_FOR_NODES}
    assert not list(violations(state))


def test_slices_and_whole_cards_keep_out_of_each_others_way():
    small = [workload(f"s{n}", pod_sets=(sliced(of=slice_of(memory_mib=8000)),), queued_at=n) for n in range(5)]
    state = placing_state(HOME, sharing("a", 2), workload("w", queued_at=9), *small)
    run_cycles(state, 8)
    cards = node_facts(slots_of(state))["a"].by_card
    assert sorted(use.memory_mib for use in cards.values()) == [16_000, 16_000]
    assert where(state, "w") == {}, "four halves fill both cards"
    for name in ("s0", "s1", "s2", "s3"):
        state.drop(key_of(name))
    run_cycles(state, 4)
    assert (where(state, "w"), where(state, "s4")) == ({"a": 1}, {"a": 1})


def test_deciding_leaves_no_trace_and_is_repeatable():
    gangs = [workload(f"w{n}", pods=n + 1, priority=n, queue="team-b" if n % 2 else "team-a") for n in range(4)]
    state = placing_state(HOME, queue("team-b", gpus=9), machine("a", 3), sharing("b", 2), *gangs)
    state.begin_cycle(state.now + 1)
    before = (remembered(state), node_facts(slots_of(state)), slots_of(state).placer.table.free.tobytes())
    plan = decide(state)
    assert decide(state) == plan
    assert before == (remembered(state), node_facts(slots_of(state)), slots_of(state).placer.table.free.tobytes())
    assert not list(unsafe_places(state, plan))


def test_unsafe_places_are_seen():
    state = placing_state(HOME, machine("a", 2), workload("w", pods=2))
    state.begin_cycle(state.now + 1)
    plan = decide(state)
    state.put_node(machine("a", 2, pods=1))
    assert list(unsafe_places(state, plan)) == ["default/w is put on a, which has no room for it"]
    state.drop_node("a")
    assert list(unsafe_places(state, plan)) == ["default/w is put on a, which has no room for it"]


# Given back, once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["finished", "dropped", "evicted", "finished and dropped", "evicted and dropped"])
def test_what_was_held_is_given_back_once(how):
    state = placing_state(HOME, machine("a", 2), sharing("b", 1), workload("w", pods=3))
    run_cycle(state)
    one = state.workloads[key_of("w")]
    if "finished" in how:
        state.take(replace(one, is_finished=True))
        state.take(replace(one, is_finished=True))
    if "evicted" in how:
        state.take(replace(one, is_evicted=True))
        assert (free_cards(state, "a"), free_cards(state, "b")) == (0, 0), "until its pods are gone"
        state.take(gone(one))
    if "dropped" in how:
        state.drop(one.key)
        state.drop(one.key)
    assert (free_cards(state, "a"), free_cards(state, "b")) == (2, 1)
    assert not any(facts.taken for facts in node_facts(slots_of(state)).values())


# Flavors -------------------------------------------------------------------------------------------------------------


def test_flavor_whose_nodes_are_full_is_passed_over():
    home = queue("team-a", flavors={"red": 9, "green": 9})
    nodes = [pool("red", "a", 1), pool("green", "b", 4)]
    state = placing_state(home, *pools("red", "green"), *nodes, workload("w", pods=2), workload("v", queued_at=1))
    plan = run_cycle(state)
    assert (reserved(plan), started(plan)) == ({"w": "green"}, {"w": {"b": 2}})
    assert reserved(run_cycle(state)) == {"v": "red"}


def test_nodes_of_another_flavor_are_not_taken():
    home = queue("team-a", flavors={"red": 9})
    state = placing_state(home, *pools("red"), pool("green", "b", 4), workload("w"))
    assert waits(run_cycle(state)) == {"w": Code.WAITING_FOR_NODES}


def test_quota_and_nodes_are_needed_both():
    home = queue("team-a", flavors={"red": 1, "green": 9})
    nodes = [pool("red", "a", 9), pool("green", "b", 1)]
    state = placing_state(home, *pools("red", "green"), *nodes, workload("w", pods=2))
    (code,) = waits(run_cycle(state)).values()
    assert code in (Code.WAITING_FOR_NODES, Code.EXCEEDS_MAX_QUOTA, Code.WAITING_FOR_QUOTA)
    assert where(state, "w") == {}


def test_pod_sets_may_be_in_different_flavors():
    """The leader must be among the red nodes, where there is no room for the workers."""
    home = queue("team-a", flavors={"red": 9, "green": 9})
    nodes = [pool("red", "a", 1), pool("green", "b", 4)]
    shape, rules = PodShape(node_selector={"pool": "red"}), PodRules(nodes=NodeRules(selector=(("pool", "red"),)))
    sets = (pod_set("leader", shape=shape, rules=rules), pod_set("workers", count=4))
    state = placing_state(home, *pools("red", "green"), *nodes, workload("w", pod_sets=sets))
    run_cycles(state, 3)
    assert where(state, "w") == {"a": 1, "b": 4}


def test_victims_leave_the_flavor_that_could_ever_do():
    """The nodes of the first flavor are too small for good; those of the second are only full."""
    home = queue("team-a", flavors={"red": 9, "green": 9}, preemption=preempts(within=LOWER))
    nodes = [pool("red", "a", 1), pool("green", "b", 2)]
    low = held(workload("low", gpus=2), [on("b", 0, 1)], flavor="green")
    state = placing_state(home, *pools("red", "green"), *nodes, low, workload("w", gpus=2, priority=5))
    assert evicted(run_cycle(state)) == {"low": Code.PREEMPTED_IN_QUEUE}
    assert started(run_cycle(state)) == {"w": {"b": 1}}


# Racks ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "count", "want"),
    [
        pytest.param(IN_ONE_RACK, 3, [{"c": 3}, {"a": 2, "b": 1}, {"a": 1, "b": 2}], id="in one rack"),
        pytest.param(IN_ONE_RACK, 4, [{"a": 2, "b": 2}], id="in the one that is big enough"),
        pytest.param(IN_ONE_RACK, 5, [None], id="no rack is so big"),
        pytest.param(TopologyRequest(required=HOSTNAME), 3, [{"c": 3}], id="on one node"),
        pytest.param(
            TopologyRequest(preferred=RACK),
            5,
            [
                {"a": 2, "c": 3},
                {"b": 2, "c": 3},
                {"a": 2, "b": 1, "c": 2},
                {"a": 1, "b": 1, "c": 3},
                {"a": 1, "b": 2, "c": 2},
                {"a": 2, "b": 2, "c": 1},
            ],
            id="where it likes",
        ),
        pytest.param(TopologyRequest(required="example.com/unknown"), 1, [None], id="a level that nobody knows"),
    ],
)
def test_racks_by_labels(request_, count, want):
    pods = pod_set(count=count, topology=request_)
    state = placing_state(plain_queue(), *TWO_RACKS, workload("w", pod_sets=(pods,), queue=PLAIN))
    assert started(run_cycle(state)).get("w") in want


def test_topology_and_slots_agree():
    pods = pod_set(count=3, topology=IN_ONE_RACK)
    state = placing_state(HOME, RACKS, *TWO_RACKS, workload("w", pod_sets=(pods,)))
    (reserve,) = run_cycle(state).reserves
    (given,) = reserve.admission.pod_sets
    assert {domain.values[-1]: domain.count for domain in given.place.domains} == where(state, "w")
    assert not list(violations(state))


def test_domain_whose_cards_do_not_suit_is_passed_over():
    """The topology counts cards and prefers the smaller node, whose cards nobody can share."""
    nodes = [machine("a", 1, rack="1"), sharing("b", 2, rack="1")]
    pods = sliced(of=slice_of(memory_mib=100), topology=TopologyRequest(required=HOSTNAME))
    state = placing_state(HOME, RACKS, *nodes, workload("w", pod_sets=(pods,)))
    run_cycles(state, 3)
    assert where(state, "w") == {"b": 1}


# Places that come later ----------------------------------------------------------------------------------------------


def test_place_that_waits_for_a_check():
    home = replace(HOME, checks=(CheckRule(name="nodes", delays_place=True),))
    pods = pod_set(count=2, topology=IN_ONE_RACK)
    state = placing_state(home, RACKS, machine("a", 1, rack="1"), workload("w", pod_sets=(pods,)))
    plan = run_cycle(state)
    assert (reserved(plan), where(state, "w")) == ({"w": "default"}, {})
    state.put_node(machine("b", 1, rack="1"))
    one = state.workloads[key_of("w")]
    state.take(replace(one, checks={"nodes": CheckState.READY}))
    assert amended(run_cycle(state, after_s=5)) == {"w": {"a": 1, "b": 1}}
    assert not list(violations(state))


# Lost nodes ----------------------------------------------------------------------------------------------------------


def told(state, name, node):
    """Somebody tells that a node of a workload has failed."""
    state.take(replace(state.workloads[key_of(name)], unhealthy_nodes=(node,)))


@pytest.mark.parametrize("is_gone", [True, False])
@pytest.mark.parametrize("flavor", [[], [RACKS]], ids=["by slots alone", "with a topology"])
def test_pods_of_a_lost_node_move_and_no_others(flavor, is_gone):
    pods = pod_set(count=4, topology=TopologyRequest(is_unconstrained=True) if flavor else None)
    nodes = [machine("a", 2, rack="1"), machine("b", 2, rack="1")]
    state = placing_state(HOME, *flavor, *nodes, workload("w", pod_sets=(pods,)))
    run_cycle(state)
    state.put_node(machine("c", 3, rack="2"))
    if is_gone:
        state.drop_node("b")
    else:
        state.put_node(machine("b", 2, rack="1", is_ready=False))
    told(state, "w", "b")
    before = state.workloads[key_of("w")].admission.pod_sets[0].slots
    plan = run_cycle(state, after_s=5)
    assert amended(plan) == {"w": {"a": 2, "c": 2}}
    after = state.workloads[key_of("w")].admission.pod_sets[0].slots
    assert {slot for slot in before if slot.node == "a"} <= set(after)
    assert not list(violations(state))
    assert not any(isinstance(one, Amend) for one in run_cycle(state, after_s=5).decisions)


@pytest.mark.parametrize(
    ("is_fast", "codes"), [(True, {"w": Code.NODE_FAILURES}), (False, {})], ids=["evicted at once", "tried again"]
)
def test_pods_of_a_lost_node_that_find_no_other(is_fast, codes):
    state = placing_state(
        HOME, machine("a", 2), machine("b", 2), workload("w", pods=4), settings=Settings(replaces_nodes_fast=is_fast)
    )
    run_cycle(state)
    state.drop_node("b")
    told(state, "w", "b")
    plan = run_cycle(state, after_s=5, victims_leave=False)
    assert evicted(plan) == codes
    assert any(isinstance(one, Retry) for one in plan.decisions) is not is_fast
    assert where(state, "w") == {"a": 2, "b": 2}, "its slots are its own until it has left"


def test_pods_of_a_lost_node_stay_with_the_others_where_they_must():
    pods = pod_set(count=4, topology=IN_ONE_RACK)
    state = placing_state(
        plain_queue(),
        machine("a", 2, rack="1"),
        machine("b", 2, rack="1"),
        workload("w", pod_sets=(pods,), queue=PLAIN),
        settings=Settings(replaces_nodes_fast=False),
    )
    run_cycle(state)
    state.drop_node("b")
    state.put_node(machine("c", 9, rack="2"))
    told(state, "w", "b")
    assert amended(run_cycle(state, after_s=5)) == {}
    state.put_node(machine("d", 2, rack="1"))
    assert amended(run_cycle(state, after_s=40)) == {"w": {"a": 2, "d": 2}}


def test_workload_that_lost_all_its_nodes_moves_as_a_whole():
    pods = pod_set(count=2, topology=IN_ONE_RACK)
    state = placing_state(plain_queue(), machine("a", 2, rack="1"), workload("w", pod_sets=(pods,), queue=PLAIN))
    run_cycle(state)
    state.drop_node("a")
    state.put_node(machine("c", 2, rack="2"))
    told(state, "w", "a")
    assert amended(run_cycle(state, after_s=5)) == {"w": {"c": 2}}


# Verdicts ------------------------------------------------------------------------------------------------------------


def test_verdict_names_the_pod_set_and_what_is_missing():
    state = placing_state(HOME, machine("a", 2), held(workload("r"), [on("a", 0)]), workload("w", pods=2))
    (verdict,) = run_cycle(state).verdicts.values()
    details = [one for one in verdict.details if one.code is Code.NO_NODES]
    assert [one.value("pod_set") for one in details] == ["main"]
    assert "2 pods of main must start together, 1 would fit now" in details[0].text


@pytest.mark.parametrize(
    ("memory_mib", "says"), [(SIZE_MIB, "no node has room for it now"), (SIZE_MIB + 1, "no node could ever hold it")]
)
def test_slice_larger_than_any_card_could_never_run(memory_mib, says):
    running = held(workload("r", pod_sets=(pod_set(),)), [on("a", 0)])
    pods = sliced(of=slice_of(memory_mib=memory_mib))
    state = placing_state(HOME, sharing("a", 1), running, workload("w", pod_sets=(pods,)))
    (verdict,) = run_cycle(state).verdicts.values()
    assert [one.value("problem") for one in verdict.details if one.code is Code.NO_NODES] == [says]


def test_verdicts_cost_the_same_however_many_pods_are_asked_for():
    steps = []
    for count in (9, 2**20, 2**60):
        home = queue("team-a", gpus=2**62)
        state = placing_state(home, machine("a", 8), workload("w", pods=count))
        plan = run_cycle(state)
        assert waits(plan) == {"w": Code.WAITING_FOR_NODES}
        steps.append(slots_of(state).placer.table.tick)
    assert len(set(steps)) == 1, "the table was not touched more often for more pods"


def test_part_of_a_huge_workload_is_found_in_few_tries():
    state = placing_state(queue("team-a", gpus=2**62), machine("a", 8), workload("w", pods=2**60, least=1))
    assert counts(run_cycle(state)) == {"w": (8,)}


def test_pod_that_asks_for_nothing_still_takes_one_of_the_nodes_pods():
    nothing = pod_set(count=3, requests={})
    one = workload("w", pod_sets=(nothing,), queue=PLAIN)
    state = placing_state(plain_queue(), machine("a", 0, pods=2), one)
    assert waits(run_cycle(state)) == {"w": Code.WAITING_FOR_NODES}
    state.put_node(machine("a", 0, pods=3))
    assert started(run_cycle(state)) == {"w": {"a": 3}}
    assert node_facts(slots_of(state))["a"].taken == {"pods": 3}
    assert {CPU, GPU}.isdisjoint(node_facts(slots_of(state))["a"].taken)
