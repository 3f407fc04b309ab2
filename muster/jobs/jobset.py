"""JobSet: several Jobs that start and end together, one pod set for each of its replicated jobs.

Found by `app` through INTEGRATION.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muster.engine.contracts import Ending, GroupVersionKind, Integration
from muster.engine.job_forms import Role, TemplateForm, ended_by_condition
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
JOB_INDEX_LABEL = "jobset.sigs.k8s.io/job-index"


def _roles(job_set: Fields) -> Iterator[Role]:
    for number, one in enumerate(job_set.child("spec").children("replicatedJobs")):
        replicas = one.integer("replicas", 1, least=0)
        yield Role(
            name=one.text("name"),
            count=replicas * _pods_of_one(one),
            at=("spec", "replicatedJobs", number, "template", "spec", "template"),
            index_label=INDEX_LABEL,
            group_label=JOB_INDEX_LABEL,
            group_count=replicas,
        )


def _pods_of_one(replicated: Fields) -> int:
    """How many pods one of the equal jobs runs at once."""
    spec = replicated.child("template").child("spec")
    parallelism = spec.integer("parallelism", 1, least=0)
    return min(parallelism, spec.integer("completions", parallelism, least=0))


def _problems(job_set: Fields) -> Iterator[InvalidObject]:
    spec = job_set.child("spec")
    if not spec.items("replicatedJobs"):
        yield spec.error("replicatedJobs", "is missing", "give at least one")
    for one in spec.children("replicatedJobs"):
        if not one.text("name"):
            yield one.error("name", "is missing", "name each replicated job")


def _finished(job_set: Fields) -> Ending | None:
    return ended_by_condition(job_set, "Completed")


def _is_active(job_set: Fields) -> bool:
    return any(one.integer("active") > 0 for one in job_set.child("status").children("replicatedJobsStatus"))


def _is_ready(job_set: Fields) -> bool:
    wanted = sum(one.integer("replicas", 1) for one in job_set.child("spec").children("replicatedJobs"))
    there = job_set.child("status").children("replicatedJobsStatus")
    return sum(one.integer("ready") + one.integer("succeeded") for one in there) >= wanted


def _reclaimable(job_set: Fields) -> Mapping[str, int]:
    """The pods of jobs that have succeeded."""
    done = {
        one.text("name"): one.integer("succeeded") for one in job_set.child("status").children("replicatedJobsStatus")
    }
    found = {}
    for one in job_set.child("spec").children("replicatedJobs"):
        if done.get(one.text("name"), 0) > 0:
            found[one.text("name")] = done[one.text("name")] * _pods_of_one(one)
    return found


FORM = TemplateForm(roles=_roles, problems=_problems, switch=("spec", "suspend"))
INTEGRATION = Integration(
    name="jobset.x-k8s.io/jobset",
    gvk=GroupVersionKind("jobset.x-k8s.io", "v1alpha2", "JobSet"),
    plural="jobsets",
    pod_sets=FORM.pod_sets,
    is_suspended=FORM.is_suspended,
    hold=FORM.hold,
    start=FORM.start,
    suspend=FORM.suspend,
    restore=FORM.restore,
    finished=_finished,
    is_active=_is_active,
    is_ready=_is_ready,
    reclaimable=_reclaimable,
    managed_by=("spec", "managedBy"),
    own_controller="jobset.sigs.k8s.io/jobset-controller",
)
