"""Writing decisions back into Workload objects: status, conditions and events, as Kueue's users know them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from muster.dialects.kueue.slots_text import CONDITIONS, REASON, slots_messages
from muster.dialects.kueue.topology_assignment import compacted
from muster.model.fields import INT32_MAX, INT64_MAX, Fields
from muster.model.plan import Amend, Decision, Evict, Finish, Plan, Requeue, Reserve
from muster.model.reason import Code, Verdict
from muster.model.resources import amount_text
from muster.model.times import moment, moment_text
from muster.model.workload import Admission, PodSet, PodSetAdmission

# Kueue's condition reasons for codes that are finer than its own.
PUBLISHED: Mapping[Code, str] = {
    Code.NAMESPACE_NOT_ADMITTED: Code.MISCONFIGURED.value,
    Code.LOST_TO_ANOTHER: Code.WAITING_FOR_QUOTA.value,
    Code.PREEMPTION_GATED: Code.ADMISSION_GATED.value,
    Code.CHECK_FAILED: "Pending",
    Code.CYCLE_CUT_SHORT: Code.PENDING_EVALUATION.value,
    Code.HELD_BACK: Code.ADMISSION_GATED.value,
    Code.BETTER_VARIANT_RUNS: Code.WAITING_FOR_QUOTA.value,
}
NO_PREEMPTION = (Code.FLAVOR_MIGRATION, Code.NODE_FAILURES, Code.GANG_DEADLINE)  # evicted, but for nobody else's sake
BLOCKED_ON_GATES = "BlockedOnPreemptionGates"


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell about an object."""

    type: str
    object: str  # namespace/name
    reason: str
    message: str


def published_reason(code: Code) -> str:
    """The condition reason that Kueue's users know for a code."""
    return PUBLISHED.get(code, code.value)


def status_after_reserve(obj: Mapping[str, Any], decision: Reserve, now: float) -> dict[str, Any]:
    """The status of a workload that was given quota."""
    status = status_of(obj)
    status.pop("resourceRequests", None)
    status["admission"] = admission_object(decision.admission)
    queue = decision.admission.queue
    conditions = Conditions(obj, status, now)
    conditions.set("QuotaReserved", True, "QuotaReserved", f"Quota reserved in ClusterQueue {queue}")
    for leftover in ("Evicted", "Preempted"):
        conditions.reset(leftover, "QuotaReserved")
    if decision.is_admitted:
        conditions.set("Admitted", True, "Admitted", "The workload is admitted")
    else:
        conditions.set("Admitted", False, "UnsatisfiedAdmissionChecks", "The workload has not all checks ready")
    conditions.reset(BLOCKED_ON_GATES, "QuotaReserved")
    conditions.record(decision.admission)
    return status


def status_after_refusal(
    obj: Mapping[str, Any], verdict: Verdict, requests: list[dict[str, Any]], now: float
) -> dict[str, Any]:
    """The status of a workload that was tried and got no quota: why, and what it asks for."""
    status = status_of(obj)
    conditions = Conditions(obj, status, now)
    conditions.set("QuotaReserved", False, published_reason(verdict.code), verdict.told)
    conditions.set("Admitted", False, "NoReservation", "The workload has no reservation")
    if verdict.code is Code.PREEMPTION_GATED:
        conditions.set(BLOCKED_ON_GATES, True, "PreemptionGated", verdict.text)
    status["resourceRequests"] = requests
    return status


def status_after_eviction(obj: Mapping[str, Any], decision: Evict, now: float) -> dict[str, Any]:
    """The status of a workload that was told to go; it keeps its quota until its pods are gone."""
    status = status_of(obj)
    conditions = Conditions(obj, status, now)
    is_preempted = decision.reason.code not in NO_PREEMPTION
    text = f"Preempted: {decision.reason.text}" if decision.in_favour_of or is_preempted else decision.reason.text
    conditions.set("Evicted", True, eviction_reason(decision), text)
    if is_preempted:
        conditions.set("Preempted", True, decision.reason.code.value, text)
    status["schedulingStats"] = counted(status.get("schedulingStats"), eviction_reason(decision))
    return status


def withdraw(obj: Mapping[str, Any], status: dict[str, Any], now: float) -> None:
    """Take a workload's leave to run out of its status, as part of the write that evicts it.

    The time that it ran is kept, and what checks said of it counts no more.
    """
    conditions = Conditions(obj, status, now)
    if (since := conditions.true_since("Admitted")) is not None:
        conditions.set("Admitted", False, "Evicted", "The workload is evicted")
        past_s = status.get("accumulatedPastExecutionTimeSeconds") or 0
        status["accumulatedPastExecutionTimeSeconds"] = min(INT32_MAX, past_s + max(0, int(now - since)))
    if checks := status.get("admissionChecks"):
        status["admissionChecks"] = [_reopened(check, now) for check in checks]


