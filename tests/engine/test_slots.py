"""Slots on the table: what pods hold of nodes and cards whoever placed them, in any order of events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.dialects.hami.cards import held_slices
from muster.engine.invariants import differences, node_facts, violations
from muster.engine.slots import CARDS_MOST, HELD_MOST
from muster.model.fields import Fields
from muster.model.labels import Taint
from muster.model.reason import Code
from muster.model.resources import PODS
from muster.model.topology import BoundPod, Node
from muster.vendors.nvidia import VENDOR
from tests.engine.builders import CPU, GPU, key_of, pod_set, queue, run_cycle, waits, workload
from tests.engine.slot_builders import (
    PLAIN,
    SIZE_MIB,
    free_cards,
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
)

HOME = queue("team-a", gpus=2**50)


def pod(name, node="a", gpus=0, **fields):
    """A pod that somebody else placed."""
    return BoundPod(key=f"other/{name}", node=node, requests={GPU: gpus, **fields.pop("amounts", {})}, **fields)


def state_with(*parts):
    return placing_state(HOME, *parts)


def facts(state, node="a"):
    return node_facts(slots_of(state))[node]


# Foreign pods --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "free"),
    [
        pytest.param([], 4, id="nobody"),
        pytest.param([pod("x", gpus=1)], 3, id="one card"),
        pytest.param([pod("x", gpus=1), pod("y", gpus=2)], 1, id="each has its own"),
        pytest.param([pod("x", gpus=9)], 0, id="more than there are: all of them"),
        pytest.param([pod("x", gpus=2**62)], 0, id="beyond all measure"),
        pytest.param([pod("x", gpus=3), pod("y", gpus=3)], 0, id="more together than there are"),
        pytest.param([pod("x", node="b", gpus=2)], 4, id="on a node that is not known"),
    ],
)
def test_cards_of_foreign_pods(pods, free):
    state = state_with(machine("a", 4), *pods)
    assert free_cards(state, "a") == free
    assert not list(violations(state))
    for one in pods:
        state.drop_pod(one.key)
    assert free_cards(state, "a") == 4
    assert not facts(state).taken


@pytest.mark.parametrize("is_first", [True, False])
def test_foreign_pods_do_not_share_cards_with_workloads_whoever_comes_first(is_first):
    """Which cards a foreign pod has is not known; it never has one that an admission names."""
    runs, guest = held(workload("w"), [on("a", 0)]), pod("x", gpus=1)
    state = state_with(machine("a", 2), *([guest] if is_first else []))
    state.take(runs)
    state.put_pod(guest)
    assert free_cards(state, "a") == 0
    assert not list(differences(state, state_with(machine("a", 2), runs, guest)))
    state.drop(runs.key)
    assert free_cards(state, "a") == 1


def test_foreign_pod_moves_over_when_a_slice_is_claimed_on_its_card():
    state = state_with(sharing("a", 2), pod("x", gpus=1))
    assert [use.slots for use in facts(state).by_card.values()] == [10, 0]
    claim = held_slices(claiming("a-0,NVIDIA,100,0:;"), sharing("a", 2).devices, (VENDOR,)).slices
    state.put_pod(pod("y", gpus=1, cards=slice_of(memory_mib=100), slices=claim))
    assert [use.memory_mib for use in facts(state).by_card.values()] == [100, SIZE_MIB]


def test_foreign_pod_gets_its_cards_when_the_node_comes():
    state = state_with(pod("x", gpus=2))
    state.put_node(machine("a", 4))
    assert free_cards(state, "a") == 2
    state.put_node(machine("a", 1))
    assert free_cards(state, "a") == 0
    state.put_node(machine("a", 3))
    assert free_cards(state, "a") == 1


@pytest.mark.parametrize("amount", [2**50, 2**62, 2**63, 2**200])
def test_absurd_amounts_of_foreign_pods_fill_a_node_and_no_more(amount):
    state = state_with(machine("a", 4), machine("b", 4))
    for number in range(100):
        state.put_pod(pod(f"p{number}", amounts={CPU: amount}))
    assert facts(state).taken[CPU] == 100 * HELD_MOST
    state.take(workload("w", pod_sets=(pod_set(requests={CPU: 1}),), queue="plain"))
    assert not list(violations(state))
    for number in range(100):
        state.drop_pod(f"other/p{number}")
    assert not facts(state).taken


def test_same_pod_again_changes_nothing_and_a_changed_one_counts_as_it_is():
    state = state_with(machine("a", 4), pod("x", gpus=1))
    before = facts(state)
    state.put_pod(pod("x", gpus=1))
    assert facts(state) == before
    state.put_pod(pod("x", gpus=3))
    assert free_cards(state, "a") == 1
    state.put_pod(pod("x", node="b", gpus=3))
    assert free_cards(state, "a") == 4


# Claims --------------------------------------------------------------------------------------------------------------


def claiming(text):
    limits = {GPU: "1", "nvidia.com/gpumem": "100"}
    return Fields(
        {
            "metadata": {"name": "y", "namespace": "other", "annotations": {"hami.io/vgpu-devices-allocated": text}},
            "spec": {"nodeName": "a", "containers": [{"resources": {"limits": limits}}]},
            "status": {"phase": "Running"},
        }
    )


@pytest.mark.parametrize(
    ("text", "memory_mib"),
    [
        pytest.param("a-0,NVIDIA,300,0:;", [300, 0], id="as it says"),
        pytest.param("a-0,NVIDIA,999999,0:;", [SIZE_MIB, 0], id="more than the card has"),
        pytest.param("a-0,NVIDIA,1,0:;", [SIZE_MIB, 0], id="less than it asks for"),
        pytest.param("a-0,NVIDIA,-1,0:;", [SIZE_MIB, SIZE_MIB], id="not to be read: every card"),
        pytest.param("a-0,NVIDIA,100,0:a-0,NVIDIA,100,0:;", [200, 0], id="the same card twice"),
    ],
)
def test_claims_make_cards_less_free_and_never_more(text, memory_mib):
    node = sharing("a", 2)
    runs = replace(workload("w", pod_sets=(sliced(of=slice_of(memory_mib=4000)),)))
    state = state_with(node, runs)
    assert started(run_cycle(state)) == {"w": {"a": 1}}
    mine = state.workloads[key_of("w")].admission.pod_sets[0].slots[0].slices.shares[0]
    claim = held_slices(claiming(text), node.devices, (VENDOR,)).slices
    state.put_pod(pod("y", gpus=1, cards=slice_of(memory_mib=100), slices=claim))
    want = [amount + 4000 * (uuid == mine.uuid) for uuid, amount in zip(("a-0", "a-1"), memory_mib, strict=True)]
    assert [use.memory_mib for use in facts(state).by_card.values()] == want
    assert not list(violations(state))
    state.drop_pod("other/y")
    assert sum(use.memory_mib for use in facts(state).by_card.values()) == 4000


def test_two_pods_with_the_same_claim_both_count():
    node = sharing("a", 1)
    claim = held_slices(claiming("a-0,NVIDIA,9000,0:;"), node.devices, (VENDOR,)).slices
    twins = [pod(name, gpus=1, cards=slice_of(memory_mib=100), slices=claim) for name in ("y", "z")]
    state = state_with(node, *twins, workload("w", pod_sets=(sliced(of=slice_of(memory_mib=1)),)))
    assert [use.memory_mib for use in facts(state).by_card.values()] == [18_000]
    assert waits(run_cycle(state)) == {"w": Code.WAITING_FOR_NODES}
    state.drop_pod("other/y")
    assert started(run_cycle(state)) == {"w": {"a": 1}}


# Nodes that are not there, or not any more ---------------------------------------------------------------------------


def test_slots_of_an_unknown_node_count_when_it_comes():
    state = state_with(held(workload("w", gpus=2), [on("a", 0, 3)]))
    assert not list(violations(state))
    state.put_node(machine("a", 4))
    assert free_cards(state, "a") == 2
    state.drop(key_of("w"))
    assert free_cards(state, "a") == 4


def test_node_that_goes_and_comes_back_still_has_its_pods():
    state = state_with(machine("a", 4), held(workload("w", gpus=3), [on("a", 0, 1, 2)]), workload("v", gpus=2))
    state.drop_node("a")
    assert waits(run_cycle(state)) == {"v": Code.WAITING_FOR_NODES}
    state.put_node(machine("a", 4))
    assert waits(run_cycle(state)) == {"v": Code.WAITING_FOR_NODES}
    state.drop(key_of("w"))
    assert started(run_cycle(state)) == {"v": {"a": 1}}


@pytest.mark.parametrize("gpus", [0, 1, 2])
def test_node_that_shrinks_below_what_is_held(gpus):
    """Nothing new fits and nothing breaks; when the pods have left, what is there is free."""
    runs = held(workload("w", pods=3), [on("a", 0), on("a", 1), on("a", 2)])
    state = state_with(machine("a", 4), runs)
    state.put_node(machine("a", gpus))
    state.take(workload("v"))
    assert waits(run_cycle(state)) == {"v": Code.WAITING_FOR_NODES}
    assert not list(violations(state))
    state.drop(runs.key)
    assert (started(run_cycle(state)) == {"v": {"a": 1}}) is (gpus > 0)


def test_resource_that_a_node_lacks_is_nobodys_business_who_does_not_ask_for_it():
    """Somebody else has overfilled the node's cpu; pods that ask for cards alone still come in, one after the other."""
    gangs = [workload(name, pods=2, queue=queue_name) for name, queue_name in (("v", "team-a"), ("w", "team-b"))]
    state = placing_state(HOME, queue("team-b", gpus=9), machine("a", 4, cpu=4), pod("x", amounts={CPU: 9}), *gangs)
    assert started(run_cycle(state)) == {"v": {"a": 2}, "w": {"a": 2}}


