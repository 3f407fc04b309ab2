"""A Job that is held back, started and stopped, and what its status says of its pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.engine.contracts import JobPodSet, PodSetStart
from muster.engine.job_forms import is_stopping, marked, unmarked
from muster.engine.pod_templates import restored, started
from muster.jobs.job.counts import count_least, pod_count, with_count
from muster.model.fields import Fields

POD_SET = "main"
# The job's controller writes these on its pods; they are no part of what the user asked for.
CONTROLLER_LABELS = frozenset(
    ("job-name", "controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid")
)


def is_suspended(job: Fields) -> bool:
    """Whether its pods are held back; one that is being stopped still has pods."""
    return job.child("spec").flag("suspend") and not is_stopping(job)


def hold(job: Fields) -> dict[str, Any]:
    """A new job that makes no pods yet."""
    return {**job.values, "spec": {**job.child("spec").values, "suspend": True}}


def suspend(job: Fields) -> dict[str, Any]:
    """A job whose pods go. The mark stays until its template is as it was, so that nobody starts it before."""
    return dict(job.values) if job.child("spec").flag("suspend") else marked(Fields(hold(job)))


def reset(job: Fields) -> dict[str, Any]:
    """Without the time of its start: Kubernetes takes a job that has one for one whose pods have their places."""
    status = job.child("status").values
    if status.get("startTime") is None:
        return dict(job.values)
    return {**job.values, "status": {name: value for name, value in status.items() if name != "startTime"}}


def start(job: Fields, starts: tuple[PodSetStart, ...]) -> dict[str, Any]:
    """A job that makes its pods, on the nodes and as many as were assigned."""
    (given,) = starts
    spec = with_count(job, given.count) if count_least(job) is not None else job.child("spec").values
    template = started(job.child("spec").child("template"), given)
    return {**job.values, "spec": {**spec, "suspend": False, "template": template}}


def restore(job: Fields, pod_sets: tuple[JobPodSet, ...]) -> dict[str, Any]:
    """A stopped job as it was before its start."""
    spec: Mapping[str, Any] = job.child("spec").values
    for pod_set in pod_sets:
        if count_least(job) is not None:
            spec = with_count(job, pod_set.count)
        template = restored(job.child("spec").child("template"), pod_set.template, CONTROLLER_LABELS)
        spec = {**spec, "template": template}
    return unmarked(Fields({**job.values, "spec": spec}))


def portable(job: Fields) -> dict[str, Any]:
    """Without the labels that tell its pods from others' pods: each cluster has its own."""
    spec, template = job.child("spec"), job.child("spec").child("template")
    if spec.flag("manualSelector"):
        return dict(job.values)
    metadata = template.child("metadata")
    labels = {key: value for key, value in metadata.text_map("labels").items() if key not in CONTROLLER_LABELS}
    plain = {**template.values, "metadata": {**metadata.values, "labels": labels}}
    kept = {name: value for name, value in spec.values.items() if name != "selector"}
    return {**job.values, "spec": {**kept, "template": plain}}


def is_active(job: Fields) -> bool:
    """Whether pods of it run or start."""
    return job.child("status").integer("active") > 0


def is_ready(job: Fields) -> bool:
    """Whether as many pods are ready or done as run at once."""
    status = job.child("status")
    return status.integer("succeeded") + status.integer("ready") >= pod_count(job)


def reclaimable(job: Fields) -> Mapping[str, int]:
    """The pods that nobody will need again: fewer have to complete than could run at once."""
    spec, succeeded = job.child("spec"), job.child("status").integer("succeeded")
    parallelism = spec.integer("parallelism", 1)
    remaining = spec.integer("completions", parallelism) - succeeded
    if parallelism == 1 or succeeded == 0 or remaining >= parallelism:
        return {}
    return {POD_SET: parallelism - max(0, remaining)}
