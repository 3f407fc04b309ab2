"""A manager with the rights of an installation and no others brings a job from its queue to its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes.client import Client
from tests.kubernetes.managed import managed
from tests.kubernetes.plane import Plane, started
from tools.deploy import GENERATED, MANIFESTS, NAMESPACE

Object = dict[str, Any]
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
TEAM = "/api/v1/namespaces/team"
JOBS = "/apis/batch/v1/namespaces/team/jobs"
MERGE = "application/merge-patch+json"
WAIT_S = 180
NOW = "2030-01-31T12:00:00Z"
QUEUES: tuple[tuple[str, Object], ...] = (
    (f"{KUEUE}/resourceflavors", {"kind": "ResourceFlavor", "metadata": {"name": "any"}}),
    (
        f"{KUEUE}/clusterqueues",
        {
            "kind": "ClusterQueue",
            "metadata": {"name": "all"},
            "spec": {
                "namespaceSelector": {},
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu"],
                        "flavors": [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": 4}]}],
                    }
                ],
            },
        },
    ),
    (
        f"{KUEUE}/namespaces/team/localqueues",
        {"kind": "LocalQueue", "metadata": {"name": "main"}, "spec": {"clusterQueue": "all"}},
    ),
)
POD: Object = {
    "schedulerName": "muster",
    "restartPolicy": "Never",
    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
}


@pytest.fixture(scope="module")
def cluster(real_program, tmp_path_factory) -> Iterator[Plane]:
    """A real server with Muster's files, one node, and queues; nothing runs the webhooks, so nobody asks them."""
    with started(tmp_path_factory.mktemp("installed")) as plane:
        for name in (NAMESPACE, "team"):
            plane.kubectl("create", "namespace", name)
        files = ("-f", str(GENERATED / "definitions"), "-f", str(MANIFESTS))
        plane.kubectl("apply", "--server-side", "--force-conflicts", *files)
        plane.kubectl("delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "muster")
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        _make(plane.client, "/api/v1/nodes", {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}})
        room = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        status = {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
        _patch(plane.client, "/api/v1/nodes/n1/status", status)
        _patch(plane.client, "/api/v1/nodes/n1", {"spec": {"taints": None}})
        for path, body in QUEUES:
            _make(plane.client, path, {"apiVersion": "kueue.x-k8s.io/v1beta2", **body})
        yield plane


@pytest.fixture
def account(cluster: Plane, tmp_path: Path) -> Plane:
    """The same cluster as the service account of the installation sees it."""
    token = cluster.kubectl("create", "token", "muster-controller-manager", "-n", NAMESPACE).strip()
    configuration = json.loads(cluster.kubeconfig.read_text())
    configuration["users"][0]["user"] = {"token": token}
    (tmp_path / "kubeconfig").write_text(json.dumps(configuration))
    return Plane(url=cluster.url, token=token, folder=tmp_path)


def test_a_job_runs_with_the_rights_of_the_installation(cluster: Plane, account: Plane, tmp_path: Path) -> None:
    client = cluster.client
    with managed(account, tmp_path):
        job = _make(client, JOBS, _job())
        started_job = _wait(client, f"{JOBS}/train", lambda one: one["spec"]["suspend"] is False)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job["metadata"]["uid"]}
        labels = {"batch.kubernetes.io/job-name": "train", **started_job["spec"]["template"]["metadata"]["labels"]}
        metadata = {"name": "train-1", "labels": labels, "ownerReferences": [{**owner, "controller": True}]}
        spec = started_job["spec"]["template"]["spec"]
        _make(client, f"{TEAM}/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        _wait(client, f"{TEAM}/pods/train-1", lambda one: one["spec"].get("nodeName") == "n1")
        _patch(client, f"{JOBS}/train/status", {"status": _complete()})
        _wait(client, f"{KUEUE}/namespaces/team/workloads", _is_finished)
        _wait(client, f"{KUEUE}/clusterqueues/all", lambda one: bool((one.get("status") or {}).get("conditions")))
    log = (tmp_path / "manage.log").read_text()
    assert "forbidden" not in log.lower(), log[-3000:]


def _job() -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "main"}},
        "spec": {"suspend": True, "template": {"spec": POD}},
    }


def _complete() -> Object:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": NOW} for kind in ("SuccessCriteriaMet", "Complete")
    ]
    return {"succeeded": 1, "startTime": NOW, "completionTime": NOW, "conditions": conditions}


def _is_finished(workload: Object) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Finished" and one["status"] == "True" for one in conditions)


def _make(client: Client, path: str, body: Object) -> Object:
    answer = client.request("POST", path, body)
    assert answer.status == 201, answer.body
    return answer.json


def _patch(client: Client, path: str, body: Object) -> None:
    answer = client.request("PATCH", path, body, content_type=MERGE)
    assert answer.status == 200, answer.body


def _wait(client: Client, path: str, is_done: Callable[[Object], bool]) -> Object:
    """The object at a path once it is as it has to become; of a collection any object."""
    collection, _, name = path.rpartition("/")
    chosen = f"{path}?" if name == "workloads" else f"{collection}?fieldSelector=metadata.name%3D{name}&"
    patient = replace(client, timeout_s=2.0 * WAIT_S)
    last: Object = {}
    for event in patient.watch(f"{chosen}watch=true&timeoutSeconds={WAIT_S}"):
        last = event["object"]
        if is_done(last):
            return last
    raise AssertionError(f"{path} stays {json.dumps(last)[:3000]}")
