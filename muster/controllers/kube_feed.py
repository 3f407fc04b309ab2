"""Keeps a view up to date with a real cluster, and tells whoever listens. One for all controllers of a process.

Each resource is followed by itself. Controllers begin when all of them are known: whoever knew the nodes and not yet
the pods on them would give away what others have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from muster.controllers.feed import Changes
from muster.controllers.view import View
from muster.store.clock import Clock
from muster.store.kube import Kube
from muster.store.kube_watch import Follower
from muster.store.readings import Readings
from muster.store.records import Event, Key, Record

PODS = "pods"


class KubeFeed(Changes):
    """What keeps a view up to date with a cluster."""

    def __init__(self, kube: Kube, view: View, clock: Clock, *, resources: Iterable[str], readings: Readings) -> None:
        super().__init__(view)
        self._followers = {
            resource: Follower(kube, resource, self, clock=clock, readings=readings) for resource in sorted(resources)
        }
        self._unknown = set(self._followers)
        self._has_all = asyncio.Event()
        self._binding: dict[Key, list[tuple[str, asyncio.Future[int]]]] = {}  # who waits to see a pod bound

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for follower in self._followers.values():
                group.create_task(follower.run())

    async def ready(self) -> None:
        """Wait until every resource is known."""
        await self._has_all.wait()

    @property
    def is_ready(self) -> bool:
        """Whether every resource is known."""
        return self._has_all.is_set()

    def listed(self, resource: str, records: list[Record], revision: int) -> None:
        """Take in all objects of a resource."""
        self._tell(self.view.learn_all(resource, records, revision))
        if resource == PODS:
            for key in list(self._binding):
                self._look_at_binding(key)
        self._unknown.discard(resource)
        if not self._unknown:
            self._has_all.set()

    def changed(self, resource: str, events: list[Event], revision: int) -> None:
        """Take in what has changed."""
        for event in events:
            seen = self.view.learn(event)
            if seen is not None:
                self._tell([seen])
                if seen.key in self._binding:
                    self._look_at_binding(seen.key)
        self.view.knows((resource,), revision)

    async def bound_seen(self, key: Key, uid: str) -> int:
        """Wait until a pod is seen on a node, or gone; gives the newest revision of it that is known."""
        if PODS not in self._followers:
            return 0
        seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._binding.setdefault(key, []).append((uid, seen))
        self._look_at_binding(key)
        return await seen

    def _look_at_binding(self, key: Key) -> None:
        pod, still = self.view.get(key), []
        for uid, waiting in self._binding.pop(key, ()):
            is_same = pod is not None and (not uid or pod["metadata"]["uid"] == uid)
            if pod is not None and is_same and not pod["spec"].get("nodeName"):
                still.append((uid, waiting))
            elif not waiting.done():
                waiting.set_result(int(pod["metadata"]["resourceVersion"]) if pod is not None and is_same else 0)
        if still:
            self._binding[key] = still
