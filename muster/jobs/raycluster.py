"""Ray's RayCluster: a head and groups of workers that run until somebody deletes them.

Found by `app` through INTEGRATION.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.engine.contracts import GroupVersionKind, Integration
from muster.engine.job_forms import Role, TemplateForm
from muster.engine.ray_clusters import GROUP, cluster_problems, cluster_roles
from muster.model.errors import InvalidObject
from muster.model.fields import Fields


def _roles(cluster: Fields) -> Iterator[Role]:
    return cluster_roles(cluster.child("spec"), ("spec",))


def _problems(cluster: Fields) -> Iterator[InvalidObject]:
    return cluster_problems(cluster.child("spec"))


def _is_active(cluster: Fields) -> bool:
    """Whether some of its pods are there; the operator counts workers, and names the head while it has one."""
    status = cluster.child("status")
    if status.text("state") == "suspended":
        return False
    return bool(status.text("state") == "ready" or status.child("head").text("podName"))


def _is_ready(cluster: Fields) -> bool:
    return cluster.child("status").text("state") == "ready"


FORM = TemplateForm(roles=_roles, problems=_problems, switch=("spec", "suspend"))
INTEGRATION = Integration(
    name="ray.io/raycluster",
    gvk=GroupVersionKind(GROUP, "v1", "RayCluster"),
    plural="rayclusters",
    pod_sets=FORM.pod_sets,
    is_suspended=FORM.is_suspended,
    hold=FORM.hold,
    start=FORM.start,
    suspend=FORM.suspend,
    restore=FORM.restore,
    finished=lambda _cluster: None,
    is_active=_is_active,
    is_ready=_is_ready,
    managed_by=("spec", "managedBy"),
    own_controller="ray.io/kuberay-operator",
)
