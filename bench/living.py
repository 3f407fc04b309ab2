"""The living cluster as a process: how soon a job runs, whether cards idle while jobs wait, and what many pods take.

`python -m bench create-to-process many-jobs large-cluster` prints the figures.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.apiserver import CLIENTS, Running, connected, running
from bench.wire import Connection

Json = dict[str, Any]
JOBS = "/apis/batch/v1/namespaces/default/jobs"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{KUEUE}/namespaces/default/workloads"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
WARM_UPS, TRIES = 3, 15
PODS_OF_A_JOB = 3
CPUS_OF_A_NODE = 8
JOBS_ON_THEIR_WAY = 20  # of a large cluster: more would not have their pods within the deadline for gangs
_WATCH_S = 3_600


@contextmanager
def cluster(pools: Json | None = None) -> Iterator[Running]:
    """A server with simulated nodes; without any it has the local one."""
    with tempfile.TemporaryDirectory() as made:
        options: tuple[str, ...] = ()
        if pools is not None:
            file = Path(made) / "nodes.yaml"
            file.write_text(json.dumps(pools))
            options = ("--nodes", str(file), "--no-local-node")
        with running(Path(made) / "state", options) as server:
            yield server


async def add_queue(server: Running, cpus: int) -> None:
    """A queue that has so much."""
    resources = [{"name": "cpu", "nominalQuota": str(cpus)}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "all", "resources": resources}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group]}
    async with connected(server, 1) as (connection,):
        for path, obj in (
            (f"{KUEUE}/resourceflavors", {"metadata": {"name": "all"}}),
            (f"{KUEUE}/clusterqueues", {"metadata": {"name": "all"}, "spec": spec}),
            (f"{KUEUE}/namespaces/default/localqueues", {"metadata": {"name": "all"}, "spec": {"clusterQueue": "all"}}),
        ):
            status, answer = await connection.request("POST", path, json.dumps(obj).encode())
            assert status == 201, answer


async def nodes_are_ready(server: Running, count: int) -> None:
    """Wait until so many nodes take pods."""
    ready: set[str] = set()
    async with connected(server, 1) as (connection,):
        async for line in connection.lines(f"/api/v1/nodes?watch=true&timeoutSeconds={_WATCH_S}"):
            node = json.loads(line)["object"]
            conditions = node.get("status", {}).get("conditions", ())
            is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
            if is_ready and not node["spec"].get("taints"):
                ready.add(node["metadata"]["name"])
            if len(ready) >= count:
                return


def job(name: str, pods: int, *, command: list[str] | None = None, cpu: str = "1") -> Json:
    """A job in the queue."""
    container: Json = {"name": "main", "image": "example.com/train:1", "resources": {"requests": {"cpu": cpu}}}
    if command is not None:
        container["command"] = command
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    metadata = {"name": name, "labels": {QUEUE_LABEL: "all"}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


# How soon a job runs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """From the create to the process, medians of some tries."""

    by_server_s: float  # from when the create was sent
    by_kubectl_s: float | None  # from when kubectl was started, where there is one


def create_to_process() -> Start:
    """How long it takes until a job that fits has its process on the local node."""
    with cluster() as server, tempfile.TemporaryDirectory() as folder:
        asyncio.run(add_queue(server, 8))
        tries = WARM_UPS + TRIES
        by_server = [asyncio.run(_start_s(server, Path(folder), f"server-{number}")) for number in range(tries)]
        kubectl = _kubectl()
        by_kubectl = [
            asyncio.run(_start_s(server, Path(folder), f"kubectl-{number}", kubectl))
            for number in range(tries if kubectl else 0)
        ]
    return Start(
        statistics.median(by_server[WARM_UPS:]), statistics.median(by_kubectl[WARM_UPS:]) if by_kubectl else None
    )


async def _start_s(server: Running, folder: Path, name: str, kubectl: list[str] | None = None) -> float:
    """One job: the process itself says when it began."""
    begun = folder / name
    given = json.dumps(
        job(name, 1, command=["sh", "-c", f"date +%s.%N > {begun}.new; mv {begun}.new {begun}"])
    ).encode()
    async with connected(server, 1) as (connection,):
        created_s = time.time()
        if kubectl is None:
            status, answer = await connection.request("POST", JOBS, given)
            assert status == 201, answer
        else:
            kubeconfig = server.ca_file.parent.parent / "kubeconfig"
            command = [*kubectl, "--kubeconfig", str(kubeconfig), "create", "-f", "-"]
            environment = {**os.environ, "HOME": str(folder)}
            subprocess.run(command, input=given, check=True, capture_output=True, env=environment)
        watch = f"{JOBS}?watch=true&fieldSelector=metadata.name%3D{name}"
        async for line in connection.lines(watch):
            if json.loads(line)["object"].get("status", {}).get("succeeded"):
                break
    return float(begun.read_text()) - created_s


def _kubectl() -> list[str] | None:
    from tests.kubernetes.build import NoControlPlane, older_kubectl

    try:
        return [str(older_kubectl())]
    except NoControlPlane:
        return None


# Whether anything idles ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Idling:
    """Follows workloads: how long it takes at most until one is admitted while one waits that fits."""

    capacity: int
    jobs: int
    waiting: set[str] = field(default_factory=set)
    admitted: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    since_s: float | None = None  # since when somebody fits and nobody was admitted
    longest_s: float = 0.0

    def hear(self, workload: Json, now_s: float) -> None:
        """Take in how a workload stands."""
        name = workload["metadata"]["name"]
        conditions = {one["type"]: one["status"] for one in workload.get("status", {}).get("conditions", ())}
        is_new_start = False
        if conditions.get("Finished") == "True":
            self.finished.add(name)
        elif conditions.get("Admitted") == "True":
            is_new_start = name not in self.admitted
            self.admitted.add(name)
        self.waiting.add(name)
        self.waiting -= self.admitted | self.finished
        fits = bool(self.waiting) and len(self.admitted - self.finished) < self.capacity
        if self.since_s is not None and (is_new_start or not fits):
            self.longest_s = max(self.longest_s, now_s - self.since_s)
            self.since_s = None
        if fits and self.since_s is None:
            self.since_s = now_s

    @property
    def is_over(self) -> bool:
        return len(self.finished) >= self.jobs


@dataclass(frozen=True, slots=True)
class Throughput:
    """What came of many jobs at once."""

    longest_idle_s: float
    took_s: float
    cpu_s: float


def many_jobs(jobs: int = 1_000, nodes: int = 200) -> Throughput:
    """So many jobs of three pods at once, until all of them have finished."""
    pool = {"name": "node", "count": nodes, "capacity": {"cpu": str(CPUS_OF_A_NODE)}, "runTime": "5s"}
    with cluster({"pools": [pool]}) as server:
        asyncio.run(nodes_are_ready(server, nodes))
        return asyncio.run(_many_jobs(server, jobs, nodes * CPUS_OF_A_NODE))


async def _many_jobs(server: Running, jobs: int, cpus: int) -> Throughput:
    await add_queue(server, cpus)
    idling = Idling(cpus // PODS_OF_A_JOB, jobs)
    began_s, began_cpu_s = time.monotonic(), server.cpu_s()
    following = asyncio.create_task(_follow(server, idling))
    await _create_all(server, [job(f"job-{number}", PODS_OF_A_JOB) for number in range(jobs)])
    await following
    return Throughput(idling.longest_s, time.monotonic() - began_s, server.cpu_s() - began_cpu_s)


async def _follow(server: Running, idling: Idling) -> None:
    async with connected(server, 1) as (connection,):
        async for line in connection.lines(f"{WORKLOADS}?watch=true&timeoutSeconds={_WATCH_S}"):
            event = json.loads(line)
            if event["type"] != "DELETED":
                idling.hear(event["object"], time.monotonic())
            if idling.is_over:
                return


async def _create_all(server: Running, given: list[Json]) -> None:
    left = iter(given)
    async with connected(server, CLIENTS) as connections:

        async def create(number: int) -> None:
            for one in left:
                status, answer = await connections[number].request("POST", JOBS, json.dumps(one).encode())
                assert status == 201, answer

        await asyncio.gather(*(create(number) for number in range(CLIENTS)))


# What many pods take -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Size:
    """A big cluster that runs."""

    memory_mb: float  # the most that the server has held
    took_s: float
    cpu_s: float


def large_cluster(nodes: int = 5_000, pods: int = 50_000, *, pods_of_a_job: int = 100) -> Size:
    """A cluster of so many nodes on which so many pods run, all at the same time."""
    pool = {"name": "node", "count": nodes, "capacity": {"cpu": str(2 * pods // nodes)}, "runTime": "24h"}
    with cluster({"pools": [pool]}) as server:
        asyncio.run(nodes_are_ready(server, nodes))
        return asyncio.run(_large_cluster(server, pods, pods_of_a_job))


async def _large_cluster(server: Running, pods: int, pods_of_a_job: int) -> Size:
    await add_queue(server, 2 * pods)
    began_s, began_cpu_s = time.monotonic(), server.cpu_s()
    left = [job(f"job-{number}", pods_of_a_job) for number in range(pods // pods_of_a_job)]
    ready: dict[str, int] = {}
    async with connected(server, 2) as (following, creating):
        await _create(creating, left, JOBS_ON_THEIR_WAY)
        async for line in following.lines(f"{JOBS}?watch=true&timeoutSeconds={_WATCH_S}"):
            obj = json.loads(line)["object"]
            name, before = obj["metadata"]["name"], ready.get(obj["metadata"]["name"], 0)
            ready[name] = obj.get("status", {}).get("ready", 0)
            if before < pods_of_a_job <= ready[name]:
                await _create(creating, left, 1)
            if sum(ready.values()) >= pods:
                break
    status = Path(f"/proc/{server.pids[0]}/status").read_text()
    most_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    return Size(most_kb / 1024, time.monotonic() - began_s, server.cpu_s() - began_cpu_s)


async def _create(connection: Connection, left: list[Json], count: int) -> None:
    """Create some of those that are left."""
    for one in left[:count]:
        status, answer = await connection.request("POST", JOBS, json.dumps(one).encode())
        assert status == 201, answer
    del left[:count]