def _reopened(check: Mapping[str, Any], now: float) -> dict[str, Any]:
    """A check that has to be passed anew; one that asked for another try is on its next one."""
    before = check.get("state") or "Pending"
    if before == "Pending":
        return dict(check)
    kept = {name: check[name] for name in ("name", "retryCount") if name in check}
    if before == "Retry":
        kept["retryCount"] = min(INT32_MAX, (check.get("retryCount") or 0) + 1)
    message = f"Reset to Pending after eviction. Previously: {before}"
    return {**kept, "state": "Pending", "message": message, "lastTransitionTime": moment_text(now)}


def eviction_reason(decision: Evict) -> str:
    """Kueue's eviction reason of a decision."""
    code = decision.reason.code
    return code.value if code in NO_PREEMPTION else "Preempted"


def status_after_finish(obj: Mapping[str, Any], decision: Finish, now: float) -> dict[str, Any]:
    """The status of a workload whose work another took over."""
    status = status_of(obj)
    Conditions(obj, status, now).set("Finished", True, decision.reason.code.value, decision.reason.text)
    return status


def admission_object(admission: Admission) -> dict[str, Any]:
    """An admission as the API has it."""
    return {
        "clusterQueue": admission.queue,
        "podSetAssignments": [
            {
                "name": given.name,
                "flavors": dict(given.flavors),
                "resourceUsage": {name: amount_text(name, amount) for name, amount in given.usage.items()},
                "count": given.count,
                **_place_object(given),
            }
            for given in admission.pod_sets
        ],
    }


def _place_object(given: PodSetAdmission) -> dict[str, Any]:
    if given.is_delayed:
        return {"delayedTopologyRequest": "Pending"}
    if given.place is None:
        return {}
    domains = [{"values": list(domain.values), "count": domain.count} for domain in given.place.domains]
    return {"topologyAssignment": compacted({"levels": list(given.place.levels), "domains": domains})}


def status_after_amend(obj: Mapping[str, Any], decision: Amend, now: float) -> dict[str, Any]:
    """The status of a workload whose place was decided, for the first time or anew."""
    status = status_of(obj)
    before = {given.get("name"): given for given in (status.get("admission") or {}).get("podSetAssignments") or ()}
    admission = admission_object(decision.admission)
    for given in admission["podSetAssignments"]:
        was_delayed = bool((before.get(given["name"]) or {}).get("delayedTopologyRequest"))
        if was_delayed and "topologyAssignment" in given:
            given["delayedTopologyRequest"] = "Ready"
    status["admission"] = admission
    if decision.replaced_node:
        left = [node for node in status.get("unhealthyNodes") or () if node.get("name") != decision.replaced_node]
        status["unhealthyNodes"] = left
    conditions = Conditions(obj, status, now)
    if decision.is_admitted:
        conditions.set("Admitted", True, "Admitted", "The workload is admitted")
    conditions.record(decision.admission)
    return status


def with_open_checks(status: dict[str, Any], names: Iterable[str], now: float) -> dict[str, Any]:
    """The status of a workload with quota, with these checks to be passed; what was said of them before counts not."""
    state = {
        "state": "Pending",
        "message": "Reset to Pending with the reservation",
        "lastTransitionTime": moment_text(now),
    }
    tried = {one["name"]: one["retryCount"] for one in status.get("admissionChecks") or () if "retryCount" in one}
    checks = [{"name": name, **state, **({"retryCount": tried[name]} if name in tried else {})} for name in names]
    return {**status, "admissionChecks": checks}


