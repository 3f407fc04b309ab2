"""Objects of v1beta1 as v1beta2 and back. v1beta2 is the hub: it is what is stored and what the rest of Muster reads.

Kueue loses what the other version has no field for. Muster by default keeps it in an annotation (`preserved`), so
that its own round trip loses nothing; `preserve=False` is Kueue's behaviour. Whoever stores objects settles who may
write the status after converting, never before: a kept field may belong to the status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from muster.dialects.kueue.identity import api_version, identity_of
from muster.dialects.kueue.kinds import HUB, VERSIONS
from muster.dialects.kueue.preserved import keep_lost_fields, restore_kept_fields, take_kept_fields
from muster.dialects.kueue.topology_assignment import compacted, expanded
from muster.model.fields import Fields
from muster.model.plain import copied, is_same, without_nulls

Object = dict[str, Any]

WORKLOAD_CLASS_SOURCE = "kueue.x-k8s.io/workloadpriorityclass"
POD_CLASS_SOURCE = "scheduling.k8s.io/priorityclass"
_CLASS_OF_SOURCE = {
    WORKLOAD_CLASS_SOURCE: ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    POD_CLASS_SOURCE: ("scheduling.k8s.io", "PriorityClass"),
}
_SOURCE_OF_CLASS = {pair: source for source, pair in _CLASS_OF_SOURCE.items()}
_SPENT_TIME = ("accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds")  # older, hub
_LAYERS = "podsetSliceRequiredTopologyConstraints"


def to_hub(obj: Mapping[str, Any], *, preserve: bool = True) -> Object:
    """The object in the version that is stored."""
    return to_version(obj, HUB, preserve=preserve)


def to_version(obj: Mapping[str, Any], version: str, *, preserve: bool = True) -> Object:
    """The object in a version, as a copy; raises `InvalidObject` where it cannot be understood."""
    assert version in VERSIONS, f"no version {version} of Kueue's kinds"
    kind, source = identity_of(obj)
    if source == version:
        return dict(copied(obj))
    original = without_nulls(obj)
    if not preserve:
        return _converted(original, kind.name, version)
    original, kept = take_kept_fields(original, version)
    plain = _converted(original, kind.name, version)
    there_and_back = _converted(copied(plain), kind.name, source)
    restored = restore_kept_fields(plain, kept, kind.shapes[version])
    # Whatever is restored must be invisible in the version it comes from, or the annotation was forged.
    if restored is not plain and not is_same(_converted(copied(restored), kind.name, source), there_and_back):
        restored = plain
    return keep_lost_fields(restored, original, there_and_back)


def _converted(obj: Object, kind: str, version: str) -> Object:
    """The object as Kueue converts it. The argument is the caller's own copy, and its parts are used up."""
    to_new, to_old = _CONVERSIONS.get(kind, (_unchanged, _unchanged))
    convert = to_new if version == HUB else to_old
    result = dict(obj)
    for part in ("spec", "status"):
        if part in result:
            result[part] = dict(Fields.of(result[part], part).values)
    convert(result.get("spec", {}), result.get("status", {}))
    result["apiVersion"] = api_version(version)
    return result


def _rename(part: Object, old: str, new: str) -> None:
    """Moves a field; one that already has the new name is foreign to the version it came in."""
    part.pop(new, None)
    if old in part:
        part[new] = part.pop(old)


def _drop(part: Object, *names: str) -> None:
    for name in names:
        part.pop(name, None)


def _unchanged(_spec: Object, _status: Object) -> None:
    """These kinds have the same fields in both versions."""


# ClusterQueue, Cohort and LocalQueue ------------------------------------------------------------------------------


def _cluster_queue_to_new(spec: Object, status: Object) -> None:
    _rename(spec, "cohort", "cohortName")
    _drop(spec, "concurrentAdmissionPolicy")
    _drop(status, "pendingWorkloadsStatus")
    _without_usage_history(status)
    names = Fields(spec, "spec").texts("admissionChecks")
    _drop(spec, "admissionChecks")
    if names:
        # Kueue: the plain list wins over rules given beside it.
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in names]}
    if "flavorFungibility" in spec:
        rules = dict(Fields(spec, "spec").child("flavorFungibility").values)
        for field, old in (("whenCanBorrow", "Borrow"), ("whenCanPreempt", "Preempt")):
            if rules.get(field) == old:
                rules[field] = "MayStopSearch"
        spec["flavorFungibility"] = rules


def _cluster_queue_to_old(spec: Object, status: Object) -> None:
    _rename(spec, "cohortName", "cohort")
    _drop(spec, "concurrentAdmissionPolicy", "admissionChecks")
    _drop(status, "pendingWorkloadsStatus")
    _without_usage_history(status)


def _without_usage_history(status: Object) -> None:
    if "fairSharing" in status:
        sharing = dict(Fields(status, "status").child("fairSharing").values)
        _drop(sharing, "admissionFairSharingStatus")
        status["fairSharing"] = sharing


