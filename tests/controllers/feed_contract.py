"""What every feed and client promise controllers, whatever API is behind them: stories, and the worlds they play in.

Played on a store of this process, on a Muster server and, beside the comparisons with Kubernetes, on a real one. What
goes to a server goes through a way that can be cut, so that watches break in the middle.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest

from muster.apiserver.kinds import BUILTIN
from muster.controllers.feed import Changes, Feed
from muster.controllers.kube_feed import KubeFeed
from muster.controllers.view import Seen, View
from muster.model.errors import InvalidObject
from muster.store.aio import AsyncStore
from muster.store.binding import Binding
from muster.store.client import Client, PlainClient
from muster.store.clock import RealClock
from muster.store.errors import AlreadyExists, Conflict, NotFound, Unavailable
from muster.store.identities import Identities
from muster.store.kinds import Object
from muster.store.kube import Kube
from muster.store.kube_client import KubeClient
from muster.store.kube_config import read_kubeconfig
from muster.store.memory import MemoryStore
from muster.store.objects import Objects, Part
from muster.store.readings import Readings
from muster.store.records import Key
from muster.store.rules import Deletion

WAIT_S = 120.0  # for a machine with much else to do; each wait ends as soon as it may
CONFIGS, PODS = "configmaps", "pods"
RESOURCES = (CONFIGS, PODS, "widgets.example.org")  # nobody has the last one
_numbers = itertools.count()


@dataclass
class World:
    """A client, and a feed that is followed."""

    client: Client
    feed: Changes
    cut: Callable[[], None]  # break every connection there is
    seen: list[Seen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.name = f"contract-{next(_numbers)}-{secrets.token_hex(4)}"  # many worlds share one server
        self.feed.listen(self.seen.append)

    @property
    def view(self) -> View:
        return self.feed.view

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something has been seen."""
        async with asyncio.timeout(WAIT_S):
            while not is_so():
                await asyncio.sleep(0.01)

    def key(self, resource: str, name: str = "") -> Key:
        return Key(resource, "default", self.name + name)

    def config(self, name: str = "", **data: str) -> Object:
        metadata = {"name": self.name + name, "namespace": "default"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    def pod(self, name: str = "") -> Object:
        metadata = {"name": self.name + name, "namespace": "default", "labels": {"a": "b"}}
        spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def own(self, resource: str) -> list[Seen]:
        """What was seen of this world's objects."""
        return [one for one in self.seen if one.key.resource == resource and one.key.name.startswith(self.name)]


# Worlds --------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def in_memory() -> AsyncIterator[World]:
    clock = RealClock()
    front = AsyncStore(MemoryStore(clock))
    objects = Objects(BUILTIN, clock, identities=Identities(Random(1)), has_namespaces=False)
    feed = Feed(front, View(readings=front.readings), clock, resources=RESOURCES)
    world = World(PlainClient(front, objects, "tests"), feed, cut=lambda: None)
    task = asyncio.create_task(feed.run())
    try:
        yield world
    finally:
        await _ended(task)


@asynccontextmanager
async def on_server(kubeconfig: Path) -> AsyncIterator[World]:
    clock, readings = RealClock(), Readings()
    access = read_kubeconfig(kubeconfig)
    async with _way_to(access.url) as way:
        kube = Kube(replace(access, url=way.url), clock)
        feed = KubeFeed(kube, View(readings=readings), clock, resources=RESOURCES, readings=readings)
        world = World(KubeClient(kube, bound_seen=feed.bound_seen), feed, cut=way.cut)
        task = asyncio.create_task(feed.run())
        try:
            async with asyncio.timeout(WAIT_S):
                await feed.ready()
            yield world
        finally:
            await _ended(task)
            await kube.close()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


class _Way:
    """Passes bytes on between a client and a server, until it is cut."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._open: set[asyncio.StreamWriter] = set()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there_reader, there_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        self._open |= {writer, there_writer}
        await asyncio.gather(_pass_on(reader, there_writer), _pass_on(there_reader, writer))
        self._open -= {writer, there_writer}

    def cut(self) -> None:
        for one in self._open:
            one.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def _way_to(url: str) -> AsyncIterator[_Way]:
    there = urlsplit(url)
    assert there.hostname is not None and there.port is not None, "a server on loopback says where it is"
    way = _Way(there.hostname, there.port)
    server = await asyncio.start_server(way.serve, "127.0.0.1", 0)
    way.url = f"{there.scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield way
    finally:
        server.close()
        way.cut()
        await asyncio.sleep(0)


# Stories -------------------------------------------------------------------------------------------------------------


async def what_is_made_is_seen(world: World) -> None:
    made = await world.client.create(CONFIGS, world.config(a="1"))
    await world.view.reaches(CONFIGS, int(made["metadata"]["resourceVersion"]))
    seen = world.view.get(world.key(CONFIGS))
    assert seen is not None
    assert (seen["apiVersion"], seen["kind"], seen["data"]) == ("v1", "ConfigMap", {"a": "1"})
    assert seen["metadata"]["uid"] == made["metadata"]["uid"]
    assert [(one.before, one.now) for one in world.own(CONFIGS)] == [(None, seen)]


async def a_name_is_taken_once(world: World) -> None:
    await world.client.create(CONFIGS, world.config())
    with pytest.raises(AlreadyExists):
        await world.client.create(CONFIGS, world.config())


async def an_update_asks_for_the_state_that_was_seen(world: World) -> None:
    first = await world.client.create(CONFIGS, world.config(a="1"))
    second = await world.client.update(world.key(CONFIGS), {**first, "data": {"a": "2"}})
    assert second["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]
    with pytest.raises(Conflict):
        await world.client.update(world.key(CONFIGS), {**first, "data": {"a": "3"}})
    with pytest.raises(NotFound):
        await world.client.update(world.key(CONFIGS, "-none"), world.config("-none"))


async def an_update_of_nothing_is_none(world: World) -> None:
    first = await world.client.create(CONFIGS, world.config(a="1"))
    again = await world.client.update(world.key(CONFIGS), first)
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    await world.view.reaches(CONFIGS, int(again["metadata"]["resourceVersion"]))


async def a_status_is_written_by_itself(world: World) -> None:
    made = await world.client.create(PODS, world.pod())
    key = world.key(PODS)
    changed = {**made, "spec": {**made["spec"], "priority": 7}, "status": {**made["status"], "message": "hello"}}
    kept = await world.client.update(key, changed, Part.STATUS)
    assert (kept["status"]["message"], kept["spec"].get("priority")) == ("hello", made["spec"].get("priority"))
    assert kept["metadata"]["labels"] == {"a": "b"}
    with pytest.raises(Conflict):
        await world.client.update(key, made, Part.STATUS)
    main = await world.client.update(key, {**kept, "status": {}})
    assert main["status"]["message"] == "hello"


async def a_deletion_asks_for_what_was_seen(world: World) -> None:
    key, made = world.key(CONFIGS), await world.client.create(CONFIGS, world.config())
    with pytest.raises(Conflict):
        await world.client.delete(key, Deletion(uid="another"))
    later = await world.client.update(key, {**made, "data": {"a": "2"}})
    with pytest.raises(Conflict):
        await world.client.delete(key, Deletion(revision=made["metadata"]["resourceVersion"]))
    uid, revision = later["metadata"]["uid"], later["metadata"]["resourceVersion"]
    await world.until(lambda: world.view.record(key) is not None)
    gone = await world.client.delete(key, Deletion(uid=uid, revision=revision))
    await world.view.reaches(CONFIGS, int(gone["metadata"]["resourceVersion"]))
    await world.until(lambda: world.view.record(key) is None)
    assert world.own(CONFIGS)[-1].now is None
    with pytest.raises(NotFound):
        await world.client.delete(key)


async def a_held_object_is_marked_and_goes_later(world: World) -> None:
    given = world.config()
    given["metadata"]["finalizers"] = ["example.org/held"]
    await world.client.create(CONFIGS, given)
    key = world.key(CONFIGS)
    marked = await world.client.delete(key)
    assert marked["metadata"]["deletionTimestamp"]
    await world.client.update(key, {**marked, "metadata": {**marked["metadata"], "finalizers": []}})
    await world.until(lambda: bool(world.own(CONFIGS)) and world.view.record(key) is None)


async def a_bound_pod_is_known_when_it_is_bound(world: World) -> None:
    made = await world.client.create(PODS, world.pod())
    key, uid = world.key(PODS), made["metadata"]["uid"]
    with pytest.raises(Conflict):
        await world.client.bind(Binding(key=key, node="node-1", uid="another"))
    revision = await world.client.bind(Binding(key=key, node="node-1", uid=uid, annotations={"muster.dev/slot": "x"}))
    await world.view.reaches(PODS, revision)
    pod = world.view.get(key)
    assert pod is not None and pod["spec"]["nodeName"] == "node-1"
    assert pod["metadata"]["annotations"]["muster.dev/slot"] == "x"
    with pytest.raises(Conflict):
        await world.client.bind(Binding(key=key, node="node-2", uid=uid))
    with pytest.raises(NotFound):
        await world.client.bind(Binding(key=world.key(PODS, "-none"), node="node-2"))
    await world.client.delete(key, Deletion(grace_s=0))


async def what_is_wrong_is_said_with_its_field(world: World) -> None:
    given = world.pod()
    given["spec"]["restartPolicy"] = "Sometimes"
    with pytest.raises(InvalidObject) as refused:
        await world.client.create(PODS, given)
    assert refused.value.path == "spec.restartPolicy"


async def owners_are_found(world: World) -> None:
    owner = await world.client.create(CONFIGS, world.config("-owner"))
    given = world.config("-owned")
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": f"{world.name}-owner",
        "uid": owner["metadata"]["uid"],
    }
    given["metadata"]["ownerReferences"] = [reference]
    made = await world.client.create(CONFIGS, given)
    await world.view.reaches(CONFIGS, int(made["metadata"]["resourceVersion"]))
    (found,) = world.view.owned(owner["metadata"]["uid"], CONFIGS)
    assert found["metadata"]["uid"] == made["metadata"]["uid"]


async def each_change_comes_in_order(world: World) -> None:
    kept = await world.client.create(CONFIGS, world.config(a="0"))
    for number in range(1, 30):
        kept = await world.client.update(world.key(CONFIGS), {**kept, "data": {"a": str(number)}})
    await world.view.reaches(CONFIGS, int(kept["metadata"]["resourceVersion"]))
    seen = world.own(CONFIGS)
    assert [one.now["data"]["a"] for one in seen if one.now is not None] == [str(number) for number in range(30)]
    assert [one.before for one in seen[1:]] == [one.now for one in seen[:-1]]


async def nothing_is_lost_when_connections_break(world: World) -> None:
    """Writes go on while every connection is cut again and again; in the end the view is as the writes have left it."""
    last: dict[str, str | None] = {}
    chance = Random(7)
    for number in range(60):
        name, value = f"-{chance.randrange(6)}", str(number)
        if number % 15 == 7:
            world.cut()
        last[name] = await _put(world, name, value)
        if chance.random() < 0.2 and await _removed(world, name):
            last[name] = None
    world.cut()

    def is_known() -> bool:
        known = {name: world.view.get(world.key(CONFIGS, name)) for name in last}
        return {name: None if one is None else one["data"]["a"] for name, one in known.items()} == last

    await world.until(is_known)
    by_key: dict[Key, Object | None] = {}
    for one in world.own(CONFIGS):
        assert one.before == by_key.get(one.key), "every change begins where the last one has ended"
        by_key[one.key] = one.now


async def _put(world: World, name: str, value: str) -> str:
    """Write a value, however often that takes: a request may break before it is made, or after."""
    async with asyncio.timeout(WAIT_S):
        while True:
            known = world.view.get(world.key(CONFIGS, name))
            try:
                if known is None:
                    await world.client.create(CONFIGS, world.config(name, a=value))
                else:
                    await world.client.update(world.key(CONFIGS, name), {**known, "data": {"a": value}})
                return value
            except Exception as problem:
                if not _is_of_the_way(problem):
                    raise
                if await _has(world, name, value):
                    return value
            await asyncio.sleep(0.01)


async def _has(world: World, name: str, value: str) -> bool:
    found = world.view.get(world.key(CONFIGS, name))
    return found is not None and found["data"]["a"] == value


async def _removed(world: World, name: str) -> bool:
    try:
        await world.client.delete(world.key(CONFIGS, name))
    except Exception as problem:
        if not _is_of_the_way(problem):
            raise
        return False
    await world.until(lambda: world.view.record(world.key(CONFIGS, name)) is None)
    return True


def _is_of_the_way(problem: Exception) -> bool:
    return isinstance(problem, (AlreadyExists, Conflict, NotFound, Unavailable))


STORIES: dict[str, Callable[[World], Awaitable[None]]] = {
    story.__name__: story
    for story in (
        what_is_made_is_seen,
        a_name_is_taken_once,
        an_update_asks_for_the_state_that_was_seen,
        an_update_of_nothing_is_none,
        a_status_is_written_by_itself,
        a_deletion_asks_for_what_was_seen,
        a_held_object_is_marked_and_goes_later,
        a_bound_pod_is_known_when_it_is_bound,
        what_is_wrong_is_said_with_its_field,
        owners_are_found,
        each_change_comes_in_order,
        nothing_is_lost_when_connections_break,
    )
}
