"""Controllers see what they have written, try again what failed, and end where they should whatever goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random

import pytest

from muster.controllers.feed import Feed
from muster.controllers.loop import Loop, Turn
from muster.controllers.view import Seen, View
from muster.store.aio import AsyncStore
from muster.store.client import PlainClient
from muster.store.clock import VirtualClock
from muster.store.errors import Unavailable
from muster.store.history import Limits
from muster.store.identities import Identities
from muster.store.kinds import Object
from muster.store.memory import MemoryStore
from muster.store.objects import Objects
from muster.store.records import Key, Scope
from tests.store.kinds import CONFIGS, PODS, START_S

RULES = {"pods": PODS, "configmaps": CONFIGS}


class Copies:
    """Keeps as many config maps for each pod as its label says, named at random: each mistake would leave more."""

    name = "copies"

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        if seen.key.resource == "pods":
            yield seen.key
        for owner in ((seen.now or seen.before or {})["metadata"]).get("ownerReferences", []):
            yield Key("pods", seen.key.namespace, owner["name"])

    async def reconcile(self, turn: Turn) -> None:
        pod = turn.view.get(turn.key)
        if pod is None:
            return
        wanted = int(pod["metadata"]["labels"]["copies"])
        uid = pod["metadata"]["uid"]
        there = turn.view.owned(uid, "configmaps")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": turn.key.name, "uid": uid}
        for _ in range(wanted - len(there)):
            metadata = {"generateName": "copy-", "namespace": turn.key.namespace, "ownerReferences": [owner]}
            await turn.create("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        for one in there[wanted:]:
            await turn.delete(Key("configmaps", turn.key.namespace, one["metadata"]["name"]))


class FailingClient(PlainClient):
    """A store that cannot be written to now and then."""

    def __init__(self, store: AsyncStore, objects: Objects, chance: Random) -> None:
        super().__init__(store, objects, "tests")
        self._chance = chance

    async def create(self, resource: str, given: Object) -> Object:
        if self._chance.random() < 0.3:
            raise Unavailable("the disk is full")
        return await super().create(resource, given)


class Cluster:
    """A store, a controller, and time that passes when nobody has anything to do."""

    def __init__(self, chance: Random, limits: Limits | None = None) -> None:
        self.clock = VirtualClock(START_S)
        self.store = MemoryStore(self.clock, limits)
        self.front = AsyncStore(self.store, pace_s=0)
        self.objects = Objects(RULES, self.clock, identities=Identities(chance), has_namespaces=False)
        self.client = FailingClient(self.front, self.objects, chance)
        feed = Feed(self.front, View(), self.clock, resources=RULES)
        self.view = feed.view
        self.loop = Loop(Copies(), feed, self.client, self.clock)
        self.tasks = [asyncio.create_task(feed.run()), asyncio.create_task(self.loop.run())]

    async def settle(self, until_s: float = 600.0) -> None:
        end_s = self.clock.monotonic_s() + until_s
        while self.clock.monotonic_s() < end_s:
            for _ in range(50):
                await asyncio.sleep(0)
            due_s = self.clock.next_due_s()
            if due_s is None and self.loop.is_idle:
                return
            self.clock.advance_to(due_s or 0.0)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def pod(self, name: str, copies: int) -> Object:
        metadata = {"name": name, "namespace": "x", "labels": {"copies": str(copies)}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c"}]}}


@pytest.mark.parametrize("seed", range(20))
def test_there_are_exactly_as_many_as_wanted_whatever_fails(seed):
    async def story() -> None:
        chance = Random(seed)
        cluster = Cluster(chance, Limits(events=5) if seed % 2 else None)
        plain = PlainClient(cluster.front, cluster.objects, "tests")
        wanted: dict[str, int] = {}
        for _ in range(12):
            name, count = f"p{chance.randrange(4)}", chance.randrange(6)
            if name not in wanted:
                await plain.create("pods", cluster.pod(name, count))
            else:
                await plain.update(Key("pods", "x", name), cluster.pod(name, count))
            wanted[name] = count
            for _ in range(chance.randrange(30)):
                await asyncio.sleep(0)
        await cluster.settle()
        for name, count in wanted.items():
            pod = cluster.view.get(Key("pods", "x", name))
            assert pod is not None
            assert len(cluster.view.owned(pod["metadata"]["uid"], "configmaps")) == count
        assert len(cluster.store.page(Scope("configmaps")).records) == sum(wanted.values())
        await cluster.close()

    asyncio.run(story())


def test_deleting_what_is_gone_is_well():
    async def story() -> None:
        cluster = Cluster(Random(1))
        turn = Turn(Key("pods", "x", "a"), cluster.view, cluster.client, START_S)
        await turn.delete(Key("pods", "x", "gone"))
        assert turn.written == {}
        turn.look_again(5.0)
        turn.look_again(9.0)
        assert turn.again_s == 5.0
        await cluster.close()

    asyncio.run(story())
