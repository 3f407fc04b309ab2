"""What becomes of a workload by its queues, its checks and the time that passes: one write, or when to look again.

Called by the lifecycle controller for every workload, whatever made it. Evictions for the sake of others are decided by
the engine; stopping the job and giving its quota back is the part of `job_steps`. As all of it follows from what is
stored, it does not matter when a controller is stopped and started anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from muster.dialects.kueue import job_statuses as statuses
from muster.dialects.kueue.job_steps import WORKLOADS, Step, Verb
from muster.dialects.kueue.read_workloads import read_conditions
from muster.dialects.kueue.validate_workload import has_condition, has_quota
from muster.dialects.kueue.write import Conditions, Event, counted, status_of, withdraw
from muster.model.fields import INT32_MAX, Fields
from muster.model.times import moment, moment_text

if TYPE_CHECKING:
    from muster.dialects.kueue.configuration import RetentionPolicies, WaitForPodsReady

TARGET = "DeactivationTarget"  # the condition of a workload that is about to be switched off, and why
QUEUE_STOPPED, SUBMIT_QUEUE_STOPPED = "ClusterQueueStopped", "LocalQueueStopped"
ADMISSION_CHECK, PODS_READY_TIMEOUT = "AdmissionCheck", "PodsReadyTimeout"
TOO_OFTEN, TOO_LONG = "RequeuingLimitExceeded", "MaximumExecutionTimeExceeded"
_DRAINS = "HoldAndDrain"
_DUE_TO = f"{statuses.DEACTIVATED}DueTo"
_DOUBLINGS_MOST = 40  # of a back-off, which is bounded long before
_STOPPED = {QUEUE_STOPPED: "The ClusterQueue is stopped", SUBMIT_QUEUE_STOPPED: "The LocalQueue is stopped"}
_RESTARTED = {
    QUEUE_STOPPED: ("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"),
    SUBMIT_QUEUE_STOPPED: ("LocalQueueRestarted", "The LocalQueue was restarted after being stopped"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleRules:
    """What the configuration says of the life of workloads."""

    ready: WaitForPodsReady | None = None  # None: pods may take as long as they like
    retention: RetentionPolicies | None = None  # None: nothing is deleted


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """A workload with all that decides on what becomes of it."""

    workload: Fields
    # How the queues that it is in are stopped, by the reason of an eviction for it; None: there is no such queue.
    stops: Mapping[str, str | None] = field(default_factory=dict)
    is_orphan: bool = False  # it belongs to no job, and no pod runs for it
    rules: LifecycleRules = field(default_factory=LifecycleRules)
    now: float

    @property
    def name(self) -> str:
        metadata = self.workload.child("metadata")
        return f"{metadata.text('namespace')}/{metadata.text('name')}"


@dataclass(frozen=True, slots=True)
class Outlook:
    """What comes next for a workload."""

    step: Step | None = None
    due_s: float | None = None  # when it has to be looked at again, if nothing happens before

    @property
    def is_any(self) -> bool:
        return self.step is not None or self.due_s is not None


NOTHING = Outlook()


def outlook(life: Life) -> Outlook:
    """The write that a workload's state asks for, else the moment at which it will."""
    workload = life.workload
    if workload.child("metadata").has("deletionTimestamp"):
        return NOTHING
    if has_condition(workload, "Finished"):
        return _kept(life, "Finished", life.rules.retention.after_finished_s if life.rules.retention else None)
    if life.is_orphan and has_quota(workload) and has_condition(workload, "Evicted"):
        return Outlook(_status(life, statuses.released(workload, life.now)))
    if not workload.child("spec").flag("active", True):
        return _switched_off(life)
    if has_condition(workload, TARGET):
        spec = {**workload.child("spec").values, "active": False}
        return Outlook(Step(Verb.UPDATE, WORKLOADS, {**workload.values, "spec": spec}))
    if not has_quota(workload):
        return _waiting(life)
    return NOTHING if has_condition(workload, "Evicted") else _holding(life)


