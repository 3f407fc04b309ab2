"""What is there from the beginning in every cluster: namespaces, and the service that names the API itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.apiserver.certificates import SERVICE_ADDRESS
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.objects import Objects, Written
from muster.store.port import Change, Store
from muster.store.records import Key

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def first_objects(objects: Objects, store: Store) -> Iterator[Change[Written]]:
    """The writes that make what is missing; each is made when the one before it is done."""
    for name in NAMESPACES:
        if not _is_there(store, Key("namespaces", "", name)):
            yield objects.create("namespaces", _object("Namespace", name))
    if not _is_there(store, Key("services", "default", "kubernetes")):
        yield objects.create("services", _api_service())


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
