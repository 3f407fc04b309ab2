"""What is there from the beginning in every cluster: namespaces, the service that names the API, Volcano's kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from muster.apiserver.certificates import SERVICE_ADDRESS
from muster.apiserver.definitions.checks import DEFINITIONS
from muster.controllers.provisioning import PATH, PROVISIONER
from muster.controllers.volume_matching import CLASSES, DEFAULT_CLASS
from muster.dialects.volcano.definitions import definitions
from muster.dialects.volcano.names import DEFAULT_QUEUE, QUEUES, SCHEDULING
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.objects import Objects, Written
from muster.store.port import Change, Store
from muster.store.records import Key

LOCAL_CLASS = "local"
NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def first_objects(objects: Objects, store: Store, volumes: Path | None) -> Iterator[Change[Written]]:
    """The writes that make what is missing; each is made when the one before it is done.

    Where the folders of volumes are said, claims that name no class get such a folder.
    """
    for name in NAMESPACES:
        if not _is_there(store, Key("namespaces", "", name)):
            yield objects.create("namespaces", _object("Namespace", name))
    if not _is_there(store, Key("services", "default", "kubernetes")):
        yield objects.create("services", _api_service())
    if volumes is not None and not _is_there(store, Key(CLASSES, "", LOCAL_CLASS)):
        yield objects.create(CLASSES, _local_class(volumes))


def first_definitions(objects: Objects, store: Store) -> Iterator[Change[Written]]:
    """The definitions that are missing of kinds that a living cluster works on, whoever defines them later."""
    for definition in definitions():
        if not _is_there(store, Key(DEFINITIONS, "", definition["metadata"]["name"])):
            yield objects.create(DEFINITIONS, definition)


def first_of_definitions(objects: Objects, store: Store) -> Iterator[Change[Written]]:
    """What is there of kinds that are defined, once they are served: Volcano's queue for those that name none."""
    if not _is_there(store, Key(QUEUES, "", DEFAULT_QUEUE)):
        queue = {**_object("Queue", DEFAULT_QUEUE), "apiVersion": SCHEDULING}
        yield objects.create(QUEUES, {**queue, "spec": {"weight": 1, "reclaimable": True}})


def _is_there(store: Store, key: Key) -> bool:
    try:
        store.get(key)
    except NotFound:
        return False
    return True


def _object(kind: str, name: str, **metadata: Any) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}}


def _api_service() -> Object:
    labels = {"component": "apiserver", "provider": "kubernetes"}
    port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}
    service = _object("Service", "kubernetes", namespace="default", labels=labels)
    addresses = {"clusterIP": SERVICE_ADDRESS, "clusterIPs": [SERVICE_ADDRESS]}
    return {**service, "spec": {"type": "ClusterIP", "ports": [port], **addresses}}


def _local_class(volumes: Path) -> Object:
    """The class that claims get which name none: folders of this machine, reached from every node."""
    return {
        **_object("StorageClass", LOCAL_CLASS, annotations={DEFAULT_CLASS: "true"}),
        "apiVersion": "storage.k8s.io/v1",
        "provisioner": PROVISIONER,
        "parameters": {PATH: str(volumes)},
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": True,
    }
