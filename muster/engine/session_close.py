"""The end of a session on a living cluster: the table as it came, and what is to be carried out.

Called by whoever keeps the table beyond the session. What was decided comes back as objects change, like everything
else; so nothing of it is left on the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muster.engine.node_table import Change
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
    changes: list[Change] = []
    alike: dict[tuple[int, int, int], list[PodStanding]] = {}  # pods without cards
    for pod in session.pods.values():
        if pod.row < 0:
            continue
        is_given = pod.status in _GIVEN and not pod.pod.node
        if is_given:
            (binds if pod.key in session.outcome.binds else promised)[pod.key] = slot_of(session, pod)
        is_known = pod.key in session.slots.foreign
        if is_known == (pod.key in gone):  # who was there holds its place until it has left, and nobody else does
            sign = 1 if is_known else -1
            if isinstance(pod.held, tuple) and not pod.held:
                alike.setdefault((pod.row, id(pod.demand), sign), []).append(pod)
            else:
                changes.append(Change(pod.row, pod.demand, (pod.held,), sign))
    for (row, _, sign), pods in alike.items():
        changes.append(Change(row, pods[0].demand, ((),) * len(pods), sign))
    session.placer.change(changes)
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
