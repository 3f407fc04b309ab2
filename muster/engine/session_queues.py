"""What queues are due and have promised, as several policies reckon it. Used by policies opened with a session.

What a group needs at least counts as used from the moment that it is taken up, whether its pods are there or not; what
its pods hold beyond that does not count against others that want to be taken up.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.engine.session import Session
from muster.engine.standing import Standing
from muster.engine.vectors import INFINITE, MEMORY, Vector, add, least_of, minus, plus, total_of
from muster.model.groups import HOLDING, FairQueue, GroupPhase, PodStatus
from muster.model.resources import CPU


def promised_at_start(group: Standing) -> dict[str, float]:
    """What a group that was taken up before the session still lacks of what it needs at least."""
    least = group.group.resources_least
    if least is None:
        return {}
    is_running = group.phase is GroupPhase.RUNNING and group.of(HOLDING) >= group.count_least
    if group.phase is not GroupPhase.INQUEUE and not is_running:
        return {}
    return minus(least, group.allocated)


def elastic(group: Standing) -> dict[str, float]:
    """What a group holds beyond what it needs at least."""
    return minus(group.allocated, group.group.resources_least or {})


def asked_by(groups: Iterable[Standing]) -> dict[str, float]:
    """What groups hold and wait for."""
    total: dict[str, float] = {}
    for group in groups:
        add(total, group.allocated)
        for pod in group.pods.values():
            if pod.status is PodStatus.PENDING:
                add(total, pod.requests)
    return total


def capability_of(queue: FairQueue) -> dict[str, float] | None:
    """What a queue may use at most; cpu and memory are unlimited where it does not name them."""
    if not queue.capability:
        return None
    known: dict[str, float] = dict(queue.capability)
    for name in (CPU, MEMORY):
        if not known.get(name):
            known[name] = INFINITE
    return known


def real_capabilities(session: Session) -> dict[str, dict[str, float]]:
    """What each queue could use: all there is less what is kept for others, and no more than its own bound."""
    unkept = minus(session.total, total_of(one.queue.guarantee for one in session.queues.values()))
    found = {}
    for name, one in session.queues.items():
        free = plus(unkept, one.queue.guarantee)
        capability = capability_of(one.queue)
        found[name] = free if capability is None else least_of(free, capability)
    return found


def need_of(group: Standing) -> Vector:
    """What a group needs at least."""
    return group.group.resources_least or {}
