"""Files of manifests sent to a server as `kubectl create --dry-run=server` sends them. Used by test_manifests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import yaml

from tests.kubernetes.client import Answer

Json = dict[str, Any]


class Server(Protocol):
    """Whoever can be asked."""

    def request(self, method: str, path: str, body: object = None) -> Answer: ...


def documents(path: Path) -> list[Any]:
    """The objects of a file; those of a list by themselves."""
    found = []
    for one in yaml.load_all(path.read_bytes(), yaml.CSafeLoader):
        if isinstance(one, dict) and str(one.get("kind", "")).endswith("List") and "items" in one:
            found += one["items"]
        elif one is not None:
            found.append(one)
    return found


class Resources:
    """Where objects of which kind go, as a server tells."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._versions: dict[str, dict[str, Json]] = {}

    def path(self, item: Json) -> str:
        """The path that an object is created at; empty where there is none for its kind."""
        version, kind = str(item.get("apiVersion", "")), str(item.get("kind", ""))
        start = f"/apis/{version}" if "/" in version else f"/api/{version}"
        found = self._kinds(start).get(kind)
        if found is None:
            return ""
        metadata = item.get("metadata") or {}
        where = f"/namespaces/{metadata.get('namespace') or 'default'}" if found["namespaced"] else ""
        return f"{start}{where}/{found['name']}"

    def _kinds(self, start: str) -> dict[str, Json]:
        if start not in self._versions:
            answer = self._server.request("GET", start)
            found = answer.json.get("resources", ()) if answer.status == 200 else ()
            self._versions[start] = {one["kind"]: one for one in found if "/" not in one["name"]}
        return self._versions[start]


def problems(server: Server, resources: Resources, items: Sequence[Any]) -> Iterator[str]:
    """What a server says against the objects of a file; nothing is kept."""
    for item in items:
        path = resources.path(item) if isinstance(item, dict) else ""
        if not path:
            yield f"no matches for kind {item.get('kind')!r}" if isinstance(item, dict) else "not an object"
            continue
        answer = server.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", item)
        if answer.status not in (201, 409):  # a namespace that the file is in is there already
            yield f"{answer.status} {answer.json.get('message', '')}"


def verdict(server: Server, resources: Resources, item: Json) -> list[Any]:
    """What a server says to an object: the code, the reason, and which fields are to blame for what."""
    path = resources.path(item)
    if not path:
        return [0, "no such kind", []]
    answer = server.request("POST", f"{path}?dryRun=All&fieldValidation=Strict", item)
    if answer.status < 300:
        return [answer.status, "", []]
    causes = (answer.json.get("details") or {}).get("causes") or ()
    blamed = sorted({(one.get("field", ""), one.get("reason", "")) for one in causes})
    return [answer.status, answer.json.get("reason", ""), [list(one) for one in blamed]]


def make_namespaces(server: Server, items: Sequence[Any]) -> None:
    """Have the namespaces that the objects of a file are in."""
    for item in items:
        name = (item.get("metadata") or {}).get("namespace") if isinstance(item, dict) else None
        if name:
            server.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