# Those that hold quota -----------------------------------------------------------------------------------------------


def _holding(life: Life) -> Outlook:
    checks = list(life.workload.child("status").children("admissionChecks"))
    if rejected := [one.text("name") for one in checks if one.text("state") == "Rejected"]:
        return _targeted(life, ADMISSION_CHECK, f"Admission check(s): {', '.join(rejected)}, were rejected")
    for reason, stop in life.stops.items():
        if stop == _DRAINS:
            return _evicted(life, reason, _STOPPED[reason])
    if retried := [one for one in checks if one.text("state") == "Retry"]:
        delay_s = max(one.integer("requeueAfterSeconds", least=0) for one in retried)
        return _evicted(life, ADMISSION_CHECK, "At least one admission check is false", requeue=_delayed(life, delay_s))
    limits = [one for one in (_execution(life), _readiness(life)) if one.is_any]
    acting = [one for one in limits if one.step is not None]
    if acting:
        return acting[0]
    return Outlook(due_s=min((one.due_s for one in limits if one.due_s is not None), default=None))


def _execution(life: Life) -> Outlook:
    """How long it may still run."""
    workload, admitted = life.workload, statuses.condition_of(life.workload, "Admitted")
    limit_s = workload.child("spec").integer("maximumExecutionTimeSeconds")
    if not limit_s or not admitted.is_true:
        return NOTHING
    due_s = admitted.at + limit_s - workload.child("status").integer("accumulatedPastExecutionTimeSeconds")
    if life.now < due_s:
        return Outlook(due_s=due_s)
    return _targeted(life, TOO_LONG, "exceeding the maximum execution time")


def _readiness(life: Life) -> Outlook:
    """How long it may still take until all its pods are ready, for the first time or again."""
    ready, known = life.rules.ready, statuses.condition_of(life.workload, "PodsReady")
    admitted = statuses.condition_of(life.workload, "Admitted")
    if ready is None or not admitted.is_true or known.is_true:
        return NOTHING
    has_lost = known.is_false and known.reason == "WaitForRecovery"
    limit_s = ready.recovery_timeout_s if has_lost else ready.timeout_s
    if limit_s is None:
        return NOTHING
    due_s = (known.at if has_lost else admitted.at) + limit_s
    if life.now < due_s:
        return Outlook(due_s=due_s)
    requeue = life.workload.child("status").child("requeueState")
    count = requeue.integer("count", least=0) + 1
    if ready.requeues_most is not None and count > ready.requeues_most:
        return _targeted(life, TOO_OFTEN, "exceeding the maximum number of re-queuing retries")
    wait_s = min(ready.backoff_most_s, ready.backoff_base_s * 2 ** min(count - 1, _DOUBLINGS_MOST))
    state = {"count": min(count, INT32_MAX), "requeueAt": moment_text(life.now + wait_s)}
    cause = "WaitForRecovery" if has_lost else "WaitForStart"
    return _evicted(life, PODS_READY_TIMEOUT, f"Exceeded the PodsReady timeout {life.name}", cause=cause, requeue=state)


def _delayed(life: Life, delay_s: int) -> dict[str, Any]:
    """What is remembered of a workload that a check sends back; it never gets sooner into line for that."""
    before = life.workload.child("status").child("requeueState")
    due_s = max(life.now + delay_s, moment(before, "requeueAt") or 0.0)
    return {**before.values, "requeueAt": moment_text(due_s)}


# Those that hold none ------------------------------------------------------------------------------------------------


def _waiting(life: Life) -> Outlook:
    """Back into line, when what it was sent away for is over."""
    requeued = statuses.condition_of(life.workload, "Requeued")
    if not requeued.is_false:
        return NOTHING
    if requeued.reason in _STOPPED:
        if life.stops.get(requeued.reason, "None") not in ("None", None):
            return NOTHING
        return _back_in_line(life, *_RESTARTED[requeued.reason])
    if requeued.reason.startswith(statuses.DEACTIVATED):
        return Outlook(_status(life, statuses.reactivated(life.workload, life.now)))
    if requeued.reason not in (PODS_READY_TIMEOUT, ADMISSION_CHECK):
        return NOTHING  # Somebody else holds it back.
    due_s = moment(life.workload.child("status").child("requeueState"), "requeueAt")
    if due_s is not None and life.now < due_s:
        return Outlook(due_s=due_s)
    return _back_in_line(life, "BackoffFinished", "The workload backoff was finished")


