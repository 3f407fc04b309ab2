"""What tables show of the kinds that make, scale and protect pods. Part of `table_cells`."""

from __future__ import annotations

from muster.apiserver.table_texts import (
    NONE,
    UNKNOWN,
    UNSET,
    Cells,
    Object,
    as_text,
    at,
    count,
    field,
    human_duration,
    is_true,
    labels,
    moment,
    pod_template,
    quantity_text,
    ratio,
    reference,
    selector,
    shortened,
    since,
)

# A job is what the first of these conditions says, its deletion coming in between.
_JOB_ENDS = ("Complete", "Failed")
_JOB_STATES = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
_METRICS_SHOWN = 2
_OF_CONTAINERS = ("Resource", "ContainerResource")


def _job_status(job: Object, _: float) -> str:
    if end := next((name for name in _JOB_ENDS if is_true(job, name)), ""):
        return end
    if at(job, "metadata.deletionTimestamp"):
        return "Terminating"
    return next((name for name in _JOB_STATES if is_true(job, name)), "Running")


def _completions(job: Object, _: float) -> str:
    succeeded = at(job, "status.succeeded") or 0
    wanted = at(job, "spec.completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = at(job, "spec.parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Object, now_s: float) -> str:
    start_s = moment(at(job, "status.startTime"))
    end_s = moment(at(job, "status.completionTime"))
    if start_s is None:
        return ""
    return human_duration((now_s if end_s is None else end_s) - start_s)


def _is_suspended(cron_job: Object, _: float) -> str:
    value = at(cron_job, "spec.suspend")
    return UNSET if value is None else str(bool(value))


def _metrics(autoscaler: Object, _: float) -> str:
    wanted, seen = at(autoscaler, "spec.metrics") or [], at(autoscaler, "status.currentMetrics") or []
    if (percent := at(autoscaler, "spec.targetCPUUtilizationPercentage")) is not None:  # as version 1 has it
        wanted = [_cpu_metric("target", percent)]
        used = at(autoscaler, "status.currentCPUUtilizationPercentage")
        seen = [] if used is None else [_cpu_metric("current", used)]
    texts = [_metric(one, seen[index] if index < len(seen) else {}) for index, one in enumerate(wanted)]
    return shortened(texts, _METRICS_SHOWN, ", ") or NONE


def _cpu_metric(side: str, percent: int) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", side: {"averageUtilization": percent}}}


def _metric(wanted: Object, seen: Object) -> str:
    """What an autoscaler has of one metric, and what it aims at."""
    kind = str(wanted.get("type", ""))
    key = kind[:1].lower() + kind[1:]
    target, current = at(wanted, f"{key}.target") or {}, at(seen, f"{key}.current") or {}
    prefix = f"{at(wanted, f'{key}.name')}: " if kind in _OF_CONTAINERS else ""
    if "averageValue" in target:
        suffix = " (avg)" if kind in ("External", "Object") else ""
        return f"{prefix}{_amount(current, 'averageValue')}/{quantity_text(target['averageValue'])}{suffix}"
    if prefix:
        used, aim = current.get("averageUtilization"), target.get("averageUtilization")
        return f"{prefix}{UNKNOWN if used is None else f'{used}%'}/{'<auto>' if aim is None else f'{aim}%'}"
    return f"{_amount(current, 'value')}/{quantity_text(target.get('value'))}"


def _amount(current: Object, name: str) -> str:
    return quantity_text(current[name]) if name in current else UNKNOWN


def _controller(revision: Object, _: float) -> str:
    owner = next((one for one in at(revision, "metadata.ownerReferences") or () if one.get("controller")), None)
    if owner is None:
        return NONE
    group, slash, _version = owner["apiVersion"].partition("/")
    kind = f"{owner['kind']}.{group}" if slash else owner["kind"]
    return f"{kind.lower()}/{owner['name']}"


def _claim_state(claim: Object, _: float) -> str:
    is_deleted = bool(at(claim, "metadata.deletionTimestamp"))
    states = ["deleted"] if is_deleted else []
    if at(claim, "status.allocation") is not None:
        states.append("allocated")
        states += ["reserved"] if at(claim, "status.reservedFor") else []
    elif not is_deleted:
        states.append("pending")
    return ",".join(states)


_REPLICAS: Cells = {
    "Desired": field("spec.replicas", 0),
    "Current": field("status.replicas", 0),
    "Ready": field("status.readyReplicas", 0),
    **pod_template("spec.template"),
}

REPLICATION_CONTROLLER: Cells = {**_REPLICAS, "Selector": labels("spec.selector")}
REPLICA_SET: Cells = {**_REPLICAS, "Selector": selector("spec.selector")}
STATEFUL_SET: Cells = {"Ready": ratio("status.readyReplicas", "spec.replicas"), **pod_template("spec.template")}
DEPLOYMENT: Cells = {
    "Ready": ratio("status.readyReplicas", "spec.replicas"),
    "Up-to-date": field("status.updatedReplicas", 0),
    "Available": field("status.availableReplicas", 0),
    **pod_template("spec.template"),
    "Selector": selector("spec.selector", ""),
}
DAEMON_SET: Cells = {
    "Desired": field("status.desiredNumberScheduled", 0),
    "Current": field("status.currentNumberScheduled", 0),
    "Ready": field("status.numberReady", 0),
    "Up-to-date": field("status.updatedNumberScheduled", 0),
    "Available": field("status.numberAvailable", 0),
    "Node Selector": labels("spec.template.spec.nodeSelector"),
    **pod_template("spec.template"),
    "Selector": selector("spec.selector"),
}
JOB: Cells = {
    "Status": _job_status,
    "Completions": _completions,
    "Duration": _job_duration,
    **pod_template("spec.template"),
    "Selector": selector("spec.selector"),
}
CRON_JOB: Cells = {
    "Schedule": field("spec.schedule"),
    "Timezone": field("spec.timeZone", NONE),
    "Suspend": _is_suspended,
    "Active": count("status.active"),
    "Last Schedule": since("status.lastScheduleTime", NONE),
    **pod_template("spec.jobTemplate.spec.template"),
    "Selector": selector("spec.jobTemplate.spec.selector"),
}
POD_TEMPLATE: Cells = {**pod_template("template"), "Pod Labels": labels("template.metadata.labels")}
POD_DISRUPTION_BUDGET: Cells = {
    "Min Available": as_text("spec.minAvailable", "N/A"),
    "Max Unavailable": as_text("spec.maxUnavailable", "N/A"),
    "Allowed Disruptions": field("status.disruptionsAllowed", 0),
}
HORIZONTAL_POD_AUTOSCALER: Cells = {
    "Reference": reference("spec.scaleTargetRef.kind", "spec.scaleTargetRef.name"),
    "Targets": _metrics,
    "MinPods": as_text("spec.minReplicas", UNSET),
    "MaxPods": field("spec.maxReplicas", 0),
    "Replicas": field("status.currentReplicas", 0),
}
CONTROLLER_REVISION: Cells = {"Controller": _controller, "Revision": field("revision", 0)}
PRIORITY_CLASS: Cells = {
    "Value": field("value", 0),
    "Global-Default": field("globalDefault", False),
    "PreemptionPolicy": field("preemptionPolicy"),
}
RESOURCE_CLAIM: Cells = {"State": _claim_state}
RESOURCE_SLICE: Cells = {
    "Node": field("spec.nodeName"),
    "Driver": field("spec.driver"),
    "Pool": field("spec.pool.name"),
}
