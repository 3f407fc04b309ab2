"""The two sides of a comparison of controllers: a real cluster, and Muster's controllers over a store in memory.

Both take the same steps and are described in the same words, without the names and times that chance gives them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from muster.apiserver.merge_json import merged
from muster.model.times import moment_text
from muster.store.kinds import Propagation
from muster.store.objects import Part, decode
from muster.store.port import Transaction
from muster.store.records import Key
from muster.store.rules import Deletion
from tests.controllers.builtin.workload_cluster import CLUSTER_WIDE, Cluster
from tests.kubernetes.client import Client, Json

PATHS = {
    "pods": "/api/v1",
    "services": "/api/v1",
    "endpoints": "/api/v1",
    "nodes": "/api/v1",
    "events": "/api/v1",
    "persistentvolumes": "/api/v1",
    "storageclasses.storage.k8s.io": "/apis/storage.k8s.io/v1",
    "persistentvolumeclaims": "/api/v1",
    "replicationcontrollers": "/api/v1",
    "deployments.apps": "/apis/apps/v1",
    "replicasets.apps": "/apis/apps/v1",
    "statefulsets.apps": "/apis/apps/v1",
    "daemonsets.apps": "/apis/apps/v1",
    "controllerrevisions.apps": "/apis/apps/v1",
    "poddisruptionbudgets.policy": "/apis/policy/v1",
    "endpointslices.discovery.k8s.io": "/apis/discovery.k8s.io/v1",
}
TOLD = tuple(one for one in PATHS if one not in (*CLUSTER_WIDE, "events"))
_CHANGING = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "deletionTimestamp", "namespace"}
)
_TIMES = frozenset({"lastTransitionTime", "lastUpdateTime", "endpoints.kubernetes.io/last-change-trigger-time"})
_SPEC = ("tolerations", "affinity", "hostname", "subdomain", "volumes", "nodeName")
_COUNTED = ("replicasets.apps", "controllerrevisions.apps")


class Side(Protocol):
    """What a story needs of a cluster."""

    async def create(self, resource: str, given: Json) -> None: ...
    async def patch(self, resource: str, name: str, change: Json) -> None: ...
    async def put_status(self, resource: str, name: str, how: Callable[[Json], None]) -> None: ...
    async def delete(
        self, resource: str, name: str, propagation: str = "Background", grace_s: int | None = None
    ) -> None: ...
    async def bind(self, pod: str, node: str) -> None: ...
    async def all(self, resource: str) -> list[Json]: ...
    def now(self) -> str: ...


class Real:
    """A real cluster, in one namespace."""

    def __init__(self, client: Client, namespace: str, now: Callable[[], float]) -> None:
        self._client = client
        self._namespace = namespace
        self._now = now

    def _path(self, resource: str, *parts: str) -> str:
        plural = resource.partition(".")[0]
        place = [] if resource in CLUSTER_WIDE else ["namespaces", self._namespace]
        return "/".join([PATHS[resource], *place, plural, *parts])

    def _ask(self, method: str, path: str, body: Json | None = None, content_type: str = "application/json") -> Json:
        answer = self._client.request(method, path, body, content_type=content_type)
        assert answer.status < 300 or answer.status == 404, f"{method} {path}: {answer.status} {answer.body[:500]!r}"
        return answer.json

    async def create(self, resource: str, given: Json) -> None:
        metadata = {name: value for name, value in given["metadata"].items() if name != "namespace"}
        self._ask("POST", self._path(resource), {**given, "metadata": metadata})

    async def patch(self, resource: str, name: str, change: Json) -> None:
        self._ask("PATCH", self._path(resource, name), change, "application/merge-patch+json")

    async def put_status(self, resource: str, name: str, how: Callable[[Json], None]) -> None:
        given = self._ask("GET", self._path(resource, name))
        how(given)
        patch = {"status": given["status"]}
        self._ask("PATCH", self._path(resource, name, "status"), patch, "application/merge-patch+json")

    async def delete(
        self, resource: str, name: str, propagation: str = "Background", grace_s: int | None = None
    ) -> None:
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        self._ask("DELETE", self._path(resource, name), options)

    async def bind(self, pod: str, node: str) -> None:
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"name": node}}
        self._ask("POST", self._path("pods", pod, "binding"), body)

    async def all(self, resource: str) -> list[Json]:
        found: list[Json] = self._ask("GET", self._path(resource))["items"]
        return found

    def now(self) -> str:
        return moment_text(self._now())


class Ours:
    """Muster's controllers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def create(self, resource: str, given: Json) -> None:
        await self.cluster.create(resource, given)

    async def patch(self, resource: str, name: str, change: Json) -> None:
        def how(given: Any) -> None:
            new = merged(given, change)
            given.clear()
            given.update(new)

        await self.cluster.change(resource, name, how)

    async def put_status(self, resource: str, name: str, how: Callable[[Json], None]) -> None:
        await self.cluster.change(resource, name, how, part=Part.STATUS)

    async def delete(
        self, resource: str, name: str, propagation: str = "Background", grace_s: int | None = None
    ) -> None:
        key = Key(resource, "" if resource in CLUSTER_WIDE else "x", name)
        await self.cluster.client.delete(key, Deletion(propagation=Propagation(propagation), grace_s=grace_s))

    async def bind(self, pod: str, node: str) -> None:
        objects, key = self.cluster.objects, Key("pods", "x", pod)

        def placed(write: Transaction) -> None:
            record = write.get(key)
            assert record is not None, f"{key} is there"
            given = decode(record)
            objects.settle(write, key, {**given, "spec": {**given["spec"], "nodeName": node}})

        await self.cluster.front.write(placed)

    async def all(self, resource: str) -> list[Json]:
        return self.cluster.all(resource)

    def now(self) -> str:
        return moment_text(self.cluster.clock.now_s())


