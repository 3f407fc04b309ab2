"""Ray's RayJob: a Ray cluster for one program, and the pod that submits it. Found by `app` through INTEGRATION.

A job that runs on somebody else's cluster has no pods of its own: it does not wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.engine.contracts import Ending, GroupVersionKind, Integration, JobPodSet
from muster.engine.job_forms import Role, TemplateForm
from muster.engine.ray_clusters import GROUP, cluster_problems, cluster_roles, with_container
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

CLUSTER, SUBMITTER = "rayClusterSpec", "submitterPodTemplate"
BY_JOB, BY_SIDECAR = "K8sJobMode", "SidecarMode"
WITHOUT_PODS = ("", "Suspended")
# What the operator gives a submitter of which nothing is said.
SUBMITTER_AMOUNTS = {"requests": {"cpu": "500m", "memory": "200Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}


def _roles(job: Fields) -> Iterator[Role]:
    spec = job.child("spec")
    head, *workers = cluster_roles(spec.child(CLUSTER), ("spec", CLUSTER))
    mode = spec.text("submissionMode", BY_JOB)
    yield with_container(head, spec.child(CLUSTER), _submitter(spec)) if mode == BY_SIDECAR else head
    yield from workers
    if mode == BY_JOB and spec.has(SUBMITTER):
        yield Role(name="submitter", count=1, at=("spec", SUBMITTER))
    elif mode == BY_JOB:
        template = {"spec": {"restartPolicy": "Never", "containers": [_submitter(spec)]}}
        yield Role(name="submitter", count=1, template=template)


def _submitter(spec: Fields) -> dict[str, Any]:
    """The container that submits the program, with the image of the head."""
    containers = spec.child(CLUSTER).child("headGroupSpec").child("template").child("spec").children("containers")
    image = next((one.text("image") for one in containers), "")
    return {"name": "ray-job-submitter", "image": image, "resources": SUBMITTER_AMOUNTS}


def _problems(job: Fields) -> Iterator[InvalidObject]:
    spec = job.child("spec")
    if spec.has("clusterSelector"):
        yield spec.error("clusterSelector", f"stands beside {CLUSTER}", "give only one of them")
    if not spec.has(CLUSTER):
        yield spec.error(CLUSTER, "is missing", "describe the cluster of the job")
    elif not spec.flag("shutdownAfterJobFinishes"):
        hint = "give true: a cluster that stays would keep what it holds"
        yield spec.error("shutdownAfterJobFinishes", "is not true", hint)
    is_by_job = spec.text("submissionMode", BY_JOB) == BY_JOB
    yield from cluster_problems(spec.child(CLUSTER), more_sets=1 if is_by_job else 0)


def _has_own_cluster(job: Fields) -> bool:
    spec = job.child("spec")
    return spec.has(CLUSTER) or not spec.text_map("clusterSelector")


def _pod_sets(job: Fields) -> tuple[JobPodSet, ...]:
    return FORM.pod_sets(job) if _has_own_cluster(job) else ()


def _hold(job: Fields) -> dict[str, Any]:
    return FORM.hold(job) if _has_own_cluster(job) else dict(job.values)


def _finished(job: Fields) -> Ending | None:
    status = job.child("status")
    if status.text("jobDeploymentStatus") not in ("Complete", "Failed"):
        return None
    return Ending(status.text("jobStatus") == "SUCCEEDED", status.text("message"))


FORM = TemplateForm(roles=_roles, problems=_problems, switch=("spec", "suspend"))
INTEGRATION = Integration(
    name="ray.io/rayjob",
    gvk=GroupVersionKind(GROUP, "v1", "RayJob"),
    plural="rayjobs",
    pod_sets=_pod_sets,
    is_suspended=FORM.is_suspended,
    hold=_hold,
    start=FORM.start,
    suspend=FORM.suspend,
    restore=FORM.restore,
    finished=_finished,
    is_active=lambda job: job.child("status").text("jobDeploymentStatus") not in WITHOUT_PODS,
    is_ready=lambda job: job.child("status").child("rayClusterStatus").text("state") == "ready",
    is_marked=_has_own_cluster,
    managed_by=("spec", "managedBy"),
    own_controller="ray.io/kuberay-operator",
)
