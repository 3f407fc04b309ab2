"""The status of a workload as its job goes on: ready, evicted, released, finished. Used by `job_steps`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.dialects.kueue.read_workloads import NO_CONDITION, Condition, read_conditions
from muster.dialects.kueue.write import Conditions, status_of, withdraw
from muster.model.fields import Fields

Status = dict[str, Any]
DEACTIVATED = "Deactivated"
# Evicted for somebody or something else's sake: it waits in line again at once.
REQUEUED_AT_ONCE = ("Preempted", "NodeFailures", "FlavorMigration", "GangDeadline")
SUCCEEDED, FAILED = "Succeeded", "Failed"
_NOT_READY = "Not all pods are ready or succeeded"
_LOST = "At least one pod has failed, waiting for recovery"
_READY = "All pods reached readiness and the workload is running"


def condition_of(workload: Fields, name: str) -> Condition:
    """One condition; an absent one is neither true nor false."""
    return read_conditions(workload.child("status")).get(name, NO_CONDITION)


def last_change_s(workload: Fields) -> float:
    """When a condition has changed last; of one that has none, never."""
    return max((one.at for one in read_conditions(workload.child("status")).values()), default=0.0)


def message_of(workload: Fields, name: str) -> str:
    """What a condition says to people."""
    conditions = workload.child("status").children("conditions")
    return next((one.text("message") for one in conditions if one.text("type") == name), "")


def finished(workload: Fields, reason: str, message: str, now: float) -> Status:
    """The status of a workload that is over."""
    status = status_of(workload.values)
    Conditions(workload.values, status, now).set("Finished", True, reason, message)
    return status


def reactivated(workload: Fields, now: float) -> Status:
    """The status of a workload that was switched on again: it waits in line as if it were new."""
    status = status_of(workload.values)
    status.pop("requeueState", None)
    Conditions(workload.values, status, now).set("Requeued", True, "Reactivated", "The workload was reactivated")
    return status


def released(workload: Fields, now: float) -> Status:
    """The status of an evicted workload whose pods are gone: it holds nothing any more."""
    status = status_of(workload.values)
    status.pop("admission", None)
    evicted, message = condition_of(workload, "Evicted"), message_of(workload, "Evicted")
    withdraw(workload.values, status, now)  # where somebody else has evicted it, and left that out
    conditions = Conditions(workload.values, status, now)
    conditions.set("Requeued", evicted.reason in REQUEUED_AT_ONCE, evicted.reason, message)
    conditions.set("QuotaReserved", False, "Pending", message)
    conditions.set("Admitted", False, "NoReservation", "The workload has no reservation")
    return status


def readiness(workload: Fields, is_ready: bool, now: float) -> Status | None:
    """The status that says whether all pods are ready; `None` where it says so already."""
    known, is_admitted = condition_of(workload, "PodsReady"), condition_of(workload, "Admitted").is_true
    if not is_admitted:
        wanted = (False, "WaitForStart", _NOT_READY) if known.is_true else None
    elif is_ready:
        has_lost = known.reason in ("WaitForRecovery", "Recovered")
        wanted = None if known.is_true else (True, "Recovered" if has_lost else "Started", _READY)
    elif known.is_true:
        wanted = (False, "WaitForRecovery", _LOST)
    else:
        wanted = None if known.is_false else (False, "WaitForStart", _NOT_READY)
    if wanted is None:
        return None
    status = status_of(workload.values)
    Conditions(workload.values, status, now).set("PodsReady", *wanted)
    return status


def reclaimed(workload: Fields, counts: Mapping[str, int]) -> Status | None:
    """The status with the pods whose share others may have; `None` where that is known. What was given stays given."""
    known = {one.text("name"): one.integer("count") for one in workload.child("status").children("reclaimablePods")}
    asked = {one.text("name"): one.integer("count", 1) for one in workload.child("spec").children("podSets")}
    wanted = dict(known)
    for name, count in counts.items():
        wanted[name] = max(known.get(name, 0), min(count, asked.get(name, 0)))
    if wanted == known:
        return None
    listed = [{"name": name, "count": count} for name, count in sorted(wanted.items())]
    return {**status_of(workload.values), "reclaimablePods": listed}
