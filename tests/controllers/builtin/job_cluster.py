"""A cluster in memory: all kinds with their rules, the controllers of jobs, garbage collection, and time on demand.

Used by the tests of those controllers. A test plays the nodes by writing the statuses of pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from copy import deepcopy
from random import Random
from typing import Any

from muster.app.kinds import catalog
from muster.controllers.builtin.jobs import JOB_CONTROLLERS, JOB_INDEXES, JOB_RESOURCES
from muster.controllers.feed import Feed
from muster.controllers.loop import Loop
from muster.controllers.tidying import Tidying
from muster.controllers.view import View
from muster.model.times import moment_text
from muster.store.aio import AsyncStore
from muster.store.client import Client, PlainClient
from muster.store.clock import VirtualClock
from muster.store.errors import NotFound
from muster.store.identities import Identities
from muster.store.memory import MemoryStore
from muster.store.objects import Objects, Part, decode
from muster.store.records import Key, Scope
from muster.store.rules import Deletion

Json = dict[str, Any]
START_S = 1_700_000_000.0  # 2023-11-14T22:13:20Z
PODS, JOBS, CRON_JOBS, EVENTS = "pods", "jobs.batch", "cronjobs.batch", "events"
RULES = catalog().rules
_TURNS = 40  # of the event loop, after which whoever can do something has


class Controllers:
    """One life of the controllers."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self._client = client
        feed = Feed(cluster.front, View(JOB_INDEXES), cluster.clock, resources=JOB_RESOURCES)
        self.loops = [Loop(make(), feed, client, cluster.clock) for make in JOB_CONTROLLERS]
        self.tasks = [asyncio.create_task(one.run()) for one in (feed, *self.loops)]

    @property
    def is_idle(self) -> bool:
        is_dead = getattr(self._client, "is_dead", False)  # whoever has died waits for ever
        return is_dead or all(one.is_idle for one in self.loops)

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class Cluster:
    """The store and everybody who works on it."""

    def __init__(self, seed: int = 0, start_s: float = START_S) -> None:
        self.clock = VirtualClock(start_s)
        self.store = MemoryStore(self.clock)
        self.front = AsyncStore(self.store, pace_s=0)
        self.objects = Objects(RULES, self.clock, identities=Identities(Random(seed)), has_namespaces=False)
        self.client = PlainClient(self.front, self.objects, "tests")
        self._tidying = Tidying(self.front, self.objects, self.clock)
        self._collector = asyncio.create_task(self._tidying.run())
        self.controllers: Controllers | None = None

    def start(self, client: Client | None = None) -> Controllers:
        """Begin a life of the controllers."""
        self.controllers = Controllers(self, client or self.client)
        return self.controllers

    async def close(self) -> None:
        if self.controllers is not None:
            await self.controllers.stop()
        self._collector.cancel()
        await asyncio.gather(self._collector, return_exceptions=True)

    async def settle(self) -> None:
        """Let everybody work until there is nothing to do but wait; time passes only for what failed."""
        for _ in range(1_000):
            revision = self.store.revision
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            is_idle = self.controllers is None or self.controllers.is_idle
            if revision == self.store.revision and is_idle:
                return
        raise AssertionError("the controllers do not come to rest")

    async def wait(self, seconds: float) -> None:
        """Let time pass, with everybody at work."""
        end_s = self.clock.monotonic_s() + seconds
        await self.settle()
        while (due_s := self.clock.next_due_s()) is not None and due_s <= end_s:
            self.clock.advance_to(due_s)
            await self.settle()
        self.clock.advance_to(end_s)
        await self.settle()

    # Objects ---------------------------------------------------------------------------------------------------------

    async def apply(self, *given: Json) -> None:
        """Make objects, and let the controllers work."""
        for one in given:
            resource = {"Job": JOBS, "CronJob": CRON_JOBS, "Pod": PODS}[one["kind"]]
            await self.client.create(resource, one)
        await self.settle()

    def get(self, resource: str, name: str) -> Json | None:
        try:
            return decode(self.store.get(Key(resource, "x", name)))
        except NotFound:
            return None

    def all(self, resource: str) -> list[Json]:
        return [decode(record) for record in self.store.page(Scope(resource)).records]

    async def change(self, resource: str, name: str, **spec: Any) -> None:
        """Change fields of an object's spec, and let the controllers work."""
        found = self.get(resource, name)
        assert found is not None, f"{resource} {name} is not there"
        await self.client.update(Key(resource, "x", name), {**found, "spec": {**found["spec"], **spec}})
        await self.settle()

    async def delete(self, resource: str, name: str, deletion: Deletion | None = None) -> None:
        """Ask to delete an object, and let the controllers work."""
        await self.client.delete(Key(resource, "x", name), deletion or Deletion())
        await self.settle()

    async def play(self, name: str, status: Json) -> None:
        """Be the node of a pod: write its status."""
        pod = self.get(PODS, name)
        assert pod is not None, f"there is no pod {name}"
        await self.client.update(Key(PODS, "x", name), {**pod, "status": {**pod["status"], **status}}, Part.STATUS)

    async def bind(self, name: str) -> None:
        """Put a pod on a node."""
        key, pod = Key(PODS, "x", name), self.get(PODS, name)
        assert pod is not None, f"there is no pod {name}"
        new = {**pod, "spec": {**pod["spec"], "nodeName": "n"}}
        await self.front.write(lambda write: self.objects.settle(write, key, new))

    async def relabel(self, name: str, labels: dict[str, str | None]) -> None:
        """Change labels of a pod; `None` takes one away."""
        pod = self.get(PODS, name)
        assert pod is not None, f"there is no pod {name}"
        merged = {**pod["metadata"].get("labels", {}), **labels}
        kept = {label: value for label, value in merged.items() if value is not None}
        await self.client.update(Key(PODS, "x", name), {**pod, "metadata": {**pod["metadata"], "labels": kept}})

    async def end(self, names: Iterable[str], code: int = 0) -> None:
        """Have pods end with an exit code, and let the controllers work."""
        for name in names:
            await self.play(name, ended(code, self.clock.now_s()))
        await self.settle()


