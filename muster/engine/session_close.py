"""The end of a session on a living cluster: the table as it came, and what is to be carried out.

Called by whoever keeps the table beyond the session. What was decided comes back as objects change, like everything
else; so nothing of it is left on the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muster.engine.session import Session
from muster.engine.standing import PodStanding
from muster.model.groups import PodStatus
from muster.model.workload import Slot

_GIVEN = frozenset((PodStatus.ALLOCATED, PodStatus.PIPELINED, PodStatus.BINDING))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What a session has decided, pod by pod."""

    binds: Mapping[str, Slot]
    promised: Mapping[str, Slot]  # places that others have yet to leave
    evicted: tuple[str, ...]


def close(session: Session) -> Ending:
    """Leave the table as it came; gives what was decided."""
    session.commit()
    binds: dict[str, Slot] = {}
    promised: dict[str, Slot] = {}
    gone = frozenset(session.outcome.evicted)
    for pod in session.pods.values():
        if pod.row < 0:
            continue
        is_given = pod.status in _GIVEN and not pod.pod.node
        if is_given:
            (binds if pod.key in session.outcome.binds else promised)[pod.key] = slot_of(session, pod)
        if pod.key in session.slots.foreign:
            if pod.key in gone:  # it holds its place until it has left
                session.placer.charge(pod.row, pod.demand, pod.held, is_hold=True)
        elif pod.key not in gone:
            session.placer.release(pod.row, pod.demand, pod.held)
    session.placer.commit()
    for bound in session.taken_over:
        session.slots.put_pod(bound)
    evicted = tuple(key for key in session.outcome.evicted if session.pods[key].pod.node)
    return Ending(binds=binds, promised=promised, evicted=evicted)


def slot_of(session: Session, pod: PodStanding) -> Slot:
    """The place of a pod, as it is written down."""
    table = session.placer.table
    if isinstance(pod.held, tuple):
        return Slot(pod.node, pod.held, None, table.slices.names_at(pod.row, pod.held))
    cards = table.slices.columns_held(pod.row, pod.held)
    return Slot(pod.node, cards, pod.held, table.slices.names_at(pod.row, cards))
