"""What is asked of running pods, on a real server and on Muster: the same refusals, and the same changes of pods."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.e2e.process import started
from tests.kubernetes.client import Client

Json = dict[str, Any]
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
PODS = "/api/v1/namespaces/streams/pods"


def pod(name: str, *containers: str, **more: Any) -> Json:
    found = [{"name": one, "image": "i", **more.pop("container", {})} for one in containers or ("main",)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": found, **more}}


BIG = {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}}
PREPARED = [
    pod("free"),
    pod("on", nodeName="node"),
    pod("lost", nodeName="nowhere"),
    pod("two", "a", "b", nodeName="node", initContainers=[{"name": "i", "image": "x"}]),
    pod("big", container=BIG),
]


def debugger(**more: Any) -> Json:
    return {"spec": {"ephemeralContainers": [{"name": "dbg", "image": "b", **more}]}}


def resources(**more: Json) -> Json:
    return {"spec": {"containers": [{"name": "main", "resources": more}]}}


LOGS = [
    "none/log",
    "free/log",
    "lost/log",
    "two/log",
    "two/log?container=zz",
    "on/log?tailLines=-1",
    "on/log?tailLines=x",
    "on/log?limitBytes=0",
    "on/log?sinceSeconds=0",
    "on/log?sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z",
    "on/log?sinceTime=abc",
    "on/log?stream=Stdout&tailLines=-5",
]
CONNECTIONS = [
    f"{name}/{what}?command=a&stdout=true"
    for name in ("none", "free", "lost", "two", "on")
    for what in ("exec", "attach", "portforward")
    if (name, what) != ("two", "portforward")
]
ROWS: list[tuple[str, str, Any, str]] = [
    *(("GET", path, None, "") for path in LOGS + CONNECTIONS),
    ("POST", "on/log", None, ""),
    ("PUT", "on/exec", {}, ""),
    ("PATCH", "on/ephemeralcontainers", debugger(stdin=True, tty=True, targetContainerName="main"), STRATEGIC),
    ("GET", "on/ephemeralcontainers", None, ""),
    ("PATCH", "on/ephemeralcontainers", {"spec": {"ephemeralContainers": None}}, MERGE),
    ("PATCH", "on/ephemeralcontainers", {"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "x"}}, STRATEGIC),
    ("PATCH", "free/ephemeralcontainers", debugger(name="main"), STRATEGIC),
    ("PATCH", "free/ephemeralcontainers", debugger(name="d_"), STRATEGIC),
    ("PATCH", "free/ephemeralcontainers", debugger(targetContainerName="zz"), STRATEGIC),
    ("PATCH", "free/ephemeralcontainers", debugger(ports=[{"containerPort": 1}], lifecycle={}), STRATEGIC),
    ("PATCH", "free/ephemeralcontainers?dryRun=All", debugger(), STRATEGIC),
    ("PATCH", "free/ephemeralcontainers", {"metadata": {"resourceVersion": "1"}}, MERGE),
    ("PATCH", "none/ephemeralcontainers", debugger(), STRATEGIC),
    ("PATCH", "on/resize", resources(requests={"cpu": "1"}), STRATEGIC),
    ("PATCH", "big/resize", resources(requests={"cpu": "1500m"}), STRATEGIC),
    ("PATCH", "big/resize", resources(requests={"cpu": "3"}), STRATEGIC),
    ("PATCH", "big/resize", resources(requests={"cpu": "2", "memory": "1Gi"}), STRATEGIC),
    ("PATCH", "big/resize", {"spec": {"containers": [{"name": "main", "image": "z"}]}}, STRATEGIC),
    ("PATCH", "big/resize", resources(requests={"x.y/z": "2"}, limits={"x.y/z": "2"}), STRATEGIC),
    ("PATCH", "big/resize", [{"op": "remove", "path": "/spec/containers/0/resources/limits/memory"}], JSON_PATCH),
    ("PATCH", "big/resize", [{"op": "remove", "path": "/spec/containers/0/resources/requests/cpu"}], JSON_PATCH),
    ("GET", "big", None, ""),
]
ADDRESSED = {"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}}
_OWN_WORDS_AFTER = ('Invalid value: "d_":', 'Invalid value: "3":')  # each server says the rule in its own


def told(client: Client, row: tuple[str, str, Any, str]) -> Json:
    """What both have to say alike."""
    method, path, body, content_type = row
    answer = client.request(method, f"{PODS}/{path}", body, content_type=content_type or "application/json")
    if answer.status == 204:
        return {"status": 204}
    found = answer.json
    if found["kind"] == "Status":
        message = found["message"]
        for value in _OWN_WORDS_AFTER:
            message = re.sub(f"(?<={value}).*", "", message)
        causes = [(one.get("field"), one["reason"]) for one in found.get("details", {}).get("causes", ())]
        return {"status": answer.status, "reason": found.get("reason"), "message": message, "causes": causes}
    metadata = {name: found["metadata"].get(name) for name in ("name", "generation", "labels")}
    return {"status": answer.status, "metadata": metadata, "spec": _without_account(found["spec"])}


def _without_account(spec: Json) -> Json:
    return {name: value for name, value in spec.items() if name not in ("serviceAccount", "serviceAccountName")}


@pytest.fixture(scope="module")
def clients(plane, tmp_path_factory):
    """A real server and Muster, with the same pods."""
    with started(tmp_path_factory.mktemp("muster"), "--api-only") as muster:
        both = (plane.client, muster.client)
        for client in both:
            client.request("POST", "/api/v1/namespaces", {"metadata": {"name": "streams"}})
            client.request("POST", "/api/v1/nodes", {"metadata": {"name": "node"}})
            client.request("PATCH", "/api/v1/nodes/node/status", ADDRESSED, content_type=MERGE)
            for one in PREPARED:
                assert client.request("POST", PODS, one).status == 201
        yield both


def test_both_say_the_same(clients):
    theirs, ours = clients
    unlike = []
    for row in ROWS:
        expected, found = told(theirs, row), told(ours, row)
        if expected != found:
            unlike.append((row[:2], expected, found))
    assert not unlike, "\n".join(map(str, unlike))
