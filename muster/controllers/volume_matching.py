"""Which volume a claim gets: the rules of Kubernetes, without a store. Used by `builtin/volumes.py`
and by the scheduler's checks.

A class, sizes, modes and labels decide; a volume that names the claim comes before all others, then the smallest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.model.fields import Fields
from muster.model.labels import matches, read_node_terms, read_selector
from muster.model.quantity import Quantity, parse_quantity
from muster.store.kinds import Object
from muster.store.metadata import is_deleting

CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
IS_BOUND = "pv.kubernetes.io/bind-completed"
NOT_PROVISIONED = "kubernetes.io/no-provisioner"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


def annotations_of(given: Object) -> Mapping[str, str]:
    """The annotations of an object."""
    return given["metadata"].get("annotations") or {}


def class_of(given: Object) -> str:
    """The class of a claim or a volume; empty where it has none."""
    return annotations_of(given).get(_OLD_CLASS) or given["spec"].get("storageClassName") or ""


def size_of(given: Object) -> Quantity:
    """How much a claim asks for, or a volume holds."""
    spec = given["spec"]
    amounts = spec.get("capacity") or (spec.get("resources") or {}).get("requests") or {}
    return parse_quantity(str(amounts.get("storage") or "0"))


def is_bound(claim: Object) -> bool:
    """Whether a claim was bound for good."""
    return IS_BOUND in annotations_of(claim)


def is_delayed(storage_class: Object | None) -> bool:
    """Whether volumes of a class wait for the first pod."""
    return storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"


def claim_term(volume: Object) -> str:
    """The claim that a volume names, as namespace/name; empty where it names none."""
    reference = volume["spec"].get("claimRef")
    return f"{reference.get('namespace')}/{reference.get('name')}" if reference else ""


def is_for(volume: Object, claim: Object) -> bool:
    """Whether a volume names this claim: by name, and by uid where it says one."""
    reference, metadata = volume["spec"].get("claimRef"), claim["metadata"]
    if not reference or claim_term(volume) != f"{metadata['namespace']}/{metadata['name']}":
        return False
    return reference.get("uid") in (None, "", metadata["uid"])


def mismatch(volume: Object, claim: Object) -> str:
    """Why a volume that a claim names does not do for it, in Kubernetes' words; empty where it does."""
    if size_of(volume) < size_of(claim):
        return "requested PV is too small"
    if class_of(volume) != class_of(claim):
        return "storageClassName does not match"
    if _mode(volume) != _mode(claim):
        return "incompatible volumeMode"
    if not _has_modes(volume, claim):
        return "incompatible accessMode"
    return ""


def best_volume(
    claim: Object, volumes: Iterable[Object], node_labels: Mapping[str, str] | None = None
) -> Object | None:
    """The volume that a claim gets, if there is one; with a node, one that can be reached from it."""
    selector = read_selector(Fields.of(claim["spec"], "spec"), "selector")
    found = []
    for volume in volumes:
        if is_deleting(volume) or mismatch(volume, claim):
            continue
        if node_labels is not None and not is_reached(volume, node_labels):
            continue
        if is_for(volume, claim):
            return volume
        is_free = not volume["spec"].get("claimRef") and (volume.get("status") or {}).get("phase") == "Available"
        labels = volume["metadata"].get("labels") or {}
        if is_free and (selector is None or selector.matches(labels)):
            found.append(volume)
    return min(
        found, key=lambda one: (size_of(one), len(one["spec"]["accessModes"]), one["metadata"]["name"]), default=None
    )


def is_reached(volume: Object, node_labels: Mapping[str, str]) -> bool:
    """Whether a node with some labels can use a volume."""
    affinity = volume["spec"].get("nodeAffinity") or {}
    if affinity.get("required") is None:
        return True
    return matches(read_node_terms(Fields.of(affinity["required"], "spec.nodeAffinity.required")), node_labels)


def _mode(given: Object) -> str:
    return given["spec"].get("volumeMode") or "Filesystem"


def _has_modes(volume: Object, claim: Object) -> bool:
    return set(claim["spec"].get("accessModes") or ()) <= set(volume["spec"].get("accessModes") or ())
