"""Several `muster manage` processes beside one control plane, that come and go. Used by the tests of take-overs."""

from __future__ import annotations

import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.kubernetes.plane import STOP_S, Plane

Json = dict[str, Any]
PATIENCE_S = 300  # a machine that is busy with other things takes its time
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUES = f"{KUEUE}/clusterqueues"
WORKLOADS = f"{KUEUE}/namespaces/default/workloads"
DONE_AT = "2030-01-31T12:00:00Z"
NODES_FILE = "pools: [{name: cpu, count: 3, capacity: {cpu: '8'}}]\n"


class Manager:
    """One process."""

    def __init__(self, plane: Plane, folder: Path, *arguments: str) -> None:
        nodes = folder / "nodes.yaml"
        nodes.write_text(NODES_FILE)
        self.log = folder / f"manager-{time.monotonic_ns()}.log"
        command = [sys.executable, "-m", "muster.cli.main", "manage", "--kubeconfig", str(plane.kubeconfig)]
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [*command, "--simulated-nodes", str(nodes), *arguments], stdout=subprocess.PIPE, stderr=log
            )

    def wait_until_acting(self) -> float:
        """Wait until it has begun to act; gives when that was."""
        assert self._process.stdout is not None, "it is piped"
        ready, _, _ = select.select([self._process.stdout], [], [], PATIENCE_S)
        line = self._process.stdout.readline() if ready else b""
        assert line.startswith(b"Muster manages"), f"it does not act: {self.told()}"
        return time.monotonic()

    def wait_until_standing(self) -> None:
        """Wait until it has seen who leads, and has said so."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not any(word in self.told() for word in ("waits for", "leads, and")):
            assert time.monotonic() < deadline_s and self._process.poll() is None, self.told()
            select.select([], [], [], 0.05)

    def told(self) -> str:
        return self.log.read_text()[-4000:]

    def kill(self) -> None:
        """End it without a word, as a machine does that dies."""
        self._process.kill()
        self._process.communicate()

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self._process.terminate()
        try:
            self._process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def close(self) -> None:
        """Have it be gone, whatever it does."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.communicate(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                self.kill()


@contextmanager
def managers(plane: Plane, folder: Path) -> Iterator[Callable[..., Manager]]:
    """A way to start managers, which are all gone at the end."""
    with ExitStack() as running:

        def start(*arguments: str) -> Manager:
            made = Manager(plane, folder, *arguments)
            running.callback(made.close)
            return made

        yield start


def queue(name: str, cpus: int) -> list[Json]:
    """A cluster queue that admits in order, with its flavor and its local queue."""
    flavor = {"name": name, "resources": [{"name": "cpu", "nominalQuota": cpus}]}
    group = {"coveredResources": ["cpu"], "flavors": [flavor]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group], "queueingStrategy": "StrictFIFO"}
    return [
        _object("ResourceFlavor", name, {}),
        _object("ClusterQueue", name, spec),
        _object("LocalQueue", name, {"clusterQueue": name}, namespace="default"),
    ]


def workload(name: str, queue_name: str, *, cpus: int, priority: int = 0) -> Json:
    """A workload that no job stands behind: what becomes of it is the manager's doing alone."""
    container = {"name": "main", "image": "example.com/work:1", "resources": {"requests": {"cpu": str(cpus)}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    pod_sets = [{"name": "main", "count": 1, "template": template}]
    spec = {"queueName": queue_name, "podSets": pod_sets, "priority": priority}
    return _object("Workload", name, spec, namespace="default")


def _object(kind: str, name: str, spec: Json, **metadata: str) -> Json:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def create(plane: Plane, *objects: Json) -> None:
    """Add objects as the administrator does."""
    for one in objects:
        metadata = one["metadata"]
        within = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
        answer = plane.client.request("POST", f"{KUEUE}{within}/{one['kind'].lower()}s", one)
        assert answer.status == 201, answer.body


def wait_for(plane: Plane, path: str, holds: Callable[[dict[str, Json]], bool]) -> dict[str, Json]:
    """Follow some objects until something holds of all of them, by name; gives them then."""
    found: dict[str, Json] = {}
    client = replace(plane.client, timeout_s=2.0 * PATIENCE_S)
    for event in client.watch(f"{path}?watch=1&timeoutSeconds={PATIENCE_S}"):
        one = event["object"]
        found[one["metadata"]["name"]] = one
        if event["type"] == "DELETED":
            del found[one["metadata"]["name"]]
        if holds(found):
            return found
    raise AssertionError(f"it did not come to that: {sorted(found)}")


def finish(plane: Plane, name: str) -> None:
    """Say of a workload that its work is done, as the controller of a job does."""
    done = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": DONE_AT}
    given = {**_object("Workload", name, {}), "status": {"conditions": [done]}}
    del given["spec"]
    path = f"{WORKLOADS}/{name}/status?fieldManager=driver&force=true"
    answer = plane.client.request("PATCH", path, given, content_type="application/apply-patch+yaml")
    assert answer.status == 200, answer.body


def is_reserved(one: Json) -> bool:
    """Whether a workload has quota, or had it to its end."""
    return _has_condition(one, "QuotaReserved")


def is_finished(one: Json) -> bool:
    """Whether a workload is done."""
    return _has_condition(one, "Finished")


def _has_condition(one: Json, kind: str) -> bool:
    conditions = one.get("status", {}).get("conditions") or ()
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)
