"""proportion: queues share the cluster by their weights, no queue more than it asks for. Volcano's plugin of that name.

What is left over by those that ask for less is shared out again among the others. Beyond its share a queue gets
nothing, and others may take back what it has there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.engine.policy import Hooks, Policy, Vote
from muster.engine.session import Session
from muster.engine.session_queues import asked_by, elastic, need_of, promised_at_start, real_capabilities
from muster.engine.standing import PodStanding, Standing
from muster.engine.vectors import (
    Vector,
    add,
    asked_names,
    dominant_share,
    is_nothing,
    is_within,
    least_of,
    most_of,
    plus,
    total_of,
)
from muster.model.resources import PODS

ROUNDS_MOST = 10_000


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """There is nothing to choose."""


def build(_arguments: Arguments) -> Hooks:
    return Hooks(open=lambda session: _Proportion(session).hooks())


def share_out(total: Vector, queues: dict[str, tuple[int, Vector, Vector, Vector]]) -> dict[str, dict[str, float]]:
    """What each queue deserves of a total, from its weight, what it asks for, could use and is guaranteed.

    Rounds give each queue that lacks something its part of what is left, until nobody does or nothing is left.
    """
    deserved: dict[str, dict[str, float]] = {name: {} for name in queues}
    met: set[str] = set()
    remaining = dict(total)
    for _ in range(ROUNDS_MOST):
        weights = sum(weight for name, (weight, *_) in queues.items() if name not in met)
        if not weights:
            break
        before, given = dict(remaining), dict[str, float]()
        for name, (weight, asked, capability, guarantee) in queues.items():
            if name in met:
                continue
            old = deserved[name]
            more = plus(old, {key: amount * weight / weights for key, amount in remaining.items()})
            new = least_of(more, capability)
            new = {key: min(amount, asked.get(key, 0)) for key, amount in new.items()}
            new = {key: amount for key, amount in most_of(new, guarantee).items() if amount}
            if is_within(asked, new) or _is_same(old, new):
                met.add(name)
            deserved[name] = new
            add(given, new)
            add(given, old, -1)
        add(remaining, given, -1)
        remaining = {key: max(amount, 0.0) for key, amount in remaining.items()}
        if is_nothing(remaining) or _is_same(before, remaining):
            break
    return deserved


def _is_same(first: Vector, second: Vector) -> bool:
    return is_within(first, second) and is_within(second, first)


class _Proportion:
    """The shares of one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._known: dict[str, tuple[int, float]] = {}
        busy = {name: queue for name, queue in session.queues.items() if queue.groups}
        self.capability = real_capabilities(session)
        asked = {name: asked_by(queue.groups) for name, queue in busy.items()}
        self.deserved = share_out(
            session.total,
            {
                name: (queue.queue.weight, asked[name], self.capability[name], queue.queue.guarantee)
                for name, queue in busy.items()
            },
        )
        self.promised = {
            name: total_of(promised_at_start(group) for group in queue.groups) for name, queue in busy.items()
        }
        self.elastic = {name: total_of(elastic(group) for group in queue.groups) for name, queue in busy.items()}

    def hooks(self) -> Hooks:
        return Hooks(
            compare_queues=self.compare,
            overused=self.is_overused,
            allocatable=self.may_take,
            preemptive=self.may_take,
            reclaim=self.above_share,
            evict=self.of_others_above_share,
            enqueueable=self.enqueueable,
            enqueued=self.enqueued,
        )

    def compare(self, first: str, second: str) -> int:
        one, two = self.session.queues[first].queue, self.session.queues[second].queue
        if one.priority != two.priority:
            return two.priority - one.priority
        left, right = self._share(first), self._share(second)
        return (left > right) - (left < right)

    def _share(self, queue: str) -> float:
        """The part that a queue has of its share, worked out anew only when it changed."""
        standing = self.session.queues[queue]
        known = self._known.get(queue)
        if known is None or known[0] != standing.changes:
            part = dominant_share(standing.allocated, self.deserved.get(queue, {}))
            known = self._known[queue] = (standing.changes, part)
        return known[1]

    def is_overused(self, queue: str) -> bool:
        """Whether it has all of its share, of everything."""
        return is_within(self.deserved.get(queue, {}), self.session.queues[queue].allocated)

    def may_take(self, queue: str, pod: PodStanding) -> bool:
        """Whether its share covers one pod more."""
        standing = self.session.queues[queue]
        if not standing.queue.is_open:
            return False
        used = plus(standing.allocated, pod.requests)
        # Places for pods are shared out only where nodes say how many they have.
        asked = [name for name in asked_names(pod.requests) if name != PODS or PODS in self.session.total]
        return is_within(used, self.deserved.get(queue, {}), asked)

    def of_others_above_share(self, reclaimer: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
        """The same for pods of other queues; on those of its own it has no opinion."""
        own = frozenset(pod.key for pod in candidates if pod.owner.queue == reclaimer.owner.queue)
        return own | self.above_share(reclaimer, [pod for pod in candidates if pod.key not in own])

    def above_share(self, _reclaimer: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
        """Pods of queues as long as those have more than their share."""
        allocated: dict[str, dict[str, float]] = {}
        named: set[str] = set()
        for pod in candidates:
            queue = pod.owner.queue
            used = allocated.setdefault(queue, dict(self.session.queues[queue].allocated))
            if not is_within(pod.requests, used):
                continue
            if not is_within(used, self.deserved.get(queue, {}), [name for name in used if name in self.session.total]):
                add(used, pod.requests, -1)
                named.add(pod.key)
        return frozenset(named)

    def enqueueable(self, group: Standing) -> Vote:
        queue = self.session.queues[group.queue]
        if not queue.queue.is_open:
            return Vote.REJECT
        need = need_of(group)
        if not need:
            return Vote.PERMIT
        used = plus(need, queue.allocated, self.promised[queue.name])
        add(used, self.elastic[queue.name], -1)
        is_room = is_within(used, self.capability[queue.name], asked_names(need))
        return Vote.PERMIT if is_room else Vote.REJECT

    def enqueued(self, group: Standing) -> None:
        add(self.promised[group.queue], need_of(group))


POLICY = Policy(name="proportion", arguments=Arguments, build=build)
