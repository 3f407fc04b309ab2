"""capacity: queues have shares of their own by resource, and lend what they do not use. Volcano's plugin of that name.

A queue may use up to its capability, and is due what it deserves: beyond that others may take back what is theirs.
With a hierarchy every bound of a queue holds for all below it together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.engine.policy import Hooks, Policy, Vote, argument
from muster.engine.session import Session
from muster.engine.session_queues import capability_of, elastic, need_of, promised_at_start, real_capabilities
from muster.engine.session_tree import ROOT, QueueTree
from muster.engine.standing import PodStanding, Standing
from muster.engine.vectors import (
    Vector,
    add,
    asked_names,
    dominant_share,
    exceeds_somewhere,
    is_within,
    least_of,
    minus,
    most_of,
    plus,
    total_of,
)
from muster.model.resources import PODS


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Whether queues are a tree, and how far up it victims' queues must have more than they deserve."""

    hierarchy: bool = False
    ancestor_level: int = argument(0, least=0, alias="ancestorReclaimLevel")
    device_claims: bool = argument(False, alias="capacity.DynamicResourceAllocationEnable")
    device_capacity: bool = argument(False, alias="capacity.DRAConsumableCapacityEnable")


def build(arguments: Arguments) -> Hooks:
    return Hooks(open=lambda session: _Capacity(session, arguments).hooks())


