"""`muster up` with nodes: pods that really run, survive a kill of the server, and simulated ones from the example."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.local.test_node import is_alive
from tests.e2e.process import Muster, command, started
from tests.support import ROOT

PODS = "/api/v1/namespaces/default/pods"
EXAMPLE = ROOT / "examples" / "gpu-cluster.yaml"


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    """A server with the nodes of the example."""
    with started(tmp_path_factory.mktemp("nodes") / "state", "--nodes", str(EXAMPLE)) as running:
        yield running
        running.stop()


def until(muster: Muster, path: str, name: str, holds: Callable[[dict], Any]) -> dict:
    """Wait until something holds of an object; the watch ends after a minute."""
    query = f"{path}?watch=true&timeoutSeconds=60&fieldSelector=metadata.name={name}"
    last: dict = {}
    for event in muster.client.watch(query):
        last = event["object"]
        if holds(last):
            return last
    raise AssertionError(f"it never held: {last}")


def phase(wanted: str) -> Callable[[dict], bool]:
    return lambda pod: (pod.get("status") or {}).get("phase") == wanted


def create(muster: Muster, name: str, node: str, **container: Any) -> None:
    spec = {"nodeName": node, "restartPolicy": "Never", "containers": [{"name": "c", "image": "i", **container}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    answer = muster.client.request("POST", PODS, pod)
    assert answer.status == 201, answer.body


def test_nodes_are_ready(muster: Muster):
    for name in ("local", "a100-3"):
        node = until(muster, "/api/v1/nodes", name, lambda node: not is_held_back(node))
        ready = [one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"]
        assert ready == ["True"]
    assert node["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]


def is_held_back(node: dict) -> bool:
    return any(one["key"].startswith("node.kubernetes.io/") for one in node["spec"].get("taints") or ())


def test_a_pod_runs_and_its_log_is_served(muster: Muster):
    create(muster, "hello", "local", command=["sh", "-c", "echo hello $KUBERNETES_SERVICE_PORT"])
    until(muster, PODS, "hello", phase("Succeeded"))
    port = muster.url.rpartition(":")[2]
    assert muster.client.request("GET", f"{PODS}/hello/log").body == f"hello {port}\n".encode()


def test_a_simulated_pod_runs_and_has_a_log(muster: Muster):
    create(muster, "sim", "cpu-3")
    until(muster, PODS, "sim", phase("Running"))
    assert b"simulated container c" in muster.client.request("GET", f"{PODS}/sim/log").body


def test_a_lost_card_takes_its_pods_along(muster: Muster):
    spec = {"nodeName": "a100-1", "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    holds = {"hami.io/vgpu-devices-allocated": "GPU-a100-1-2,NVIDIA,20480,30:;", "sim.muster.dev/run-time": "1h"}
    for name, notes in (("holder", holds), ("other", {**holds, "hami.io/vgpu-devices-allocated": ""})):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": notes}, "spec": spec}
        assert muster.client.request("POST", PODS, pod).status == 201
        until(muster, PODS, name, phase("Running"))
    lost = {"metadata": {"annotations": {"sim.muster.dev/lost-cards": "GPU-a100-1-2"}}}
    muster.client.request("PATCH", "/api/v1/nodes/a100-1", lost, content_type="application/merge-patch+json")
    pod = until(muster, PODS, "holder", phase("Failed"))
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    node = until(
        muster, "/api/v1/nodes", "a100-1", lambda node: node["status"]["allocatable"]["nvidia.com/gpu"] == "70"
    )
    cards = json.loads(node["metadata"]["annotations"]["hami.io/node-nvidia-register"])
    assert [card["id"] for card in cards if not card.get("health")] == ["GPU-a100-1-2"]
    assert muster.client.request("GET", f"{PODS}/other").json["status"]["phase"] == "Running"


POOL = """
pools:
- {name: spot, maximum: 2, nodeStartTime: 1s, idleTime: 1s, price: 3600, capacity: {cpu: "4"}}
"""


def test_a_pool_grows_for_a_pod_and_shrinks_after_it(tmp_path: Path):
    (tmp_path / "nodes.yaml").write_text(POOL)
    with started(tmp_path / "state", "--no-local-node", "--nodes", str(tmp_path / "nodes.yaml")) as muster:
        assert muster.client.request("GET", "/api/v1/nodes").json["items"] == []
        annotations = {"sim.muster.dev/run-time": "1s"}
        main = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
        spec = {"restartPolicy": "Never", "containers": [main]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": annotations}, "spec": spec}
        assert muster.client.request("POST", PODS, pod).status == 201
        assert until(muster, PODS, "p", phase("Succeeded"))["spec"]["nodeName"] == "spot-0"
        events = muster.client.watch("/api/v1/nodes?watch=true&timeoutSeconds=60")
        assert any(event["type"] == "DELETED" for event in events)
        costs = muster.client.request("GET", "/api/v1/namespaces/kube-system/configmaps/node-pools").json["data"]
        assert "price: 3600\n" in costs["spot"]


def test_what_runs_survives_a_kill_of_the_server_and_ends_with_it(tmp_path: Path):
    folder, pids, go = tmp_path / "state", tmp_path / "pids", tmp_path / "go"
    script = f"echo $$$$ >> {pids}; until test -e {go}; do sleep 0.05; done; exit 3"
    with started(folder) as first:
        create(first, "a", "local", command=["sh", "-c", script])
        create(first, "b", "local", command=["sleep", "1000"])
        for name in ("a", "b"):
            until(first, PODS, name, phase("Running"))
        first.stop(signal.SIGKILL)
    with started(folder) as second:
        go.touch()
        pod = until(second, PODS, "a", phase("Failed"))
        state = pod["status"]["containerStatuses"][0]
        assert (state["state"]["terminated"]["exitCode"], state["restartCount"]) == (3, 0)
        assert len(pids.read_text().split()) == 1
        kept = process_of(second, "b")
        assert is_alive(kept)
        assert second.stop() == 0
        assert not is_alive(kept)


def process_of(muster: Muster, name: str) -> int:
    uid = muster.client.request("GET", f"{PODS}/{name}").json["metadata"]["uid"]
    file = muster.folder / "local-node" / "pods" / uid / "containers" / "c" / "0" / "process"
    return int(file.read_text().split()[0])


def test_a_file_of_nodes_that_is_wrong_stops_the_start(tmp_path: Path):
    (tmp_path / "nodes.yaml").write_text("pools: [{name: a, count: x}]")
    arguments = ("up", "--data", str(tmp_path / "state"), "--port", "0", "--nodes", str(tmp_path / "nodes.yaml"))
    ended = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert "pools[0].count" in ended.stderr
