"""`muster manage` beside another server: here one of Muster's own that does nothing by itself."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.process import Muster, command, started

WAIT_S = 120
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
ANYWHERE = [{"operator": "Exists"}]  # nobody takes the taint of a new node away here
QUOTA = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": "2"}]}
QUEUE = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [QUOTA]}]}
NODES = "pools: [{name: node, count: 1, startTime: 0s, runTime: 1h}]\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Muster]:
    with started(tmp_path_factory.mktemp("manage") / "state", "--api-only") as muster:
        for path, given in (
            ("/resourceflavors", {"kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {}}),
            ("/clusterqueues", {"kind": "ClusterQueue", "metadata": {"name": "all"}, "spec": QUEUE}),
        ):
            create(muster, KUEUE + path, {"apiVersion": "kueue.x-k8s.io/v1beta2", **given})
        local = {"metadata": {"name": "main", "namespace": "default"}, "spec": {"clusterQueue": "all"}}
        path = f"{KUEUE}/namespaces/default/localqueues"
        create(muster, path, {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", **local})
        yield muster


@contextmanager
def manager(muster: Muster, folder: Path) -> Iterator[subprocess.Popen[str]]:
    (folder / "nodes.yaml").write_text(NODES)
    with (folder / "log").open("a") as log:
        # Who is killed holds its lease for a while, and there is nobody else here.
        whole = command("manage", "--no-leader-elect", "--kubeconfig", str(muster.kubeconfig))
        whole += ["--simulated-nodes", str(folder / "nodes.yaml")]
        process = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert process.stdout is not None and "manages" in process.stdout.readline(), (folder / "log").read_text()
            yield process
        finally:
            process.kill()
            process.communicate()


def create(muster: Muster, path: str, given: dict[str, Any]) -> None:
    answer = muster.client.request("POST", path, given)
    assert answer.status == 201, answer.body


def wait_for(muster: Muster, path: str, name: str, is_so) -> dict[str, Any]:
    client = replace(muster.client, timeout_s=2.0 * WAIT_S)
    for event in client.watch(f"{path}?watch=true&timeoutSeconds={WAIT_S}"):
        obj = event["object"]
        if event["type"] != "DELETED" and obj["metadata"]["name"] == name and is_so(obj):
            return obj
    raise AssertionError(f"{name} has not come to it within {WAIT_S} s")


def is_admitted(workload: dict[str, Any]) -> bool:
    conditions = workload.get("status", {}).get("conditions", [])
    return any(one["type"] == "Admitted" and one["status"] == "True" for one in conditions)


def test_a_workload_is_admitted_and_a_pod_is_bound(server, tmp_path):
    with manager(server, tmp_path) as process:
        workload = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": "w", "namespace": "default"},
            "spec": {"queueName": "main", "podSets": [{"name": "main", "count": 2, "template": {"spec": POD}}]},
        }
        path = f"{KUEUE}/namespaces/default/workloads"
        create(server, path, workload)
        # Nobody but the manager binds pods of its scheduler, and it binds no others: its workloads need no node of it.
        wait_for(server, path, "w", is_admitted)
        pods = "/api/v1/namespaces/default/pods"
        for name, scheduler in (("theirs", "default-scheduler"), ("ours", "muster")):
            spec = {**POD, "schedulerName": scheduler, "tolerations": ANYWHERE}
            create(server, pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
        wait_for(server, pods, "ours", lambda pod: pod["status"].get("phase") == "Running")
        assert "nodeName" not in server.client.request("GET", f"{pods}/theirs").json["spec"]
        queue = wait_for(
            server, f"{KUEUE}/clusterqueues", "all", lambda one: one.get("status", {}).get("admittedWorkloads") == 1
        )
        assert queue["status"]["flavorsUsage"][0]["resources"][0]["total"] == "2"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def test_a_manager_that_is_killed_is_followed_by_one_that_goes_on(server, tmp_path):
    for number in range(2):
        with manager(server, tmp_path):
            pods = "/api/v1/namespaces/default/pods"
            spec = {**POD, "schedulerName": "muster", "tolerations": ANYWHERE}
            metadata = {"name": f"after-{number}"}
            create(server, pods, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
            wait_for(server, pods, f"after-{number}", lambda pod: bool(pod["spec"].get("nodeName")))
