"""The status of a job: read into plain values, and written so that it changes only where something has. For `steps`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from muster.dialects.volcano.job.policies import Request
from muster.dialects.volcano.job.states import Counts
from muster.dialects.volcano.job.words import FINISHED, Phase
from muster.model.fields import Fields
from muster.model.times import moment, moment_text

Object = dict[str, Any]
CONDITIONS_MOST = 100  # the oldest go: a job that restarts for ever must not grow for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusOfJob:
    """How far a job is."""

    phase: Phase = Phase.PENDING
    version: int = 0
    retries: int = 0
    resources: Mapping[str, str] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    tasks: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    least: int = 0


def read_status(status: Fields) -> StatusOfJob:
    """How far a job says that it is; whoever says nothing is at the beginning."""
    phase = status.child("state").text("phase")
    return StatusOfJob(
        phase=Phase(phase) if phase in set(Phase) else Phase.PENDING,
        version=status.integer("version"),
        retries=status.integer("retryCount"),
        resources=status.text_map("controlledResources"),
    )


def written_status(
    after: StatusOfJob, *, before: Mapping[str, Any], now_s: float, why: Request | None = None
) -> Object:
    """A status as it is stored."""
    had: Object = dict(before.get("status") or {})
    state = dict(had.get("state") or {})
    written: Object = {name: count for name, count in asdict(after.counts).items() if count}
    if after.least:
        written["minAvailable"] = after.least
    if after.version:
        written["version"] = after.version
    if after.retries:
        written["retryCount"] = after.retries
    if after.resources:
        written["controlledResources"] = dict(after.resources)
    if after.tasks:
        written["taskStatusCount"] = {task: {"phase": dict(phases)} for task, phases in after.tasks.items()}
    if had.get("runningDuration"):
        written["runningDuration"] = had["runningDuration"]
    conditions = list(had.get("conditions") or ())
    if state.get("phase") != after.phase:
        moment_now = moment_text(now_s)
        state = {"phase": str(after.phase), "lastTransitionTime": moment_now}
        if why is not None:
            state |= {"reason": str(why.event), "message": _reason(why)}
        conditions.append({"status": str(after.phase), "lastTransitionTime": moment_now})
        if after.phase in FINISHED:
            created_s = moment(Fields.of(before.get("metadata"), "metadata"), "creationTimestamp") or now_s
            written["runningDuration"] = duration_text(int(now_s - created_s))
    written["state"] = state
    written["conditions"] = conditions[-CONDITIONS_MOST:]
    return written


def _reason(why: Request) -> str:
    if why.action:
        return f"told to by a command: {why.action}"
    about = f" of pod {why.pod}" if why.pod else ""
    code = f", exit code {why.exit_code}" if why.exit_code else ""
    return f"{why.event}{about}{code}"


def duration_text(seconds: int) -> str:
    """Whole seconds as Go writes a duration."""
    minutes, left = divmod(max(0, seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{left}s"
    return f"{minutes}m{left}s" if minutes else f"{left}s"


def expires_at_s(job: Mapping[str, Any]) -> float | None:
    """When a finished job is to be deleted; `None`: never, or it has not finished."""
    fields = Fields(job)
    spec, state = fields.child("spec"), fields.child("status").child("state")
    if not spec.has("ttlSecondsAfterFinished") or state.text("phase") not in FINISHED:
        return None
    ended_s = moment(state, "lastTransitionTime")
    return None if ended_s is None else ended_s + spec.integer("ttlSecondsAfterFinished", least=0)
