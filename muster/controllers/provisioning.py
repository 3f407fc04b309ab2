"""Volumes that are made for claims: folders below a path that the class names. Pure; called by `builtin/volumes.py`.

The folder itself is made by the node that mounts it and removed by the local node when the volume is gone.
"""

from __future__ import annotations

from muster.controllers.volume_matching import class_of
from muster.model.topology import HOSTNAME
from muster.store.kinds import Object

PROVISIONER = "muster.dev/local"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
PATH = "path"  # the parameter of a class that says where its folders are


def volume_name(claim: Object) -> str:
    """The name of the volume that is made for a claim."""
    return f"pvc-{claim['metadata']['uid']}"


def hindrance(claim: Object, storage_class: Object) -> str:
    """Why no folder can be made for a claim; empty where one can."""
    if (claim["spec"].get("volumeMode") or "Filesystem") != "Filesystem":
        return f"{PROVISIONER} makes folders and no block volumes"
    if claim["spec"].get("dataSourceRef") or claim["spec"].get("dataSource"):
        return f"{PROVISIONER} makes empty folders and no copies of a data source"
    if not str((storage_class.get("parameters") or {}).get(PATH) or "").startswith("/"):
        return f"the class has no parameter {PATH!r} that names a folder by its whole path"
    return ""


def provisioned_volume(claim: Object, storage_class: Object, node: Object | None) -> Object:
    """A new volume for a claim; with a node, one that is reached from that node alone."""
    spec = claim["spec"]
    name = volume_name(claim)
    path = f"{storage_class['parameters'][PATH].rstrip('/')}/{name}"
    made: Object = {
        "capacity": {"storage": spec["resources"]["requests"]["storage"]},
        "accessModes": spec["accessModes"],
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "storageClassName": class_of(claim),
        "volumeMode": "Filesystem",
        "hostPath": {"path": path, "type": "DirectoryOrCreate"},
        "claimRef": reference_to_claim(claim),
    }
    if options := storage_class.get("mountOptions"):
        made["mountOptions"] = options
    if node is not None:
        label = (node["metadata"].get("labels") or {}).get(HOSTNAME) or node["metadata"]["name"]
        only = {"key": HOSTNAME, "operator": "In", "values": [label]}
        made["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [only]}]}}
    notes = {PROVISIONED_BY: PROVISIONER}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": notes},
        "spec": made,
    }


def reference_to_claim(claim: Object) -> Object:
    """What a volume says of the claim that it belongs to."""
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }
