"""A cluster in memory for the tests of controllers: the real kinds, time that passes at will, a kubelet by script."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import cache
from random import Random
from typing import Any

from muster.app.kinds import catalog
from muster.controllers.builtin import FOLLOWED, INDEXES
from muster.controllers.feed import Feed
from muster.controllers.loop import Controller, Loop
from muster.controllers.tidying import Tidying
from muster.controllers.view import View
from muster.model.times import moment_text
from muster.store.aio import AsyncStore
from muster.store.client import Client, PlainClient
from muster.store.clock import VirtualClock
from muster.store.errors import Conflict, NotFound
from muster.store.identities import Identities
from muster.store.kinds import KindRules, Object
from muster.store.memory import MemoryStore
from muster.store.objects import Objects, Part, decode
from muster.store.records import Key, Scope
from muster.store.rules import Deletion
from tests.store.kinds import START_S

NAMESPACE = "x"
CLUSTER_WIDE = ("nodes", "persistentvolumes", "storageclasses.storage.k8s.io")
AT_ONCE = Deletion(grace_s=0)


@cache
def rules() -> dict[str, KindRules]:
    """The rules of all kinds; reading them takes a while."""
    return dict(catalog().rules.items())


class Cluster:
    """A store, some controllers, and time that passes when nobody has anything to do."""

    def __init__(
        self,
        controllers: Iterable[Callable[[], Controller]],
        seed: int = 0,
        *,
        wrap: Callable[[Client], Client] | None = None,
        resources: Collection[str] = FOLLOWED,
    ) -> None:
        self.clock = VirtualClock(START_S)
        self.store = MemoryStore(self.clock)
        self.front = AsyncStore(self.store, pace_s=0)
        self.objects = Objects(rules(), self.clock, identities=Identities(Random(seed)), has_namespaces=False)
        self.client = PlainClient(self.front, self.objects, "tests")
        self._controllers = tuple(controllers)
        self._resources = resources
        self._wrap = wrap or (lambda client: client)
        self._tasks: list[asyncio.Task[None]] = []
        self.start()

    def start(self) -> None:
        """Start the controllers, with nothing in their heads."""
        self.view = View(INDEXES)
        feed = Feed(self.front, self.view, self.clock, resources=self._resources)
        client = self._wrap(self.client)
        self.loops = [Loop(make(), feed, client, self.clock) for make in self._controllers]
        tidying = Tidying(self.front, self.objects, self.clock)
        self._tasks = [asyncio.create_task(one.run()) for one in (feed, tidying, *self.loops)]

    async def stop(self) -> None:
        """Stop the controllers, wherever they are."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def settle(self, within_s: float = 0.9) -> None:
        """Let all be done that is due within some time."""
        end_s = self.clock.monotonic_s() + within_s
        while True:
            for _ in range(60):
                await asyncio.sleep(0)
            if not all(loop.is_idle for loop in self.loops) and self.clock.next_due_s() is None:
                continue
            due_s = self.clock.next_due_s()
            if due_s is None or due_s > end_s:
                if all(loop.is_idle for loop in self.loops):
                    return
                continue
            self.clock.advance_to(due_s)

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await self.settle(seconds)
        left_s = seconds
        self.clock.advance(left_s)
        await self.settle()

    # Objects ---------------------------------------------------------------------------------------------------------

    def all(self, resource: str) -> list[Object]:
        return [decode(record) for record in self.store.page(Scope(resource)).records]

    def get(self, resource: str, name: str) -> Object:
        return decode(self.store.get(Key(resource, "" if resource in CLUSTER_WIDE else NAMESPACE, name)))

    async def create(self, resource: str, given: Object) -> Object:
        return await self.client.create(resource, given)

    async def change(self, resource: str, name: str, how: Callable[[Any], None], *, part: Part = Part.MAIN) -> None:
        """Change an object in place."""
        given = self.get(resource, name)
        how(given)
        await self.client.update(Key(resource, given["metadata"].get("namespace", ""), name), given, part)

    async def delete(self, resource: str, name: str, deletion: Deletion = AT_ONCE) -> None:
        await self.client.delete(Key(resource, NAMESPACE, name), deletion)

    async def add_node(self, name: str, **labels: str) -> None:
        """A node that is ready."""
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        kept = await self.create("nodes", node)
        await self.client.update(Key("nodes", "", name), {**kept, "spec": {}})

    # The kubelet -----------------------------------------------------------------------------------------------------

    async def run_pod(self, name: str, *, is_ready: bool = True, phase: str = "Running", ip: str = "") -> None:
        """Have a pod reach a state."""
        now = moment_text(self.clock.now_s())

        def how(pod: Any) -> None:
            status = pod.setdefault("status", {})
            status["phase"] = phase
            was = next((one for one in status.get("conditions", []) if one["type"] == "Ready"), None)
            text = str(is_ready)
            at = was["lastTransitionTime"] if was and was["status"] == text else now
            status["conditions"] = [{"type": "Ready", "status": text, "lastTransitionTime": at}]
            if ip:
                status["podIP"], status["podIPs"] = ip, [{"ip": ip}]

        await self.change("pods", name, how, part=Part.STATUS)

    async def run_all(self, *, most: int = 1000) -> int:
        """Have pods that are not ready become so, and those that are deleted go; gives how many."""
        count = 0
        for pod in self.all("pods"):
            if count < most:
                count += await self._moved_on(pod)
        return count

    async def _moved_on(self, pod: Object) -> bool:
        """Have a pod come further, unless it has been deleted or changed meanwhile; gives whether there was need."""
        name, conditions = pod["metadata"]["name"], pod["status"].get("conditions", [])
        try:
            if "deletionTimestamp" in pod["metadata"]:
                await self.delete("pods", name)
            elif any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
                return False
            else:
                await self.run_pod(name)
        except (NotFound, Conflict):
            return True
        return True

    async def converge(self) -> None:
        """Let the kubelet and the controllers work until neither has anything to do."""
        await self.settle()
        while await self.run_all():
            await self.settle()


def played(story: Callable[[], Awaitable[None]]) -> None:
    """Run a story to its end."""

    async def whole() -> None:
        await asyncio.wait_for(_once(story), 60)

    asyncio.run(whole())


async def _once(story: Callable[[], Awaitable[None]]) -> None:
    await story()


def template(app: str = "a", image: str = "i:1", **spec: Any) -> Object:
    """A pod template."""
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}], **spec}}


def workload(kind: str, name: str = "a", *, replicas: int | None = 3, **spec: Any) -> Object:
    """A deployment, replica set, stateful set or daemon set of pods that are labelled `app: a`."""
    whole: Object = {"selector": {"matchLabels": {"app": "a"}}, "template": template(), **spec}
    if replicas is not None:
        whole["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": whole}
