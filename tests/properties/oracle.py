"""The quota rules said again, naive and recursive, from the declared quotas and the workloads alone.

It shares no arithmetic with the engine. The engine's numbers are compared with it, and the checks that must hold
after every step of any history are built on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from muster.engine.state import EngineState
from muster.model.plan import Finish, Plan
from muster.model.queue import Queue, Quota
from muster.model.resources import UNLIMITED, FlavorResource
from muster.model.workload import Workload

Usage = Mapping[str, Mapping[FlavorResource, int]]  # by leaf
NOTHING = Quota()


class QuotaOracle:
    """Answers of the quota tree, worked out from scratch at every question."""

    def __init__(self, queues: Iterable[Queue], used: Usage) -> None:
        self.queues = {queue.name: queue for queue in queues}
        self.used = used
        self._children: dict[str, list[str]] = {name: [] for name in self.queues}
        for name in self.queues:
            if (parent := self.parent(name)) is not None:
                self._children[parent].append(name)
        self._subtrees: dict[tuple[str, FlavorResource], int] = {}  # answers given before

    def keys(self) -> set[FlavorResource]:
        """Every flavor and resource that somebody declares or uses."""
        declared = {key for queue in self.queues.values() for key in queue.quotas}
        return declared | {key for amounts in self.used.values() for key in amounts}

    def quota(self, name: str, key: FlavorResource) -> Quota:
        return self.queues[name].quotas.get(key, NOTHING)

    def parent(self, name: str) -> str | None:
        parent = self.queues[name].parent
        return parent if parent in self.queues else None

    def subtree(self, name: str, key: FlavorResource) -> int:
        """What a node brings: its own share, and what its children would lend."""
        if (name, key) not in self._subtrees:
            lent = sum(self.subtree(child, key) - self.local(child, key) for child in self._children[name])
            self._subtrees[name, key] = self.quota(name, key).nominal + lent
        return self._subtrees[name, key]

    def local(self, name: str, key: FlavorResource) -> int:
        """What a node keeps to itself."""
        lendable = self.quota(name, key).lendable
        return 0 if lendable == UNLIMITED else max(0, self.subtree(name, key) - lendable)

    def usage(self, name: str, key: FlavorResource) -> int:
        """What a queue uses; of a cohort, what its children use beyond what they keep to themselves."""
        if self.queues[name].is_leaf:
            return self.used.get(name, {}).get(key, 0)
        return sum(max(0, self.usage(child, key) - self.local(child, key)) for child in self._children[name])

    def available(self, name: str, key: FlavorResource) -> int:
        """What more a node may use; below zero where somebody above is over."""
        used, local, parent = self.usage(name, key), self.local(name, key), self.parent(name)
        if parent is None:
            return self.subtree(name, key) - used
        from_parent = self.available(parent, key)
        borrowable = self.quota(name, key).borrowable
        if borrowable != UNLIMITED:
            lent_or_free = (self.subtree(name, key) - local) - max(0, used - local)
            from_parent = min(from_parent, lent_or_free + borrowable)
        return max(0, local - used) + from_parent

    def potential(self, name: str, key: FlavorResource) -> int:
        """What a node could get if nobody used anything."""
        parent = self.parent(name)
        if parent is None:
            return self.subtree(name, key)
        most = self.local(name, key) + self.potential(parent, key)
        borrowable = self.quota(name, key).borrowable
        return most if borrowable == UNLIMITED else min(most, self.subtree(name, key) + borrowable)

    def limit(self, name: str, key: FlavorResource) -> int:
        """What a node must never use more of by anybody's decision."""
        borrowable = self.quota(name, key).borrowable
        if self.parent(name) is None:
            return self.subtree(name, key)
        return UNLIMITED if borrowable == UNLIMITED else self.subtree(name, key) + borrowable

    def path(self, name: str) -> list[str]:
        """The node and all above it."""
        parent = self.parent(name)
        return [name] if parent is None else [name, *self.path(parent)]


