"""Three real control planes: one sends jobs to two others, of which one is lost in the middle. All end, none twice.

`make prove` with MUSTER_KUBERNETES=1 sends 200 jobs; else a few show that it goes that way.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.kubernetes.managed import managed, with_definitions
from tests.kubernetes.plane import Plane, started
from tests.support import is_full_proof

Json = dict[str, Any]
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
WORKLOADS = f"{KUEUE}/namespaces/default/workloads"
JOBS_SENT = 200 if is_full_proof() else 12
WAIT_S = 1_800
NODES = 'pools: [{name: cpu, count: 2, startTime: 0s, runTime: "uniform(1s,4s)"}]'
CONFIGURATION = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
multiKueue: {workerLostTimeout: 5s}
"""


def kubeconfig(plane: Plane) -> bytes:
    """The administrator's, which stands for itself."""
    authority = base64.b64encode(plane.ca_file.read_bytes()).decode()
    return json.dumps(
        {
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": plane.url, "certificate-authority-data": authority}}],
            "users": [{"name": "it", "user": {"token": plane.token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        }
    ).encode()


def an_object(kind: str, name: str, spec: Json, **metadata: Any) -> Json:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def create(plane: Plane, path: str, *objects: Json) -> None:
    for one in objects:
        answer = plane.client.request("POST", path, one)
        assert answer.status == 201, answer.json


def with_queue(plane: Plane, cpu: int, *checks: str) -> None:
    quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]}
    spec: Json = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    create(plane, f"{KUEUE}/resourceflavors", an_object("ResourceFlavor", "default", {}))
    create(plane, f"{KUEUE}/clusterqueues", an_object("ClusterQueue", "main", spec))
    local = an_object("LocalQueue", "main", {"clusterQueue": "main"}, namespace="default")
    create(plane, f"{KUEUE}/namespaces/default/localqueues", local)


def sending_to(plane: Plane, workers: dict[str, Plane]) -> None:
    """Have a plane send its workloads to others."""
    create(plane, "/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
    for name, worker in workers.items():
        data = {"kubeconfig": base64.b64encode(kubeconfig(worker)).decode()}
        create(plane, "/api/v1/namespaces/kueue-system/secrets", {"metadata": {"name": name}, "data": data})
        source = {"clusterSource": {"kubeConfig": {"location": name, "locationType": "Secret"}}}
        create(plane, f"{KUEUE}/multikueueclusters", an_object("MultiKueueCluster", name, source))
    create(plane, f"{KUEUE}/multikueueconfigs", an_object("MultiKueueConfig", "all", {"clusters": list(workers)}))
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    check = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
    create(plane, f"{KUEUE}/admissionchecks", an_object("AdmissionCheck", "elsewhere", check))
    with_queue(plane, 1_000, "elsewhere")


def a_job(number: int) -> Json:
    """A job as the webhooks would store it."""
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    anywhere = [{"operator": "Exists"}]
    pod = {"restartPolicy": "Never", "containers": [container], "schedulerName": "muster", "tolerations": anywhere}
    labels = {"kueue.x-k8s.io/queue-name": "main"}
    spec = {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "template": {"spec": pod}}
    return {"metadata": {"name": f"train-{number}", "labels": labels}, "spec": spec}


@contextmanager
def a_worker(folder: Path) -> Iterator[Plane]:
    """A whole cluster with Muster and nodes that are played."""
    folder.mkdir()
    (folder / "nodes.yaml").write_text(NODES)
    with started(folder, has_controllers=True) as plane:
        with_definitions(plane)
        with_queue(plane, 8)
        with managed(plane, folder, "--no-leader-elect", "--simulated-nodes", str(folder / "nodes.yaml")):
            yield plane


def follow(plane: Plane, path: str, is_enough: Callable[[Json], bool]) -> None:
    """Follow the objects of a path until it is enough."""
    client = replace(plane.client, timeout_s=WAIT_S)
    for event in client.watch(f"{path}?watch=true&timeoutSeconds={WAIT_S}"):
        if is_enough(event):
            return
    raise AssertionError(f"nothing more came of {path}")


class Made:
    """How often jobs of each name were made in a cluster, from a thread that ends with it."""

    def __init__(self, plane: Plane) -> None:
        self.counts: Counter[str] = Counter()
        self._plane = plane
        self._thread = Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        client = replace(self._plane.client, timeout_s=WAIT_S)
        try:
            for event in client.watch(f"{JOBS}?watch=true&timeoutSeconds={WAIT_S}"):
                if event["type"] == "ADDED":
                    self.counts[event["object"]["metadata"]["name"]] += 1
        except OSError:
            return  # its server has ended


class Finished:
    """Where each job was when it ended, as the sending cluster has it."""

    def __init__(self, most: int) -> None:
        self.where: dict[str, str] = {}
        self._most = most

    def __call__(self, event: Json) -> bool:
        workload = event["object"]
        conditions = (workload.get("status") or {}).get("conditions") or ()
        if any(one["type"] == "Finished" and one["status"] == "True" for one in conditions):
            (owner,) = workload["metadata"]["ownerReferences"]
            self.where[owner["name"]] = workload["status"]["clusterName"]
        return len(self.where) >= self._most


@pytest.mark.usefixtures("real_program")
def test_a_cluster_is_lost_in_the_middle(tmp_path: Path):
    (tmp_path / "here").mkdir()
    (tmp_path / "kueue.yaml").write_text(CONFIGURATION)
    with ExitStack() as running, ExitStack() as mortal:
        here = running.enter_context(started(tmp_path / "here"))
        east = running.enter_context(a_worker(tmp_path / "east"))
        west = mortal.enter_context(a_worker(tmp_path / "west"))
        with_definitions(here)
        sending_to(here, {"east": east, "west": west})
        made = {"east": Made(east), "west": Made(west)}
        arguments = ("--no-leader-elect", "--config", str(tmp_path / "kueue.yaml"))
        running.enter_context(managed(here, tmp_path / "here", *arguments))
        create(here, JOBS, *map(a_job, range(JOBS_SENT)))
        early = Finished(JOBS_SENT // 3)
        follow(here, WORKLOADS, early)
        mortal.close()  # in the middle
        late = Finished(JOBS_SENT)
        follow(here, WORKLOADS, late)
        jobs = here.client.request("GET", JOBS).json["items"]
        assert [one["status"].get("succeeded") for one in jobs] == [1] * JOBS_SENT
        assert max(made["east"].counts.values()) == 1
        assert max(made["west"].counts.values()) == 1
        # What was over in the one that was lost was not done again in the other.
        assert not {name for name, where in late.where.items() if where == "west"} & made["east"].counts.keys()
