"""The example of docs/multikueue.md, as it is written there: a job of one server runs in another."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.process import Muster, command, started

Json = dict[str, Any]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "multikueue.md"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
HEAD = ["NAME", "STATE", "OFFERED", "RUNNING", "FINISHED", "PROBLEM"]
PATHS = {
    "ResourceFlavor": f"{KUEUE}/resourceflavors",
    "ClusterQueue": f"{KUEUE}/clusterqueues",
    "LocalQueue": f"{KUEUE}/namespaces/default/localqueues",
    "MultiKueueCluster": f"{KUEUE}/multikueueclusters",
    "MultiKueueConfig": f"{KUEUE}/multikueueconfigs",
    "AdmissionCheck": f"{KUEUE}/admissionchecks",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "Namespace": "/api/v1/namespaces",
    "Secret": "/api/v1/namespaces/kueue-system/secrets",
}


def blocks() -> list[list[Json]]:
    """The manifests of the page, block by block."""
    parts = PAGE.read_text().split("```yaml\n")[1:]
    return [list(yaml.safe_load_all(part.split("```")[0])) for part in parts]


def create(muster: Muster, *objects: Json) -> None:
    for one in objects:
        answer = muster.client.request("POST", PATHS[one["kind"]], one)
        assert answer.status == 201, answer.json


def wait(muster: Muster, path: str, is_it: Callable[[Json], bool]) -> Json:
    """Follow the objects of a path until one is as wanted."""
    for event in muster.client.watch(f"{path}?watch=true&timeoutSeconds=180"):
        if is_it(event["object"]):
            return event["object"]
    raise AssertionError(f"nothing became of {path}")


def has(obj: Json, name: str) -> bool:
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(one["type"] == name and one["status"] == "True" for one in conditions)


def secret(name: str, kubeconfig: bytes) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "kueue-system"},
        "data": {"kubeconfig": base64.b64encode(kubeconfig).decode()},
    }


def test_the_example_of_the_page(tmp_path: Path):
    for_east, for_here, jobs = blocks()
    (tmp_path / "nodes.yaml").write_text("pools: [{name: cpu, count: 1}]")
    nodes = ("--no-local-node", "--nodes", str(tmp_path / "nodes.yaml"))
    with started(tmp_path / "east", *nodes) as east, started(tmp_path / "here", "--no-local-node") as here:
        create(east, *for_east)
        create(here, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}})
        create(here, secret("east", east.kubeconfig.read_bytes()), *for_here)
        wait(here, PATHS["AdmissionCheck"], lambda one: has(one, "Active"))
        before = east.client.request("GET", PATHS["Job"]).json["metadata"]["resourceVersion"]
        create(here, *jobs)
        done = wait(here, PATHS["Job"], lambda one: has(one, "Complete"))
        assert (done["spec"]["managedBy"], done["status"]["succeeded"]) == ("kueue.x-k8s.io/multikueue", 1)
        workload = wait(here, f"{KUEUE}/namespaces/default/workloads", lambda one: has(one, "Finished"))
        assert workload["status"]["clusterName"] == "east"
        shown = subprocess.run(
            command("clusters", "--kubeconfig", str(here.kubeconfig)), capture_output=True, text=True, check=True
        ).stdout.splitlines()
        assert [line.split() for line in shown] == [HEAD, ["east", "Connected", "0", "0", "1"]]
        here_pods = here.client.request("GET", "/api/v1/namespaces/default/pods").json["items"]
        assert not here_pods
        since = f"watch=true&timeoutSeconds=180&resourceVersion={before}"
        assert any(event["type"] == "DELETED" for event in east.client.watch(f"{PATHS['Job']}?{since}"))
        assert (here.stop(), east.stop()) == (0, 0)
