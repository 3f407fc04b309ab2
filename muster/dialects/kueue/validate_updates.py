"""The rules of a Workload that compare it with what it replaces: what may change once quota is reserved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.dialects.kueue.names import ADMISSION_GATED_BY, SLICE_REPLACEMENT_FOR
from muster.dialects.kueue.rules import Problems, Rule, Subject, annotations_of, is_elastic
from muster.dialects.kueue.validate_workload import (
    admission_gates,
    assignments_of,
    has_condition,
    has_quota,
    pod_counts,
    reclaimable_counts,
)
from muster.dialects.kueue.versions import WORKLOAD_CLASS_SOURCE
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown
from muster.model.plain import is_same

_EVICT_FIRST = "it is fixed while the workload holds quota"


def _pod_sets_stay(subject: Subject) -> Problems:
    """While quota is reserved pod sets are fixed; an elastic workload's may shrink."""
    if subject.old is None or not has_quota(subject.old):
        return
    before, now = list(subject.old.child("spec").children("podSets")), list(subject.spec.children("podSets"))
    if len(before) != len(now):
        yield subject.spec.error("podSets", f"has {len(now)} items and had {len(before)}", _EVICT_FIRST)
        return
    may_shrink = subject.gates.is_on("ElasticJobsViaWorkloadSlices")
    for old, new in zip(before, now, strict=True):
        wanted: Mapping[str, Any] = new.values
        if may_shrink and new.integer("count", 1) < old.integer("count", 1):
            wanted = {**new.values, "count": old.integer("count", 1)}
        if not is_same(old.values, wanted):
            yield InvalidObject(new.path, "was changed", _EVICT_FIRST)


def _reclaimable_grows(subject: Subject) -> Problems:
    """Pods that gave their share back do not take it again while quota is reserved."""
    if subject.old is None or not has_quota(subject.old) or not has_quota(subject.obj):
        return
    now = reclaimable_counts(subject.obj)
    shrunk = _shrunk_pod_sets(subject)
    for name, count in reclaimable_counts(subject.old).items():
        path = f"status.reclaimablePods[{name}]"
        if name in shrunk:
            continue
        if name not in now:
            yield InvalidObject(path, "was taken out", "keep it while the workload holds quota")
        elif now[name] < count:
            yield InvalidObject(f"{path}.count", f"is {now[name]} and was {count}", f"give {count} or more")


def _shrunk_pod_sets(subject: Subject) -> set[str]:
    """Pod sets of an elastic workload that are smaller now than they were admitted."""
    if not is_elastic(subject.obj, subject.gates):
        return set()
    admitted = {item.text("name"): item.integer("count") for item in assignments_of(subject.obj) if item.has("count")}
    return {name for name, count in pod_counts(subject.obj).items() if count < admitted.get(name, 0)}


def _admission_stays(subject: Subject) -> Problems:
    """An admission is given or taken as a whole; where pods go within it may be amended."""
    if subject.old is None:
        return
    before, now = subject.old.child("status").child("admission"), subject.status.child("admission")
    if not subject.old.child("status").has("admission") or not subject.status.has("admission"):
        return
    ignored = ("topologyAssignment", "delayedTopologyRequest") if subject.gates.is_on("TopologyAwareScheduling") else ()
    if not is_same(_without(before, ignored), _without(now, ignored)):
        yield subject.status.error("admission", "was changed", "take it away first, then give another")


def _without(admission: Fields, ignored: tuple[str, ...]) -> dict[str, Any]:
    assignments = [
        {name: value for name, value in item.values.items() if name not in ignored}
        for item in admission.children("podSetAssignments")
    ]
    return {**admission.values, "podSetAssignments": assignments}


def _ready_checks_stay(subject: Subject) -> Problems:
    """What a check that is ready changes in pods is settled."""
    if subject.old is None:
        return
    ready = {
        check.text("name"): check
        for check in subject.old.child("status").children("admissionChecks")
        if check.text("state") == "Ready"
    }
    for check in subject.status.children("admissionChecks"):
        before = ready.get(check.text("name"))
        if before is None or check.text("state") != "Ready":
            continue
        if not is_same(before.items("podSetUpdates"), check.items("podSetUpdates")):
            yield check.error("podSetUpdates", "was changed although the check was ready", "leave it as it was")