class _Capacity:
    """The shares of one session."""

    def __init__(self, session: Session, arguments: Arguments) -> None:
        self.session = session
        self.arguments = arguments
        self.tree = QueueTree(session.queues)
        self.is_open = self.tree.is_usable or not arguments.hierarchy
        self.guarantee: dict[str, Vector] = {}
        self.capability: dict[str, Vector] = {}
        self.deserved: dict[str, dict[str, float]] = {}
        if arguments.hierarchy and self.is_open:
            self._settle_tree()
        else:
            self._settle_flat()
        self.promised = {
            name: total_of(promised_at_start(group) for group in queue.groups) for name, queue in session.queues.items()
        }
        self.elastic = {
            name: total_of(elastic(group) for group in queue.groups) for name, queue in session.queues.items()
        }

    def _settle_flat(self) -> None:
        self.capability.update(real_capabilities(self.session))
        for name, standing in self.session.queues.items():
            queue = standing.queue
            self.guarantee[name] = queue.guarantee
            self.deserved[name] = most_of(least_of(queue.deserved, self.capability[name]), queue.guarantee)

    def _settle_tree(self) -> None:
        """From the root down: a queue has what its parent has where it says nothing, less what is kept for others."""
        root = self.session.queues.get(ROOT)
        guarantee = {name: self._guarantee_of(name) for name in self.tree.below(ROOT)}
        self.guarantee = dict(guarantee)
        own = (capability_of(root.queue) or {}) if root is not None else {}
        self.capability[ROOT] = least_of(self.session.total, own)
        for parent in self.tree.below(ROOT):
            children = self.tree.children.get(parent, [])
            kept = total_of(guarantee[child] for child in children)
            for child in children:
                free = plus(minus(self.capability[parent], kept), guarantee[child])
                self.capability[child] = least_of(free, self.session.queues[child].queue.capability or {})
        for name in reversed(self.tree.below(ROOT)):
            standing = self.session.queues.get(name)
            wished: Vector = standing.queue.deserved if standing is not None and name != ROOT else {}
            if name == ROOT:
                wished = total_of(self.deserved[child] for child in self.tree.children[ROOT])
            self.deserved[name] = most_of(least_of(wished, self.capability[name]), guarantee[name])

    def _guarantee_of(self, name: str) -> Vector:
        if name == ROOT:
            return total_of(self.session.queues[child].queue.guarantee for child in self.tree.children[ROOT])
        return self.session.queues[name].queue.guarantee

    def hooks(self) -> Hooks:
        return Hooks(
            compare_queues=self.compare,
            compare_victim_queues=self.compare_victims if self.arguments.hierarchy else None,
            allocatable=self.may_take,
            preemptive=self.may_take_back,
            reclaim=self.above_share,
            evict=self.of_others_above_share,
            valid=lambda _: "" if self.is_open else self.tree.problem,
            enqueueable=self.enqueueable,
            enqueued=self.enqueued,
        )

    # Order -----------------------------------------------------------------------------------------------------------

    def compare(self, first: str, second: str) -> int:
        """By priority, by how much of its share it has, and those with a share before those without."""
        if self.arguments.hierarchy and self.is_open:
            first, second = self.tree.split(first, second)
        one, two = self.session.queues.get(first), self.session.queues.get(second)
        by_priority = (two.queue.priority if two else 0) - (one.queue.priority if one else 0)
        if by_priority:
            return by_priority
        left, right = self._share(first), self._share(second)
        if left != right:
            return 1 if left > right else -1
        return (not self.deserved[first]) - (not self.deserved[second])

    def _share(self, name: str) -> float:
        deserved = self.deserved[name]
        return dominant_share(self._held(name), deserved) if deserved else 1.0

    def _held(self, name: str) -> Vector:
        return self.tree.held_by(name) if self._is_tree else self.session.queues[name].allocated

    @property
    def _is_tree(self) -> bool:
        return self.arguments.hierarchy and self.is_open

    def _path(self, name: str) -> list[str]:
        return self.tree.path(name) if self._is_tree else [name]

    def compare_victims(self, first: str, second: str, preemptor: str) -> int:
        """Those nearer to the one that takes back lose first."""
        if not self.is_open:
            return 0
        one, two = self.tree.shared_depth(first, preemptor), self.tree.shared_depth(second, preemptor)
        return two - one

    # Letting in ------------------------------------------------------------------------------------------------------

    def _takes_part(self, name: str) -> bool:
        if not self.is_open or not self.session.queues[name].queue.is_open:
            return False
        return not self._is_tree or self.tree.is_leaf(name)

    def may_take(self, queue: str, pod: PodStanding) -> bool:
        """Whether a queue, and all above it, may use one pod more."""
        if not self._takes_part(queue):
            return False
        return all(
            is_within(plus(self._held(name), pod.requests), self._limit(name), self._asked(pod.requests))
            for name in self._path(queue)
        )

    def _limit(self, name: str) -> Vector:
        return self.capability[name]

    def _asked(self, request: Vector) -> list[str]:
        """The resources that a request is about; places for pods only where nodes say how many they have."""
        return [name for name in asked_names(request) if name != PODS or PODS in self.session.total]

    def may_take_back(self, queue: str, pod: PodStanding) -> bool:
        """Whether a queue may use one pod more and is still due some of what the pod asks for."""
        if not self._takes_part(queue):
            return False
        used = plus(self._held(queue), pod.requests)
        asked = self._asked(pod.requests)
        if not is_within(used, self._limit(queue), asked):
            return False
        # A place for a pod is no reason to take something back.
        return any(is_within(used, self.deserved[queue], [name]) for name in asked if name != PODS)

    def enqueueable(self, group: Standing) -> Vote:
        if not self._takes_part(group.queue):
            return Vote.REJECT
        need = need_of(group)
        for name in self._path(group.queue) if need else ():
            used = plus(need, self._held(name), self._summed(self.promised, name))
            add(used, self._summed(self.elastic, name), -1)
            if not is_within(used, self._limit(name), asked_names(need)):
                return Vote.REJECT
        return Vote.PERMIT

    def _summed(self, by_queue: dict[str, dict[str, float]], name: str) -> Vector:
        if not self._is_tree:
            return by_queue[name]
        return total_of(by_queue[one] for one in self.tree.below(name) if one in by_queue)

    def enqueued(self, group: Standing) -> None:
        add(self.promised[group.queue], need_of(group))

    # Taking back -----------------------------------------------------------------------------------------------------

    def of_others_above_share(self, reclaimer: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
        """The same for pods of other queues; on those of its own it has no opinion."""
        own = frozenset(pod.key for pod in candidates if pod.owner.queue == reclaimer.owner.queue)
        return own | self.above_share(reclaimer, [pod for pod in candidates if pod.key not in own])

    def above_share(self, reclaimer: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
        """Pods of queues that have more than they deserve of something, as long as they have."""
        if not self.is_open:
            return frozenset()
        held: dict[str, dict[str, float]] = {}
        named: set[str] = set()
        asked = {name for name in asked_names(reclaimer.requests) if name != PODS}
        for pod in candidates:
            queue = pod.owner.queue
            dims = [name for name in asked_names(pod.requests) if name != PODS]
            if not asked.intersection(dims):
                continue
            path = self._checked(queue, reclaimer.owner.queue)
            for name in path:
                held.setdefault(name, dict(self._held(name)))
            left = dict(held[queue])
            add(left, pod.requests, -1)
            if not is_within(self.guarantee[queue], left):
                continue
            if all(self._has_more(name, held[name], dims) for name in path):
                named.add(pod.key)
                for name in path:
                    add(held[name], pod.requests, -1)
        return frozenset(named)

    def _has_more(self, name: str, held: Vector, dims: list[str]) -> bool:
        deserved = self.deserved[name]
        return not any(one in deserved for one in dims) or exceeds_somewhere(held, deserved, dims)

    def _checked(self, queue: str, reclaimer: str) -> list[str]:
        """The queue itself and so many of those above it as have to have more than they deserve."""
        if not self._is_tree or not self.arguments.ancestor_level:
            return [queue]
        shared = set(self.tree.path(reclaimer))
        own = [name for name in self.tree.path(queue) if name not in shared]
        return own[: self.arguments.ancestor_level + 1] or [queue]


POLICY = Policy(name="capacity", arguments=Arguments, build=build)
