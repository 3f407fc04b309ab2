"""The Workload of a job: which queue it waits in, how important it is, and its pod sets, as Kueue would write them.

Called by whoever turns jobs into workloads: `muster plan` for files, the job controller for a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha1, sha256
from typing import Any

from muster.dialects.kueue import names
from muster.dialects.kueue.defaults import DEFAULT_NAMESPACE, IN_USE_FINALIZER
from muster.dialects.kueue.forgiving import queue_name_of_job
from muster.dialects.kueue.gates import DEFAULT_GATES, FeatureGates
from muster.dialects.kueue.identity import api_version
from muster.dialects.kueue.kinds import HUB
from muster.dialects.kueue.topology_annotations import topology_request
from muster.dialects.kueue.validate import problems_of, unknown_fields_of
from muster.dialects.kueue.validate_metadata import METADATA
from muster.dialects.kueue.warning import ObjectWarning
from muster.engine.contracts import GroupVersionKind, Integration, JobPodSet
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import INT32_MAX, Fields, shown
from muster.model.labels import dns1123_subdomain_problem
from muster.model.shapes import unknown_fields
from muster.model.times import moment_text

MAX_EXEC_TIME = f"{names.GROUP}/max-exec-time-seconds"
PREBUILT = f"{names.GROUP}/prebuilt-workload-name"
DEFAULT_NAME = "default"  # of the LocalQueue and the WorkloadPriorityClass that jobs get which name none
PROVISIONING_PREFIX = "provreq.kueue.x-k8s.io/"
COPIED_ANNOTATIONS = frozenset((names.ADMISSION_GATED_BY, names.PRIORITY_BOOST, names.PREEMPTIBLE))
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
HASH_LENGTH = 5
PREFIX_LENGTH = 253 - 1 - HASH_LENGTH
GENERATED_PREFIX_LENGTH = 58
# The letters that Kubernetes ends generated names with: no vowels, so that no words come out.
GENERATED_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a job meets when its workload is made."""

    workload_classes: Mapping[str, int] = field(default_factory=dict)
    pod_classes: Mapping[str, int] = field(default_factory=dict)
    default_pod_class: str = ""
    local_queues: frozenset[str] = frozenset()  # namespace/name
    labels_to_copy: tuple[str, ...] = ()
    gates: FeatureGates = DEFAULT_GATES
    strict: bool = False
    now: float = 0.0


@dataclass(frozen=True, slots=True)
class MadeWorkload:
    """A Workload of the hub version and what the job's author should know."""

    obj: dict[str, Any]
    warnings: tuple[ObjectWarning, ...]


def queue_of(job: Fields, surroundings: Surroundings) -> tuple[str, tuple[ObjectWarning, ...]]:
    """The LocalQueue a job waits in: the one it names, or its namespace's default; empty when there is none."""
    name, warnings = queue_name_of_job(job.values, strict=surroundings.strict)
    if not name and f"{namespace_of(job)}/{DEFAULT_NAME}" in surroundings.local_queues:
        name = DEFAULT_NAME
    return name, warnings


def workload_of(job: Fields, integration: Integration, surroundings: Surroundings) -> MadeWorkload:
    """The workload of a job that has a name; raises `InvalidObjects` with everything that is wrong with the job."""
    of_labels = tuple(label_problems(job))
    pod_sets = integration.pod_sets(job)
    if of_labels:
        raise InvalidObjects(of_labels)
    workload, warnings = unchecked_workload(job, integration, surroundings)
    if (ending := integration.finished(job)) is not None:
        reason = "Succeeded" if ending.has_succeeded else "Failed"
        workload["status"] = {"conditions": [_condition("Finished", reason, surroundings.now)]}
    return MadeWorkload(workload, (*warnings, *_checked(workload, pod_sets, surroundings)))


def unchecked_workload(
    job: Fields, integration: Integration, surroundings: Surroundings
) -> tuple[dict[str, Any], tuple[ObjectWarning, ...]]:
    """The same, for a job whose workload was checked when it was made."""
    queue, warnings = queue_of(job, surroundings)
    pod_sets = integration.pod_sets(job)
    priority, class_warnings = _priority_of(job, pod_sets, surroundings)
    spec: dict[str, Any] = {
        "active": True,
        "podSets": [_pod_set(pod_set, surroundings) for pod_set in pod_sets],
        **priority,
    }
    if queue:
        spec["queueName"] = queue
    limit_s = _labels(job).get(MAX_EXEC_TIME, "")
    if _is_positive(limit_s):
        spec["maximumExecutionTimeSeconds"] = int(limit_s)
    workload = {
        "apiVersion": api_version(HUB),
        "kind": "Workload",
        "metadata": _metadata(job, integration.gvk, surroundings),
        "spec": spec,
    }
    return workload, (*warnings, *class_warnings)


