"""Kubernetes' own ReplicaSet: each of its pods waits for itself. Found by `app` through INTEGRATION."""

from __future__ import annotations

from typing import Any

from muster.engine.contracts import Carried, Carrier, GroupVersionKind
from muster.engine.pod_templates import labelled
from muster.model.fields import Fields


def _carry(replica_set: Fields, carried: Carried) -> dict[str, Any]:
    spec = replica_set.child("spec")
    template = labelled(spec.child("template"), carried.labels, {})
    return {**replica_set.values, "spec": {**spec.values, "template": template}}


INTEGRATION = Carrier(
    name="replicaset",
    gvk=GroupVersionKind("apps", "v1", "ReplicaSet"),
    plural="replicasets",
    carry=_carry,
    is_active=lambda replica_set: replica_set.child("status").integer("readyReplicas") > 0,
    makes="pod",
    made_as="pod",
)
