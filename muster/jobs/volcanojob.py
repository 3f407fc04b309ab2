"""Volcano's Job in a queue of Kueue: the pods of its tasks wait together. Found by `app` through INTEGRATION.

It cannot be suspended, so its pods are held back in its stead. Without Kueue's queue it is Volcano's alone.
"""

from __future__ import annotations

from typing import Any

from muster.engine.contracts import Carried, Carrier, GroupVersionKind
from muster.engine.pod_groups import ROLE, grouped
from muster.model.fields import Fields

_HINT = "make two jobs: pods in a queue wait for all of their job"


def _carry(job: Fields, carried: Carried) -> dict[str, Any]:
    spec = job.child("spec")
    tasks = list(spec.children("tasks"))
    total = sum(task.integer("replicas", 1, least=0) for task in tasks)
    for policy in spec.children("policies"):
        if policy.child("condition").text("taskName"):
            raise policy.error("condition", "lets tasks wait for another", _HINT)
    made = []
    for number, task in enumerate(tasks):
        if task.child("dependsOn").items("name"):
            raise task.error("dependsOn", "lets a task wait for another", _HINT)
        role = {ROLE: task.text("name") or f"task-{number}"}
        made.append({**task.values, "template": grouped(task.child("template"), carried, total, role)})
    return {**job.values, "spec": {**spec.values, "tasks": made}}


INTEGRATION = Carrier(
    name="batch.volcano.sh/job",
    gvk=GroupVersionKind("batch.volcano.sh", "v1alpha1", "Job"),
    plural="jobs",
    carry=_carry,
    is_active=lambda job: job.child("status").integer("running") > 0,
    makes="group of pods",
    made_as="pod",
)
