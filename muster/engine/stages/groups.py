"""The stages of a session by the names that configurations give them. Called by whoever runs a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from muster.engine.session import Session
from muster.engine.stages.allocate import allocate
from muster.engine.stages.backfill import backfill
from muster.engine.stages.consolidate import consolidate
from muster.engine.stages.enqueue import enqueue
from muster.engine.stages.gang_evict import gang_preempt, gang_reclaim
from muster.engine.stages.preempt_pods import preempt
from muster.engine.stages.reclaim_pods import reclaim
from muster.engine.stages.shuffle import shuffle

GROUP_STAGES: Mapping[str, Callable[[Session], None]] = {
    "enqueue": enqueue,
    "allocate": allocate,
    "backfill": backfill,
    "preempt": preempt,
    "reclaim": reclaim,
    "gangpreempt": gang_preempt,
    "gangreclaim": gang_reclaim,
    "shuffle": shuffle,
    "consolidate": consolidate,
}


ROUNDS_MOST = 20


def run_until_settled(session: Session, names: Sequence[str]) -> None:
    """Run stages again and again until they change nothing any more."""
    for _ in range(ROUNDS_MOST):
        before = _progress(session)
        run_stages(session, names)
        if _progress(session) == before:
            return


def _progress(session: Session) -> tuple[object, ...]:
    phases = tuple(group.phase for group in session.groups.values())
    return phases, len(session.outcome.binds), len(session.outcome.evicted)


def run_stages(session: Session, names: Iterable[str]) -> None:
    """Run stages in this order, each once, by the session's own policies."""
    others = session.use_policies()
    for name in names:
        GROUP_STAGES[name](session)
    session.placer.use(others)
