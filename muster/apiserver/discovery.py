"""What the server says about itself: groups, versions, kinds, its own version, its schemas. Called by `asgi`.

Clients ask for groups in an aggregated form or, older ones, piece by piece. It changes only where a definition does, so
that each answer is made once for each epoch of the catalog.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable

from muster import __version__
from muster.apiserver.answers import Answer, encode, json_answer
from muster.apiserver.facts import Subresource, version
from muster.apiserver.requests import Request
from muster.apiserver.served import Catalog, Served
from muster.store.kinds import Object

_AGGREGATED = b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class Discovery:
    """Answers about what is served."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._answers: dict[str, Answer] = {}
        self._epoch = catalog.epoch

    def answer(self, request: Request) -> Answer | None:
        """The answer to a path of discovery; `None` for another path."""
        if self._epoch != self._catalog.epoch:
            self._epoch = self._catalog.epoch
            self._answers.clear()
        path = request.path.rstrip("/")
        is_aggregated = path in ("/api", "/apis") and _wants_aggregated(request)
        name = f"{path} aggregated" if is_aggregated else path
        if name not in self._answers:
            made = self._make(path, is_aggregated=is_aggregated)
            if made is None:
                return None
            self._answers[name] = made
        answer = self._answers[name]
        known = request.header(b"if-none-match").encode("latin-1")
        if known and (b"etag", known) in answer.headers:
            return Answer(304, b"", answer.content_type, answer.headers)
        return answer

    def _make(self, path: str, *, is_aggregated: bool) -> Answer | None:
        parts = path.split("/")[1:]
        if not parts:
            return json_answer({"paths": self._paths()})
        if path == "/version":
            return json_answer(_version())
        if parts[0] == "api" and len(parts) <= 2:
            return self._of_core(parts, is_aggregated=is_aggregated)
        if parts[0] == "apis" and len(parts) <= 3:
            return self._of_groups(parts, is_aggregated=is_aggregated)
        return None

    def _paths(self) -> list[str]:
        groups = self._catalog.groups
        versions = [f"/apis/{group}/{one}" if group else f"/api/{one}" for group in groups for one in groups[group]]
        others = ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]
        return sorted([*others, *versions, *(f"/apis/{group}" for group in groups if group)])

    def _of_core(self, parts: list[str], *, is_aggregated: bool) -> Answer | None:
        if is_aggregated:
            return _aggregated(self._catalog, [""])
        if len(parts) == 1:
            return json_answer({"kind": "APIVersions", "versions": list(self._catalog.groups.get("", {}))})
        return self._resources("", parts[1])

    def _of_groups(self, parts: list[str], *, is_aggregated: bool) -> Answer | None:
        groups = [name for name in self._catalog.groups if name]
        if is_aggregated:
            return _aggregated(self._catalog, groups)
        if len(parts) == 1:
            listed = [_group(name, self._catalog.groups[name]) for name in groups]
            return json_answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})
        if parts[1] not in groups:
            return None
        if len(parts) == 2:
            group = _group(parts[1], self._catalog.groups[parts[1]])
            return json_answer({"kind": "APIGroup", "apiVersion": "v1", **group})
        return self._resources(parts[1], parts[2])

    def _resources(self, group: str, version: str) -> Answer | None:
        served = self._catalog.groups.get(group, {}).get(version)
        if served is None:
            return None
        resources = [row for one in served for row in _resource_rows(one)]
        group_version = f"{group}/{version}" if group else version
        listed = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}
        return json_answer(listed)


def _wants_aggregated(request: Request) -> bool:
    accepted = request.header(b"accept")
    return "as=APIGroupDiscoveryList" in accepted and "v=v2;" in accepted + ";"


def _version() -> Object:
    """Which Kubernetes this server is like, and which Muster it is."""
    like = version()
    major, minor = like.removeprefix("v").split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{like}+muster-{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }


def _group(name: str, versions: Iterable[str]) -> Object:
    listed = [{"groupVersion": f"{name}/{one}", "version": one} for one in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resource_rows(served: Served) -> Iterable[Object]:
    kind = served.kind
    row: Object = {"name": kind.plural, "singularName": kind.singular, "namespaced": kind.is_namespaced}
    row |= {"kind": kind.kind, "verbs": list(kind.verbs)}
    if kind.short_names:
        row["shortNames"] = list(kind.short_names)
    if kind.categories:
        row["categories"] = list(kind.categories)
    yield row
    for name, one in served.subresources.items():
        part: Object = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.is_namespaced}
        if (one.group, one.version) != (kind.group, kind.version):
            part |= {"group": one.group, "version": one.version}
        yield {**part, "kind": one.kind, "verbs": list(one.verbs)}


# The aggregated form -------------------------------------------------------------------------------------------------


def _aggregated(catalog: Catalog, groups: Iterable[str]) -> Answer:
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [
                {"version": one, "resources": [_aggregated_row(kind) for kind in kinds], "freshness": "Current"}
                for one, kinds in catalog.groups[name].items()
            ],
        }
        for name in groups
    ]
    listed = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}
    body = encode(listed)
    tag = f'"{hashlib.sha512(body).hexdigest().upper()}"'.encode()
    return Answer(200, body, _AGGREGATED, ((b"etag", tag), (b"vary", b"Accept"), (b"cache-control", b"public")))


def _aggregated_row(served: Served) -> Object:
    kind = served.kind
    row: Object = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.is_namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        row["shortNames"] = list(kind.short_names)
    if kind.categories:
        row["categories"] = list(kind.categories)
    if parts := served.subresources:
        row["subresources"] = [_aggregated_part(name, one) for name, one in parts.items()]
    return row


def _aggregated_part(name: str, part: Subresource) -> Object:
    kind = {"group": part.group, "version": part.version, "kind": part.kind}
    return {"subresource": name, "responseKind": kind, "verbs": list(part.verbs)}