async def described(side: Side) -> Json:
    """All that is told about a cluster, in words that do not depend on chance."""
    found = {resource: await side.all(resource) for resource in TOLD}
    # Which of several nodes comes first is left to chance.
    names = dict(_names(found)) | {one["metadata"]["name"]: "<node>" for one in await side.all("nodes")}
    told: Json = {}
    for resource, objects in found.items():
        texts = [json.dumps(_plain(resource, one), sort_keys=True) for one in objects]
        for name in sorted(names, key=len, reverse=True):
            texts = [text.replace(name, names[name]) for text in texts]
        told[resource] = sorted((json.loads(text) for text in texts), key=_place)
    return told


def _place(one: Json) -> tuple[str, str, str]:
    metadata = one["metadata"]
    return metadata.get("generateName", ""), metadata["name"], json.dumps(one, sort_keys=True)


def _names(found: dict[str, list[Json]]) -> Iterator[tuple[str, str]]:
    """What stands for the hashes and names that chance gives."""
    for one in found["replicasets.apps"]:
        if text := (one["metadata"].get("labels") or {}).get("pod-template-hash"):
            yield text, f"<{_image(one['spec'])}>"
    for one in found["controllerrevisions.apps"]:
        labels = one["metadata"]["labels"]
        text = labels.get("controller.kubernetes.io/hash") or labels.get("controller-revision-hash")
        yield str(text), f"<{_image(one['data']['spec'])}>"
    for pod in found["pods"]:
        if "statefulset.kubernetes.io/pod-name" not in (pod["metadata"].get("labels") or {}):
            yield pod["metadata"]["name"], f"<pod of {_image({'template': pod})}>"
            if text := (pod["metadata"].get("labels") or {}).get("controller-revision-hash"):
                yield text, f"<{_image({'template': pod})}>"
    for one in found["endpointslices.discovery.k8s.io"]:
        yield one["metadata"]["name"], "<slice>"


def _image(spec: Json) -> str:
    return str(spec["template"]["spec"]["containers"][0]["image"])


def _plain(resource: str, one: Json) -> Any:
    kept = {**one, "metadata": {name: value for name, value in one["metadata"].items() if name not in _CHANGING}}
    kept["is seen"] = (one.get("status") or {}).get("observedGeneration") == one["metadata"].get("generation")
    if resource == "pods":
        spec = {name: value for name, value in one["spec"].items() if name in _SPEC}
        # What admission adds to pods is compared elsewhere.
        spec["volumes"] = [item for item in spec.get("volumes") or () if not item["name"].startswith("kube-api-access")]
        kept["spec"] = {**spec, "image": one["spec"]["containers"][0]["image"]}
        ready = [item["status"] for item in one["status"].get("conditions", ()) if item["type"] == "Ready"]
        kept["status"] = {"phase": one["status"].get("phase"), "ready": ready}
        kept["is leaving"] = "deletionTimestamp" in one["metadata"]
    elif resource in ("persistentvolumeclaims", "services"):
        # The finalizer of claims comes from admission.
        kept = {"metadata": {name: value for name, value in kept["metadata"].items() if name != "finalizers"}}
    elif resource == "controllerrevisions.apps":
        kept["data"] = _image(one["data"]["spec"])
    elif resource == "endpointslices.discovery.k8s.io":
        kept["endpoints"] = sorted(one.get("endpoints") or (), key=lambda item: str(item["addresses"]))
    elif "spec" in one:
        kept["spec"] = {name: value for name, value in one["spec"].items() if name in ("replicas", "minReadySeconds")}
    return _timeless(kept)


def _settled(condition: Json) -> Json:
    """A condition; whether a rollout that began has already moved is a race between the real controllers."""
    if condition.get("reason") in ("NewReplicaSetCreated", "ReplicaSetUpdated"):
        return {**condition, "reason": "under way", "message": ""}
    return condition


def _timeless(given: Any) -> Any:
    if isinstance(given, dict):
        kept = {
            name: _timeless(value)
            for name, value in given.items()
            if name not in _TIMES and name not in ("uid", "observedGeneration", "namespace", "apiVersion", "kind")
        }
        if "conditions" in kept and isinstance(kept["conditions"], list):
            kept["conditions"] = sorted(map(_settled, kept["conditions"]), key=lambda one: str(one["type"]))
        return {name: value for name, value in kept.items() if value not in (None, {}, [])}
    if isinstance(given, list):
        return [_timeless(one) for one in given]
    return given
