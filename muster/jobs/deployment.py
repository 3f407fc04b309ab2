"""Kubernetes' own Deployment: each of its pods waits for itself. Found by `app` through INTEGRATION."""

from __future__ import annotations

from typing import Any

from muster.engine.contracts import Carried, Carrier, GroupVersionKind
from muster.engine.pod_templates import labelled
from muster.model.fields import Fields


def _carry(deployment: Fields, carried: Carried) -> dict[str, Any]:
    spec = deployment.child("spec")
    template = labelled(spec.child("template"), carried.labels, {})
    return {**deployment.values, "spec": {**spec.values, "template": template}}


INTEGRATION = Carrier(
    name="deployment",
    gvk=GroupVersionKind("apps", "v1", "Deployment"),
    plural="deployments",
    carry=_carry,
    is_active=lambda deployment: deployment.child("status").integer("readyReplicas") > 0,
    makes="pod",
    made_as="pod",
)
