"""consolidate: pods move closer together so that a waiting group fits; nobody loses a place. KAI's action of that name.

Nodes are emptied one after the other, the one that has the least on it first, until the group fits and everybody who
has to move has a place elsewhere. Where no such set is found, nobody moves.
"""

from __future__ import annotations

from muster.engine.session import Session
from muster.engine.session_places import best_place, fitting_rows
from muster.engine.stages.allocate import place_pod
from muster.engine.stages.preempt_pods import starving
from muster.engine.standing import PodStanding, Standing
from muster.model.groups import PodStatus

NODES_MOST = 16  # that are emptied for one group


def consolidate(session: Session) -> None:
    """Make room for groups that fit nowhere although there is room enough."""
    for group in starving(session):
        _make_room(session, group)


def _make_room(session: Session, group: Standing) -> bool:
    pods = [pod for pod in session.sorted_pods(group.pending()) if not pod.is_best_effort]
    outer = session.checkpoint()
    moved: list[PodStanding] = []
    for row in _emptiest(session)[:NODES_MOST]:
        movable = [pod for pod in session.on_row[row].values() if _is_movable(pod, group)]
        for pod in movable:
            session.evict(pod)
        moved.extend(movable)
        inner = session.checkpoint()
        if movable and _fits(session, group, pods) and _have_places(session, moved):
            return True
        session.rollback(inner)
    session.rollback(outer)
    return False


def _emptiest(session: Session) -> list[int]:
    """Rows with pods on them, the one with the fewest first."""
    return sorted(
        (row for row, pods in session.on_row.items() if pods), key=lambda row: (len(session.on_row[row]), row)
    )


def _is_movable(pod: PodStanding, group: Standing) -> bool:
    return pod.status is PodStatus.RUNNING and pod.pod.is_preemptable and pod.owner is not group


def _fits(session: Session, group: Standing, pods: list[PodStanding]) -> bool:
    """Promise the group places until it may start."""
    for pod in pods:
        if session.tiers.is_promised(group) and not session.tiers.is_starving(group):
            break
        if not session.tiers.is_allocatable(group.queue, pod) or not place_pod(session, pod, None):
            return False
    return session.tiers.is_promised(group)


def _have_places(session: Session, moved: list[PodStanding]) -> bool:
    """Whether everybody who moves finds a place beside the group; nothing is held for them afterwards."""
    mark = session.checkpoint()
    has_all = True
    for pod in moved:
        placed = best_place(session, pod, fitting_rows(session, pod))
        if placed is None:
            has_all = False
            break
        session.placer.charge(placed.row, pod.demand, placed.held)
    session.rollback(mark)
    return has_all
