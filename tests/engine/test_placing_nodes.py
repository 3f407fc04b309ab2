"""Domains by what their nodes really take: cards and rules of pods that amounts know nothing of."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from muster.engine.gangs import place_up_to
from muster.engine.invariants import violations
from muster.engine.state import EngineState
from muster.model.flavor import Flavor
from muster.model.labels import EVERYTHING
from muster.model.pod_rules import HostPort, PodGroup, PodIdentity, PodRules, PodTerm
from muster.model.reason import Code
from muster.model.topology import HOSTNAME, Node, TopologyRequest
from muster.model.workload import Workload
from tests.engine.builders import (
    GPU,
    LOWER,
    Part,
    evicted,
    key_of,
    preempts,
    queue,
    reserved,
    run_cycle,
    run_cycles,
    waits,
    workload,
)
from tests.engine.slot_builders import (
    LEVELS,
    RACK,
    SIZE_MIB,
    amended,
    placing_state,
    sharing,
    slice_of,
    sliced,
    slots_of,
    started,
    where,
)
from tests.stopwatch import is_done_within
from tests.support import assert_sound, proof_count

HOME = queue("team-a", gpus=9999)
RACKS = Flavor(name="default", topology="racks", topology_levels=LEVELS)
IN_ONE_RACK, ON_ONE_HOST = TopologyRequest(required=RACK), TopologyRequest(required=HOSTNAME)
HALF, WHOLE = slice_of(memory_mib=SIZE_MIB // 2), slice_of(memory_mib=SIZE_MIB)
APART = PodRules(
    who=PodIdentity(namespace="default"),
    anti_affinity=(
        PodTerm(group=PodGroup(selector=EVERYTHING, namespaces=frozenset(("default",))), topology_key=HOSTNAME),
    ),
)
ONE_PORT = PodRules(ports=frozenset((HostPort(port=80),)))


def node(name: str, rack: str, cards: int = 1, *, amount: int = 99, **device: Any) -> Node:
    """A node whose amounts promise far more than its cards hold."""
    return sharing(name, cards, rack=rack, amounts={GPU: amount}, device=device)


def small(name: str, rack: str, **fields: Any) -> Node:
    """A node whose cards are too small for anybody; the topology finds it the tightest, and prefers it."""
    return node(name, rack, memory_mib=100, amount=9, **fields)


def gang(count: int = 1, request: TopologyRequest = IN_ONE_RACK, **fields: Any) -> Workload:
    pods = sliced(of=fields.pop("of", HALF), count=count, topology=request, rules=fields.pop("rules", PodRules()))
    return workload("w", pod_sets=(pods,), **fields)


def state_of(*parts: Part, home: Any = HOME) -> EngineState:
    return placing_state(home, RACKS, *parts)


@pytest.mark.parametrize(
    ("nodes", "one", "want"),
    [
        pytest.param([small("a", "1"), node("b", "2")], gang(2), {"b": 2}, id="another rack has the cards"),
        pytest.param([small("a", "1"), node("b", "1")], gang(2), {"b": 2}, id="another node of the rack has them"),
        pytest.param([small("a", "1"), node("b", "2")], gang(2, ON_ONE_HOST), {"b": 2}, id="another host has them"),
        pytest.param([small("a", "1"), node("b", "2")], gang(3), None, id="nobody has enough"),
        pytest.param([small("a", "1"), small("b", "2")], gang(), None, id="nobody has any"),
        pytest.param(
            [node("a", "1", amount=9), node("b", "2", 2)], gang(4), {"b": 4}, id="two of four fit in the tightest"
        ),
        pytest.param(
            [small("a", "1"), node("b", "1"), node("c", "1"), node("d", "2")],
            gang(5, TopologyRequest(preferred=RACK)),
            {"b": 2, "c": 2, "d": 1},
            id="several racks, if none has enough",
        ),
        pytest.param(
            [small("a", "1"), node("b", "1"), node("c", "2", 2)],
            gang(3, TopologyRequest(is_unconstrained=True)),
            {"c": 3},
            id="anywhere, and on one node if one has enough",
        ),
        pytest.param(
            [node("a", "1", amount=9), node("b", "2"), node("c", "2")],
            gang(2, rules=APART),
            {"b": 1, "c": 1},
            id="a rack where they can keep apart",
        ),
        pytest.param(
            [node("a", "1", amount=9), node("b", "2"), node("c", "2")],
            gang(2, rules=ONE_PORT),
            {"b": 1, "c": 1},
            id="a rack where each has the port of its own",
        ),
        pytest.param(
            [node(f"a{n}", f"{n}", amount=9 + n) for n in range(9)] + [node("b", "b"), node("c", "b")],
            gang(2, rules=APART),
            {"b": 1, "c": 1},
            id="after many racks where they cannot",
        ),
    ],
)
def test_domain_has_the_cards(nodes, one, want):
    state = state_of(*nodes, one)
    plan = run_cycle(state)
    assert started(plan).get("w") == want
    assert want or waits(plan) == {"w": Code.WAITING_FOR_NODES}
    assert not list(violations(state))


def test_leader_and_workers_are_where_both_have_cards():
    """The leader needs a card of its own, which the tighter rack has not when its workers are there."""
    nodes = [node("a", "1", amount=9), node("b", "2", 2)]
    group = TopologyRequest(required=RACK, group="g")
    sets = (sliced("leader", of=WHOLE, topology=group), sliced("workers", of=HALF, count=2, topology=group))
    state = state_of(*nodes, workload("w", pod_sets=sets))
    assert started(run_cycle(state)) == {"w": {"b": 3}}
    assert not list(violations(state))


def test_pod_sets_do_not_count_on_the_same_card():
    nodes = [node("a", "1", amount=9), node("b", "2", amount=50)]
    sets = tuple(sliced(name, of=WHOLE, topology=ON_ONE_HOST) for name in ("x", "y"))
    assert started(run_cycle(state_of(*nodes, workload("w", pod_sets=sets)))) == {"w": {"a": 1, "b": 1}}


def test_pods_of_a_lost_node_go_where_the_cards_are():
    pods = gang(2, of=WHOLE)
    state = state_of(node("a", "1"), node("b", "1"), pods)
    run_cycle(state)
    state.put_node(small("c", "1"))
    state.put_node(node("d", "1"))
    state.drop_node("b")
    one = state.workloads[key_of("w")]
    state.take(one.changed(unhealthy_nodes=("b",)))
    assert amended(run_cycle(state, after_s=5)) == {"w": {"a": 1, "d": 1}}
    assert not list(violations(state))


def test_flavor_whose_cards_never_suit_is_passed_over():
    """Nobody is told to leave a flavor in which the gang could not run even if all left."""
    flavors = [
        Flavor(name=name, labels={"pool": name}, topology="racks", topology_levels=LEVELS) for name in ("red", "green")
    ]
    home = queue("team-a", flavors={"red": 99, "green": 99}, preemption=preempts(within=LOWER))
    red = sharing("a", 1, rack="1", labels={"pool": "red"}, device={"memory_mib": 100})
    green = sharing("b", 1, rack="2", labels={"pool": "green"})
    low = workload("low", pod_sets=(sliced(of=slice_of(memory_mib=50), topology=IN_ONE_RACK),))
    state = placing_state(home, *flavors, red, green, low)
    assert reserved(run_cycle(state)) == {"low": "red"}
    state.take(gang(of=WHOLE, priority=5, queued_at=9))
    plan = run_cycle(state)
    assert (reserved(plan), evicted(plan)) == ({"w": "green"}, {})


def test_victims_leave_the_domain_that_has_the_cards():
    home = queue("team-a", gpus=99, preemption=preempts(within=LOWER))
    low = workload("low", pod_sets=(sliced(of=WHOLE, topology=IN_ONE_RACK),))
    state = state_of(small("a", "1"), node("b", "2"), low, home=home)
    run_cycle(state)
    state.take(gang(2, priority=5, queued_at=9))
    assert evicted(run_cycle(state)) == {"low": Code.PREEMPTED_IN_QUEUE}
    assert started(run_cycle(state))["w"] == {"b": 2}


def test_search_ends_soon_where_no_domain_will_do():
    """A thousand hosts that all look right and have no cards for two pods apart: a few looks, not one at each."""
    nodes = [node(f"n{n:04}", "1", amount=9 + n) for n in range(1000)]
    state = state_of(*nodes, gang(2, ON_ONE_HOST, rules=APART))
    assert is_done_within(1.0, lambda: run_cycle(state))
    assert where(state, "w") == {}


@pytest.mark.parametrize("count", [10**5, 10**9, 2**62])
@pytest.mark.parametrize("nodes", [[small("a", "1")], [node("a", "1", amount=2**62)]], ids=["no cards", "huge amounts"])
def test_gang_larger_than_the_cluster_gets_its_verdict_soon(count, nodes):
    """The threat model: never-schedulable with the reason, at a cost that does not grow with the number."""
    home = queue("team-a", gpus=2**62, preemption=preempts(within=LOWER))
    low = workload("low", pod_sets=(sliced(of=slice_of(memory_mib=50), topology=IN_ONE_RACK),))
    state = state_of(*nodes, low, home=home)
    run_cycle(state)
    state.take(gang(count, priority=5, queued_at=9))
    plans = []
    assert is_done_within(0.5, lambda: plans.append(run_cycle(state)))
    assert not where(state, "w") and not any(evicted(plan) for plan in plans)


@pytest.mark.prove
def test_gang_starts_just_where_some_domain_has_room_for_it():
    assert_sound(_starts_where_it_can, range(proof_count(2_000)))


def _starts_where_it_can(chance: Random) -> None:
    sizes = [slice_of(memory_mib=SIZE_MIB * part // 8, cores=cores) for part in (1, 2, 4, 8) for cores in (0, 20)]
    nodes = [
        node(f"n{n}", str(chance.randrange(3)), chance.randint(1, 3), memory_mib=chance.choice([100, SIZE_MIB]))
        for n in range(chance.randint(2, 6))
    ]
    rules = chance.choice([PodRules(), PodRules(), APART, ONE_PORT])
    before = [
        workload(
            f"old-{n}", pod_sets=(sliced(of=chance.choice(sizes), topology=TopologyRequest(is_unconstrained=True)),)
        )
        for n in range(chance.randrange(8))
    ]
    state = state_of(*nodes, *before)
    run_cycles(state, len(before))
    one = gang(
        chance.randint(1, 5),
        chance.choice([IN_ONE_RACK, ON_ONE_HOST]),
        of=chance.choice(sizes),
        rules=rules,
        queued_at=9,
    )
    room = _room(state, one, nodes)
    wanted = any(count >= one.pod_sets[0].count for count in room.values())
    state.take(one)
    run_cycle(state)
    assert bool(where(state, "w")) == wanted, f"{where(state, 'w')} with room for {room}"
    assert not list(violations(state))


def _room(state: EngineState, one: Workload, nodes: list[Node]) -> dict[str, int]:
    """How many of its pods each domain of the level that it requires takes, tried one by one."""
    slots, pods = slots_of(state), one.pod_sets[0]
    demand = slots.demand_of(one, pods, ("default",))
    assert pods.topology is not None
    room: dict[str, int] = {}
    mark = slots.checkpoint()
    for place in nodes:
        rows = slots._rows_at((HOSTNAME,), (place.name,))
        domain = place.labels[pods.topology.required]
        room[domain] = room.get(domain, 0) + len(place_up_to(slots.placer, demand, pods.count, rows))
    slots.rollback(mark)
    return room
