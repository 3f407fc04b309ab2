"""Quota preemption: who leaves a queue whose maximum was lowered below what it holds. Called by who reads applications.

A queue that holds more than its maximum is given its `quota.preemption.delay` to get below it by itself. Then pods
leave, the least important and youngest first, as few as it takes, and none by which the queue would fall below its
guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from muster.model.queue import Queue
from muster.model.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """The maximum of a queue that evicts what is above it."""

    most: Mapping[str, int]
    guaranteed: Mapping[str, int]
    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenBack:
    """Who has to leave now, and which queues have been above their maximum since when."""

    leaving: tuple[str, ...] = ()  # workloads
    above_since: Mapping[str, float] = field(default_factory=dict)
    next_due: float | None = None  # when somebody may have to leave who need not yet


def take_back(
    workloads: Iterable[Workload],
    queues: Mapping[str, Queue],
    *,
    caps: Mapping[str, Cap],
    above_since: Mapping[str, float],
    now: float,
) -> TakenBack:
    """Who leaves the queues that have been above their maximum for too long."""
    members: dict[str, list[Workload]] = {name: [] for name in caps}
    for workload in workloads if caps else ():
        if workload.admission is not None and not workload.is_evicted:
            for name in _path(workload.queue, queues):
                if name in members:
                    members[name].append(workload)
    gone: dict[str, Workload] = {}
    since: dict[str, float] = {}
    # Whoever leaves a queue leaves those above it too, so these come last.
    for name in sorted(caps, key=lambda name: (-sum(1 for _ in _path(name, queues)), name)):
        cap, held = caps[name], [one for one in members[name] if one.key not in gone]
        if not _above(cap, _sum(held)):
            continue
        since[name] = above_since.get(name, now)
        if now >= since[name] + cap.delay_s:
            gone |= {one.key: one for one in _victims(cap, held)}
    due = (since[name] + caps[name].delay_s for name in since)
    return TakenBack(
        leaving=tuple(gone), above_since=since, next_due=min((one for one in due if one > now), default=None)
    )


def _path(queue: str, queues: Mapping[str, Queue]) -> Iterator[str]:
    """A queue and those above it."""
    name: str | None = queue
    while name is not None and name in queues:
        yield name
        name = queues[name].parent


def _victims(cap: Cap, held: Sequence[Workload]) -> Iterator[Workload]:
    use = _sum(held)
    for one in sorted(held, key=lambda one: (not one.is_preemptible, one.priority, -one.created_at, one.key)):
        above = _above(cap, use)
        if not above:
            return
        asked = _sum((one,))
        is_needed = any(asked.get(name) for name in above)
        keeps = all(use[name] - amount >= cap.guaranteed.get(name, 0) for name, amount in asked.items())
        if is_needed and keeps:
            use = {name: amount - asked.get(name, 0) for name, amount in use.items()}
            yield one


def _above(cap: Cap, use: Mapping[str, int]) -> list[str]:
    return [name for name, most in cap.most.items() if use.get(name, 0) > most]


def _sum(workloads: Iterable[Workload]) -> dict[str, int]:
    total: dict[str, int] = {}
    for workload in workloads:
        for (_, name), amount in workload.admission.usage().items() if workload.admission is not None else ():
            total[name] = total.get(name, 0) + amount
    return total
