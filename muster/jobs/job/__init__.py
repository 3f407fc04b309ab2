"""Kubernetes' own Job: one pod set of as many pods as run at once. Found by `app` through INTEGRATION."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.engine.contracts import Ending, GroupVersionKind, Integration, JobPodSet
from muster.jobs.job import running
from muster.jobs.job.checks import change_problems, problems
from muster.jobs.job.counts import count_least, pod_count
from muster.jobs.job.running import CONTROLLER_LABELS, POD_SET
from muster.model.errors import InvalidObjects
from muster.model.fields import Fields

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"


def pod_sets(job: Fields) -> tuple[JobPodSet, ...]:
    """The pods that run at once; with the annotation for it, the job may start with fewer of them."""
    if found := tuple(problems(job)):
        raise InvalidObjects(found)
    template = job.child("spec").child("template")
    return (
        JobPodSet(
            name=POD_SET,
            count=pod_count(job),
            count_least=count_least(job),
            template=_without_controller_labels(template),
            template_path=template.path,
            index_label=INDEX_LABEL,
        ),
    )


def finished(job: Fields) -> Ending | None:
    """How the job ended, as its conditions say."""
    for condition in job.child("status").children("conditions"):
        kind = condition.text("type")
        if kind in ("Complete", "Failed") and condition.text("status") == "True":
            return Ending(kind == "Complete", condition.text("message"))
    return None


def _without_controller_labels(template: Fields) -> Mapping[str, Any]:
    metadata = template.child("metadata")
    labels = metadata.text_map("labels")
    if CONTROLLER_LABELS.isdisjoint(labels):
        return template.values
    kept = {key: value for key, value in labels.items() if key not in CONTROLLER_LABELS}
    return {**template.values, "metadata": {**metadata.values, "labels": kept}}


INTEGRATION = Integration(
    name="batch/job",
    gvk=GroupVersionKind("batch", "v1", "Job"),
    plural="jobs",
    pod_sets=pod_sets,
    is_suspended=running.is_suspended,
    finished=finished,
    hold=running.hold,
    start=running.start,
    suspend=running.suspend,
    restore=running.restore,
    reset=running.reset,
    is_active=running.is_active,
    is_ready=running.is_ready,
    reclaimable=running.reclaimable,
    changes=change_problems,
    writes_status=True,
    managed_by=("spec", "managedBy"),
    portable=running.portable,
    own_controller="kubernetes.io/job-controller",
)
