"""preempt: pods of a queue leave for more important ones of the same queue. Volcano's action of that name.

First groups take from other groups, whole or not at all; then pods of a group from less important ones of their own.
The place is promised at once: who preempts need not fear that somebody else comes before it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from muster.engine.node_table_rows import BoolArray
from muster.engine.session import Mark, Session
from muster.engine.session_order import Ordered
from muster.engine.session_places import by_score, fitting_rows, open_rows, place_on, rule_rows
from muster.engine.standing import PodStanding, Standing
from muster.engine.vectors import total_of
from muster.model.groups import GroupPhase, PodStatus

MayGo = Callable[[PodStanding], bool]
_LEAVABLE = frozenset((PodStatus.BOUND, PodStatus.RUNNING))


def preempt(session: Session) -> None:
    """Let starving groups have places at the cost of others of their queue."""
    hungry = starving(session)
    for queue in session.queues.values():
        own = [group for group in hungry if group.queue == queue.name]
        pods = {group.key: session.sorted_pods(group.pending()) for group in own}
        line = Ordered(session.compare_groups, own)
        while line:
            group = line.pop()
            if _preempt_for_group(session, group, pods[group.key]):
                line.push(group)
        for group in own:
            _preempt_within(session, group)


def starving(session: Session) -> list[Standing]:
    """Groups for which others may leave."""
    return [
        group
        for group in session.groups.values()
        if group.phase is not GroupPhase.PENDING
        and not (group.near is not None and group.near.tier is not None)
        and not session.tiers.find_fault(group)
        and session.tiers.is_starving(group)
    ]


def _preempt_for_group(session: Session, group: Standing, pods: list[PodStanding]) -> bool:
    """Take from other groups; whether the last pod tried got a place and the group may go on."""
    mark = session.checkpoint()
    is_assigned = False
    in_vain = InVain(session)
    while pods and session.tiers.is_starving(group):
        pod = pods.pop(0)
        if in_vain.has(pod):
            is_assigned = False
            continue
        is_assigned = _preempt_for(session, pod, lambda other: other.owner is not group)
        if not is_assigned:
            in_vain.add(pod)
    if session.tiers.is_promised(group):
        return is_assigned
    session.rollback(mark)
    return False


class InVain:
    """Pods that were tried in vain: as long as nothing changes, it is in vain for pods like them as well."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tried: set[tuple[object, ...]] = set()
        self._version = session.version

    def has(self, pod: PodStanding) -> bool:
        """Whether one like it was tried since the last change."""
        return self._session.version == self._version and self._kind(pod) in self._tried

    def add(self, pod: PodStanding) -> None:
        """This one was tried in vain; what was done for it has been undone."""
        if self._session.version != self._version:
            self._tried.clear()
            self._version = self._session.version
        self._tried.add(self._kind(pod))

    @staticmethod
    def _kind(pod: PodStanding) -> tuple[object, ...]:
        given = pod.pod
        wishes = (given.priority, given.role, given.nominated_node, given.is_preemptable, given.may_preempt)
        return pod.demand, wishes, tuple(sorted(given.annotations.items()))


def _preempt_within(session: Session, group: Standing) -> None:
    """Take from pods of the group itself, as long as any gets a place.

    A place that nobody has to leave is no reason to hold it for a group that cannot start.
    """
    for pod in session.sorted_pods(group.pending()):
        mark, told_to_go = session.checkpoint(), len(session.outcome.evicted)
        if not _preempt_for(session, pod, lambda other: other.owner is group):
            break
        if len(session.outcome.evicted) == told_to_go and not session.tiers.is_promised(group):
            session.rollback(mark)
            break


def _preempt_for(session: Session, pod: PodStanding, is_other: MayGo) -> bool:
    """Find a node where others leave for a pod, and promise it the place."""
    if not _may_preempt(session, pod):
        return False

    def may_go(other: PodStanding) -> bool:
        return (
            other.status in _LEAVABLE
            and other.pod.is_preemptable
            and (other.is_best_effort or not pod.is_best_effort)
            and other.owner.queue == pod.owner.queue
            and is_other(other)
        )

    rows = open_rows(session, pod)
    if session.options.topology_aware:
        if not session.foresees:
            rows = rows & rule_rows(session, pod)
        return _preempt_least(session, pod, rows, may_go)
    return any(_preempt_on(session, pod, row, may_go) for row in by_score(session, pod, rows))


