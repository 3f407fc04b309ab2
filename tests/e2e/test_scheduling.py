"""`muster up` as a living cluster: what is created there is admitted and bound, and stays so over a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.controllers.cluster import API, GPU, node, pod, queue, workload
from tests.e2e.process import Muster, started

TEAM = "/api/v1/namespaces/team"
MERGE = "application/merge-patch+json"
QUEUES, TEAM_QUEUES = f"/apis/{API}", f"/apis/{API}/namespaces/team"


def _create(muster: Muster, path: str, obj: dict[str, Any]) -> dict[str, Any]:
    answer = muster.client.request("POST", path, obj)
    assert answer.status == 201, answer.json
    return answer.json


def _wait(muster: Muster, path: str, is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Follow the objects of a path until one is as wanted."""
    for event in muster.client.watch(f"{path}{'&' if '?' in path else '?'}watch=true&timeoutSeconds=60"):
        if is_it(event["object"]):
            return event["object"]
    raise AssertionError(f"nothing became of {path}")


def _set_up(muster: Muster) -> None:
    _create(muster, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    _create(muster, "/api/v1/nodes", node("n", gpus=2))
    # A patch, since controllers write to the node at the same time.
    patched = muster.client.request("PATCH", "/api/v1/nodes/n", {"spec": {"taints": None}}, content_type=MERGE)
    assert patched.status == 200
    flavor = {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "default"}, "spec": {}}
    _create(muster, f"{QUEUES}/resourceflavors", flavor)
    _create(muster, f"{QUEUES}/clusterqueues", queue("q", {GPU: "2"}))
    local = {"metadata": {"name": "q"}, "spec": {"clusterQueue": "q"}}
    _create(muster, f"{TEAM_QUEUES}/localqueues", {"apiVersion": API, "kind": "LocalQueue", **local})


def _is_true(obj: dict[str, Any], type_: str) -> bool:
    conditions = obj.get("status", {}).get("conditions", ())
    return any(one["type"] == type_ and one["status"] == "True" for one in conditions)


def test_a_workload_is_admitted_and_its_pod_bound_and_a_restart_changes_nothing(tmp_path: Path):
    with started(tmp_path / "state") as muster:
        _set_up(muster)
        _create(muster, f"{TEAM_QUEUES}/workloads", workload("w", "q", 2, gpu="1"))
        _wait(muster, f"{TEAM_QUEUES}/workloads", lambda one: _is_true(one, "Admitted"))
        _create(muster, f"{TEAM}/pods", pod("p0", "w", gpu="1"))
        bound = _wait(muster, f"{TEAM}/pods", lambda one: bool(one["spec"].get("nodeName")))
        assert bound["spec"]["nodeName"] == "n" and bound["metadata"]["annotations"]["muster.dev/slot"] == "main/0"
    with started(tmp_path / "state") as again:
        _create(again, f"{TEAM_QUEUES}/workloads", workload("late", "q", 1, gpu="1"))
        late = _wait(
            again, f"{TEAM_QUEUES}/workloads", lambda one: one["metadata"]["name"] == "late" and "status" in one
        )
        assert not _is_true(late, "QuotaReserved"), "the quota is held by the one that was there before"
        _create(again, f"{TEAM}/pods", pod("p1", "w", gpu="1"))
        _wait(again, f"{TEAM}/pods", lambda one: one["metadata"]["name"] == "p1" and "nodeName" in one["spec"])
        counts = again.client.request("GET", f"{QUEUES}/clusterqueues/q").json["status"]
        assert counts["admittedWorkloads"] == 1


def test_a_configuration_is_lived_by(tmp_path: Path):
    """Jobs that name no queue are held back where the file says so."""
    said = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nmanageJobsWithoutQueueName: true\n"
    (tmp_path / "kueue.yaml").write_text(said)
    pod_template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": pod_template}}
    with started(tmp_path / "state", "--config", str(tmp_path / "kueue.yaml"), "--profile", "kueue") as muster:
        made = _create(muster, "/apis/batch/v1/namespaces/default/jobs", job)
        assert made["spec"]["suspend"] is True
