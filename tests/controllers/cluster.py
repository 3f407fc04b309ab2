"""A cluster for tests of the scheduler: a store in memory, time that passes when nobody is busy, and builders.

The test plays everybody else: it makes workloads, pods and nodes, and lets evicted workloads go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from random import Random
from typing import Any

from muster.apiserver.kinds import BUILTIN
from muster.apiserver.kinds.kueue import KUEUE
from muster.app.config import Configuration
from muster.app.scheduling import Scheduling, scheduling_feed
from muster.controllers.feed import run_together
from muster.engine.invariants import violations
from muster.store.aio import AsyncStore
from muster.store.binding import Binding
from muster.store.client import PlainClient
from muster.store.clock import VirtualClock
from muster.store.errors import NotFound, Unavailable
from muster.store.identities import Identities
from muster.store.kinds import KindRules, Object
from muster.store.memory import MemoryStore
from muster.store.objects import PLAINLY, Objects, Part, decode
from muster.store.records import Key, Scope
from muster.store.rules import Deletion
from tests.store.kinds import START_S

GROUP = "kueue.x-k8s.io"
API = f"{GROUP}/v1beta2"
GPU = "nvidia.com/gpu"
WORKLOADS = f"workloads.{GROUP}"
VOLCANO = {
    resource: KindRules(
        resource=resource, kind=kind, api_version=version, is_namespaced=is_namespaced, has_status=not is_namespaced
    )
    for resource, kind, version, is_namespaced in (
        ("queues.scheduling.volcano.sh", "Queue", "scheduling.volcano.sh/v1beta1", False),
        ("podgroups.scheduling.volcano.sh", "PodGroup", "scheduling.volcano.sh/v1beta1", True),
        ("hypernodes.topology.volcano.sh", "HyperNode", "topology.volcano.sh/v1alpha1", False),
    )
}


class CheckedClient(PlainClient):
    """A client whose writes go through one place, where tests let them fail."""

    async def _made(self, write: Coroutine[Any, Any, Any]) -> Any:
        raise NotImplementedError

    async def create(self, resource: str, given: Object) -> Object:
        return await self._made(super().create(resource, given))

    async def update(self, key: Key, given: Object, part: Part = Part.MAIN) -> Object:
        return await self._made(super().update(key, given, part))

    async def delete(self, key: Key, deletion: Deletion = PLAINLY) -> Object:
        return await self._made(super().delete(key, deletion))

    async def bind(self, binding: Binding) -> int:
        return await self._made(super().bind(binding))


class CountingClient(CheckedClient):
    """A client that can be told to die, before or after a write, or to fail by chance."""

    def __init__(self, store: AsyncStore, objects: Objects) -> None:
        super().__init__(store, objects, "scheduler")
        self.writes = 0
        self.dies_at = -1
        self.is_last_made = False  # whether the write that it dies at is still made
        self.has_died = asyncio.Event()
        self.fails: Callable[[], bool] = lambda: False

    async def _made(self, write: Coroutine[Any, Any, Any]) -> Any:
        self.writes += 1
        is_last = self.writes == self.dies_at
        if is_last and self.is_last_made:
            await write
        elif is_last or self.has_died.is_set() or self.fails():
            write.close()
        else:
            return await write
        if is_last or self.has_died.is_set():
            self.has_died.set()
            await asyncio.Event().wait()
        raise Unavailable("the disk is full")


class Cluster:
    """Everything that a story needs."""

    def __init__(self, configuration: Configuration | None = None, seed: int = 0) -> None:
        self.clock = VirtualClock(START_S)
        self.store = MemoryStore(self.clock)
        self.front = AsyncStore(self.store, pace_s=0)
        rules = {**BUILTIN, **KUEUE, **VOLCANO}
        self.objects = Objects(rules, self.clock, identities=Identities(Random(seed)))
        self.plain = PlainClient(self.front, self.objects, "tests")
        self.configuration = configuration
        self.task: asyncio.Task[None] | None = None

    # Running ---------------------------------------------------------------------------------------------------------

    async def start(self, dies_at: int = -1, *, is_last_made: bool = False) -> None:
        """Start a scheduler that knows nothing."""
        self.client = CountingClient(self.front, self.objects)
        self.client.dies_at, self.client.is_last_made = dies_at, is_last_made
        feed = scheduling_feed(self.front, self.clock)
        self.scheduling = Scheduling(feed, self.client, self.clock, configuration=self.configuration)
        self.task = asyncio.create_task(run_together(feed.run(), *self.scheduling.works()))

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None

    async def settle(self, for_s: float = 0.0) -> None:
        """Let everybody work until nobody has anything to do, and time pass that far."""
        until_s = self.clock.monotonic_s() + for_s
        while True:
            await self._rest()
            due_s = self.clock.next_due_s()
            if due_s is None or due_s > until_s:
                break
            self.clock.advance_to(due_s)
        self.clock.advance_to(until_s)
        await self._rest()
        assert self.task is not None and not self.task.done(), "the scheduler has ended"
        if not self.client.has_died.is_set():
            broken = list(violations(self.scheduling.scheduler.cache.state))
            assert not broken, broken

    async def _rest(self) -> None:
        """Until nothing happens any more."""
        quiet = 0
        while quiet < 20:
            before = (self.store.revision, self.scheduling.is_idle)
            await asyncio.sleep(0)
            is_done = self.scheduling.is_idle or self.client.has_died.is_set()
            quiet = quiet + 1 if is_done and before == (self.store.revision, self.scheduling.is_idle) else 0

    # Objects ---------------------------------------------------------------------------------------------------------

    async def add(self, resource: str, obj: Object) -> Object:
        return await self.plain.create(resource, obj)

    def get(self, resource: str, name: str, namespace: str = "team") -> Object:
        return decode(self.store.get(Key(resource, namespace, name)))

    def all(self, resource: str) -> list[Object]:
        return [decode(record) for record in self.store.page(Scope(resource)).records]

    async def set_status(self, resource: str, name: str, status: Object, namespace: str = "team") -> None:
        obj = self.get(resource, name, namespace)
        obj["status"] = {**(obj.get("status") or {}), **status}
        await self.plain.update(Key(resource, namespace, name), obj, Part.STATUS)

    async def remove(self, resource: str, name: str, namespace: str = "team") -> None:
        try:
            await self.plain.delete(Key(resource, namespace, name), Deletion(grace_s=0))
        except NotFound:
            return

    async def set_up(self, *queues: Object, nodes: Iterable[Object] = ()) -> None:
        """Namespaces, a flavor, queues with their local queues of the same name, and nodes."""
        for name in ("default", "team"):
            await self.add("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        flavor = {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "default"}, "spec": {}}
        await self.add(f"resourceflavors.{GROUP}", flavor)
        for queue in queues:
            await self.add(f"clusterqueues.{GROUP}", queue)
            name = queue["metadata"]["name"]
            local = {"metadata": {"name": name, "namespace": "team"}, "spec": {"clusterQueue": name}}
            await self.add(f"localqueues.{GROUP}", {"apiVersion": API, "kind": "LocalQueue", **local})
        for one in nodes:
            await self.add_node(one)

    async def add_node(self, given: Object) -> None:
        """A node that has become ready: at first each is kept from pods."""
        made = await self.add("nodes", given)
        made["spec"].pop("taints", None)
        await self.plain.update(Key("nodes", "", made["metadata"]["name"]), made)

    async def taint(self, name: str, *taints: Object) -> None:
        """Keep pods from a node."""
        given = self.get("nodes", name, "")
        await self.plain.update(Key("nodes", "", name), {**given, "spec": {**given["spec"], "taints": list(taints)}})

    # What is told ----------------------------------------------------------------------------------------------------

    def conditions(self, name: str, resource: str = WORKLOADS) -> dict[str, tuple[str, str]]:
        status = self.get(resource, name).get("status") or {}
        return {one["type"]: (one["status"], one.get("reason", "")) for one in status.get("conditions") or ()}

    def message(self, name: str, type_: str, resource: str = WORKLOADS) -> str:
        conditions = self.get(resource, name)["status"]["conditions"]
        return next(one["message"] for one in conditions if one["type"] == type_)

    def is_admitted(self, name: str) -> bool:
        return self.conditions(name).get("Admitted", ("", ""))[0] == "True"

    def nodes_of_pods(self) -> dict[str, str]:
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in self.all("pods")}

    async def let_go(self, name: str) -> None:
        """What the jobs' controller does for an evicted workload: its pods leave, and it queues again."""
        for pod in self.all("pods"):
            if (pod["metadata"].get("annotations") or {}).get(f"{GROUP}/workload") == name:
                await self.remove("pods", pod["metadata"]["name"])
        obj = self.get(WORKLOADS, name)
        status = obj["status"]
        status.pop("admission", None)
        for one in status["conditions"]:
            if one["type"] in ("QuotaReserved", "Admitted"):
                one.update(status="False", reason="Pending")
        await self.plain.update(Key(WORKLOADS, "team", name), obj, Part.STATUS)