def ended(code: int, now_s: float) -> Json:
    """The status of a pod whose only container has ended."""
    terminated = {"exitCode": code, "finishedAt": moment_text(now_s), "reason": "Error" if code else "Completed"}
    state = {"name": "main", "state": {"terminated": terminated}, "image": "i", "imageID": "i", "ready": False}
    container = {**state, "restartCount": 0}
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": [container]}


def a_job(name: str = "j", **spec: Any) -> Json:
    """A job with one container; further fields of its spec by name."""
    spec = deepcopy(spec)  # whoever writes it completes it
    pod = {"restartPolicy": spec.pop("restart", "Never"), "containers": [{"name": "main", "image": "i"}]}
    template = {"metadata": spec.pop("pods", {}), "spec": {**pod, **spec.pop("pod", {})}}
    metadata = {"name": name, "namespace": "x"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template, **spec}}


def a_cron_job(name: str = "c", **spec: Any) -> Json:
    """A cron job that starts such jobs; `job` has fields of their spec, `labels` and `annotations` are theirs too."""
    described = {part: spec.pop(part) for part in ("labels", "annotations") if part in spec}
    template = {"metadata": deepcopy(described), "spec": a_job(**spec.pop("job", {}))["spec"]}
    given = {"schedule": "*/5 * * * *", "jobTemplate": template, **spec}
    metadata = {"name": name, "namespace": "x"}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": given}


def a_pod(name: str, labels: dict[str, str]) -> Json:
    """A pod that belongs to nobody."""
    metadata = {"name": name, "namespace": "x", "labels": labels}
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def names_of(objects: Iterable[Json]) -> list[str]:
    return [one["metadata"]["name"] for one in objects]