def _cohort_either_way(_spec: Object, status: Object) -> None:
    _without_usage_history(status)


def _local_queue_to_new(_spec: Object, status: Object) -> None:
    _rename(status, "flavorUsage", "flavorsUsage")
    _drop(status, "flavors")


def _local_queue_to_old(_spec: Object, status: Object) -> None:
    _rename(status, "flavorsUsage", "flavorUsage")
    _drop(status, "flavors")


# Workload ---------------------------------------------------------------------------------------------------------


def _workload_to_new(spec: Object, status: Object) -> None:
    fields = Fields(spec, "spec")
    name, source = fields.text("priorityClassName"), fields.text("priorityClassSource")
    _drop(spec, "priorityClassName", "priorityClassSource", "priorityClassRef", "preemptionGates")
    if source in _CLASS_OF_SOURCE:
        group, kind = _CLASS_OF_SOURCE[source]
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name}
    _without_layers(spec)
    _drop(status, "preemptionGates")
    _rename(status, *_SPENT_TIME)
    _with_topology(status, compacted)


def _workload_to_old(spec: Object, status: Object) -> None:
    reference = Fields(spec, "spec").child("priorityClassRef")
    source = _SOURCE_OF_CLASS.get((reference.text("group"), reference.text("kind")), "")
    name = reference.text("name")
    _drop(spec, "priorityClassName", "priorityClassSource", "priorityClassRef", "preemptionGates")
    if source:
        spec |= {"priorityClassName": name, "priorityClassSource": source}
    _without_layers(spec)
    _drop(status, "preemptionGates")
    _rename(status, *reversed(_SPENT_TIME))
    _with_topology(status, expanded)


def _without_layers(spec: Object) -> None:
    """v1beta1 has no layers of slices."""
    if "podSets" not in spec:
        return
    pod_sets = []
    for pod_set in Fields(spec, "spec").children("podSets"):
        changed = dict(pod_set.values)
        if "topologyRequest" in changed:
            request = dict(pod_set.child("topologyRequest").values)
            _drop(request, _LAYERS)
            changed["topologyRequest"] = request
        pod_sets.append(changed)
    spec["podSets"] = pod_sets


def _with_topology(status: Object, rewrite: Callable[[Mapping[str, Any], str], Object]) -> None:
    if "admission" not in status:
        return
    admission = dict(Fields(status, "status").child("admission").values)
    if "podSetAssignments" in admission:
        assignments = []
        for assignment in Fields(admission, "status.admission").children("podSetAssignments"):
            changed = dict(assignment.values)
            if "topologyAssignment" in changed:
                topology = assignment.child("topologyAssignment")
                changed["topologyAssignment"] = rewrite(topology.values, topology.path)
            assignments.append(changed)
        admission["podSetAssignments"] = assignments
    status["admission"] = admission


# The others -------------------------------------------------------------------------------------------------------


def _multikueue_cluster_to_new(spec: Object, _status: Object) -> None:
    fields = Fields(spec, "spec")
    source: Object = {}
    if fields.child("kubeConfig").text("location"):
        source["kubeConfig"] = spec["kubeConfig"]
    if fields.has("clusterProfileRef"):
        source["clusterProfileRef"] = spec["clusterProfileRef"]
    _drop(spec, "kubeConfig", "clusterProfileRef", "clusterSource")
    if source:
        spec["clusterSource"] = source


def _multikueue_cluster_to_old(spec: Object, _status: Object) -> None:
    source = Fields(spec, "spec").child("clusterSource")
    _drop(spec, "kubeConfig", "clusterProfileRef", "clusterSource")
    # Kueue: the older version always has this block, empty where the cluster is named in another way.
    spec["kubeConfig"] = source.raw("kubeConfig") or {"location": "", "locationType": ""}
    if source.has("clusterProfileRef"):
        spec["clusterProfileRef"] = source.raw("clusterProfileRef")


def _admission_check_either_way(spec: Object, _status: Object) -> None:
    _drop(spec, "retryDelayMinutes")


def _multikueue_config_either_way(spec: Object, _status: Object) -> None:
    _drop(spec, "quotaManagement")


Convert = Callable[[Object, Object], None]
_CONVERSIONS: Mapping[str, tuple[Convert, Convert]] = {
    "AdmissionCheck": (_admission_check_either_way, _admission_check_either_way),
    "ClusterQueue": (_cluster_queue_to_new, _cluster_queue_to_old),
    "Cohort": (_cohort_either_way, _cohort_either_way),
    "LocalQueue": (_local_queue_to_new, _local_queue_to_old),
    "MultiKueueCluster": (_multikueue_cluster_to_new, _multikueue_cluster_to_old),
    "MultiKueueConfig": (_multikueue_config_either_way, _multikueue_config_either_way),
    "Workload": (_workload_to_new, _workload_to_old),
}