def _back_in_line(life: Life, reason: str, message: str) -> Outlook:
    status = status_of(life.workload.values)
    state = {name: value for name, value in (status.pop("requeueState", None) or {}).items() if name != "requeueAt"}
    if state:
        status["requeueState"] = state  # how often it was sent back counts on
    Conditions(life.workload.values, status, life.now).set("Requeued", True, reason, message)
    return Outlook(_status(life, status))


def _switched_off(life: Life) -> Outlook:
    """It leaves what it holds; one that was switched off by itself may be forgotten after a while."""
    workload, conditions = life.workload, read_conditions(life.workload.child("status"))
    evicted, target = conditions.get("Evicted"), conditions.get(TARGET)
    is_target = target is not None and target.is_true
    if is_target or (has_quota(workload) and (evicted is None or not evicted.is_true)):
        cause = target.reason if target is not None and is_target else ""
        why = f" due to {statuses.message_of(workload, TARGET)}" if is_target else ""
        return _evicted(life, statuses.DEACTIVATED, f"The workload is deactivated{why}", cause=cause)
    if evicted is None or not evicted.is_true or not evicted.reason.startswith(_DUE_TO) or has_quota(workload):
        return NOTHING
    return _kept(life, "Evicted", life.rules.retention.after_deactivated_s if life.rules.retention else None)


def _kept(life: Life, condition: str, kept_s: float | None) -> Outlook:
    """Delete a workload that nobody wants to look at any more."""
    if kept_s is None:
        return NOTHING
    due_s = statuses.condition_of(life.workload, condition).at + kept_s
    if life.now < due_s:
        return Outlook(due_s=due_s)
    return Outlook(Step(Verb.DELETE, WORKLOADS, dict(life.workload.values)))


# Writes --------------------------------------------------------------------------------------------------------------


def _targeted(life: Life, reason: str, message: str) -> Outlook:
    """Have it switched off; what it holds it gives back then."""
    status = status_of(life.workload.values)
    Conditions(life.workload.values, status, life.now).set(TARGET, True, reason, message)
    event = None
    if reason == ADMISSION_CHECK:
        event = Event("Warning", life.name, "AdmissionCheckRejected", f"Deactivating workload: {message}")
    return Outlook(_status(life, status, event))


def _evicted(
    life: Life, reason: str, message: str, *, cause: str = "", requeue: Mapping[str, Any] | None = None
) -> Outlook:
    """Tell a workload to go; one that was never admitted has nothing to stop, and gives its quota back at once."""
    obj, status = life.workload.values, status_of(life.workload.values)
    was_admitted = has_condition(life.workload, "Admitted")
    withdraw(obj, status, life.now)
    told = f"{_DUE_TO}{cause}" if reason == statuses.DEACTIVATED and cause else reason
    conditions = Conditions(obj, status, life.now)
    conditions.set("Evicted", True, told, message)
    conditions.remove(TARGET)
    status["schedulingStats"] = counted(status.get("schedulingStats"), reason, cause)
    if requeue is not None:
        status["requeueState"] = dict(requeue)
    elif cause == TOO_OFTEN:
        status.pop("requeueState", None)  # switched on again, it may be sent back as often as before
    if not was_admitted and has_quota(life.workload):
        status = statuses.released(Fields({**obj, "status": status}), life.now)
    return Outlook(_status(life, status, Event("Normal", life.name, f"EvictedDueTo{told}", message)))


def _status(life: Life, status: dict[str, Any], event: Event | None = None) -> Step:
    return Step(Verb.UPDATE_STATUS, WORKLOADS, {**life.workload.values, "status": status}, event)
