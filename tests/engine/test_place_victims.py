"""Preemption for places: who is told to leave a node, that the place is kept meanwhile, and whose it is then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.engine.invariants import violations
from muster.model.flavor import Flavor
from muster.model.reason import Code
from muster.model.topology import PlacedPods, TopologyAssignment, TopologyRequest
from tests.engine.builders import (
    ANY,
    LOWER,
    evicted,
    key_of,
    pod_set,
    preempts,
    queue,
    run_cycle,
    run_until_quiet,
    waits,
    workload,
)
from tests.engine.slot_builders import (
    LEVELS,
    PLAIN,
    RACK,
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
    started,
    where,
)

HOME = queue("team-a", gpus=99, preemption=preempts(within=LOWER))


def runs(name, *slots, **fields):
    """A running workload of one-card pods in these slots."""
    return held(workload(name, pods=len(slots), **fields), slots)


def let_leave(state, name):
    state.take(replace(gone(state.workloads[key_of(name)]), is_active=False))


# Who leaves ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("running", "asks", "want"),
    [
        pytest.param([runs("r", on("a", 0))], {"gpus": 2}, set(), id="there is room elsewhere"),
        pytest.param([runs("r", on("a", 0)), runs("s", on("b", 0))], {"gpus": 2}, {"r"}, id="one is enough"),
        pytest.param(
            [runs("r", on("a", 0), priority=3), runs("s", on("b", 0), priority=1)],
            {"gpus": 2},
            {"s"},
            id="the less important",
        ),
        pytest.param(
            [runs("r", on("a", 0), on("b", 0)), runs("s", on("b", 1))],
            {"gpus": 2},
            {"r"},
            id="a gang leaves whole",
        ),
        pytest.param(
            [runs("r", on("a", 0), priority=9), runs("s", on("b", 0), priority=9)], {"gpus": 2}, None, id="nobody may"
        ),
        pytest.param([runs("r", on("a", 0))], {"gpus": 3}, None, id="nobody leaves for one that never fits"),
    ],
)
def test_who_leaves(running, asks, want):
    state = placing_state(HOME, machine("a", 2), machine("b", 2), *running, workload("w", priority=5, **asks))
    plan = run_cycle(state, victims_leave=False)
    if want is None:
        assert (evicted(plan), set(waits(plan))) == ({}, {"w"})
    else:
        assert set(evicted(plan)) == want
        assert bool(started(plan)) is not bool(want)


def test_slices_make_room_for_slices():
    small = held(workload("r", pod_sets=(sliced(of=slice_of(memory_mib=9000)),)), [])
    state = placing_state(HOME, sharing("a", 1), replace(small, admission=None, is_admitted=False, is_ready=False))
    assert started(run_cycle(state)) == {"r": {"a": 1}}
    state.take(workload("w", pod_sets=(sliced(of=slice_of(memory_mib=8000)),), priority=5))
    assert evicted(run_cycle(state)) == {"r": Code.PREEMPTED_IN_QUEUE}
    assert started(run_cycle(state)) == {"w": {"a": 1}}


def test_gang_gets_all_its_room_or_nobody_leaves():
    low = [runs(f"r{number}", on("a", number)) for number in range(2)]
    high = [runs("s", on("a", 2), priority=9), runs("t", on("a", 3), priority=9)]
    state = placing_state(HOME, machine("a", 4), *low, *high, workload("w", pods=3, priority=5))
    plan = run_cycle(state)
    assert (evicted(plan), set(waits(plan))) == ({}, {"w"})


def test_queue_gives_back_what_it_borrowed_and_no_more():
    """Two of its five workloads run on what it borrowed; the owner takes back two, wherever they are."""
    owner = queue("team-a", cohort="all", gpus=2, preemption=preempts(reclaim=ANY))
    borrower = queue("team-b", cohort="all", gpus=3)
    low = [held(workload(f"r{n}", queue="team-b", queued_at=n), [on("a", n)]) for n in range(5)]
    state = placing_state(owner, borrower, machine("a", 5), *low, workload("w", pods=2))
    plans = run_until_quiet(state)
    assert sum(len(evicted(plan)) for plan in plans) == 2
    assert where(state, "w") == {"a": 2}


def test_place_is_not_taken_from_a_queue_that_is_within_its_quota():
    """The borrower is one card above its quota, so one card can be taken back; a node of two would take two."""
    owner = queue("team-a", cohort="all", gpus=4, preemption=preempts(reclaim=ANY))
    borrower = queue("team-b", cohort="all", gpus=2)
    low = [held(workload(f"r{n}", queue="team-b"), [on("b", n)]) for n in range(3)]
    state = placing_state(owner, borrower, machine("b", 3), machine("c", 1), *low, workload("w", gpus=3))
    assert len(evicted(run_cycle(state))) <= 1


# The place is kept ---------------------------------------------------------------------------------------------------


def waiting_state(*more):
    """One that needs four cards of one node; two are free, and the one on the others was told to go."""
    state = placing_state(
        HOME,
        queue("team-b", gpus=99),
        plain_queue(),
        machine("a", 4),
        runs("low", on("a", 0), on("a", 1)),
        workload("big", gpus=4, priority=5),
        *more,
    )
    assert evicted(run_cycle(state, victims_leave=False)) == {"low": Code.PREEMPTED_IN_QUEUE}
    return state


@pytest.mark.parametrize("home", ["team-a", "team-b", PLAIN])
def test_nobody_else_gets_the_place_that_is_kept(home):
    state = waiting_state()
    state.take(workload("small", queue=home, queued_at=9))
    for _ in range(3):
        plan = run_cycle(state, victims_leave=False)
        assert (started(plan), evicted(plan)) == ({}, {}), "kept, and the victim is told once"
        assert not list(violations(state))
    let_leave(state, "low")
    assert started(run_cycle(state)) == {"big": {"a": 1}}
    assert (where(state, "small"), free_cards(state, "a")) == ({}, 0)


def test_what_is_beside_the_place_is_free_for_others():
    state = waiting_state()
    state.put_node(machine("b", 1))
    state.take(workload("small", queue="team-b"))
    assert started(run_cycle(state, victims_leave=False)) == {"small": {"b": 1}}


def test_preemptor_goes_elsewhere_when_room_comes_first():
    state = waiting_state()
    state.put_node(machine("b", 4))
    assert started(run_cycle(state, victims_leave=False)) == {"big": {"b": 1}}
    let_leave(state, "low")
    assert free_cards(state, "a") == 4


def test_preemptor_that_goes_away_leaves_nothing_behind():
    state = waiting_state()
    state.drop(key_of("big"))
    state.take(workload("small", queue="team-b", gpus=2))
    assert started(run_cycle(state, victims_leave=False)) == {"small": {"a": 1}}


def test_two_preemptors_have_their_own_victims():
    low = [runs(f"r{number}", on(node, 0)) for number, node in enumerate("ab")]
    homes = [HOME, queue("team-b", cohort=None, gpus=9, preemption=preempts(within=LOWER))]
    low[1] = held(workload("r1", queue="team-b"), [on("b", 0)])
    big = [workload("w0", priority=5), workload("w1", priority=5, queue="team-b")]
    state = placing_state(*homes, machine("a", 1), machine("b", 1), *low, *big)
    assert set(evicted(run_cycle(state, victims_leave=False))) == {"r0", "r1"}
    assert evicted(run_cycle(state, victims_leave=False)) == {}
    let_leave(state, "r0")
    let_leave(state, "r1")
    plan = run_cycle(state)
    assert set(started(plan)) == {"w0", "w1"}


def test_victim_whose_priority_rose_is_left_alone():
    """What is known of a running workload follows its object, although it holds the same."""
    state = placing_state(HOME, machine("a", 1), machine("b", 1), runs("r", on("a", 0)), runs("s", on("b", 0)))
    state.take(workload("w", priority=5))
    for name in ("r", "s"):
        state.take(replace(state.workloads[key_of(name)], priority=1 if name == "r" else 3))
    assert set(evicted(run_cycle(state))) == {"r"}


# With a topology -----------------------------------------------------------------------------------------------------

RACKS = Flavor(name="default", topology="racks", topology_levels=LEVELS)


def in_rack(name, hosts, **fields):
    """A running workload with one pod on each of these hosts, placed by a topology."""
    pods = pod_set(count=len(hosts), topology=TopologyRequest(required=RACK))
    one = held(workload(name, pod_sets=(pods,), **fields), [on(host, 0) for host in hosts])
    place = TopologyAssignment(LEVELS[-1:], tuple(PlacedPods((host,), 1) for host in hosts))
    given = replace(one.admission.pod_sets[0], place=place)
    return replace(one, admission=replace(one.admission, pod_sets=(given,)))


def test_rack_is_cleared_for_one_that_must_be_in_it():
    nodes = [machine("a", 1, rack="1"), machine("b", 1, rack="1"), machine("c", 1, rack="2")]
    pods = pod_set(count=2, topology=TopologyRequest(required=RACK))
    state = placing_state(
        HOME, RACKS, *nodes, in_rack("r", "a"), in_rack("s", "c"), workload("w", pod_sets=(pods,), priority=5)
    )
    assert evicted(run_cycle(state)) == {"r": Code.PREEMPTED_IN_QUEUE}
    assert started(run_cycle(state)) == {"w": {"a": 1, "b": 1}}


def test_rack_by_labels_is_cleared_too():
    nodes = [machine("a", 1, rack="1"), machine("b", 1, rack="1"), machine("c", 1, rack="2"), machine("d", 1, rack="3")]
    pods = pod_set(count=2, topology=TopologyRequest(required=RACK))
    low = [runs("r", on("a", 0), queue=PLAIN), runs("s", on("c", 0), queue=PLAIN)]
    state = placing_state(plain_queue(), *nodes, *low, workload("w", pod_sets=(pods,), queue=PLAIN, priority=5))
    assert set(evicted(run_cycle(state))) == {"r"}
    assert started(run_cycle(state)) == {"w": {"a": 1, "b": 1}}


# Who leaves anyway ---------------------------------------------------------------------------------------------------


def leaving_pod(name, *slots):
    """A pod that outlives what its job held: no quota counts it, and it is on its way out."""
    return replace(runs(name, *slots, queue=PLAIN), is_evicted=True)


@pytest.mark.parametrize("within", ["Never", "LowerPriority"])
@pytest.mark.parametrize("racks", [False, True], ids=["nodes", "racks"])
def test_the_place_of_a_pod_that_leaves_is_waited_for(within, racks):
    """Else whoever is smaller gets what the first in line could have in a moment, and is sent away again for it."""
    home = queue("team-a", gpus=99, preemption=preempts(within=LOWER) if within == "LowerPriority" else preempts())
    machines = [machine(name, 2, rack="1") for name in ("a", "b")]
    flavor = Flavor(name="default", topology="racks", topology_levels=LEVELS) if racks else Flavor(name="default")
    topology = TopologyRequest(required=RACK) if racks else None
    big = workload("big", pod_sets=(pod_set(count=2, gpus=2, topology=topology),), priority=5)
    small = workload("small", priority=1, pod_sets=(pod_set(gpus=1, topology=topology),))
    pod = leaving_pod("old", on("b", 0))
    state = placing_state(home, plain_queue(), *machines, flavor, big, small, pod)
    for _ in range(3):
        plan = run_cycle(state)
        assert (started(plan), evicted(plan)) == ({}, {})
        assert waits(plan)["big"] is Code.WAITING_FOR_PREEMPTED_WORKLOADS
    state.drop(pod.key)
    run_until_quiet(state)
    assert where(state, "big") == {"a": 1, "b": 1}
    assert where(state, "small") == {}
    assert not list(violations(state))


def test_nobody_is_told_to_go_where_one_that_leaves_is_enough():
    pod = leaving_pod("old", on("b", 0), on("b", 1))
    state = placing_state(
        HOME, plain_queue(), machine("a", 2), machine("b", 2), runs("low", on("a", 0), on("a", 1)), pod
    )
    state.take(workload("w", gpus=2, priority=5))
    assert evicted(run_cycle(state)) == {}
    state.drop(pod.key)
    assert started(run_cycle(state)) == {"w": {"b": 1}}


def test_one_that_never_leaves_is_given_up_on():
    """What a dead node holds is not waited for longer than victims are: others get the rest meanwhile."""
    small = workload("small", priority=1, queued_at=1)
    big = workload("big", pods=2, gpus=2, priority=5)
    pod = leaving_pod("old", on("b", 0))
    state = placing_state(HOME, plain_queue(), machine("a", 2), machine("b", 2), big, small, pod)
    plans = [run_cycle(state, after_s=60) for _ in range(12)]
    assert any(started(plan) == {"small": {"a": 1}} or started(plan) == {"small": {"b": 1}} for plan in plans)
