"""Ray's RayService: a Ray cluster that serves until somebody deletes it. Found by `app` through INTEGRATION."""

from __future__ import annotations

from collections.abc import Iterator

from muster.engine.contracts import GroupVersionKind, Integration
from muster.engine.job_forms import Role, TemplateForm, has_true_condition
from muster.engine.ray_clusters import GROUP, cluster_problems, cluster_roles
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

CLUSTER = "rayClusterConfig"


def _roles(service: Fields) -> Iterator[Role]:
    return cluster_roles(service.child("spec").child(CLUSTER), ("spec", CLUSTER))


def _problems(service: Fields) -> Iterator[InvalidObject]:
    spec = service.child("spec")
    if not spec.has(CLUSTER):
        yield spec.error(CLUSTER, "is missing", "describe the cluster that serves")
    yield from cluster_problems(spec.child(CLUSTER))


def _is_active(service: Fields) -> bool:
    """Whether it has a cluster, the one that serves or the one that is to follow it."""
    status = service.child("status")
    return any(status.child(name).text("rayClusterName") for name in ("activeServiceStatus", "pendingServiceStatus"))


FORM = TemplateForm(roles=_roles, problems=_problems, switch=("spec", "suspend"))
INTEGRATION = Integration(
    name="ray.io/rayservice",
    gvk=GroupVersionKind(GROUP, "v1", "RayService"),
    plural="rayservices",
    pod_sets=FORM.pod_sets,
    is_suspended=FORM.is_suspended,
    hold=FORM.hold,
    start=FORM.start,
    suspend=FORM.suspend,
    restore=FORM.restore,
    finished=lambda _service: None,
    is_active=_is_active,
    is_ready=lambda service: has_true_condition(service.child("status"), "Ready"),
    managed_by=("spec", "managedBy"),
    own_controller="ray.io/kuberay-operator",
)