def queue(name: str, amounts: dict[str, str], *, cohort: str = "", **spec: Any) -> Object:
    """A ClusterQueue with one flavor."""
    resources = [{"name": one, "nominalQuota": amount} for one, amount in amounts.items()]
    group = {"coveredResources": list(amounts), "flavors": [{"name": "default", "resources": resources}]}
    more = {"cohortName": cohort} if cohort else {}
    spec = {"namespaceSelector": {}, "resourceGroups": [group], **more, **spec}
    return {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def node(name: str, *, cpu: str = "8", gpus: int = 0, annotations: dict[str, str] | None = None) -> Object:
    """A node that is ready."""
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}, "annotations": annotations or {}}
    when = "2023-11-14T22:13:20Z"
    ready = {"type": "Ready", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": when}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{**ready, "lastHeartbeatTime": when}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}


def pod_spec(amounts: dict[str, str]) -> Object:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}]}


def _amounts(asked: dict[str, str]) -> dict[str, str]:
    short = {"gpu": GPU, "gpumem": "nvidia.com/gpumem", "gpucores": "nvidia.com/gpucores"}
    return {short.get(one, one): amount for one, amount in (asked or {"cpu": "1"}).items()}


def workload(name: str, queue: str, count: int = 1, *, priority: int = 0, **asked: str) -> Object:
    """A Workload made by hand."""
    template = {"spec": {**pod_spec(_amounts(asked)), "restartPolicy": "Never"}}
    pod_set = {"name": "main", "count": count, "template": template}
    spec = {"queueName": queue, "priority": priority, "podSets": [pod_set]}
    return {"apiVersion": API, "kind": "Workload", "metadata": {"name": name, "namespace": "team"}, "spec": spec}


def pod(name: str, of: str = "", *, priority: int = 0, **asked: str) -> Object:
    """A pod of a workload, or one that stands for itself."""
    notes = {f"{GROUP}/workload": of} if of else {}
    metadata = {"name": name, "namespace": "team", "annotations": notes}
    spec = {**pod_spec(_amounts(asked)), "priority": priority}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
