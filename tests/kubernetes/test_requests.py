"""The same requests to a real server and to Muster: codes, reasons, details, and what watches tell.

Each row runs in both, in order, in a namespace of its own, so that what one leaves is there for the next. Messages are
compared where Kubernetes' own sentence is part of what clients rely on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.process import BARE, Muster, started
from tests.kubernetes.client import Answer, Client

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"


def config(name: str, **more: Any) -> Json:
    data = more.pop("data", None)
    made: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more}}
    return made if data is None else {**made, "data": data}


def pod(name: str, **more: Any) -> Json:
    spec = {"containers": [{"name": "c", "image": "i"}], **more.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **more}, "spec": spec}


def deployment(name: str) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def binding(name: str, node: str) -> Json:
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": node, "kind": "Node"}}


NS = "/api/v1/namespaces/{ns}"
CONFIGS, PODS, EVENTS = f"{NS}/configmaps", f"{NS}/pods", f"{NS}/events"
DEPLOYMENTS = "/apis/apps/v1/namespaces/{ns}/deployments"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}}
EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "{ns}"},
    "reason": "Seen",
    "message": "it was seen",
    "type": "Normal",
}

# method, path, body, perhaps the content type and what is accepted
ROWS: list[tuple[Any, ...]] = [
    ("GET", f"{CONFIGS}/none", None),
    ("POST", CONFIGS, config("a", data={"k": "v"})),
    ("POST", CONFIGS, config("a")),
    ("POST", CONFIGS, config("b", labels={"app": "x"})),
    ("POST", CONFIGS, {"metadata": {"name": "no-kind"}}),
    ("POST", CONFIGS, pod("wrong-kind")),
    ("POST", CONFIGS, config("x", namespace="elsewhere")),
    ("POST", CONFIGS, config("x", resourceVersion="5")),
    ("POST", CONFIGS, config("Not a name")),
    ("POST", CONFIGS, config("")),
    ("POST", CONFIGS, config("x", labels={"k": "not a value"})),
    ("POST", CONFIGS, b"{"),
    ("POST", CONFIGS, b"[]"),
    ("POST", CONFIGS, b"x", "text/plain"),
    ("POST", CONFIGS, b"metadata: {name: yaml}", "application/yaml"),
    ("POST", CONFIGS, b"a: b: c", "application/yaml"),
    ("POST", f"{CONFIGS}?dryRun=All", config("dry")),
    ("POST", f"{CONFIGS}?dryRun=Some", config("dry")),
    ("POST", f"{CONFIGS}?fieldValidation=Some", config("dry")),
    ("POST", f"{CONFIGS}?fieldValidation=Strict", {**config("strict"), "nope": 1}),
    ("POST", f"{CONFIGS}?fieldValidation=Ignore", {**config("ignored"), "nope": 1}),
    ("POST", "/api/v1/namespaces/none/configmaps", config("a")),
    ("POST", "/api/v1/configmaps", config("a")),
    ("GET", CONFIGS, None),
    ("GET", f"{CONFIGS}?labelSelector=app%3Dx", None),
    ("GET", f"{CONFIGS}?labelSelector=app+in", None),
    ("GET", f"{CONFIGS}?labelSelector=!app,k", None),
    ("GET", f"{CONFIGS}?labelSelector=a%3D%3D%3Db", None),
    ("GET", f"{CONFIGS}?fieldSelector=metadata.name%3Da", None),
    ("GET", f"{CONFIGS}?fieldSelector=metadata.name!%3Da", None),
    ("GET", f"{CONFIGS}?fieldSelector=spec.x%3Da", None),
    ("GET", f"{CONFIGS}?fieldSelector=x", None),
    ("GET", f"{CONFIGS}?limit=x", None),
    ("GET", f"{CONFIGS}?limit=-1", None),
    ("GET", f"{CONFIGS}?limit=1", None),
    ("GET", f"{CONFIGS}?continue=abc", None),
    ("GET", f"{CONFIGS}?resourceVersion=abc", None),
    ("GET", f"{CONFIGS}?resourceVersion=0", None),
    ("GET", f"{CONFIGS}?resourceVersion=99999999", None),
    ("GET", f"{CONFIGS}?resourceVersionMatch=Exact", None),
    ("GET", f"{CONFIGS}?resourceVersion=1&resourceVersionMatch=Some", None),
    ("GET", f"{CONFIGS}?resourceVersion=0&resourceVersionMatch=Exact", None),
    ("GET", f"{CONFIGS}?sendInitialEvents=true", None),
    ("GET", f"{CONFIGS}?watch=true&sendInitialEvents=true", None),
    ("GET", f"{CONFIGS}?watch=true&resourceVersionMatch=NotOlderThan", None),
    ("GET", CONFIGS, None, "", TABLE),
    ("GET", f"{CONFIGS}/a", None, "", TABLE),
    ("GET", f"{CONFIGS}/a", None, "", METADATA),
    ("GET", CONFIGS, None, "", METADATA.replace("Metadata;", "MetadataList;")),
    ("GET", CONFIGS, None, "", "text/html"),
    ("PUT", f"{CONFIGS}/a", config("b")),
    ("PUT", f"{CONFIGS}/a", config("a", resourceVersion="1")),
    ("PUT", f"{CONFIGS}/a", config("a", uid="another")),
    ("PUT", f"{CONFIGS}/a", config("a", data={"k": "w"})),
    ("PUT", f"{CONFIGS}/none", config("none")),
    ("PUT", CONFIGS, config("a")),
    ("PATCH", f"{CONFIGS}/a", {"data": {"l": "x"}}, MERGE),
    ("PATCH", f"{CONFIGS}/a", {"data": {"m": "y", "l": None}}, STRATEGIC),
    ("PATCH", f"{CONFIGS}/a", [{"op": "add", "path": "/data/n", "value": "z"}], JSON_PATCH),
    ("PATCH", f"{CONFIGS}/a", [{"op": "test", "path": "/data/n", "value": "no"}], JSON_PATCH),
    ("PATCH", f"{CONFIGS}/a", {"metadata": {"resourceVersion": "1"}}, MERGE),
    ("PATCH", f"{CONFIGS}/a", {"metadata": {"name": "b"}}, MERGE),
    ("PATCH", f"{CONFIGS}/a", {"kind": "Secret"}, MERGE),
    ("PATCH", f"{CONFIGS}/a", b"{", MERGE),
    ("PATCH", f"{CONFIGS}/a", {}, "application/json"),
    ("PATCH", f"{CONFIGS}/none", {}, MERGE),
    ("PATCH", CONFIGS, {}, MERGE),
    ("POST", f"{CONFIGS}/a", config("a")),
    ("DELETE", f"{CONFIGS}/none", None),
    ("DELETE", f"{CONFIGS}/a", {"preconditions": {"uid": "x"}}),
    ("DELETE", f"{CONFIGS}/a", {"preconditions": {"resourceVersion": "1"}}),
    ("DELETE", f"{CONFIGS}/a?propagationPolicy=Some", None),
    ("DELETE", f"{CONFIGS}/a", {"propagationPolicy": "Foreground", "orphanDependents": True}),
    ("DELETE", f"{CONFIGS}/a?dryRun=All", None),
    ("DELETE", f"{CONFIGS}/a", None),
    ("POST", CONFIGS, config("held", finalizers=["example.com/hold"])),
    ("DELETE", f"{CONFIGS}/held", {"propagationPolicy": "Orphan"}),
    ("PATCH", f"{CONFIGS}/held", {"metadata": {"finalizers": ["example.com/hold", "example.com/new"]}}, MERGE),
    ("PATCH", f"{CONFIGS}/held", {"metadata": {"finalizers": None}}, MERGE),
    ("GET", f"{CONFIGS}/held", None),
    ("DELETE", f"{CONFIGS}?labelSelector=app%3Dx", None),
    ("DELETE", "/api/v1/configmaps", None),
    ("POST", PODS, {**pod("bad"), "spec": {}}),
    ("POST", PODS, pod("p", labels={"app": "x"})),
    ("POST", PODS, pod("q", spec={"priorityClassName": "none"})),
    ("GET", f"{PODS}?fieldSelector=spec.nodeName%3D,status.phase%3DPending", None),
    ("PUT", f"{PODS}/p/status", {**pod("p", labels={"app": "x"}), "status": {"phase": "Running"}}),
    ("GET", f"{PODS}/p/status", None),
    ("POST", f"{PODS}/p/binding", binding("p", "n1")),
    ("POST", f"{PODS}/p/binding", binding("p", "n2")),
    ("POST", f"{PODS}/none/binding", binding("none", "n2")),
    ("POST", f"{PODS}/p/binding", binding("p", "")),
    ("GET", f"{PODS}/p", None),
    (
        "POST",
        f"{PODS}/none/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "none"}},
    ),
    ("POST", f"{PODS}/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}),
    ("DELETE", f"{PODS}/p?gracePeriodSeconds=0", None),
    ("GET", f"{PODS}/p/nope", None),
    ("POST", DEPLOYMENTS, deployment("d")),
    ("GET", f"{DEPLOYMENTS}/d/scale", None),
    ("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 5}}, MERGE),
    ("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": -5}}, MERGE),
    ("GET", f"{DEPLOYMENTS}/none", None),
    ("DELETE", f"{DEPLOYMENTS}/d", {"propagationPolicy": "Foreground"}),
    ("POST", EVENTS, EVENT),
    ("GET", f"{EVENTS}?fieldSelector=involvedObject.name%3Dp", None),
    ("GET", "/apis/events.k8s.io/v1/namespaces/{ns}/events/e", None),
    ("POST", LEASES, LEASE),
    ("PUT", f"{LEASES}/l", LEASE),
    ("DELETE", f"{LEASES}/l", None),
    ("PUT", f"{LEASES}/l", LEASE),
    ("POST", f"{NS}/services", SERVICE),
    ("PUT", f"{NS}/services/s", SERVICE),
    ("PATCH", f"{NS}/services/s", {"spec": {"type": "NodePort"}}, MERGE),
    ("DELETE", f"{NS}/services/s", None),
    ("DELETE", "/apis/batch/v1/namespaces/{ns}/jobs/none", None),
    ("POST", REVIEWS, {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}),
    ("GET", "/api/v1/nope", None),
    ("GET", "/api/v2/pods", None),
    ("GET", f"{NS}/nodes", None),
    ("GET", "/api/v1/pods/a", None),
    ("DELETE", "/api/v1/namespaces/default", None),
    ("GET", "/api", None),
    ("GET", "/healthz", None),
]

# What is not the same on purpose, and why.
DIFFERENT = {
    f"POST {CONFIGS} {config('x', resourceVersion='5')}": "Kubernetes calls the client's mistake an error of its own",
    f"POST {PODS}/p/binding {binding('p', '')}": "the same",
    f"PATCH {CONFIGS}/a {{'kind': 'Secret'}}": "Muster names the field, not the patch",
    f"PATCH {CONFIGS}/held {{'metadata': {{'finalizers': ['example.com/hold', 'example.com/new']}}}}": (
        "Muster says it once, and in its own words"
    ),
}


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """Muster as a process of its own."""
    with started(tmp_path_factory.mktemp("up") / "state", module=BARE) as running:
        yield running


def told(answer: Answer) -> Json:
    """What of an answer has to be the same in both."""
    try:
        body = answer.json
    except ValueError:
        return {"status": answer.status, "text": answer.body}
    found: Json = {"status": answer.status, "kind": body.get("kind"), "apiVersion": body.get("apiVersion")}
    if body.get("kind") == "Status":
        details = {name: value for name, value in (body.get("details") or {}).items() if name not in ("uid", "causes")}
        causes = [(one.get("reason"), one.get("field")) for one in (body.get("details") or {}).get("causes", [])]
        return {**found, "outcome": body["status"], "reason": body.get("reason"), "details": details, "causes": causes}
    if "items" in body:
        return {**found, "names": [one["metadata"]["name"] for one in body["items"]]}
    if body.get("kind") == "Table":
        return {**found, "cells": [row["cells"][0] for row in body["rows"]]}
    metadata = body.get("metadata") or {}
    kept = ("name", "namespace", "labels", "finalizers", "generation", "deletionGracePeriodSeconds")
    return {**found, "metadata": {name: metadata[name] for name in kept if name in metadata}}


def row_name(row: tuple[Any, ...]) -> str:
    return f"{row[0]} {row[1]} {row[2]}"


def test_the_same_requests_get_the_same_answers(plane, muster):
    differ = []
    for client in (plane.client, muster.client):
        client.request("POST", "/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": "requests"}})
    for row in ROWS:
        answers = [_asked(client, row) for client in (plane.client, muster.client)]
        real, ours = (told(answer) for answer in answers)
        if (real != ours) != (row_name(row) in DIFFERENT):
            said = "\n".join(f"  {answer.body[:400]!r}" for answer in answers)
            differ.append(f"{row_name(row)}\n  real {real}\n  ours {ours}\n{said}")
    assert not differ, f"{len(differ)} of {len(ROWS)} differ\n" + "\n".join(differ)


def _asked(client: Client, row: tuple[Any, ...], namespace: str = "requests") -> Answer:
    method, path, body, content_type, accept = (*row, "", "")[:5]
    more = {"content_type": content_type} if content_type else {}
    return client.request(method, path.replace("{ns}", namespace), _placed(body, namespace), accept=accept, **more)


def _placed(body: Any, namespace: str) -> Any:
    if isinstance(body, dict):
        return {name: _placed(value, namespace) for name, value in body.items()}
    return body.replace("{ns}", namespace) if isinstance(body, str) else body


# Watches -------------------------------------------------------------------------------------------------------------

WRITES: list[tuple[Any, ...]] = [
    ("POST", CONFIGS, config("a", labels={"app": "x"})),
    ("POST", CONFIGS, config("b")),
    ("PATCH", f"{CONFIGS}/b", {"metadata": {"labels": {"app": "x"}}}, MERGE),
    ("PATCH", f"{CONFIGS}/a", {"data": {"k": "v"}}, MERGE),
    ("PATCH", f"{CONFIGS}/a", {"data": {"k": "v"}}, MERGE),
    ("PATCH", f"{CONFIGS}/a", {"metadata": {"labels": {"app": "y"}}, "data": {"k": "w"}}, MERGE),
    ("DELETE", f"{CONFIGS}/b", None),
    ("POST", CONFIGS, config("b", labels={"app": "x"}, finalizers=["example.com/hold"])),
    ("DELETE", f"{CONFIGS}/b", None),
    ("PATCH", f"{CONFIGS}/b", {"metadata": {"finalizers": None}}, MERGE),
    ("DELETE", CONFIGS, None),
]


@pytest.mark.parametrize(
    ("query", "accept"),
    [
        ("", ""),
        ("&labelSelector=app%3Dx", ""),
        ("&labelSelector=app!%3Dx", ""),
        ("&fieldSelector=metadata.name%3Da", ""),
        ("", METADATA),
        ("", TABLE),
    ],
)
def test_watches_tell_the_same(plane, muster, query, accept):
    seen = []
    for client in (plane.client, muster.client):
        made = client.request("POST", "/api/v1/namespaces", {"metadata": {"generateName": "watch-"}})
        namespace = made.json["metadata"]["name"]
        start = client.request("GET", CONFIGS.replace("{ns}", namespace)).json["metadata"]["resourceVersion"]
        for row in WRITES:
            assert _asked(client, row, namespace).status < 300
        path = f"{CONFIGS.replace('{ns}', namespace)}?watch=true&resourceVersion={start}&timeoutSeconds=1{query}"
        body = client.request("GET", path, accept=accept).body
        seen.append([event_told(json.loads(line)) for line in body.splitlines()])
    assert seen[0] == seen[1]
    assert seen[0]


def event_told(event: Json) -> Json:
    """What of an event has to be the same in both."""
    item = event["object"]
    if item["kind"] == "Table":
        return {"type": event["type"], "cells": [row["cells"][0] for row in item["rows"]]}
    kept = ("name", "labels", "finalizers")
    metadata = {name: item["metadata"].get(name) for name in kept}
    is_deleting = "deletionTimestamp" in item["metadata"]
    return {"type": event["type"], "kind": item["kind"], **metadata, "data": item.get("data"), "going": is_deleting}
