"""LeaderWorkerSet: each of its replicas, a leader and its workers, waits as one group of pods.

Found by `app` through INTEGRATION.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.engine.contracts import Carried, Carrier, GroupVersionKind
from muster.engine.pod_groups import PARTS, ROLE, SERVING, grouped
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

# A worker is told the number of its replica by the set; a leader's is its own number.
NUMBERS = "leaderworkerset.sigs.k8s.io/group-index,apps.kubernetes.io/pod-index"
TEMPLATES = "leaderWorkerTemplate"


def _carry(whole: Fields, carried: Carried) -> dict[str, Any]:
    spec = whole.child("spec")
    if spec.text("startupPolicy") == "LeaderReady":
        hint = "give LeaderCreated: a leader in a queue waits for its workers"
        raise spec.error("startupPolicy", "is LeaderReady", hint)
    inner = spec.child(TEMPLATES)
    size = inner.integer("size", 1, least=1)
    has_leader = inner.has("leaderTemplate")
    roles = {"workerTemplate": "worker" if has_leader else "main"}
    if has_leader:
        roles["leaderTemplate"] = "leader"
    made = {
        name: grouped(inner.child(name), carried, size, {PARTS: NUMBERS, ROLE: role, SERVING: "true"})
        for name, role in roles.items()
    }
    return {**whole.values, "spec": {**spec.values, TEMPLATES: {**inner.values, **made}}}


def _changes(new: Fields, before: Fields) -> Iterator[InvalidObject]:
    inner, had = (one.child("spec").child(TEMPLATES) for one in (new, before))
    if inner.integer("size", 1) != had.integer("size", 1):
        yield inner.error("size", "was changed", "make another set: the pods of a replica wait together")


INTEGRATION = Carrier(
    name="leaderworkerset.x-k8s.io/leaderworkerset",
    gvk=GroupVersionKind("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet"),
    plural="leaderworkersets",
    carry=_carry,
    is_active=lambda whole: whole.child("status").integer("readyReplicas") > 0,
    changes=_changes,
    makes="group of pods",
    made_as="pod",
)