def with_checks(status: dict[str, Any], names: Iterable[str], now: float) -> dict[str, Any]:
    """The status with just these checks; those that it has already stand as they do."""
    known = {one["name"]: one for one in status.get("admissionChecks") or ()}
    new = with_open_checks(status, names, now)["admissionChecks"]
    return {**status, "admissionChecks": [known.get(one["name"], one) for one in new]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One condition to be set."""

    type: str
    is_true: bool
    reason: str
    message: str


def status_with(obj: Mapping[str, Any], setting: Setting, now: float) -> dict[str, Any]:
    """The status of any object with one condition set."""
    status = status_of(obj)
    Conditions(obj, status, now).set(setting.type, setting.is_true, setting.reason, setting.message)
    return status


def status_after_checks(obj: Mapping[str, Any], now: float) -> dict[str, Any]:
    """The status of a workload that has passed its checks."""
    status = status_of(obj)
    Conditions(obj, status, now).set("Admitted", True, "Admitted", "The workload is admitted")
    return status


def requests_object(pod_sets: tuple[PodSet, ...]) -> list[dict[str, Any]]:
    """What a waiting workload asks for, per pod set."""
    result = []
    for pod_set in pod_sets:
        # The status field holds 64-bit numbers; the engine itself goes on with the exact ones.
        totals = {
            name: min(INT64_MAX, amount * pod_set.count_left) for name, amount in sorted(pod_set.requests.items())
        }
        result.append(
            {"name": pod_set.name, "resources": {name: amount_text(name, total) for name, total in totals.items()}}
        )
    return result


def events_of(plan: Plan) -> Iterator[Event]:
    """What a plan tells about each object, in the order of the decisions."""
    for decision in plan.decisions:
        if isinstance(decision, Reserve):
            queue = decision.admission.queue
            yield Event("Normal", decision.workload, "QuotaReserved", decision.reason.text)
            if decision.is_admitted:
                yield Event("Normal", decision.workload, "Admitted", f"Admitted by ClusterQueue {queue}")
        elif isinstance(decision, Amend):
            if decision.is_admitted and not decision.replaced_node:
                queue = decision.admission.queue
                yield Event("Normal", decision.workload, "Admitted", f"Admitted by ClusterQueue {queue}")
        elif isinstance(decision, Evict):
            text = decision.reason.text
            yield Event("Normal", decision.workload, f"EvictedDueTo{eviction_reason(decision)}", text)
            if decision.reason.code not in NO_PREEMPTION:
                yield Event("Normal", decision.workload, "Preempted", text)
            if decision.in_favour_of:
                yield Event("Normal", decision.in_favour_of, "PreemptedWorkload", f"{decision.workload} was told to go")
        elif isinstance(decision, Finish):
            yield Event("Normal", decision.workload, decision.reason.code.value, decision.reason.text)
        elif isinstance(decision, Requeue):
            verdict = plan.verdicts[decision.workload]
            yield Event("Warning", decision.workload, published_reason(verdict.code), verdict.text)


def events_of_failure(decision: Decision, error: str) -> Iterator[Event]:
    """What is told when a decision could not be written; an object that is gone needs no telling."""
    is_gone = "not found" in error
    is_node_failure = isinstance(decision, Evict) and decision.reason.code is Code.NODE_FAILURES
    if isinstance(decision, (Amend, Evict)) and (is_node_failure or isinstance(decision, Amend)) and not is_gone:
        yield Event("Warning", decision.workload, "SecondPassFailed", error)


def status_of(obj: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of an object's status, for changes."""
    return dict(obj.get("status") or {})


def counted(stats: Mapping[str, Any] | None, reason: str, cause: str = "") -> dict[str, Any]:
    """Eviction counts with one more."""
    result = dict(stats or {})
    evictions = [dict(item) for item in result.get("evictions") or ()]
    for item in evictions:
        if item.get("reason") == reason and (item.get("underlyingCause") or "") == cause:
            item["count"] = item.get("count", 0) + 1
            break
    else:
        evictions.append({"reason": reason, "underlyingCause": cause, "count": 1})
    result["evictions"] = evictions
    return result


class Conditions:
    """The conditions of a status being written; the time moves only when the status does."""

    def __init__(self, obj: Mapping[str, Any], status: dict[str, Any], now: float) -> None:
        self._items: list[dict[str, Any]] = [dict(item) for item in status.get("conditions") or ()]
        status["conditions"] = self._items
        self._now = moment_text(now)
        self._generation = (obj.get("metadata") or {}).get("generation")

    def set(self, type_: str, value: bool, reason: str, message: str) -> None:
        """Write a condition."""
        text = "True" if value else "False"
        item = self._find(type_)
        if item is None:
            item = {"type": type_}
            self._items.append(item)
        if item.get("status") != text:
            item["lastTransitionTime"] = self._now
        item.update(status=text, reason=reason, message=message)
        if self._generation:
            item["observedGeneration"] = self._generation

    def true_since(self, type_: str) -> float | None:
        """Since when a condition is true; `None` where it is not."""
        item = self._find(type_)
        if item is None or item.get("status") != "True":
            return None
        return moment(Fields(item), "lastTransitionTime") or 0.0

    def remove(self, type_: str) -> None:
        """Take a condition out."""
        if (item := self._find(type_)) is not None:
            self._items.remove(item)

    def reset(self, type_: str, reason: str) -> None:
        """Make a condition false that was true before; one that is not there stays away."""
        item = self._find(type_)
        if item is not None and item.get("status") == "True":
            self.set(type_, False, reason, f"Previously: {item.get('message', '')}")

    def record(self, admission: Admission) -> None:
        """Write down the slots of an admission in place of those of an earlier one."""
        messages = slots_messages(admission.pod_sets)
        for type_ in CONDITIONS[len(messages) :]:
            if (item := self._find(type_)) is not None:
                self._items.remove(item)
        for type_, message in zip(CONDITIONS, messages, strict=False):
            self.set(type_, True, REASON, message)

    def _find(self, type_: str) -> dict[str, Any] | None:
        return next((item for item in self._items if item.get("type") == type_), None)