def used_by(workloads: Iterable[Workload], queues: Mapping[str, Queue]) -> dict[str, dict[FlavorResource, int]]:
    """What the workloads that hold quota use of each queue; pods that finished have given theirs back."""
    total: dict[str, dict[FlavorResource, int]] = {}
    for workload in workloads:
        admission = workload.admission
        if admission is None or workload.is_finished or admission.queue not in queues:
            continue
        left = {pods.name: pods.count - pods.finished_pods for pods in workload.pod_sets}
        amounts = total.setdefault(admission.queue, {})
        for given in admission.pod_sets:
            count = min(given.count, max(0, left.get(given.name, given.count)))
            for resource, flavor in given.flavors.items():
                used = given.usage.get(resource, 0)
                if count != given.count:
                    used = used // given.count * count
                amounts[flavor, resource] = amounts.get((flavor, resource), 0) + used
    return {queue: {key: used for key, used in amounts.items() if used} for queue, amounts in total.items()}


def oracle_of(state: EngineState) -> QuotaOracle:
    """The oracle over what a state knows of queues and workloads."""
    queues = {name: node.queue for name, node in state.tree.nodes.items()}
    return QuotaOracle(queues.values(), used_by(state.workloads.values(), queues))


# What must hold after every step ---------------------------------------------------------------------------------


def check_usage(state: EngineState) -> None:
    """Every node uses what the workloads below it hold, by the rules; nothing is negative."""
    oracle = oracle_of(state)
    keys = oracle.keys()
    for name, node in state.tree.nodes.items():
        want = {key: used for key in keys if (used := oracle.usage(name, key))}
        assert node.usage == want, f"{name} uses {node.usage}, its workloads {want}"
        assert min(node.usage.values(), default=0) >= 0, f"{name} uses less than nothing: {node.usage}"


def check_places(state: EngineState) -> None:
    """Every workload is in exactly one place, and nobody else is anywhere."""
    found: dict[str, list[str]] = {key: [] for key in state.workloads}
    for held in state.holders.all():
        found.setdefault(held.workload.key, []).append("holding")
    for name, line in state.lines.items():
        for workload in line.waiting():
            found.setdefault(workload.key, []).append(f"in line of {name}")
        for workload in line.parked():
            found.setdefault(workload.key, []).append(f"parked in {name}")
    for key, workload in state.workloads.items():
        if workload.is_finished:
            found[key].append("finished")
        elif workload.admission is None and not _may_wait(state, workload):
            found[key].append("not queued")
    wrong = {key: places for key, places in found.items() if len(places) != 1}
    assert not wrong, f"not in exactly one place: {wrong}"
    for name, line in state.lines.items():
        strangers = [w.key for w in (*line.waiting(), *line.parked()) if state.workloads[w.key] is not w]
        assert not strangers, f"{name} keeps an old version of {strangers}"


def _may_wait(state: EngineState, workload: Workload) -> bool:
    return workload.is_active and not workload.gates and workload.queue in state.lines


def excess(oracle: QuotaOracle) -> dict[tuple[str, FlavorResource], int]:
    """By how much each node is above what it must never use more of."""
    over = {}
    keys = oracle.keys()
    for name in oracle.queues:
        for key in keys:
            above = oracle.usage(name, key) - oracle.limit(name, key)
            if above > 0:
                over[name, key] = above
    return over


def check_plan_within_quota(state: EngineState, plan: Plan) -> None:
    """Taken one by one in their order, no decision takes what the tree does not have. To be asked before it is applied.

    A slice that takes over from an older one is charged for what comes on top, so the older one leaves first.
    """
    workloads = dict(state.workloads)
    for decision in plan.decisions:
        if isinstance(decision, Finish):
            workloads.pop(decision.workload)
    queues = {name: node.queue for name, node in state.tree.nodes.items()}
    for reserve in plan.reserves:
        oracle = QuotaOracle(queues.values(), used_by(workloads.values(), queues))
        leaf = reserve.admission.queue
        for key, amount in reserve.admission.usage().items():
            free = max(0, oracle.available(leaf, key))
            assert amount <= free, f"{reserve.workload} takes {amount} of {key}, and {leaf} has {free}"
        holding = {reserve.workload: replace(state.workloads[reserve.workload], admission=reserve.admission)}
        after = QuotaOracle(queues.values(), used_by({**workloads, **holding}.values(), queues))
        before_excess = excess(oracle)
        grown = {at: by for at, by in excess(after).items() if by > before_excess.get(at, 0)}
        assert not grown, f"{reserve.workload} adds to an excess: {grown}"
        workloads |= holding
