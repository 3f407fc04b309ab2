"""Several clusters in simulated time: one that sends workloads, others that run them. Used by tests of multikueue."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from muster.app.config import Configuration
from muster.app.job_control import job_indexes
from muster.app.node_pools import pools_of
from muster.app.plugins import job_kinds
from muster.app.simulation import Among, simulated_world
from muster.controllers.feed import Feed
from muster.controllers.multikueue.parts import sent_kinds
from muster.controllers.multikueue.sender import CLUSTER_QUEUES, LOCAL_QUEUES
from muster.controllers.view import View
from muster.dialects.kueue.names import GROUP, MULTIKUEUE
from muster.sim.world import World
from muster.store.aio import AsyncStore
from muster.store.client import PlainClient
from muster.store.errors import Unavailable
from muster.store.kinds import Object
from muster.store.objects import PLAINLY, Part
from muster.store.records import Key
from muster.store.rules import Deletion

KUEUE = f"{GROUP}/v1beta2"
WORKLOADS, JOBS = f"workloads.{GROUP}", "jobs.batch"
QUEUE = f"{GROUP}/queue-name"
FOLLOWED = {WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES, *(kind.resource for kind in sent_kinds(job_kinds().values()))}


def an_object(kind: str, name: str, spec: Any, *, api: str = KUEUE, **metadata: Any) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def a_job(name: str, *, pods: int = 1, run_s: int = 60, **annotations: str) -> Object:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"sim.muster.dev/run-time": f"{run_s}s"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template}
    labels = {QUEUE: "main"}
    return an_object("Job", name, spec, api="batch/v1", namespace="default", labels=labels, annotations=annotations)


def queues(cpu: int, *checks: str) -> list[Object]:
    """A queue of so many CPUs, whose workloads have checks to pass."""
    resources = [{"name": "cpu", "nominalQuota": str(cpu)}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}
    spec: Object = {"namespaceSelector": {}, "resourceGroups": [group]}
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    return [
        an_object("ResourceFlavor", "default", {}),
        an_object("ClusterQueue", "main", spec),
        an_object("LocalQueue", "main", {"clusterQueue": "main"}, namespace="default"),
    ]


def sending(*clusters: str) -> list[Object]:
    """A check that sends workloads to some clusters."""
    parameters = {"apiGroup": GROUP, "kind": "MultiKueueConfig", "name": "all"}
    source = {"kubeConfig": {"location": "somewhere", "locationType": "Secret"}}
    return [
        an_object("AdmissionCheck", "elsewhere", {"controllerName": MULTIKUEUE, "parameters": parameters}),
        an_object("MultiKueueConfig", "all", {"clusters": list(clusters)}),
        *(an_object("MultiKueueCluster", name, {"clusterSource": source}) for name in clusters),
    ]


class ShakyClient(PlainClient):
    """Writes that fail while the cluster is away, and at times without anybody knowing whether they were made."""

    def __init__(self, worker: Worker, store: AsyncStore) -> None:
        super().__init__(store, worker.world.objects, "multikueue", complete=worker.world.complete)
        self._worker = worker

    async def create(self, resource: str, given: Object) -> Object:
        self._worker.check()
        return self._worker.answer(await super().create(resource, given))

    async def update(self, key: Key, given: Object, part: Part = Part.MAIN) -> Object:
        self._worker.check()
        return self._worker.answer(await super().update(key, given, part))

    async def delete(self, key: Key, deletion: Deletion = PLAINLY) -> Object:
        self._worker.check()
        return self._worker.answer(await super().delete(key, deletion))


class MemoryRemote:
    """An open connection to a simulated cluster."""

    def __init__(self, worker: Worker) -> None:
        world = worker.world
        store = AsyncStore(world.network.connect("manager"), pace_s=0)
        view = View(job_indexes(Configuration()), store.readings)
        self.feed = Feed(store, view, world.clock, resources=FOLLOWED)
        self.client = ShakyClient(worker, store)
        self._worker = worker

    async def run(self) -> None:
        await self.feed.run()

    async def ready(self) -> None:
        """A feed of a store in memory knows everything at once."""

    async def probe(self) -> None:
        self._worker.check()


class Worker:
    """A cluster that runs what it is sent."""

    def __init__(self, name: str, world: World, chance: Random) -> None:
        self.name = name
        self.world = world
        self.is_away = False
        self.lost_answers = 0.0  # the share of writes whose answer does not arrive
        self._chance = chance

    def check(self) -> None:
        if self.is_away:
            raise Unavailable(f"{self.name} does not answer")

    def answer(self, kept: Object) -> Object:
        if self._chance.random() < self.lost_answers:
            raise Unavailable("the answer was lost")
        return kept


class Worlds:
    """A cluster that sends, and those that it sends to."""

    def __init__(self, *, seed: int = 0, cpus: tuple[int, ...] = (4, 4, 4), configuration: Configuration | None = None):
        self.chance = Random(f"{seed}/worlds")
        self.workers: dict[str, Worker] = {}
        self.here = simulated_world((), seed=seed, configuration=configuration, among=Among(open_=self._open))
        for number, cpu in enumerate(cpus, 1):
            pools = pools_of({"pools": [{"name": "cpu", "count": 1, "capacity": {"cpu": str(cpu)}}]})
            world = simulated_world(pools, seed=seed * 10 + number, among=Among(beside=self.here))
            for one in queues(cpu):
                world.create(one)
            self.workers[f"worker{number}"] = Worker(f"worker{number}", world, self.chance)
        for one in (*queues(1_000, "elsewhere"), *sending(*self.workers)):
            self.here.create(one)
        self.here.settle()

    def close(self) -> None:
        for worker in self.workers.values():
            worker.world.stop()
        self.here.close()

    def run(self, for_s: float) -> None:
        self.here.run(for_s)
        for worker in self.workers.values():
            worker.world.settle()

    def run_until(self, holds: Callable[[], bool], within_s: float = 3_600.0) -> None:
        self.here.run_until(holds, within_s=within_s)

    @property
    def jobs(self) -> list[Object]:
        return self.here.all(JOBS)

    def are_done(self) -> bool:
        return all(is_finished(one) for one in self.here.all(WORKLOADS)) and bool(self.here.all(WORKLOADS))

    def running(self) -> Counter[str]:
        """In how many clusters that can be reached pods of each job run."""
        found: Counter[str] = Counter()
        for worker in self.workers.values():
            if worker.is_away:
                continue
            pods = [one for one in worker.world.all("pods") if (one.get("status") or {}).get("phase") == "Running"]
            found.update({one["metadata"]["labels"]["job-name"] for one in pods})
        return found

    @asynccontextmanager
    async def _open(self, cluster: Object) -> AsyncIterator[MemoryRemote]:
        worker = self.workers[cluster["metadata"]["name"]]
        worker.check()
        yield MemoryRemote(worker)


def is_finished(workload: Object) -> bool:
    return condition(workload, "Finished").get("status") == "True"


def condition(obj: Object, name: str) -> Object:
    found = (one for one in (obj.get("status") or {}).get("conditions") or () if one["type"] == name)
    return next(found, {})
