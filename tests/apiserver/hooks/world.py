"""The webhooks without a socket, on a cluster that is a table. Used by their tests."""

from __future__ import annotations

import asyncio
import base64
import json
from copy import deepcopy
from typing import Any

from muster.apiserver.hooks.admission import Rules
from muster.apiserver.hooks.asgi import HookApp
from muster.apiserver.patches import JSON_PATCH, apply_patch
from muster.app.config import Configuration
from muster.app.hooks import hook_rules
from muster.store.errors import AlreadyExists, Conflict
from muster.store.records import Key

Json = dict[str, Any]
REVIEWS = "subjectaccessreviews.authorization.k8s.io"


class TableCluster:
    """Objects by their keys, with revisions, and who may use which queue."""

    def __init__(self) -> None:
        self.objects: dict[Key, Json] = {}
        self.users: set[tuple[str, str, str]] = set()  # name, namespace, queue
        self.asked: list[Key] = []
        self._revision = 0

    async def get(self, key: Key) -> Json | None:
        self.asked.append(key)
        await asyncio.sleep(0)
        return deepcopy(self.objects.get(key))

    async def create(self, resource: str, given: Json) -> Json:
        await asyncio.sleep(0)
        if resource == REVIEWS:
            spec = given["spec"]
            wanted = spec["resourceAttributes"]
            assert (wanted["verb"], wanted["resource"]) == ("use", "localqueues")
            is_allowed = (spec["user"], wanted["namespace"], wanted["name"]) in self.users
            return {**given, "status": {"allowed": is_allowed}}
        metadata = given["metadata"]
        key = Key(resource, metadata.get("namespace", ""), metadata["name"])
        if key in self.objects:
            raise AlreadyExists(key)
        return self.put(key, given)

    async def update(self, key: Key, given: Json) -> Json:
        await asyncio.sleep(0)
        if given["metadata"]["resourceVersion"] != self.objects[key]["metadata"]["resourceVersion"]:
            raise Conflict(key, "it has changed")
        return self.put(key, given)

    def put(self, key: Key, given: Json) -> Json:
        """Keep an object as its newest revision."""
        self._revision += 1
        kept = deepcopy(given)
        kept["metadata"] = {"name": key.name, "namespace": key.namespace, **(kept.get("metadata") or {})}
        kept["metadata"]["resourceVersion"] = str(self._revision)
        self.objects[key] = kept
        return deepcopy(kept)


class Hooks:
    """An application, and whom it asks."""

    def __init__(self, configuration: Configuration | None = None, own_user: str = "") -> None:
        self.cluster = TableCluster()
        self.app = HookApp(Rules(hook_rules(configuration or Configuration(), own_user), self.cluster))

    async def send(self, path: str, body: bytes, method: str = "POST") -> tuple[int, bytes]:
        """The status and the text of an answer."""
        sent: list[Json] = []

        async def receive() -> Json:
            return {"type": "http.request", "body": body}

        async def send(message: Json) -> None:
            sent.append(message)

        scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b""}
        await self.app(scope, receive, send)
        return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:])

    def review(self, path: str, resource: str, given: Json | None, **more: Any) -> Json:
        """The response to an AdmissionReview."""
        body = json.dumps(a_review(resource, given, **more)).encode()
        status, answer = asyncio.run(self.send(path, body))
        assert status == 200, answer
        review = json.loads(answer)
        assert (review["kind"], review["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
        assert review["response"]["uid"] == "u-1"
        return review["response"]

    def mutated(self, resource: str, given: Json, **more: Any) -> Json:
        """An object after the patch of the answer; asked again, nothing changes any more."""
        after = patched(given, self.review("/mutate", resource, given, **more))
        again = self.review("/mutate", resource, after, **more)
        assert "patch" not in again, base64.b64decode(again["patch"])
        return after

    def problem(self, resource: str, given: Json, path: str = "/validate", **more: Any) -> Json:
        """Why an object is refused; empty where it is not."""
        answer = self.review(path, resource, given, **more)
        return {} if answer["allowed"] else answer["status"]


def a_review(resource: str, given: Json | None, **more: Any) -> Json:
    plural, _, group = resource.partition(".")
    version = ((given or {}).get("apiVersion") or "v1").rpartition("/")[2]
    user = more.pop("user", "anna")
    request = {
        "uid": "u-1",
        "kind": {"group": group, "version": version, "kind": (given or {}).get("kind", "")},
        "resource": {"group": group, "version": version, "resource": plural},
        "operation": "UPDATE" if more.get("oldObject") else "CREATE",
        "namespace": "team",
        "userInfo": {"username": user, "groups": ["system:authenticated"], "extra": {"example.com/a": ["b"]}},
        "object": given,
        **more,
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def patched(given: Json, response: Json) -> Json:
    assert response["allowed"], response
    if "patch" not in response:
        return given
    assert response["patchType"] == "JSONPatch"
    return apply_patch(JSON_PATCH, deepcopy(given), base64.b64decode(response["patch"]), None)
