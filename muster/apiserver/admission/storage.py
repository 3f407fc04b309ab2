"""What claims and volumes get: the default class, and finalizers that keep what is in use. Called by the chain.

Kubernetes' DefaultStorageClass, StorageObjectInUseProtection and PersistentVolumeClaimResize.
`controllers/volumes_in_use.py` takes the finalizers off again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from muster.apiserver.kinds.checks import quantity
from muster.controllers.volumes_in_use import FINALIZERS
from muster.store.errors import Forbidden
from muster.store.records import Key

Object = dict[str, Any]

_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


def protected(resource: str, given: Object) -> Object:
    """A new claim or volume that stays while it is in use."""
    metadata = given["metadata"]
    finalizers = metadata.get("finalizers") or []
    if FINALIZERS[resource] in finalizers:
        return given
    return {**given, "metadata": {**metadata, "finalizers": [*finalizers, FINALIZERS[resource]]}}


def with_class(claim: Object, classes: Iterable[Object]) -> Object:
    """A new claim that names no class with the newest default, if there is one."""
    spec = claim["spec"]
    if spec.get("storageClassName") is not None or _OLD_CLASS in (claim["metadata"].get("annotations") or {}):
        return claim
    defaults = sorted((one["metadata"] for one in classes if _is_default(one)), key=lambda one: str(one["name"]))
    if not defaults:
        return claim
    newest = max(one["creationTimestamp"] for one in defaults)
    name = next(one["name"] for one in defaults if one["creationTimestamp"] == newest)
    return {**claim, "spec": {**spec, "storageClassName": name}}


def _is_default(storage_class: Object) -> bool:
    annotations = storage_class["metadata"].get("annotations") or {}
    return any(annotations.get(name) == "true" for name in _DEFAULT)


def check_growth(key: Key, claim: Object, before: Object, find: Callable[[str], Object | None]) -> None:
    """Raise Forbidden where a claim grows whose class does not let it."""
    if _size(claim) <= _size(before):
        return
    if (before.get("status") or {}).get("phase") != "Bound":
        raise Forbidden(key, "Only bound persistent volume claims can be expanded")
    annotations = claim["metadata"].get("annotations") or {}
    name = annotations.get(_OLD_CLASS) or claim["spec"].get("storageClassName") or ""
    storage_class = find(name) if name else None
    if storage_class is None or not storage_class.get("allowVolumeExpansion"):
        why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc"
        raise Forbidden(key, f"{why} must support resize")


def _size(claim: Object) -> Any:
    return quantity(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0"))
