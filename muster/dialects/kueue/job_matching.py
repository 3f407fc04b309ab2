"""Whether a workload still is what its job asks for, and the workload that is. Used by `job_steps`."""

from __future__ import annotations

from typing import Any

from muster.model.fields import Fields
from muster.model.plain import is_same

# What of a pod makes another workload of a job. While it waits, where its pods may run belongs to it too.
ALWAYS = ("initContainers", "containers")
WHILE_WAITING = (*ALWAYS, "tolerations", "nodeSelector", "affinity", "priorityClassName")
# What a workload has of its job, and not from elsewhere.
_OF_THE_JOB = ("podSets", "queueName", "priority", "priorityClassRef", "maximumExecutionTimeSeconds")


def is_matching(made: Fields, workload: Fields, *, is_waiting: bool) -> bool:
    """Whether a workload is what would be made of its job now; one that holds quota may differ in where pods run."""
    wanted, found = made.child("spec"), workload.child("spec")
    if wanted.integer("maximumExecutionTimeSeconds") != found.integer("maximumExecutionTimeSeconds"):
        return False
    if is_waiting and wanted.text("queueName") != found.text("queueName"):
        return False
    pod_sets, others = list(wanted.children("podSets")), list(found.children("podSets"))
    if len(pod_sets) != len(others):
        return False
    fields = WHILE_WAITING if is_waiting else ALWAYS
    return all(_is_like(one, other, fields) for one, other in zip(pod_sets, others, strict=True))


def is_of_class(workload: Fields, made: Fields, *, is_waiting: bool) -> bool:
    """Whether a workload has the priority class of its job; with quota it only changes between Kueue's own classes."""
    before, now = workload.child("spec").child("priorityClassRef"), made.child("spec").child("priorityClassRef")
    kinds = (before.text("kind"), now.text("kind"))
    if not now.text("name") or (kinds[0] == kinds[1] and before.text("name") == now.text("name")):
        return True  # A class that is gone has no other value to give.
    return not is_waiting and kinds != ("WorkloadPriorityClass", "WorkloadPriorityClass")


def updated_spec(workload: Fields, made: Fields) -> dict[str, Any]:
    """The spec of a workload that follows its job."""
    new = made.child("spec").values
    kept = {name: value for name, value in workload.child("spec").values.items() if name not in _OF_THE_JOB}
    return {**kept, **{name: new[name] for name in _OF_THE_JOB if name in new}}


def _is_like(one: Fields, other: Fields, fields: tuple[str, ...]) -> bool:
    if one.text("name", "main") != other.text("name", "main"):
        return False
    if one.integer("count", 1) != other.integer("count", 1) or one.integer("minCount") != other.integer("minCount"):
        return False
    left, right = one.child("template").child("spec").values, other.child("template").child("spec").values
    return all(is_same(left.get(name) or None, right.get(name) or None) for name in fields)
