"""The PodGroup that a job's pods wait in together. Used by `steps`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.dialects.volcano.job.spec import Task, VolcanoJob
from muster.dialects.volcano.job.words import BATCH, PARTITION, TASK_SPEC
from muster.dialects.volcano.names import POD_GROUP, SCHEDULING
from muster.model.fields import Fields
from muster.model.podspec import total_requests
from muster.model.quantity import Quantity, sum_of

Object = dict[str, Any]
_CARD_PARTS = ("mem", "memory", "core", "cores")  # how the vendors' resources end
Priorities = Mapping[str, int]  # the values of priority classes by name


def group_name(job: VolcanoJob) -> str:
    """What the group of a job is called."""
    return f"{job.name}-{job.uid}"


def group_of(job: VolcanoJob, name: str, priorities: Priorities) -> Object:
    """The group that a job needs."""
    metadata: Object = {"name": name, "namespace": job.namespace, "ownerReferences": [reference_to(job)]}
    if job.labels:
        metadata["labels"] = dict(job.labels)
    if job.annotations:
        metadata["annotations"] = dict(job.annotations)
    spec: Object = {
        "minMember": job.least,
        "minTaskMember": {task.name: task.least for task in job.tasks},
        "minResources": least_resources(job, priorities),
        "queue": job.queue,
    }
    if job.priority_class:
        spec["priorityClassName"] = job.priority_class
    if job.topology:
        spec["networkTopology"] = dict(job.topology)
    if parts := list(_sub_groups(job)):
        spec["subGroupPolicy"] = parts
    return {"apiVersion": SCHEDULING, "kind": POD_GROUP, "metadata": metadata, "spec": spec}


def reference_to(job: VolcanoJob) -> Object:
    """The reference that makes an object belong to a job."""
    return {
        "apiVersion": BATCH,
        "kind": "Job",
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _sub_groups(job: VolcanoJob) -> Iterator[Object]:
    for task in job.tasks:
        part = task.partition
        if part is None:
            continue
        yield {
            "name": task.name,
            "subGroupSize": part.size,
            "minSubGroups": part.least,
            "labelSelector": {"matchLabels": {TASK_SPEC: task.name}},
            "matchLabelKeys": [PARTITION],
            **({"networkTopology": dict(part.topology)} if part.topology else {}),
        }


def least_resources(job: VolcanoJob, priorities: Priorities) -> dict[str, str]:
    """What the pods ask for that must start together, those of the highest priority first."""
    ordered = sorted(job.tasks, key=lambda task: -priorities.get(str(task.pod_spec.get("priorityClassName") or ""), 0))
    taken = dict.fromkeys((task.name for task in ordered), 0)
    if job.least >= sum(task.least for task in ordered):
        taken = {task.name: task.least for task in ordered}
    left = job.least - sum(taken.values())
    for task in ordered:
        more = min(left, task.replicas - taken[task.name])
        if more > 0:
            taken[task.name] += more
            left -= more
    total: dict[str, Quantity] = {}
    for task in ordered:
        _add(total, task, taken[task.name])
    return {name: str(amount) for name, amount in total.items()}


def _add(total: dict[str, Quantity], task: Task, count: int) -> None:
    if count <= 0:
        return
    for name, amount in total_requests(Fields.of(task.pod_spec, f"{task.path}.template.spec")).items():
        if _is_of_cards(name):
            continue
        wanted = _times(amount, count)
        total[name] = sum_of(total[name], wanted) if name in total else wanted


def _is_of_cards(name: str) -> bool:
    """Whether something is a card's, not a node's: its memory or its cores. No node has any of it to take up."""
    return "/" in name and name.lower().removesuffix("-percentage").endswith(_CARD_PARTS)


def _times(amount: Quantity, count: int) -> Quantity:
    """An amount so many times, by doubling: counts may be large."""
    result: Quantity | None = None
    while count:
        if count & 1:
            result = amount if result is None else sum_of(result, amount)
        count >>= 1
        if count:
            amount = sum_of(amount, amount)
    assert result is not None, "nothing is asked for at least once"
    return result
