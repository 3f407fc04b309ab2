"""Nodes that are not there, and node identities that write what is not theirs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.process import Muster, started

PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory):
    with started(tmp_path_factory.mktemp("names") / "state") as running:
        yield running
        running.stop()


def pod(name: str, **spec: object) -> dict:
    spec = {"containers": [{"name": "c", "image": "i", "command": ["sleep", "1000"]}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_a_pod_on_a_node_that_is_not_there_never_runs(muster: Muster):
    assert muster.client.request("POST", PODS, pod("lost", nodeName="nowhere")).status == 201
    for path in ("log", "exec?command=true&stdout=true"):
        answer = muster.client.request("GET", f"{PODS}/lost/{path}")
        assert answer.status >= 400
    assert muster.client.request("GET", f"{PODS}/lost").json["status"]["phase"] == "Pending"


def test_a_pod_is_not_moved_to_another_node(muster: Muster):
    muster.client.request("POST", PODS, pod("stays", nodeName="nowhere"))
    moved = muster.client.request("PATCH", f"{PODS}/stays", {"spec": {"nodeName": "local"}}, content_type=MERGE)
    assert (moved.status, moved.json["reason"]) == (422, "Invalid")
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "stays"}, "target": {"name": "local"}}
    bound = muster.client.request("POST", f"{PODS}/stays/binding", binding)
    assert (bound.status, bound.json["message"].partition(":")[2].strip()) == (
        409,
        'pod stays is already assigned to node "nowhere"',
    ), bound.json


def as_node(muster: Muster, name: str) -> object:
    whom = (("Impersonate-User", f"system:node:{name}"), ("Impersonate-Group", "system:nodes"))
    return replace(muster.client, headers=whom)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("PATCH", "/api/v1/nodes/local/status", {"status": {"phase": "x"}}, id="another node's status"),
        pytest.param("PATCH", "/api/v1/nodes/local", {"metadata": {"labels": {"a": "b"}}}, id="another node's labels"),
        pytest.param("DELETE", "/api/v1/nodes/local", None, id="another node"),
        pytest.param("PATCH", f"{PODS}/stays/status", {"status": {"phase": "Failed"}}, id="a pod of another node"),
        pytest.param("GET", "/api/v1/namespaces/kube-system/secrets", None, id="secrets"),
    ],
)
def test_a_node_may_not_write_what_is_anothers(method, path, body, muster: Muster):
    answer = as_node(muster, "other").request(method, path, body, content_type=MERGE)  # type: ignore[attr-defined]
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden"), answer.json


def test_folders_of_strange_names_are_not_made(muster: Muster, tmp_path: Path):
    for name in ("../up", "a/b", ".."):
        made = muster.client.request("POST", PODS, pod(name, nodeName="local"))
        assert made.status == 422, made.json