@pytest.mark.parametrize(
    "fields",
    [{"is_ready": False}, {"is_schedulable": False}, {"taints": (Taint("busy"),)}],
    ids=["not ready", "cordoned", "tainted"],
)
def test_nodes_that_take_nobody(fields):
    state = state_with(machine("a", 4, **fields), workload("w"))
    assert waits(run_cycle(state)) == {"w": Code.WAITING_FOR_NODES}
    state.put_node(machine("a", 4))
    assert started(run_cycle(state)) == {"w": {"a": 1}}


def test_whole_card_that_was_lost_is_not_another_one_after_a_restart():
    runs, before = held(workload("w"), [on("a", 0)]), sharing("a", 2)
    state = state_with(before, runs)
    after = replace(before, devices=before.devices[1:])
    state.put_node(after)
    assert free_cards(state, "a") == 1
    again = state_with(after, runs)
    assert free_cards(again, "a") == 1
    again.put_node(before)
    assert free_cards(again, "a") == 1, "it is back, and still held"
    again.drop(key_of("w"))
    assert free_cards(again, "a") == 2


def test_cards_with_absurd_numbers_stand_side_by_side():
    node = sharing("a", 2)
    far = replace(node, devices=tuple(replace(one, index=one.index * 2**40) for one in node.devices))
    state = state_with(far, workload("w", gpus=2))
    assert slots_of(state).placer.table.card_width_of(0) == 2
    assert started(run_cycle(state)) == {"w": {"a": 1}}