def _may_preempt(session: Session, pod: PodStanding) -> bool:
    """Whether a pod may have others leave: not where its policy forbids it or its place is being left already."""
    if not pod.pod.may_preempt:
        return False
    nominated = session.placer.table.find_row(pod.pod.nominated_node) if pod.pod.nominated_node else None
    if nominated is None:
        return True
    if fitting_rows(session, pod)[nominated]:
        return False
    leaving = session.on_row.get(nominated, {}).values()
    return not any(other.status is PodStatus.RELEASING and other.priority < pod.priority for other in leaving)


def victims_on(session: Session, pod: PodStanding, row: int, may_go: MayGo) -> list[PodStanding] | None:
    """Who on a row may be told to go, as policies agree, those first that go first; `None` where that is too little.

    Nobody may have to go: others may have been told to already.
    """
    candidates = session.victim_order([one for one in session.on_row.get(row, {}).values() if may_go(one)], pod)
    named = session.tiers.preempt(pod, candidates) if candidates else frozenset()
    victims = [other for other in candidates if other.key in named]
    has_room = session.has_future_room(pod, row, total_of(other.requests for other in victims))
    return victims if has_room else None


def _preempt_on(session: Session, pod: PodStanding, row: int, may_go: MayGo) -> bool:
    """Tell pods on a row to go until the pod fits there; all stay where it does not in the end."""
    victims = victims_on(session, pod, row, may_go)
    if victims is None:
        return False
    mark = session.checkpoint()
    for victim in victims:
        if _has_place(session, pod, row):
            break
        session.evict(victim)
    return promise(session, pod, row, mark)


def _has_place(session: Session, pod: PodStanding, row: int) -> bool:
    return session.tiers.is_allocatable(pod.owner.queue, pod) and bool(fitting_rows(session, pod)[row])


def promise(session: Session, pod: PodStanding, row: int, mark: Mark) -> bool:
    """Promise a pod a place on a row, or take back all that was done for it."""
    placed = place_on(session, pod, row) if _has_place(session, pod, row) else None
    if placed is None:
        session.rollback(mark)
        return False
    session.pipeline(pod, placed.row, placed.held)
    return True


# The node where the fewest go ----------------------------------------------------------------------------------------


def _preempt_least(session: Session, pod: PodStanding, rows: BoolArray, may_go: MayGo) -> bool:
    """Tell those to go on the node where the least important and fewest have to."""
    found: list[tuple[tuple[float, ...], int, list[PodStanding]]] = []
    for row in np.flatnonzero(rows).tolist():
        victims = _least_on(session, pod, row, may_go)
        if victims is not None:
            found.append((_cost(victims), row, victims))
    if not found:
        return False
    _, row, victims = min(found, key=lambda one: one[:2])
    mark = session.checkpoint()
    for victim in victims:
        session.evict(victim)
    return promise(session, pod, row, mark)


def _least_on(session: Session, pod: PodStanding, row: int, may_go: MayGo) -> list[PodStanding] | None:
    """Of the pods on a row that may go those that have to, so that the pod fits; `None` where nobody's going helps."""
    victims = victims_on(session, pod, row, may_go)
    if not victims:
        return None
    mark = session.checkpoint()
    gone: list[PodStanding] = []
    for victim in victims:
        if _has_place(session, pod, row):
            break
        session.evict(victim)
        gone.append(victim)
    fits = _has_place(session, pod, row)
    session.rollback(mark)
    if not fits:
        return None
    # The most important ones stay where the pod fits without their going.
    kept: set[str] = set()
    for victim in reversed(gone):
        mark = session.checkpoint()
        for other in gone:
            if other is not victim and other.key not in kept:
                session.evict(other)
        if _has_place(session, pod, row):
            kept.add(victim.key)
        session.rollback(mark)
    return [victim for victim in gone if victim.key not in kept]


def _cost(victims: list[PodStanding]) -> tuple[float, ...]:
    """Kubernetes: the lowest of the highest priorities, then the lowest sum, then the fewest."""
    priorities = [victim.priority for victim in victims]
    return max(priorities, default=-(2.0**40)), sum(priorities), len(victims)
