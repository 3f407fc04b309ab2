"""What the pods of a job look like before its plugins add theirs. Used by `steps`."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from muster.dialects.volcano.job.counting import partition_of
from muster.dialects.volcano.job.group import reference_to
from muster.dialects.volcano.job.spec import Task, VolcanoJob
from muster.dialects.volcano.job.words import (
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_RETRIES,
    JOB_VERSION,
    NUMA_POLICY,
    PARTITION,
    QUEUE_NAME,
    TASK_INDEX,
    TASK_SPEC,
    TEMPLATE_UID,
)
from muster.dialects.volcano.names import GROUP_NAMES, PREEMPTABLE

Object = dict[str, Any]
COOLDOWN = "volcano.sh/cooldown-time"
_INHERITED = (PREEMPTABLE, COOLDOWN, "volcano.sh/revocable-zone")
_BUDGETS = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")  # the first that is there


def pod_name(job: str, task: str, index: int) -> str:
    """The name of a pod."""
    return f"{job}-{task}-{index}"


@dataclass(frozen=True, slots=True)
class PodPlace:
    """Which pod of a job is meant."""

    job: VolcanoJob
    task: Task
    index: int


def pod_of(place: PodPlace, *, group: str, version: int, retries: int) -> Object:
    """One pod of a task."""
    job, task, index = place.job, place.task, place.index
    given = task.template.get("metadata") or {}
    told = {
        TASK_INDEX: str(index),
        TASK_SPEC: task.name,
        GROUP_NAMES[0]: group,
        JOB_NAME: job.name,
        QUEUE_NAME: job.queue,
        JOB_VERSION: str(version),
        TEMPLATE_UID: f"{job.name}-{task.name}",
        JOB_RETRIES: str(retries),
    }
    labels = {
        TASK_INDEX: str(index),
        JOB_NAME: job.name,
        TASK_SPEC: task.name,
        JOB_NAMESPACE: job.namespace,
        QUEUE_NAME: job.queue,
    }
    part = partition_of(task, index)
    if part is not None:
        labels[PARTITION] = str(part)
    if task.numa_policy:
        told[NUMA_POLICY] = task.numa_policy
    metadata: Object = {
        "name": pod_name(job.name, task.name, index),
        "namespace": job.namespace,
        "ownerReferences": [reference_to(job)],
        "annotations": {**(given.get("annotations") or {}), **told, **_inherited_notes(job)},
        "labels": {**(given.get("labels") or {}), **labels, **_inherited_labels(job)},
    }
    if given.get("finalizers"):
        metadata["finalizers"] = list(given["finalizers"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(job, task)}


def _inherited_notes(job: VolcanoJob) -> dict[str, str]:
    found = {name: job.annotations[name] for name in _INHERITED if name in job.annotations}
    budget = next((name for name in _BUDGETS if name in job.annotations), None)
    return found if budget is None else {**found, budget: job.annotations[budget]}


def _inherited_labels(job: VolcanoJob) -> dict[str, str]:
    return {name: job.labels[name] for name in (PREEMPTABLE, COOLDOWN) if name in job.labels}


def _spec(job: VolcanoJob, task: Task) -> Object:
    spec: Object = deepcopy(dict(task.pod_spec))
    if not spec.get("schedulerName"):
        spec["schedulerName"] = job.scheduler
    if job.priority_class and not spec.get("priorityClassName"):
        spec["priorityClassName"] = job.priority_class
    for number, volume in enumerate(job.volumes):
        name = f"{job.name[:40]}-volume-{number}"
        source = {"claimName": claim_name(job, number)}
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "persistentVolumeClaim": source}]
        mount = {"name": name, "mountPath": volume.path}
        for container in spec.get("containers") or ():
            container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
    return spec


# Claims ---------------------------------------------------------------------------------------------------------------


def claim_name(job: VolcanoJob, number: int) -> str:
    """The claim of a job's volume: the one it names, else one of its own that no other job has."""
    return job.volumes[number].claim_name or f"{job.name}-pvc-{job.uid.replace('-', '')[:12]}-{number}"


def claims_of(job: VolcanoJob) -> list[Object]:
    """The claims that a job makes for itself."""
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": claim_name(job, number),
                "namespace": job.namespace,
                "ownerReferences": [reference_to(job)],
            },
            "spec": deepcopy(dict(volume.claim)),
        }
        for number, volume in enumerate(job.volumes)
        if not volume.claim_name and volume.claim is not None
    ]


def containers_of(pod: Mapping[str, Any], *, has_init: bool = True) -> list[Object]:
    """The containers of a pod, those that run before the others too where they are asked for."""
    spec = pod["spec"]
    return [*(spec.get("containers") or ()), *((spec.get("initContainers") or ()) if has_init else ())]
