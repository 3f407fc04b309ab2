"""reclaim: queues take back from others what is their own share. Volcano's action of that name."""

from __future__ import annotations

import numpy as np

from muster.engine.session import Session
from muster.engine.session_order import Ordered
from muster.engine.session_places import classes, open_rows, place_on
from muster.engine.stages.preempt_pods import InVain, starving
from muster.engine.standing import PodStanding, QueueStanding, Standing
from muster.engine.vectors import total_of
from muster.model.groups import PodStatus


def reclaim(session: Session) -> None:
    """Let starving groups of queues that have less than their share take from other queues."""
    lines: dict[str, Ordered[Standing]] = {}
    for group in starving(session):
        lines.setdefault(group.queue, Ordered(session.compare_groups)).push(group)
    queues: Ordered[QueueStanding] = Ordered(session.compare_queues, [session.queues[name] for name in lines])
    while queues:
        queue = queues.pop()
        if session.tiers.is_overused(queue.name) or not lines[queue.name]:
            continue
        _reclaim_for_group(session, lines[queue.name].pop())
        queues.push(queue)


def _reclaim_for_group(session: Session, group: Standing) -> None:
    mark = session.checkpoint()
    in_vain = InVain(session)
    for pod in session.sorted_pods(group.pending()):
        if not session.tiers.is_starving(group):
            break
        if in_vain.has(pod) or not pod.pod.may_preempt or not session.tiers.is_preemptive(group.queue, pod):
            continue
        if not _reclaim_for(session, pod):
            in_vain.add(pod)
    if not session.tiers.is_promised(group):
        session.rollback(mark)


def _reclaim_for(session: Session, pod: PodStanding) -> bool:
    """Find a node where pods of other queues leave for a pod, and promise it the place."""
    for rows in classes(session, open_rows(session, pod)):
        for row in np.flatnonzero(rows).tolist():
            if _reclaim_on(session, pod, row):
                return True
    return False


def _reclaim_on(session: Session, pod: PodStanding, row: int) -> bool:
    candidates = [other for other in session.on_row.get(row, {}).values() if _may_go(session, other, pod)]
    if not candidates:
        return False
    ordered = session.victim_order(candidates, pod)
    named = session.tiers.reclaim(pod, ordered)
    victims = [other for other in ordered if other.key in named]
    if not session.has_future_room(pod, row, total_of(other.requests for other in victims)):
        return False
    mark = session.checkpoint()
    for victim in victims:
        if session.has_future_room(pod, row):
            break
        session.evict(victim)
    placed = place_on(session, pod, row)
    if placed is None:
        session.rollback(mark)
        return False
    session.pipeline(pod, placed.row, placed.held)
    return True


def _may_go(session: Session, other: PodStanding, pod: PodStanding) -> bool:
    queue = session.queues[other.owner.queue].queue
    return (
        other.status is PodStatus.RUNNING
        and other.pod.is_preemptable
        and other.owner.queue != pod.owner.queue
        and queue.is_reclaimable
    )
