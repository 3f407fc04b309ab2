"""The conditions of a job: how it is about to finish, and that it has. Used for jobs and cron jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from muster.controllers.builtin.pods import moment_s
from muster.model.times import moment_text
from muster.store.kinds import Object

COMPLETE, FAILED = "Complete", "Failed"
SUCCESS_CRITERIA_MET, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"
SUSPENDED = "Suspended"


@dataclass(frozen=True, slots=True)
class Finish:
    """How a job ends."""

    is_success: bool
    reason: str
    message: str


def condition(kind: str, reason: str, message: str, now_s: float) -> Object:
    """A condition that is true from now on."""
    now = moment_text(now_s)
    return {
        "type": kind,
        "status": "True",
        "lastProbeTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def true_condition(given: Object, kind: str) -> Object | None:
    """The condition of a type in an object's status, if it is true."""
    conditions = (given.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == kind and one["status"] == "True"), None)


def with_condition(conditions: Iterable[Object], new: Object) -> list[Object]:
    """The conditions with another in place of the one of its type."""
    found = [new if one["type"] == new["type"] else one for one in conditions]
    return found if new in found else [*found, new]


def begun_finish(job: Object) -> Finish | None:
    """How a job is about to finish, as its status says."""
    for kind, is_success in ((SUCCESS_CRITERIA_MET, True), (FAILURE_TARGET, False)):
        found = true_condition(job, kind)
        if found is not None:
            return Finish(is_success, found.get("reason") or "", found.get("message") or "")
    return None


def finished_as(job: Object) -> str:
    """Complete or Failed; empty while a job has not finished."""
    return next((kind for kind in (COMPLETE, FAILED) if true_condition(job, kind) is not None), "")


def finished_at_s(job: Object) -> float | None:
    """When a job has finished; `None` while it has not."""
    kind = finished_as(job)
    found = true_condition(job, kind) if kind else None
    return None if found is None else moment_s(found.get("lastTransitionTime"))
