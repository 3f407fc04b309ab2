"""The phases of a job: what an action does to it in each of them, and when it comes to the next one.

A table and a few sums, used by `steps`. An action is done first; the pods that are counted then decide on the phase.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from muster.dialects.volcano.job.words import FINISHED, PARTIAL, Action, Phase


class Deed(Enum):
    """What is done to the pods of a job."""

    SYNC = "make what is missing"
    KILL = "delete all pods"
    KILL_SOFT = "delete the pods that have not ended"
    KILL_TARGET = "delete the pods of a task, a partition, or one pod"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The pods of a job."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a job stands."""

    counts: Counts
    replicas: int
    least: int  # pods that must start together
    success_least: int | None = None  # successes that are enough
    retries: int = 0
    max_retry: int = 3
    tasks: tuple[tuple[int, int], ...] = ()  # of each: pods that must start together, and those that have succeeded


_KILLS: Mapping[Action, tuple[Deed, Phase]] = {
    Action.RESTART: (Deed.KILL, Phase.RESTARTING),
    Action.RESTART_TASK: (Deed.KILL_TARGET, Phase.RESTARTING),
    Action.RESTART_POD: (Deed.KILL_TARGET, Phase.RESTARTING),
    Action.RESTART_PARTITION: (Deed.KILL_TARGET, Phase.RESTARTING),
    Action.ABORT: (Deed.KILL_SOFT, Phase.ABORTING),
    Action.COMPLETE: (Deed.KILL_SOFT, Phase.COMPLETING),
    Action.TERMINATE: (Deed.KILL_SOFT, Phase.TERMINATING),
}
_ACTIVE = (Phase.PENDING, Phase.RUNNING)


def deed_of(phase: Phase, action: Action) -> Deed:
    """What an action does in a phase."""
    if phase in _ACTIVE:
        return _KILLS[action][0] if action in _KILLS else Deed.SYNC
    if phase is Phase.RESTARTING:
        if action in PARTIAL:
            return Deed.KILL_TARGET
        return Deed.SYNC if action is Action.SYNC else Deed.KILL
    return Deed.KILL_SOFT


def is_retry(phase: Phase, action: Action) -> bool:
    """Whether an action is one more try."""
    if phase in _ACTIVE:
        return action in _KILLS and _KILLS[action][1] is Phase.RESTARTING
    return phase in (Phase.ABORTING, Phase.ABORTED) and action is Action.RESUME


def phase_after(phase: Phase, action: Action, standing: Standing) -> Phase:
    """The phase of a job once an action is done."""
    if phase in _ACTIVE and action in _KILLS:
        return _KILLS[action][1]
    if phase in (Phase.ABORTING, Phase.ABORTED) and action is Action.RESUME:
        return Phase.RESTARTING
    if phase in FINISHED or phase is Phase.ABORTED:
        return phase
    return _NEXT[phase](standing)


def _after_pending(standing: Standing) -> Phase:
    counts = standing.counts
    has_started = standing.least <= counts.running + counts.succeeded + counts.failed
    return Phase.RUNNING if has_started else Phase.PENDING


def _after_running(standing: Standing) -> Phase:
    counts, least = standing.counts, standing.success_least
    if standing.replicas == 0:
        return Phase.RUNNING
    if least is not None and counts.succeeded >= least:
        return Phase.COMPLETED
    if counts.succeeded + counts.failed == standing.replicas:
        return _end(standing)
    if counts.pending > standing.replicas - standing.least:
        return Phase.PENDING
    return Phase.RUNNING


def _end(standing: Standing) -> Phase:
    """How a job ends whose pods all have."""
    is_every_task_needed = standing.least >= sum(least for least, _ in standing.tasks)
    if is_every_task_needed and any(succeeded < least for least, succeeded in standing.tasks):
        return Phase.FAILED
    if standing.success_least is not None:
        return Phase.FAILED  # enough of them would have ended it before
    return Phase.COMPLETED if standing.counts.succeeded >= standing.least else Phase.FAILED


def _after_restarting(standing: Standing) -> Phase:
    if standing.retries >= standing.max_retry:
        return Phase.FAILED
    is_ready = standing.replicas - standing.counts.terminating >= standing.least
    return Phase.PENDING if is_ready else Phase.RESTARTING


def _once_quiet(before: Phase, after: Phase) -> Callable[[Standing], Phase]:
    """One phase until no pod is left that has not ended, then another."""

    def next_phase(standing: Standing) -> Phase:
        counts = standing.counts
        return before if counts.terminating or counts.pending or counts.running else after

    return next_phase


_NEXT: Mapping[Phase, Callable[[Standing], Phase]] = {
    Phase.PENDING: _after_pending,
    Phase.RUNNING: _after_running,
    Phase.RESTARTING: _after_restarting,
    Phase.ABORTING: _once_quiet(Phase.ABORTING, Phase.ABORTED),
    Phase.COMPLETING: _once_quiet(Phase.COMPLETING, Phase.COMPLETED),
    Phase.TERMINATING: _once_quiet(Phase.TERMINATING, Phase.TERMINATED),
}