# Names ------------------------------------------------------------------------------------------------------------


def workload_name(gvk: GroupVersionKind, name: str, uid: str) -> str:
    """The name that Kueue gives to the workload of a job."""
    seed = "\n".join((gvk.kind, gvk.group, name, uid))
    digest = sha1(seed.encode(), usedforsecurity=False).hexdigest()
    return f"{f'{gvk.kind.lower()}-{name}'[:PREFIX_LENGTH]}-{digest[:HASH_LENGTH]}"


def with_generated_name(obj: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The object under the name that its `generateName` stands for; which number it has decides on the last letters."""
    metadata = Fields.of(obj).child("metadata")
    prefix = metadata.text("generateName")[:GENERATED_PREFIX_LENGTH]
    left = int.from_bytes(sha256(f"{namespace_of(Fields.of(obj))}/{prefix}/{number}".encode()).digest()[:8])
    letters = ""
    for _ in range(HASH_LENGTH):
        left, at = divmod(left, len(GENERATED_LETTERS))
        letters += GENERATED_LETTERS[at]
    return {**obj, "metadata": {**metadata.values, "name": prefix + letters}}


def namespace_of(job: Fields) -> str:
    return job.child("metadata").text("namespace") or DEFAULT_NAMESPACE


def uid_of(job: Fields, gvk: GroupVersionKind) -> str:
    """The job's uid, or one that follows from its name where it was never stored."""
    metadata = job.child("metadata")
    if uid := metadata.text("uid"):
        return uid
    seed = f"{gvk.api_version}/{gvk.kind}/{namespace_of(job)}/{metadata.text('name')}"
    digest = sha256(seed.encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))


def _metadata(job: Fields, gvk: GroupVersionKind, surroundings: Surroundings) -> dict[str, Any]:
    metadata = job.child("metadata")
    name, uid = metadata.text("name"), uid_of(job, gvk)
    owner = {"apiVersion": gvk.api_version, "kind": gvk.kind, "name": name, "uid": uid}
    labels = {key: value for key, value in _labels(job).items() if key in surroundings.labels_to_copy}
    annotations = {
        key: value
        for key, value in metadata.text_map("annotations").items()
        if key in COPIED_ANNOTATIONS or key.startswith(PROVISIONING_PREFIX)
    }
    return {
        "name": workload_name(gvk, name, uid),
        "namespace": namespace_of(job),
        "creationTimestamp": metadata.text("creationTimestamp") or moment_text(surroundings.now),
        "labels": {**labels, names.JOB_UID: uid},
        **({"annotations": annotations} if annotations else {}),
        "finalizers": [IN_USE_FINALIZER],
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }


def unknown_metadata(job: Fields) -> tuple[InvalidObject, ...]:
    """The fields of a job's metadata that no object has: labels and annotations are often written there."""
    metadata = job.child("metadata")
    return tuple(unknown_fields(METADATA, metadata.values, metadata.path))


def prebuilt_name(job: Fields) -> str:
    """The existing workload that a job says is its own; empty when it names none."""
    annotations = job.child("metadata").text_map("annotations")
    return annotations.get(PREBUILT) or _labels(job).get(PREBUILT, "")


# Parts ------------------------------------------------------------------------------------------------------------


def _labels(job: Fields) -> dict[str, str]:
    return job.child("metadata").text_map("labels")


def _pod_set(pod_set: JobPodSet, surroundings: Surroundings) -> dict[str, Any]:
    made: dict[str, Any] = {"name": pod_set.name, "count": pod_set.count, "template": dict(pod_set.template)}
    if pod_set.count_least is not None and surroundings.gates.is_on("PartialAdmission"):
        made["minCount"] = pod_set.count_least
    if surroundings.gates.is_on("TopologyAwareScheduling") and (request := topology_request(pod_set)):
        made["topologyRequest"] = request
    return made