# Absurd nodes and asks -----------------------------------------------------------------------------------------------


def test_node_with_more_cards_than_any_machine():
    state = state_with(Node(name="a", allocatable={GPU: 2**40, CPU: 2**70, PODS: 2**70}), workload("w", gpus=3))
    assert started(run_cycle(state)) == {"w": {"a": 1}}
    assert free_cards(state, "a") == CARDS_MOST - 3


@pytest.mark.parametrize(
    ("one", "code"),
    [
        pytest.param(workload("w", gpus=2**40), Code.WAITING_FOR_NODES, id="cards"),
        pytest.param(workload("w", pods=2**40), Code.WAITING_FOR_NODES, id="pods"),
        pytest.param(workload("w", pods=2**40, gpus=2**9), Code.WAITING_FOR_NODES, id="both"),
        pytest.param(workload("w", pods=1, least=9), Code.MISCONFIGURED, id="minimum above replicas"),
        pytest.param(workload("w", pods=1, pods_least=9), Code.MISCONFIGURED, id="of all together"),
    ],
)
def test_asks_beyond_the_cluster_get_a_verdict(one, code):
    state = state_with(machine("a", 2), one)
    assert waits(run_cycle(state)) == {"w": code}


@pytest.mark.parametrize("amount", [2**62 - 1, 2**62, 2**63, 2**100])
def test_amounts_beyond_all_measure_get_a_verdict(amount):
    pods = pod_set(requests={GPU: 1, CPU: amount, "example.com/x": amount}, count=300)
    one = workload("w", pod_sets=(pods,), queue=PLAIN)
    state = placing_state(plain_queue(), machine("a", 4, amounts={"example.com/x": 5}), one)
    assert waits(run_cycle(state)) == {"w": Code.WAITING_FOR_NODES}


