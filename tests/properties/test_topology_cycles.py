"""Topology in whole cycles: clusters in which workloads come, preempt, finish and lose nodes; checks come and go.

A world is a small cluster with random queues. In every step something happens to it and a cycle is run. Before a plan
is carried out, it is held against a plain count of what the hosts have (`tests/engine/topology_builders.py`): nothing
goes where there is no room or where it may not be, what must stay together is together, slices are whole, and the
numbers add up. Afterwards the state is as sound as before, and the same as one built anew from the objects. When
nothing happens any more, everybody has started who could; the exceptions are those that
`tests/engine/test_topology_cycles.py` shows in small.

Every world has a number. `World(Random(number)).run()` plays one; a failure names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings

from muster.engine.decide import decide
from muster.engine.invariants import unsafe_reserves, violations
from muster.engine.second_pass import DELAY_MOST_S
from muster.engine.state import EngineState
from muster.engine.topology import ask_of
from muster.model.labels import Taint, Toleration
from muster.model.plan import Plan, Requeue, Retry, Return
from muster.model.podspec import PodShape
from muster.model.queue import CheckRule, Order, PreemptionRules, Queue
from muster.model.resources import PODS
from muster.model.settings import FairSharing, Settings
from muster.model.topology import HOSTNAME, BoundPod, Node, TopologyRequest, TopologyRules
from muster.model.workload import CheckState, PodSet, Workload
from tests.engine.builders import (
    ANY,
    CPU,
    GPU,
    LOWER,
    NEVER,
    cohort,
    evicted_from,
    lines_of,
    pod_set,
    preempts,
    queue,
    remembered,
    snapshot_of,
    usage_of,
    workload,
)
from tests.engine.topology_builders import BLOCK, RACK, Ground, check_plan, racks
from tests.properties.oracle import check_places, check_plan_within_quota, check_usage
from tests.properties.strategies import chances, maybe
from tests.support import assert_sound, proof_count

BLOCKS = 20
RUNS = 10_000
STEPS = 10
CYCLES_MOST = 100
LEVELS = ((HOSTNAME,), (RACK, HOSTNAME), (BLOCK, RACK, HOSTNAME), (BLOCK, RACK))
TOP = "all"

# Random clusters -------------------------------------------------------------------------------------------------


def a_ground(chance: Random) -> Ground:
    """Nodes in up to two blocks of two racks; one flavor, or two that share nodes or do not."""
    levels = chance.choice(LEVELS)
    kinds = [racks("red", levels)]
    if maybe(chance, one_in=3):
        if levels[-1] == HOSTNAME and maybe(chance, one_in=2):
            kinds.append(racks("green", levels))  # the same hosts
        else:
            kinds = [racks(name, levels, labels={"pool": name}) for name in ("red", "green")]
    ground = Ground({kind.name: kind for kind in kinds})
    for number in range(chance.randint(2, 7)):
        learn(ground, a_node(chance, f"n{number}"))
    return ground


def a_node(chance: Random, name: str) -> Node:
    values = {BLOCK: chance.choice("AB"), RACK: chance.choice("12"), HOSTNAME: name}
    return Node(
        name=name,
        labels=values | {"pool": chance.choice(("red", "green")), "disk": chance.choice(("fast", "fast", "slow"))},
        taints=(Taint("busy"),) if maybe(chance, one_in=8) else (),
        allocatable={GPU: chance.randint(1, 5), CPU: chance.randint(2, 9), PODS: chance.choice((2, 9, 9))},
    )


def learn(ground: Ground, node: Node) -> None:
    ground.nodes[node.name] = ground.known[node.name] = node


def some_queues(chance: Random, ground: Ground) -> list[Queue]:
    """Queues, most of them of one cohort; some decide the place only after a check."""
    found = [cohort(TOP)]
    for number in range(chance.randint(1, 3)):
        flavors = {name: chance.randint(2, 9) for name in chance.sample(sorted(ground.flavors), len(ground.flavors))}
        one = queue(
            f"q{number}",
            cohort=None if maybe(chance, one_in=6) else TOP,
            flavors=flavors,
            order=chance.choice(tuple(Order)),
            preemption=preempts(
                within=chance.choice((NEVER, LOWER, LOWER)), reclaim=chance.choice((NEVER, LOWER, ANY))
            ),
            checks=(CheckRule(name="nodes", delays_place=True),) if maybe(chance, one_in=5) else (),
        )
        found.append(one)
    return found


def some_preemption(chance: Random) -> PreemptionRules:
    return preempts(within=chance.choice((NEVER, LOWER, LOWER)), reclaim=chance.choice((NEVER, LOWER, ANY)))


def some_settings(chance: Random) -> Settings:
    rules = TopologyRules(is_balanced=maybe(chance, one_in=4), packs_unconstrained=not maybe(chance, one_in=4))
    return Settings(
        fair_sharing=FairSharing() if maybe(chance, one_in=4) else None,
        topology_rules=rules,
        recomputes_places=not maybe(chance, one_in=4),
        replaces_nodes_fast=not maybe(chance, one_in=3),
    )


def a_request(chance: Random, levels: tuple[str, ...]) -> tuple[TopologyRequest | None, int]:
    """What pods ask of their place, and what their number must be a multiple of."""
    if maybe(chance, one_in=6):
        return None, 1
    asked = chance.randrange(len(levels))
    layers: tuple[tuple[str, int], ...] = ()
    if maybe(chance, one_in=3):
        outer, inner = chance.randrange(asked, len(levels)), chance.choice((1, 2))
        layers = ((levels[outer], inner * chance.choice((1, 2))),)
        if outer + 1 < len(levels) and maybe(chance, one_in=2):
            layers = (*layers, (levels[chance.randrange(outer + 1, len(levels))], inner))
    kind = chance.choice(("required", "required", "preferred", "slices" if layers else "anywhere"))
    request = TopologyRequest(
        required=levels[asked] if kind == "required" else "",
        preferred=levels[asked] if kind == "preferred" else "",
        is_unconstrained=kind == "anywhere",
        layers=layers,
    )
    return request, layers[0][1] if layers else 1


def a_shape(chance: Random) -> PodShape:
    return PodShape(
        node_selector={"disk": "fast"} if maybe(chance, one_in=5) else {},
        tolerations=(Toleration("busy", "Exists"),) if maybe(chance, one_in=3) else (),
    )


def some_pods(chance: Random, levels: tuple[str, ...]) -> tuple[PodSet, ...]:
    """Mostly one pod set; sometimes with a leader, sometimes two that do not know each other."""
    request, size = a_request(chance, levels)
    count = size * chance.randint(1, max(1, 5 // size))
    least = chance.randint(1, count) if maybe(chance, one_in=6) else count
    gpus, shape = chance.choice((1, 1, 2)), a_shape(chance)
    workers = pod_set("workers", count=count, least=least, gpus=gpus, shape=shape, topology=request)
    if maybe(chance, one_in=3):  # what quota does not count takes room on nodes all the same
        workers = replace(workers, shape=replace(workers.shape, requests={**workers.requests, CPU: 1}))
    if request is not None and maybe(chance, one_in=5):
        together = replace(request, group="g")
        leader = pod_set("leader", gpus=1, shape=a_shape(chance), topology=together)
        return leader, replace(workers, topology=together)
    if maybe(chance, one_in=6):
        return workers, replace(
            workers, name="others", count=1, count_least=1, topology=TopologyRequest(required=levels[-1])
        )
    return (workers,)


def of_its_kind(one: Workload) -> Workload:
    """The workload with the key of its kind: equal for those that the engine cannot tell apart."""
    kind = [(p.name, p.count, p.count_least, p.finished_pods, p.requests, p.shape, p.topology) for p in one.pod_sets]
    return replace(one, kind_key=f"{kind} {one.priority}")


# A world ---------------------------------------------------------------------------------------------------------


class World:
    """A cluster, its queues, and the engine's state of both."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.ground = a_ground(chance)
        self.levels = self.ground.flavors["red"].topology_levels
        self.queues = some_queues(chance, self.ground)
        self.settings = some_settings(chance)
        self.state = self.rebuilt({}, 0.0)
        self.count = 0
        self.leaving: list[str] = []
        self.held_off: set[str] = set()  # kept from a place by the hold of one that waits in vain

    def run(self, steps: int = STEPS) -> None:
        for _ in range(3):
            self.arrive()
        for _ in range(steps):
            for _ in range(self.chance.randint(1, 3)):
                self.chance.choice(self.events())()
            self.cycle()
        self.settle()

    def settle(self) -> None:
        """Nothing happens any more: whoever could start now has started."""
        seen: set[object] = set()
        for _ in range(CYCLES_MOST):
            self.pass_checks()
            plan = self.cycle(after_s=DELAY_MOST_S)
            if self.leaving or not all(isinstance(one, Requeue | Retry) for one in plan.decisions):
                seen.clear()
            elif (now := lines_of(self.state)) in seen:
                break
            else:
                seen.add(now)
        else:
            raise AssertionError(f"not quiet after {CYCLES_MOST} cycles: {plan.decisions}")
        if len(self.ground.flavors) > 1:
            return  # a node that comes while the search is at the second flavor is not noticed
        fresh = self.rebuilt(self.state.workloads, self.state.now)
        fresh.begin_cycle(fresh.now)
        late = {one.workload for one in decide(fresh).reserves} - self.held_off
        late -= {key for key in late if self.state.repeated_preemptor(self.state.workloads[key]) is not None}
        assert not late, f"{late} could have started"

    def rebuilt(self, workloads: Mapping[str, Workload], now: float) -> EngineState:
        """The state of the same objects, made from nothing."""
        ground = self.ground
        parts = (*self.queues, *ground.flavors.values(), *ground.nodes.values(), *ground.pods.values())
        return EngineState(snapshot_of(*parts, *workloads.values(), settings=self.settings, now=now))

    # What happens ------------------------------------------------------------------------------------------------

    def events(self) -> tuple[Callable[[], None], ...]:
        return (
            self.arrive,
            self.arrive,
            self.grow,
            self.finish,
            self.finish_pods,
            self.lose_node,
            self.change_node,
            self.bind_pod,
            self.free_pod,
            self.pass_checks,
        )

    def arrive(self) -> None:
        homes = [one.name for one in self.queues if one.is_leaf]
        pods, priority = some_pods(self.chance, self.levels), self.chance.randrange(3)
        name, self.count = f"w{self.count:02}", self.count + 1
        home, time = self.chance.choice(homes), float(self.count)
        self.state.take(of_its_kind(workload(name, queue=home, pod_sets=pods, priority=priority, queued_at=time)))

    def finish(self) -> None:
        held = sorted(one.workload.key for one in self.state.holders.all())
        if held:
            key = self.chance.choice(held)
            if maybe(self.chance, one_in=3):
                self.state.drop(key)
            else:
                self.state.take(replace(self.state.workloads[key], is_finished=True))
            self.leaving = [other for other in self.leaving if other != key]

    def finish_pods(self) -> None:
        """Some pods of a workload are done, and give their quota back, but not their place yet."""
        held = sorted(one.workload.key for one in self.state.holders.all())
        if held:
            one = self.state.workloads[self.chance.choice(held)]
            done = [replace(pods, finished_pods=self.chance.randint(0, pods.count)) for pods in one.pod_sets]
            self.state.take(of_its_kind(replace(one, pod_sets=tuple(done))))

    def grow(self) -> None:
        """A larger workload wants to take over from a running one."""
        held = sorted(one.workload.key for one in self.state.holders.all() if one.workload.is_admitted)
        if held:
            older = self.state.workloads[self.chance.choice(held)]
            *others, last = older.pod_sets
            larger = replace(last, count=last.count + 1, count_least=last.count + 1, finished_pods=0)
            fields = {"queue": older.queue, "replaces": older.key, "priority": older.priority}
            name, self.count = f"w{self.count:02}", self.count + 1
            self.state.take(workload(name, pod_sets=(*others, larger), queued_at=float(self.count), **fields))

    def lose_node(self) -> None:
        """A node goes or fails; sooner or later somebody tells the workloads that have pods there."""
        if not self.ground.nodes:
            return
        places = [use.assignment for held in self.state.holders.all() for use in held.places]
        used = {domain.values[-1] for place in places for domain in place.domains} & self.ground.nodes.keys()
        name = self.chance.choice(sorted(used if used and not maybe(self.chance, one_in=3) else self.ground.nodes))
        if maybe(self.chance, one_in=4):
            del self.ground.nodes[name]
            self.state.drop_node(name)
        else:
            failed = replace(self.ground.nodes[name], is_ready=False)
            learn(self.ground, failed)
            self.state.put_node(failed)
        for held in list(self.state.holders.all()):
            one = held.workload
            is_there = any(name in domain.values for use in held.places for domain in use.assignment.domains)
            if is_there and one.is_admitted and not maybe(self.chance, one_in=4):
                self.state.take(replace(one, unhealthy_nodes=(*one.unhealthy_nodes, name)))

    def change_node(self) -> None:
        """A node comes, or comes back, as another one; one that has pods stays where it is."""
        name = f"n{self.chance.randrange(8)}"
        node = a_node(self.chance, name)
        if name in self.ground.known:
            node = replace(node, labels=self.ground.known[name].labels)
        learn(self.ground, replace(node, is_schedulable=not maybe(self.chance, one_in=8)))
        self.state.put_node(self.ground.nodes[name])
        for held in list(self.state.holders.all()):
            one = held.workload
            if name in one.unhealthy_nodes and not maybe(self.chance, one_in=3):  # it is well again, and was seen
                left = tuple(other for other in one.unhealthy_nodes if other != name)
                self.state.take(replace(one, unhealthy_nodes=left))

    def bind_pod(self) -> None:
        key = f"other/p{self.chance.randrange(4)}"
        if key not in self.ground.pods:
            requests = {CPU: self.chance.randrange(3), GPU: self.chance.randrange(2)}
            self.ground.pods[key] = BoundPod(key=key, node=f"n{self.chance.randrange(8)}", requests=requests)
            self.state.put_pod(self.ground.pods[key])

    def free_pod(self) -> None:
        if self.ground.pods:
            key = self.chance.choice(sorted(self.ground.pods))
            del self.ground.pods[key]
            self.state.drop_pod(key)

    def pass_checks(self) -> None:
        for held in list(self.state.holders.all()):
            one = held.workload
            if not one.is_admitted and not one.is_evicted:
                self.state.take(replace(one, checks={"nodes": CheckState.READY}))

    # A cycle -----------------------------------------------------------------------------------------------------

    def cycle(self, after_s: float | None = None) -> Plan:
        state = self.state
        state.begin_cycle(state.now + (after_s or self.chance.choice((0.5, 1, 2, 30))))
        before = everything(state)
        plan = decide(state)
        assert everything(state) == before, "deciding changed the state"
        assert decide(state) == plan, "the same state gave two plans"
        check_plan_within_quota(state, plan)
        assert not list(unsafe_reserves(state, plan))
        check_plan(self.ground, state.workloads, plan)
        state.apply(plan)
        self.leaving += [one.workload for one in plan.evictions]
        self.note_holds(plan)
        self.let_some_go()
        check_usage(state)
        check_places(state)
        assert not list(violations(state))
        self.compare()
        return plan

    def note_holds(self, plan: Plan) -> None:
        """Who was refused behind one that waits in vain: a best-effort line forgets to try it again."""
        tried = [one for one in plan.decisions if isinstance(one, Requeue)]
        vain = [one.workload for one in tried if one.why is Return.PREEMPTION_NO_CANDIDATES]
        self.held_off -= {one.workload for one in tried if one.workload not in vain}
        self.held_off.update(vain[1:])

    def let_some_go(self) -> None:
        gone = [key for key in self.leaving if not maybe(self.chance, one_in=4)]
        for key in gone:
            leaver = evicted_from(self.state.workloads[key])
            self.state.take(replace(leaver, checks={}, unhealthy_nodes=()))
        self.leaving = [key for key in self.leaving if key not in gone]

    def compare(self) -> None:
        """A state made from the same objects knows the same and answers the same."""
        state, fresh = self.state, self.rebuilt(self.state.workloads, self.state.now)
        assert usage_of(fresh) == usage_of(state)
        assert pools(fresh) == pools(state)
        asks = {name: [] for name in self.ground.flavors}
        for number, pods in enumerate(some_pods(self.chance, self.levels)):
            asks[self.chance.choice(sorted(asks))].append(replace(ask_of(pods, pods.count), name=f"a{number}"))
        for is_empty in (False, True):
            assert fresh.places.topologies.find(asks, is_empty=is_empty) == state.places.topologies.find(
                asks, is_empty=is_empty
            )


def pools(state: EngineState) -> dict[str, object]:
    return {name: deepcopy(tree.pool.usage) for name, tree in state.places.topologies.trees.items()}


def everything(state: EngineState) -> dict[str, object]:
    due = [(at, state.second_pass.ready(at)) for at in (state.now, state.now + 5, state.now + 60)]
    return remembered(state) | {"pools": pools(state), "due": due}


# Proofs ----------------------------------------------------------------------------------------------------------


@given(chances)
@settings(max_examples=25)
def test_cycles_are_sound(chance):
    World(chance).run()


@pytest.mark.prove
@pytest.mark.parametrize("block", range(BLOCKS))
def test_cycles_are_sound_in_many_worlds(block):
    assert_sound(lambda chance: World(chance).run(), range(block, proof_count(RUNS), BLOCKS))
