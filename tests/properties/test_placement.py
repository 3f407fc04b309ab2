"""Placement in whole cycles: nodes, foreign pods, gangs and slices that come, bind, fail and go, with every invariant.

A world is a small cluster with random queues. In every step something happens to it and a cycle is run. Before a plan
is carried out it is held against a plain count of what the nodes and cards have; afterwards the state is as sound as
before, and the same as one built anew from the objects. When nothing fails any more, all become quiet, and whoever
could start has started.

Every world has a number. `World(Random(number)).run()` plays one; a failure names it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings

from muster.engine.decide import decide
from muster.engine.invariants import differences, node_facts, unsafe_places, unsafe_reserves, violations
from muster.engine.stages.grow import without_slots
from muster.engine.state import EngineState
from muster.model.plan import Amend, Evict, Plan, Requeue, Reserve, Retry, Return, Shrink
from muster.model.queue import Order
from muster.model.topology import BoundPod, TopologyRequest
from muster.model.workload import Admission, Workload
from tests.engine.builders import lines_of, remembered, snapshot_of, workload
from tests.engine.slot_builders import LEVELS, PLAIN, POLICIES, gone, plain_queue, slots_for, slots_of
from tests.properties.oracle import check_places, check_plan_within_quota, check_usage
from tests.properties.placement_strategies import (
    DEADLINE_S,
    Count,
    a_node,
    a_pod,
    of_its_kind,
    slots_in,
    some_flavors,
    some_pods,
    some_queues,
    some_settings,
)
from tests.properties.strategies import chances, maybe
from tests.support import assert_sound, is_full_proof

BLOCKS = 20
RUNS = 10_000
RUNS_OFTEN = 100  # in an ordinary run
STEPS = 8
CYCLES_MOST = 120
QUIET_S = 10.0  # between two cycles while nothing happens: a place that was not found is looked for less often

# A world -------------------------------------------------------------------------------------------------------------


class World:
    """A cluster, its queues, and the engine's state of both."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.nodes = {name: a_node(chance, name) for name in (f"n{number}" for number in range(chance.randint(1, 5)))}
        self.pods: dict[str, BoundPod] = {}
        self.flavors = some_flavors(chance)
        self.queues = some_queues(chance, self.flavors)
        self.settings = some_settings(chance)
        self.policy = chance.choice(sorted(POLICIES))
        self.state = self.rebuilt({}, 0.0)
        self.count = 0

    @property
    def has_topology(self) -> bool:
        return bool(self.flavors[0].topology)

    def rebuilt(self, workloads: Mapping[str, Workload], now: float) -> EngineState:
        """The state of the same objects, made from nothing."""
        parts = (
            plain_queue(),
            *self.queues,
            *self.flavors,
            *self.nodes.values(),
            *self.pods.values(),
            *workloads.values(),
        )
        snapshot = snapshot_of(*parts, settings=self.settings, now=now)
        return EngineState(snapshot, slots_for(snapshot, hooks=[POLICIES[self.policy]]))

    def run(self, steps: int = STEPS) -> None:
        for _ in range(3):
            self.arrive()
        for _ in range(steps):
            for _ in range(self.chance.randint(1, 3)):
                self.chance.choice(self.events())()
            self.cycle()
            self.let_some_go(one_in=3)
            self.compare()
        self.settle()
        self.compare()

    # What happens ----------------------------------------------------------------------------------------------------

    def events(self) -> tuple[Callable[[], None], ...]:
        return (
            self.arrive,
            self.arrive,
            self.arrive,
            self.finish,
            self.bind_some,
            self.bind_some,
            self.lose_node,
            self.change_node,
            self.put_pod,
            self.drop_pod,
            self.change_priority,
        )

    def arrive(self) -> None:
        chance = self.chance
        homes = [one.name for one in self.queues if one.is_leaf] + ([] if self.has_topology else [PLAIN])
        home, is_elastic = chance.choice(homes), maybe(chance, one_in=3)
        request = None
        if home == PLAIN or self.has_topology:
            level = chance.choice(LEVELS)
            request = chance.choice((None, TopologyRequest(required=level), TopologyRequest(preferred=level)))
        if self.has_topology and request is None:
            request = TopologyRequest(is_unconstrained=True)
        names = ("workers", "leader")[: 2 if maybe(chance, one_in=4) else 1]
        pod_sets = tuple(some_pods(chance, name, request, is_elastic=is_elastic) for name in names)
        total = sum(pods.count for pods in pod_sets)
        name, self.count = f"w{self.count:02}", self.count + 1
        one = workload(
            name,
            queue=home,
            pod_sets=pod_sets,
            priority=chance.randrange(3),
            queued_at=float(self.count),
            is_elastic=is_elastic,
            pods_least=chance.randint(1, total) if is_elastic and maybe(chance, one_in=2) else 0,
        )
        self.state.take(of_its_kind(one))

    def holders(self) -> list[Workload]:
        return sorted((one.workload for one in self.state.holders.all()), key=lambda one: one.key)

    def finish(self) -> None:
        if held := self.holders():
            one = self.chance.choice(held)
            if maybe(self.chance, one_in=3):
                self.state.drop(one.key)
            else:
                self.state.take(replace(one, is_finished=True))

    def bind_some(self) -> None:
        """Some pods of a gang find their node, and some fail and are without one again."""
        if held := [one for one in self.holders() if one.slot_count and not one.is_evicted]:
            one = self.chance.choice(held)
            bound = self.chance.randint(0, one.slot_count)
            self.state.take(
                replace(one, pods_bound=bound, is_ready=bound == one.slot_count and maybe(self.chance, one_in=2))
            )

    def lose_node(self) -> None:
        """A node goes or fails; sooner or later somebody tells the workloads that have pods there."""
        if not self.nodes:
            return
        used = {slot.node for one in self.holders() for _, slot in slots_in(one.admission)} & self.nodes.keys()
        name = self.chance.choice(sorted(used or self.nodes))
        if maybe(self.chance, one_in=3):
            del self.nodes[name]
            self.state.drop_node(name)
        else:
            self.nodes[name] = replace(self.nodes[name], is_ready=False)
            self.state.put_node(self.nodes[name])
        for one in self.holders():
            is_there = any(slot.node == name for _, slot in slots_in(one.admission))
            if is_there and one.is_admitted and not maybe(self.chance, one_in=4):
                self.state.take(replace(one, unhealthy_nodes=(*one.unhealthy_nodes, name)))

    def change_node(self) -> None:
        """A node comes, or comes back, larger or smaller; its labels stay."""
        name = f"n{self.chance.randrange(7)}"
        node = a_node(self.chance, name)
        if name in self.nodes:
            node = replace(node, labels=self.nodes[name].labels)
        self.nodes[name] = node
        self.state.put_node(node)

    def put_pod(self) -> None:
        key = f"other/p{self.chance.randrange(5)}"
        self.pods[key] = a_pod(self.chance, key, self.nodes)
        self.state.put_pod(self.pods[key])

    def drop_pod(self) -> None:
        if self.pods:
            key = self.chance.choice(sorted(self.pods))
            del self.pods[key]
            self.state.drop_pod(key)

    def change_priority(self) -> None:
        if held := self.holders():
            one = self.chance.choice(held)
            self.state.take(of_its_kind(replace(one, priority=self.chance.randrange(3))))

    def let_some_go(self, *, one_in: int) -> None:
        """Those told to leave have left, but for some who take their time."""
        for one in self.holders():
            if maybe(self.chance, one_in=one_in):
                continue
            if one.is_evicted:
                self.state.take(gone(one))
            elif one.leaving_slots:
                self.state.take(shrunk_by(one))

    # A cycle ---------------------------------------------------------------------------------------------------------

    def cycle(self, after_s: float | None = None) -> Plan:
        state = self.state
        state.begin_cycle(state.now + (after_s or self.chance.choice((0.3, 1, 2, DEADLINE_S))))
        before = everything(state)
        plan = decide(state)
        assert everything(state) == before, "deciding changed the state"
        assert decide(state) == plan, "the same state gave two plans"
        check_plan_within_quota(state, plan)
        unsafe = [*unsafe_reserves(state, plan), *unsafe_places(state, plan)]
        assert not unsafe, unsafe
        self.check_plan(plan)
        state.apply(plan)
        self.check()
        return plan

    def check_plan(self, plan: Plan) -> None:
        """Nobody is told twice; whoever comes to a node finds room there by a plain count; amends keep what stays."""
        told = Counter(one.workload for one in plan.decisions if isinstance(one, Evict | Shrink))
        assert all(count == 1 for count in told.values()), f"told twice: {told}"
        held, come = Count(), Count()
        changed = {one.workload: one.admission for one in plan.decisions if isinstance(one, Reserve | Amend)}
        for key, one in self.state.workloads.items():
            if one.is_finished:
                continue
            requests = {pods.name: pods.shape.requests for pods in one.pod_sets}
            before, after = Counter(slots_in(one.admission)), Counter(slots_in(changed.get(key, one.admission)))
            for name, slot in after.elements():
                held.add(requests[name], slot)
            for name, slot in (after - before).elements():
                assert slot.node in self.nodes, f"{key} is put on {slot.node}, which is not there"
                come.add(requests[name], slot)
            if key in changed:
                assert key not in told, f"{key} is told to go and is given something"
                self.check_together(one, changed[key])
        problems = list(held.problems(self.nodes, come))
        assert not problems, problems

    def check_together(self, one: Workload, admission: Admission) -> None:
        """Pods that must be in one domain are in one, those that stay included."""
        for pods in one.pod_sets:
            if pods.topology is None or not pods.topology.required:
                continue
            names = {slot.node for name, slot in slots_in(admission) if name == pods.name}
            values = {self.nodes[name].labels[pods.topology.required] for name in names if name in self.nodes}
            assert len(values) <= 1, f"{one.key} must be in one {pods.topology.required} and is on {sorted(names)}"

    def check(self) -> None:
        state = self.state
        check_usage(state)
        check_places(state)
        wrong = list(violations(state))
        assert not wrong, wrong

    def compare(self) -> None:
        """A state made from the same objects knows the same: whatever was given back was given back once."""
        self.check()
        fresh = self.rebuilt(self.state.workloads, self.state.now)
        different = list(differences(self.state, fresh))
        assert not different, different

    # Quiet -----------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Nothing fails any more: all become quiet, and whoever could start now has started."""
        for node in list(self.nodes.values()):
            self.nodes[node.name] = replace(node, is_ready=True, is_schedulable=True)
            self.state.put_node(self.nodes[node.name])
        seen: set[object] = set()
        for _ in range(CYCLES_MOST):
            for one in self.holders():
                if not one.is_evicted and one.pods_bound < one.slot_count:
                    self.state.take(replace(one, pods_bound=one.slot_count, is_ready=True))
            plan = self.cycle(after_s=QUIET_S)
            self.let_some_go(one_in=10**9)
            if not all(isinstance(one, Requeue | Retry) for one in plan.decisions):
                seen.clear()
            elif any(isinstance(one, Retry) for one in plan.decisions):
                continue  # whom it looks for a place for is left alone, so all others are tried again
            elif (now := (lines_of(self.state), tries_of(plan))) in seen:
                break
            else:
                seen.add(now)
        else:
            raise AssertionError(f"not quiet after {CYCLES_MOST} cycles: {plan.decisions}")
        late = [key for key, one in sorted(self.state.workloads.items()) if self.could_start(one, plan)]
        assert not late, f"{late} could have started"

    def could_start(self, one: Workload, last: Plan) -> bool:
        """Whether a waiting workload would start if it was the only one that waits.

        Not meant are those for whom a line, a limit or a hold says otherwise: one that waits in vain keeps quota from
        others of its tree in every cycle in which it is tried. Pods that differ are placed one kind after the other,
        and with a topology domains are chosen before nodes: either may miss the one place that there is.
        """
        state = self.state
        vain = {d.queue for d in last.decisions if isinstance(d, Requeue) and d.why is Return.PREEMPTION_NO_CANDIDATES}
        if self.has_topology or len(one.pod_sets) > 1 or (vain and one.queue != PLAIN):
            return False
        if one.admission is not None or one.is_finished or state.repeated_preemptor(one) is not None:
            return False
        if self.state.deadlines.paused_until(one.key, state.now) is not None:
            return False
        line = state.lines[one.queue]
        if line.order is Order.STRICT_FIFO and (head := line.head()) is not None and head.key != one.key:
            return False
        holding = {key: other for key, other in state.workloads.items() if other.admission is not None}
        fresh = self.rebuilt({**holding, one.key: one}, state.now)
        fresh.begin_cycle(fresh.now)
        return bool(decide(fresh).reserves)


