"""A small cluster for stories of jobs: the real kinds on a memory store, the reconciler, and time that is told.

The test plays the scheduler, which admits and evicts workloads, and the controller of Jobs, which makes their pods.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from muster.apiserver.admission.jobs import JobAdmission, stored_in
from muster.app.kinds import catalog
from muster.app.plugins import job_kinds
from muster.controllers import lifecycle, places
from muster.controllers.events import EVENTS
from muster.controllers.feed import Feed
from muster.controllers.jobs import Jobs, indexes, resources
from muster.controllers.lifecycle import Lifecycle
from muster.controllers.loop import Loop
from muster.controllers.view import View
from muster.dialects.kueue.job_admission import JobRules
from muster.dialects.kueue.job_steps import WORKLOADS
from muster.dialects.kueue.lifecycle import LifecycleRules
from muster.model.times import moment_text
from muster.store.aio import AsyncStore
from muster.store.client import PlainClient
from muster.store.clock import VirtualClock
from muster.store.errors import NotFound, Unavailable
from muster.store.identities import Identities
from muster.store.kinds import Object
from muster.store.memory import MemoryStore
from muster.store.objects import Objects, Part, decode
from muster.store.records import Key, Scope
from tests.controllers.cluster import CheckedClient
from tests.store.kinds import START_S

JOBS, PODS, FLAVORS = "jobs.batch", "pods", "resourceflavors.kueue.x-k8s.io"
QUEUES = "localqueues.kueue.x-k8s.io"
RULES = catalog().rules
KINDS = tuple(job_kinds().values())
KUEUE = "kueue.x-k8s.io/v1beta2"
QUEUE = "kueue.x-k8s.io/queue-name"
TRIED_AGAIN_S = 5.0  # a write that lost against another is tried again sooner
SETTLED_WITHIN = 200  # rounds after which a story that goes on is a mistake


class Mortal(CheckedClient):
    """Writes of a controller that dies at one of them: before it is made, or right after."""

    def __init__(self, store: AsyncStore, objects: Objects) -> None:
        super().__init__(store, objects, "jobs")
        self.writes = 0
        self.dies_at = -1
        self.dies_after = False
        self.is_dead = False

    async def _made(self, write: Any) -> Object:
        is_last = self.writes == self.dies_at
        self.writes += 1
        if self.is_dead or (is_last and not self.dies_after):
            self.is_dead = True
            write.close()
            raise Unavailable("the process is gone")
        made = await write
        if is_last:
            self.is_dead = True
            raise Unavailable("the process is gone")
        return made


class World:
    """The cluster of one story."""

    def __init__(self, seed: int = 0, rules: JobRules | None = None) -> None:
        self.clock = VirtualClock(START_S)
        self.store = MemoryStore(self.clock)
        self.front = AsyncStore(self.store, pace_s=0)
        self.objects = Objects(RULES, self.clock, identities=Identities(Random(seed)), has_namespaces=False)
        self.rules = rules or JobRules()
        self.admission = JobAdmission(stored_in(self.store), KINDS, self.rules)
        self.client = Mortal(self.front, self.objects)
        self.plain = PlainClient(self.front, self.objects, "tests")
        self.tasks: list[asyncio.Task[None]] = []
        self.haste: Random | None = None  # None: one thing after the other
        self.start()

    def start(self) -> None:
        """Run a reconciler that knows nothing yet."""
        view = View({**indexes(KINDS), **places.INDEXES, **lifecycle.INDEXES})
        followed = resources(KINDS) | lifecycle.RESOURCES
        feed = Feed(self.front, view, self.clock, resources=followed)
        jobs = Jobs(KINDS, self.rules)
        controllers = (jobs, Lifecycle(jobs, LifecycleRules()))
        self.loops = [Loop(one, feed, self.client, self.clock) for one in controllers]
        self.tasks = [asyncio.create_task(one.run()) for one in (feed, *self.loops)]

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    @property
    def events(self) -> list[str]:
        """What was told, in the order in which it was said first."""
        found = sorted(self.store.page(Scope(EVENTS)).records, key=lambda one: one.created)
        told = [decode(one) for one in found]
        return [f"{one['involvedObject']['name']} {one['reason']}: {one['message']}" for one in told]

    async def pause(self) -> None:
        """After something was done: until all have dealt with it, or in haste until some may have begun to."""
        if self.haste is None:
            await self.settle()
        else:
            for _ in range(self.haste.randrange(15)):
                await asyncio.sleep(0)

    async def settle(self) -> None:
        """Until nobody has anything to do; a reconciler that has died is started anew."""
        quiet = 0
        for _ in range(SETTLED_WITHIN):
            if quiet == 2:
                return
            for _ in range(20):
                await asyncio.sleep(0)
            if self.client.is_dead:
                await self.stop()
                self.client.is_dead, self.client.dies_at = False, -1
                self.start()
                quiet = 0
            quiet = quiet + 1 if all(loop.is_idle for loop in self.loops) else 0
            due_s = self.clock.next_due_s()
            if due_s is not None and due_s - self.clock.monotonic_s() < TRIED_AGAIN_S:
                self.clock.advance_to(due_s)
                quiet = 0
        raise AssertionError(f"the reconciler does not come to rest: {self.events[-5:]}")

    # Objects -----------------------------------------------------------------------------------------------------

    def get(self, resource: str, name: str, namespace: str = "team") -> Object | None:
        try:
            return decode(self.store.get(Key(resource, namespace, name)))
        except NotFound:
            return None

    def job(self, name: str = "train") -> Object:
        found = self.get(JOBS, name)
        assert found is not None
        return found

    def workloads(self) -> list[Object]:
        return [decode(record) for record in self.store.page(Scope(WORKLOADS)).records]

    def workload(self) -> Object:
        (found,) = self.workloads()
        return found

    async def create(self, resource: str, given: Object) -> Object:
        """As a user does."""
        made = await self.plain.create(resource, self.admission.complete_new(resource, given))
        await self.pause()
        return made

    async def change(self, resource: str, name: str, **spec: Any) -> Object:
        """Change fields of a spec, as a user does."""
        before = self.get(resource, name)
        assert before is not None
        after = {**before, "spec": {**before["spec"], **spec}}
        self.admission.check(resource, after, self.store.get(Key(resource, "team", name)))
        made = await self.plain.update(Key(resource, "team", name), after)
        await self.pause()
        return made

    async def delete(self, resource: str, name: str) -> None:
        await self.plain.delete(Key(resource, "team", name))
        await self.pause()

    # The scheduler -----------------------------------------------------------------------------------------------

    async def set_status(self, workload: Object, **status: Any) -> None:
        key = Key(WORKLOADS, "team", workload["metadata"]["name"])
        await self.plain.update(key, {**workload, "status": {**(workload.get("status") or {}), **status}}, Part.STATUS)
        await self.pause()

    async def admit(self, count: int | None = None, **assignment: Any) -> None:
        workload = self.workload()
        (pod_set,) = workload["spec"]["podSets"]
        given = {"name": pod_set["name"], "count": count or pod_set["count"], "flavors": {"cpu": "spot"}, **assignment}
        given["resourceUsage"] = {"cpu": str(given["count"])}
        conditions = self.conditions(workload, QuotaReserved="True", Admitted="True", Evicted="False")
        admission = {"clusterQueue": "all", "podSetAssignments": [given]}
        await self.set_status(workload, admission=admission, conditions=conditions)

    async def evict(self, reason: str = "Preempted", message: str = "Preempted for another") -> None:
        workload = self.workload()
        evicted = self.conditions(workload, Evicted="True")
        evicted[-1] |= {"reason": reason, "message": message}
        await self.set_status(workload, conditions=evicted)

    def conditions(self, workload: Object, **wanted: str) -> list[Object]:
        left = [one for one in (workload.get("status") or {}).get("conditions") or () if one["type"] not in wanted]
        stamp = {"message": "", "lastTransitionTime": moment_text(self.clock.now_s())}
        return [*left, *({"type": name, "status": value, "reason": name, **stamp} for name, value in wanted.items())]

    # The controller of Jobs --------------------------------------------------------------------------------------

    async def run_jobs(self, **more: Any) -> None:
        """Let all Jobs have the pods that they ask for, or none while they are suspended."""
        for record in self.store.page(Scope(JOBS)).records:
            job = decode(record)
            status = {**(job.get("status") or {}), **more}
            if job["spec"].get("suspend"):
                status |= {"active": 0, "ready": 0}
            else:
                count = job["spec"]["parallelism"] - status.get("succeeded", 0)
                status |= {"active": count, "startTime": status.get("startTime") or moment_text(self.clock.now_s())}
            await self.plain.update(record.key, {**job, "status": status}, Part.STATUS)
        await self.pause()


def a_job(name: str = "train", queue: str = "main", annotations: Any = None, **spec: Any) -> Object:
    """A job of three pods with a queue."""
    container = {"name": "main", "image": "example.com/train:1", "resources": {"requests": {"cpu": "1"}}}
    pod = {"restartPolicy": "Never", "containers": [container], **spec.pop("pod", {})}
    template = {"metadata": {"labels": {"app": "train"}}, "spec": pod}
    metadata = {"name": name, "namespace": "team", "labels": {QUEUE: queue} if queue else {}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "annotations": annotations or {}},
        "spec": {"parallelism": 3, "completions": 3, "template": template, **spec},
    }


def a_pod(name: str = "one", queue: str = "main") -> Object:
    """A plain pod with a queue."""
    metadata = {"name": name, "namespace": "team", "labels": {QUEUE: queue} if queue else {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "example.com/serve:1"}]},
    }


def a_flavor(name: str = "spot") -> Object:
    """A class of nodes that are labelled and tainted."""
    toleration = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
    spec = {"nodeLabels": {"instance": "spot"}, "tolerations": [toleration]}
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def a_queue(name: str = "main") -> Object:
    """The queue that jobs wait in."""
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": "all"}}


def status_of(obj: Object, name: str) -> tuple[str, str]:
    """Status and reason of a condition; empty where it is absent."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next(((one["status"], one["reason"]) for one in conditions if one["type"] == name), ("", ""))
