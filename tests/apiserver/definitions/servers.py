"""A server in process that is asked like one far away, and the definitions that users have. Used by tests of both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from muster.app.kinds import catalog
from tests.apiserver.world import World
from tests.kubernetes.client import Answer
from tests.support import shared

Json = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Here:
    """Muster in this process, with all kinds that it serves by itself."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self.world = self._run(self._made())

    async def _made(self) -> World:
        return World(catalog=catalog())

    def _run(self, coroutine: Any) -> Any:
        return self._loop.run_until_complete(coroutine)

    def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json", accept: str = ""
    ) -> Answer:
        """Send one request, as the client for real servers does."""
        headers = {"accept": accept} if accept else {}
        if body is not None:
            headers["content-type"] = content_type
        return self._run(self.world.request(method, path, body, headers=headers))

    def close(self) -> None:
        self._loop.close()


@cache
def given_definitions() -> dict[str, Json]:
    """The definitions that users have installed today, by name."""
    found = (yaml.load(path.read_bytes(), yaml.CSafeLoader) for path in sorted(shared("crds").glob("*.yaml")))
    return {one["metadata"]["name"]: one for one in found}


def versions(definition: Json) -> Iterator[tuple[str, str]]:
    """The served versions of a definition, each with the path of its objects."""
    spec = definition["spec"]
    where = "namespaces/default/" if spec["scope"] == "Namespaced" else ""
    for version in spec["versions"]:
        if version["served"]:
            yield version["name"], f"/apis/{spec['group']}/{version['name']}/{where}{spec['names']['plural']}"


def sample(schema: Json) -> Any:
    """A value that has what a schema requires, and nothing more."""
    if schema.get("default") is not None:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            fields = schema.get("properties") or {}
            return {name: sample(fields[name]) for name in schema.get("required") or () if name in fields}
        case "array":
            return [sample(schema["items"]) for _ in range(schema.get("minItems") or 0)]
        case "integer" | "number":
            return max(schema.get("minimum") or 1, 1)
        case "boolean":
            return True
        case "string" if schema.get("format") == "date-time":
            return "2026-01-01T00:00:00Z"
    return "a" * max(1, schema.get("minLength") or 1)


def sample_object(definition: Json, version: str, name: str = "sample") -> Json:
    """An object of one version of a definition."""
    spec = definition["spec"]
    schema = next(one["schema"]["openAPIV3Schema"] for one in spec["versions"] if one["name"] == version)
    fields = schema.get("properties") or {}
    wanted = {name for name in (*(schema.get("required") or ()), "spec") if name in fields}
    made = {one: sample(fields[one]) for one in sorted(wanted - {"apiVersion", "kind", "metadata", "status"})}
    head = {"apiVersion": f"{spec['group']}/{version}", "kind": spec["names"]["kind"]}
    return {**head, "metadata": {"name": name}, **made}