def shrunk_by(one: Workload) -> Workload:
    """A workload after the pods have left that were told to."""
    assert one.admission is not None
    given = tuple(without_slots(pods, one.leaving_slots.get(pods.name, ())) for pods in one.admission.pod_sets)
    admission = replace(one.admission, pod_sets=given)
    left = sum(len(pods.slots) for pods in given)
    return replace(one, admission=admission, leaving_slots={}, pods_bound=min(one.pods_bound, left))


def tries_of(plan: Plan) -> object:
    """Who was tried in vain, and how far the search went."""
    tried = [one for one in plan.decisions if isinstance(one, Requeue)]
    return tuple((one.workload, one.why, str(one.progress.tried) if one.progress is not None else "") for one in tried)


def everything(state: EngineState) -> dict[str, object]:
    due = [(at, state.second_pass.ready(at)) for at in (state.now, state.now + 5, state.now + 60)]
    return remembered(state) | {"nodes": node_facts(slots_of(state)), "due": due}


# Proofs --------------------------------------------------------------------------------------------------------------


@given(chances)
@settings(max_examples=10)
def test_placement_is_sound(chance):
    World(chance).run()


@pytest.mark.prove
@pytest.mark.parametrize("block", range(BLOCKS))
def test_placement_is_sound_in_many_worlds(block):
    assert_sound(lambda chance: World(chance).run(), range(block, RUNS if is_full_proof() else RUNS_OFTEN, BLOCKS))


@pytest.mark.parametrize("seed", [6341, 6987])
def test_a_pod_that_leaves_is_known_though_its_card_has_another_number_by_now(seed):
    World(Random(seed)).run()
