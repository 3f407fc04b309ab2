"""The writes of controllers on a real cluster: one request each, with what has to be as it was seen. Made by `app`.

The status of a custom object is written without the rest of the object: the server keeps that whatever is sent. A
binding does not say which revision it has made, so it is over when it has been seen.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from muster.store.binding import Binding
from muster.store.errors import NotFound, Unavailable
from muster.store.kinds import Object
from muster.store.kube import Answer, Kube, Place, problem_of
from muster.store.objects import PLAINLY, Part
from muster.store.records import Key
from muster.store.rules import Deletion

BoundSeen = Callable[[Key, str], Awaitable[int]]  # waits until a pod with this uid is seen on a node; its revision
_NOT_FOUND = 404
_SENT_METADATA = ("name", "namespace", "uid", "resourceVersion")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Object).decode


async def at_once(_pod: Key, _uid: str) -> int:
    """Nobody follows pods, so nobody waits for them."""
    return 0


class KubeClient:
    """Writes through the API of a cluster."""

    def __init__(self, kube: Kube, *, bound_seen: BoundSeen = at_once) -> None:
        self._kube = kube
        self._bound_seen = bound_seen

    async def get(self, key: Key) -> Object:
        """An object as it is now: the server asks its own store, and not what it remembers."""
        place = await self._place(key)
        return _object(key, await self._kube.ask("GET", place.path(key.namespace, key.name)))

    async def find(self, key: Key) -> Object | None:
        """An object as it is now; None where there is none, or no such kind."""
        place = await self._kube.where(key.resource)
        if place is None:
            return None
        answer = await self._kube.ask("GET", place.path(key.namespace, key.name))
        return None if answer.status == _NOT_FOUND else _object(key, answer)

    async def create(self, resource: str, given: Object) -> Object:
        metadata = given["metadata"]
        key = Key(resource, metadata.get("namespace") or "", metadata.get("name") or "")
        place = await self._place(key)
        answer = await self._kube.ask("POST", place.path(key.namespace), body=_encode(given))
        return _object(key, answer)

    async def update(self, key: Key, given: Object, part: Part = Part.MAIN) -> Object:
        place = await self._place(key)
        if part is Part.STATUS:
            path = place.path(key.namespace, key.name, part.value)
            return _object(key, await self._kube.ask("PUT", path, body=_encode(_status_body(given, key))))
        path = place.path(key.namespace, key.name)
        return _object(key, await self._kube.ask("PUT", path, body=_encode(given)))

    async def delete(self, key: Key, deletion: Deletion = PLAINLY) -> Object:
        place = await self._place(key)
        path = place.path(key.namespace, key.name)
        gone = _object(key, await self._kube.ask("DELETE", path, body=_encode(_delete_options(deletion))))
        if gone.get("kind") != "Status":
            return gone
        # It is gone at once, and the server does not say with which revision.
        metadata = {"name": key.name, "uid": deletion.uid or "", "resourceVersion": "0"}
        return {"apiVersion": place.api_version, "kind": place.kind, "metadata": metadata}

    async def bind(self, binding: Binding) -> int:
        key = binding.key
        place = await self._place(key)
        metadata: Object = {"name": key.name, "namespace": key.namespace}
        for name, value in (("uid", binding.uid), ("labels", binding.labels), ("annotations", binding.annotations)):
            if value:
                metadata[name] = value
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": binding.node},
        }
        path = place.path(key.namespace, key.name, "binding")
        _object(key, await self._kube.ask("POST", path, body=_encode(body)))
        return await self._bound_seen(key, binding.uid)

    async def _place(self, key: Key) -> Place:
        place = await self._kube.where(key.resource)
        if place is None:
            raise NotFound(key)
        return place


def _object(key: Key, answer: Answer) -> Object:
    if not answer.is_good:
        raise problem_of(key, answer)
    try:
        return _decode(answer.body)
    except msgspec.DecodeError as problem:
        raise Unavailable(f"{key}: the answer cannot be read: {problem}") from None


def _status_body(given: Object, key: Key) -> Object:
    if not _is_custom(key.resource):
        return given  # with the status of pods and nodes some of their metadata is written
    metadata = {name: given["metadata"][name] for name in _SENT_METADATA if name in given["metadata"]}
    return {
        "apiVersion": given["apiVersion"],
        "kind": given["kind"],
        "metadata": metadata,
        "status": given.get("status") or {},
    }


def _is_custom(resource: str) -> bool:
    """Whether a resource is one of a definition: Kubernetes' own groups have no dot, or end in k8s.io."""
    group = resource.partition(".")[2]
    return "." in group and (not group.endswith(".k8s.io") or group.endswith(".x-k8s.io"))


def _delete_options(deletion: Deletion) -> Object:
    propagation = "Background" if deletion.propagation is None else deletion.propagation.value
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    if deletion.grace_s is not None:
        options["gracePeriodSeconds"] = deletion.grace_s
    preconditions = {"uid": deletion.uid, "resourceVersion": deletion.revision}
    if given := {name: value for name, value in preconditions.items() if value}:
        options["preconditions"] = given
    return options
