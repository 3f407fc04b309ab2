"""Kubernetes' own StatefulSet: its pods wait together, as one group. Found by `app` through INTEGRATION.

Its pods are made one after the other, so the first stands for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.engine.contracts import Carried, Carrier, GroupVersionKind
from muster.engine.pod_groups import FAST_ADMISSION, SERVING, grouped
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

ANNOTATIONS = {FAST_ADMISSION: "true", SERVING: "true"}


def _carry(stateful_set: Fields, carried: Carried) -> dict[str, Any]:
    spec = stateful_set.child("spec")
    template = grouped(spec.child("template"), carried, spec.integer("replicas", 1, least=0), ANNOTATIONS)
    return {**stateful_set.values, "spec": {**spec.values, "template": template}}


def _changes(new: Fields, before: Fields) -> Iterator[InvalidObject]:
    now, had = (one.child("spec").integer("replicas", 1) for one in (new, before))
    if now != had and now and had:
        hint = "scale it to 0 first: its pods wait together"
        yield new.child("spec").error("replicas", f"is {now} and was {had}", hint)


INTEGRATION = Carrier(
    name="statefulset",
    gvk=GroupVersionKind("apps", "v1", "StatefulSet"),
    plural="statefulsets",
    carry=_carry,
    is_active=lambda stateful_set: stateful_set.child("status").integer("readyReplicas") > 0,
    changes=_changes,
    makes="group of pods",
    made_as="pod",
)
