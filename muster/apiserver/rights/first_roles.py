"""The roles and bindings that every cluster has, made and mended at each start. Called by `app`.

Kubernetes' own, as facts/roles.json has them, and those for the queues and for what is in use. What somebody has added
to them stays; who wants to be left alone sets the annotation for updates to another value than "true".
"""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from typing import Any

from muster.apiserver.facts import FOLDER
from muster.apiserver.rights.rbac import GROUP, Rule
from muster.store.kinds import Object
from muster.store.objects import Objects, decode
from muster.store.port import Change, Transaction
from muster.store.records import Key

UPDATED = "rbac.authorization.kubernetes.io/autoupdate"
_KINDS = {
    "clusterroles": "ClusterRole",
    "clusterrolebindings": "ClusterRoleBinding",
    "roles": "Role",
    "rolebindings": "RoleBinding",
}
_QUEUES = "kueue.x-k8s.io"
_LOOK = ["get", "list", "watch"]
_CHANGE = ["create", "delete", "deletecollection", "patch", "update"]
_OF_NAMESPACES = ["localqueues", "workloads"]


def _own_role(name: str, aggregated_to: str, *rules: Object) -> Object:
    metadata = {
        "name": name,
        "labels": {f"rbac.authorization.k8s.io/aggregate-to-{aggregated_to}": "true"},
        "annotations": {UPDATED: "true"},
    }
    return {"resource": "clusterroles", "metadata": metadata, "rules": list(rules)}


# Whoever may look at or change what is in a namespace may do so with its queues; the cluster's are not theirs.
_OF_QUEUES = (
    _own_role(
        "muster:queues-view",
        "view",
        {"verbs": _LOOK, "apiGroups": [_QUEUES], "resources": ["localqueues", "localqueues/status"]},
        {"verbs": _LOOK, "apiGroups": [_QUEUES], "resources": ["workloads", "workloads/status"]},
    ),
    _own_role("muster:queues-edit", "edit", {"verbs": _CHANGE, "apiGroups": [_QUEUES], "resources": ["workloads"]}),
    _own_role("muster:queues-admin", "admin", {"verbs": _CHANGE, "apiGroups": [_QUEUES], "resources": _OF_NAMESPACES}),
)

# As who installs Kubernetes' metrics server gets it.
_OF_USAGE = _own_role(
    "muster:usage-view",
    "view",
    {"verbs": ["get", "list"], "apiGroups": ["metrics.k8s.io"], "resources": ["pods", "nodes"]},
)


@cache
def _wanted() -> tuple[Object, ...]:
    table: list[Object] = json.loads((FOLDER / "roles.json").read_bytes())
    return (*table, *_OF_QUEUES, _OF_USAGE)


def first_roles(objects: Objects) -> Change[None]:
    """One write that makes what is missing and mends what has lost something."""

    def change(write: Transaction) -> None:
        for row in _wanted():
            given = deepcopy({name: value for name, value in row.items() if name != "resource"})
            plural = row["resource"]
            whole = {"apiVersion": f"{GROUP}/v1", "kind": _KINDS[plural], **given}
            metadata = given["metadata"]
            key = Key(f"{plural}.{GROUP}", metadata.get("namespace", ""), metadata["name"])
            if key.resource in objects.kinds:
                _settle(objects, write, key, whole)

    return change


def _settle(objects: Objects, write: Transaction, key: Key, wanted: Object) -> None:
    record = write.get(key)
    if record is None:
        objects.create(key.resource, wanted)(write)
        return
    found = decode(record)
    if (found["metadata"].get("annotations") or {}).get(UPDATED) != "true":
        return
    if "roleRef" in wanted and found["roleRef"] != wanted["roleRef"]:
        objects.delete(key)(write)
        objects.create(key.resource, wanted)(write)
        return
    mended = _mended(found, wanted)
    if mended != found:
        objects.update(key, mended)(write)


def _mended(found: Object, wanted: Object) -> Object:
    """An object with all that it should have beside what it has."""
    metadata = dict(found["metadata"])
    for name in ("labels", "annotations"):
        if both := {**(metadata.get(name) or {}), **wanted["metadata"].get(name, {})}:
            metadata[name] = both
    mended: dict[str, Any] = {**found, "metadata": metadata}
    if wanted.get("aggregationRule"):
        mended["aggregationRule"] = found.get("aggregationRule") or wanted["aggregationRule"]
    if wanted.get("rules"):
        held = [Rule.of(one) for one in found.get("rules") or ()]
        missing = [one for one in wanted["rules"] if not any(mine.covers(Rule.of(one)) for mine in held)]
        mended["rules"] = [*(found.get("rules") or ()), *missing]
    if wanted.get("subjects"):
        subjects = found.get("subjects") or []
        mended["subjects"] = [*subjects, *(one for one in wanted["subjects"] if one not in subjects)]
    return mended
