"""A few kinds with the rules that tests need, and short ways to make and write objects of them."""

from __future__ import annotations

from random import Random

from muster.model.errors import InvalidObject
from muster.store.base import BaseStore
from muster.store.clock import VirtualClock
from muster.store.identities import Identities
from muster.store.kinds import KindRules, Object
from muster.store.memory import MemoryStore
from muster.store.objects import Notes, Objects, decode
from muster.store.records import Key
from muster.store.rules import Birth

START_S = 1_700_000_000.0  # 2023-11-14T22:13:20Z
BIRTH = Birth("uid-1", "abcde", START_S)


def _pod_grace_s(pod: Object, asked_s: int | None) -> int:
    if not pod["spec"].get("nodeName"):
        return 0
    return 30 if asked_s is None else asked_s


def _default_pod(pod: Object, _before: Object | None) -> Object:
    pod.setdefault("status", {"phase": "Pending"})
    pod["spec"].setdefault("priority", 0)
    return pod


def _check_pod(pod: Object, before: Object | None) -> None:
    if not pod.get("spec", {}).get("containers"):
        raise InvalidObject("spec.containers", "is missing", "give at least one")


def _convert_pod(pod: Object, api_version: str) -> Object:
    spec = dict(pod["spec"])
    if pod["apiVersion"] == "v1old":
        spec["containers"] = spec.pop("boxes")
    return {**pod, "apiVersion": api_version, "spec": spec}


PODS = KindRules(
    resource="pods",
    kind="Pod",
    api_version="v1",
    has_status=True,
    immutable=("spec.nodeName", "spec.deep.er"),
    default=_default_pod,
    validate=_check_pod,
    convert=_convert_pod,
    grace_s=_pod_grace_s,
)
NODES = KindRules(
    resource="nodes", kind="Node", api_version="v1", is_namespaced=False, has_status=True, is_status_kept=True
)
CONFIGS = KindRules(resource="configmaps", kind="ConfigMap", api_version="v1", has_generation=False)
NAMESPACES = KindRules(resource="namespaces", kind="Namespace", api_version="v1", is_namespaced=False)
KINDS = {one.resource: one for one in (PODS, NODES, CONFIGS, NAMESPACES)}


def a_pod(name: str = "a", **more: object) -> Object:
    """A pod; more fields of its metadata by name, its spec and status too."""
    spec, status = more.pop("spec", {}), more.pop("status", None)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", **more}}
    pod["spec"] = {"containers": [{"name": "main"}], **spec}
    return pod if status is None else {**pod, "status": status}


def a_config(name: str, owners: tuple[str, ...] = (), **more: object) -> Object:
    """A config map, perhaps with owners by uid."""
    metadata = {"name": name, "namespace": "default", **more}
    if owners:
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, "blockOwnerDeletion": True}
            for uid in owners
        ]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


class World:
    """A memory store with the rules on top, and a clock and chance that repeat."""

    def __init__(self, seed: int = 0, *, has_namespaces: bool = False) -> None:
        self.clock = VirtualClock(START_S)
        self.store: BaseStore = MemoryStore(self.clock)
        self.audits: list[str] = []
        self.objects = Objects(
            KINDS,
            self.clock,
            identities=Identities(Random(seed)),
            notes=Notes(
                audit=lambda one: self.audits.append(f"{one.user} {one.verb} {one.record.key} {one.record.revision}")
            ),
            has_namespaces=has_namespaces,
        )

    def create(self, resource: str, given: Object) -> Object:
        return decode(self.store.write(self.objects.create(resource, given)).record)

    def get(self, key: Key) -> Object:
        return decode(self.store.get(key))