def _cluster_name(subject: Subject) -> Problems:
    if subject.old is None or not subject.status.has("clusterName"):
        return
    old, now = subject.old.child("status"), subject.status.text("clusterName")
    if old.has("clusterName"):
        if old.text("clusterName") != now:
            yield subject.status.error("clusterName", f"was {shown(old.text('clusterName'))}", "it cannot be changed")
        return
    is_replacement = is_elastic(subject.obj, subject.gates) and SLICE_REPLACEMENT_FOR in annotations_of(subject.obj)
    if not is_replacement and now not in old.texts("nominatedClusterNames"):
        hint = "give one of the clusters that were nominated before"
        yield subject.status.error("clusterName", f"is {shown(now)}", hint)


def _gates_only_go(subject: Subject) -> Problems:
    """A workload is held back from its creation or not at all."""
    if subject.old is None or not subject.gates.is_on("AdmissionGatedBy"):
        return
    path = f"metadata.annotations[{ADMISSION_GATED_BY}]"
    before = admission_gates(annotations_of(subject.old).get(ADMISSION_GATED_BY, ""))
    now = admission_gates(annotations_of(subject.obj).get(ADMISSION_GATED_BY, ""))
    added = [gate for gate in now if gate not in before]
    if added and not before:
        yield InvalidObject(path, "was added after the workload was created", "take it out")
    elif added:
        yield InvalidObject(path, f"has the new gate {shown(added[0])}", "gates can only be taken out")


def _queue_stays(subject: Subject) -> Problems:
    if subject.old is None or not has_quota(subject.old) or not has_quota(subject.obj):
        return
    before = subject.old.child("spec").raw("queueName")
    if before != subject.spec.raw("queueName"):
        yield subject.spec.error("queueName", f"was {shown(before or '')}", _EVICT_FIRST)


def _execution_time_stays(subject: Subject) -> Problems:
    is_admitted = has_condition(subject.obj, "Admitted")
    if subject.old is None or not is_admitted or not has_condition(subject.old, "Admitted"):
        return
    name = "maximumExecutionTimeSeconds"
    before, now = subject.old.child("spec").integer(name), subject.spec.integer(name)
    if before != now:
        yield subject.spec.error(name, f"is {now} and was {before}", "it is fixed while the workload is admitted")


def _priority_class_stays(subject: Subject) -> Problems:
    """The class of a workload with quota stays; the name may change where it is a class of Kueue's own."""
    if subject.old is None or not has_quota(subject.old):
        return
    if subject.is_hub:
        yield from _class_reference_stays(subject.old.child("spec"), subject.spec)
        return
    old, new = subject.old.child("spec"), subject.spec
    if not old.has("priorityClassSource") or not new.has("priorityClassSource"):
        return
    source = new.text("priorityClassSource")
    if old.text("priorityClassSource") != source:
        was = shown(old.text("priorityClassSource"))
        yield new.error("priorityClassSource", f"is {shown(source)} and was {was}", _EVICT_FIRST)
    has_names = old.has("priorityClassName") and new.has("priorityClassName")
    if source != WORKLOAD_CLASS_SOURCE and has_names and old.text("priorityClassName") != new.text("priorityClassName"):
        yield new.error("priorityClassName", f"was {shown(old.text('priorityClassName'))}", _EVICT_FIRST)


def _class_reference_stays(old: Fields, new: Fields) -> Problems:
    name = "priorityClassRef"
    if old.has(name) != new.has(name):
        yield new.error(name, "was added or taken out", _EVICT_FIRST)
        return
    before, now = old.child(name), new.child(name)
    fixed = ["group", "kind"]
    if now.text("group") == "scheduling.k8s.io" and now.text("kind") == "PriorityClass":
        fixed.append("name")
    for part in fixed:
        if before.text(part) != now.text(part):
            yield now.error(part, f"is {shown(now.text(part))} and was {shown(before.text(part))}", _EVICT_FIRST)


WORKLOAD_UPDATE_RULES: tuple[Rule, ...] = (
    _pod_sets_stay,
    _reclaimable_grows,
    _admission_stays,
    _ready_checks_stay,
    _cluster_name,
    _gates_only_go,
    _queue_stays,
    _execution_time_stays,
    _priority_class_stays,
)