def _priority_of(
    job: Fields, pod_sets: tuple[JobPodSet, ...], surroundings: Surroundings
) -> tuple[dict[str, Any], tuple[ObjectWarning, ...]]:
    """The job's priority: by the class its label names, else by the class of its pods, else by the default."""
    path = f"metadata.labels[{names.PRIORITY_CLASS}]"
    named = _labels(job).get(names.PRIORITY_CLASS, "")
    ignored = _ignored_annotation(job)
    if not named and surroundings.gates.is_on("WorkloadPriorityClassDefaulting"):
        named = DEFAULT_NAME if DEFAULT_NAME in surroundings.workload_classes else ""
    kind = "WorkloadPriorityClass"
    if not named:
        kind, named, path = "PriorityClass", surroundings.default_pod_class, ""
        for pod_set in reversed(pod_sets):
            spec = Fields.of(pod_set.template, pod_set.template_path).child("spec")
            if of_pods := spec.text("priorityClassName"):
                named, path = of_pods, spec.at("priorityClassName")
    if not named:
        return {"priority": 0}, ignored
    priority, warnings = _classified(kind, named, path, surroundings)
    return priority, (*ignored, *warnings)


def _ignored_annotation(job: Fields) -> tuple[ObjectWarning, ...]:
    """Kueue reads the class from the label alone."""
    metadata = job.child("metadata")
    if names.PRIORITY_CLASS not in metadata.text_map("annotations") or names.PRIORITY_CLASS in _labels(job):
        return ()
    path = f"{metadata.at('annotations')}[{names.PRIORITY_CLASS}]"
    hint = f"give the label {names.PRIORITY_CLASS} instead"
    return (ObjectWarning(path, "is not read: the class is named by a label", hint),)


def _classified(
    kind: str, name: str, path: str, surroundings: Surroundings
) -> tuple[dict[str, Any], tuple[ObjectWarning, ...]]:
    is_own = kind == "WorkloadPriorityClass"
    known = surroundings.workload_classes if is_own else {**SYSTEM_CLASSES, **surroundings.pod_classes}
    if name not in known:
        problem, hint = f"names the {kind} {shown(name)}, which is not there", "create it, or name another"
        if surroundings.strict:
            raise InvalidObject(path, problem, hint)
        return {"priority": 0}, (ObjectWarning(path, f"{problem}: priority 0 is assumed", hint),)
    reference = {"group": names.GROUP if is_own else "scheduling.k8s.io", "kind": kind, "name": name}
    return {"priority": known[name], "priorityClassRef": reference}, ()


def _condition(type_: str, reason: str, now: float) -> dict[str, Any]:
    return {"type": type_, "status": "True", "reason": reason, "message": "", "lastTransitionTime": moment_text(now)}


# Checks -----------------------------------------------------------------------------------------------------------


def label_problems(job: Fields) -> Iterator[InvalidObject]:
    """What Kueue refuses of the labels that every kind of job may have."""
    labels = _labels(job)
    for key in (names.QUEUE_NAME, PREBUILT):
        value = labels.get(key)
        if value and (problem := dns1123_subdomain_problem(value)):
            path = f"metadata.labels[{key}]"
            yield InvalidObject(path, f"is {shown(value)}, which {problem}", "give the name of an object")
    limit_s = labels.get(MAX_EXEC_TIME)
    if limit_s is not None and not _is_positive(limit_s):
        path = f"metadata.labels[{MAX_EXEC_TIME}]"
        yield InvalidObject(path, f"is {shown(limit_s)}", "give a whole number of seconds above 0")


def _is_positive(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and 0 < int(text) <= INT32_MAX


def _checked(
    workload: dict[str, Any], pod_sets: tuple[JobPodSet, ...], surroundings: Surroundings
) -> tuple[ObjectWarning, ...]:
    """The workload's own rules, with what they find named by its place in the job."""
    errors, warnings = problems_of(workload, gates=surroundings.gates, strict=surroundings.strict)
    unknown = unknown_fields_of(workload)
    if surroundings.strict:
        errors += unknown
    if errors:
        found = (InvalidObject(path_in_job(e.path, pod_sets), e.problem, e.hint) for e in errors)
        raise InvalidObjects(tuple(found))
    odd = (*((w.path, w.problem, w.hint) for w in warnings), *((e.path, e.problem, e.hint) for e in unknown))
    return tuple(ObjectWarning(path_in_job(path, pod_sets), problem, hint) for path, problem, hint in odd)


def path_in_job(path: str, pod_sets: tuple[JobPodSet, ...]) -> str:
    """Where in a job a field of its workload stands."""
    for index, pod_set in enumerate(pod_sets):
        prefix = f"spec.podSets[{index}].template"
        if path.startswith(prefix):
            return f"{pod_set.template_path}{path.removeprefix(prefix)}".removeprefix(".")
    return path