def test_unknown_card_types_are_resources_like_any_other():
    pods = pod_set(requests={"example.com/npu": 2})
    nodes = [machine("a"), machine("b", amounts={"example.com/npu": 3})]
    state = placing_state(plain_queue(), *nodes, workload("w", pod_sets=(pods,), queue=PLAIN))
    assert started(run_cycle(state)) == {"w": {"b": 1}}
    state.take(workload("v", pod_sets=(pods,), queue=PLAIN))
    assert waits(run_cycle(state)) == {"v": Code.WAITING_FOR_NODES}


# The checks see faults -----------------------------------------------------------------------------------------------


def lost_amount(state):
    slots_of(state).placer.table.free[0, 0] -= 1


def charged_twice(state):
    holder = state.holders.get(key_of("w"))
    state.ledger.charge_places(holder.places)


def too_few_slots(state):
    holder = state.holders.get(key_of("w"))
    (given,) = holder.workload.admission.pod_sets
    admission = replace(holder.workload.admission, pod_sets=(replace(given, count=3),))
    state.holders.replace(replace(holder, workload=replace(holder.workload, admission=admission)))


def below_its_minimum(state):
    holder = state.holders.get(key_of("w"))
    leaving = replace(holder.workload, leaving_slots={"main": (on("a", 0),)})
    state.holders.replace(replace(holder, workload=leaving))


def unfilled(state):
    holder = state.holders.get(key_of("w"))
    state.holders.replace(replace(holder, workload=replace(holder.workload, is_ready=False, pods_bound=1)))
    state.deadlines.overdue[key_of("w")] = None


@pytest.mark.parametrize("fault", [lost_amount, charged_twice, too_few_slots, below_its_minimum, unfilled])
def test_faults_are_seen(fault):
    parts = [machine("a", 4), held(workload("w", pods=2), [on("a", 0), on("a", 1)])]
    state = state_with(*parts)
    assert not list(violations(state))
    fault(state)
    assert list(violations(state))


@pytest.mark.parametrize("fault", [lost_amount, charged_twice])
def test_differences_are_seen(fault):
    parts = [machine("a", 4), held(workload("w", pods=2), [on("a", 0), on("a", 1)])]
    state = state_with(*parts)
    assert not list(differences(state, state_with(*parts)))
    fault(state)
    assert list(differences(state, state_with(*parts)))
