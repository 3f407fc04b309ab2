"""A store, the local node and its loop in one process, and short ways to make pods and wait for them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import uvloop

from muster.agent.local.checkpoints import Checkpoints
from muster.agent.local.commands import LocalStreams
from muster.agent.local.node import LocalNode
from muster.agent.local.pod import Host
from muster.app.kinds import catalog
from muster.controllers.feed import Feed
from muster.controllers.loop import Loop
from muster.controllers.nodes.containers import BackOff
from muster.controllers.nodes.simulated import node_terms
from muster.controllers.view import View
from muster.model.pod_streams import CommandOptions, LogOptions, Output, Place
from muster.store.aio import AsyncStore
from muster.store.client import PlainClient
from muster.store.clock import RealClock
from muster.store.identities import Identities
from muster.store.kinds import Object
from muster.store.memory import MemoryStore
from muster.store.objects import Objects
from muster.store.records import Key
from muster.store.rules import Deletion

WAIT_S = 60.0  # by which everything has happened, on however slow a machine
NODE = "here"
RESOURCES = ("configmaps", "events", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "secrets")


@dataclass(slots=True)
class Machine:
    """A node that runs pods."""

    view: View
    client: PlainClient
    node: LocalNode
    streams: LocalStreams
    feed: Feed
    owners: set[str]  # the names of those that are there, as far as checkpoints are concerned

    async def create(self, name: str, *containers: Object, **more: Any) -> Key:
        """A pod that is bound to the node."""
        metadata = {"name": name, "namespace": "default", **more.pop("metadata", {})}
        spec = {"containers": list(containers), "nodeName": NODE, "terminationGracePeriodSeconds": 20, **more}
        await self.client.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        return Key("pods", "default", name)

    async def until(self, key: Key, holds: Callable[[Object], Any]) -> Object:
        """Wait until something holds of a pod."""
        found: asyncio.Future[Object] = asyncio.get_running_loop().create_future()

        def look(*_seen: object) -> None:
            pod = self.view.get(key)
            if pod is not None and not found.done() and holds(pod):
                found.set_result(pod)

        self.feed.listen(look)
        look()
        try:
            async with asyncio.timeout(WAIT_S):
                return await found
        except TimeoutError:
            raise AssertionError(f"it never held: {self.view.get(key)}") from None

    async def phase(self, key: Key, phase: str) -> Object:
        return await self.until(key, lambda pod: (pod.get("status") or {}).get("phase") == phase)

    async def gone(self, key: Key) -> None:
        async with asyncio.timeout(WAIT_S):
            while self.view.get(key) is not None:
                await asyncio.sleep(0.01)

    async def delete(self, key: Key, grace_s: int | None = None) -> None:
        await self.client.delete(key, Deletion(grace_s=grace_s))

    def place(self, key: Key, container: str = "main") -> Place:
        pod = self.view.get(key)
        assert pod is not None
        uid = pod["metadata"]["uid"]
        return Place(node=NODE, namespace="default", pod=key.name, uid=uid, container=container)

    async def log(self, key: Key, container: str = "main", **options: Any) -> str:
        pieces = await self.streams.open_log(self.place(key, container), LogOptions(**options))
        return b"".join([piece async for piece in pieces]).decode()

    async def command(self, key: Key, *command: str, given: bytes = b"", **options: Any) -> tuple[int, str, str]:
        """Run a command in a container: how it ended, and what it wrote."""
        asked = CommandOptions(command=command, has_stdin=bool(given), has_stdout=True, has_stderr=True, **options)
        running = await self.streams.run(self.place(key), asked)
        written = {Output.STDOUT: b"", Output.STDERR: b""}
        if given:
            await running.write(given)
            await running.end_input()
        async for output, piece in running.output():
            written[output] += piece
        code = await running.exit_code()
        await running.close()
        return code, written[Output.STDOUT].decode(), written[Output.STDERR].decode()


def container(*command: str, name: str = "main", **more: Any) -> Object:
    return {"name": name, "image": "busybox", "command": list(command), **more}


def shell(script: str, name: str = "main", **more: Any) -> Object:
    return container("sh", "-c", script, name=name, **more)


def state(pod: Object, name: str = "main", kind: str = "containerStatuses") -> Object:
    """The status of one container."""
    nothing = {"state": {}, "lastState": {}, "ready": False, "restartCount": 0}
    return next((one for one in pod["status"].get(kind) or () if one["name"] == name), nothing)


@asynccontextmanager
async def machine(
    folder: Path, store: MemoryStore | None = None, *, is_ended: bool = True, **more: Any
) -> AsyncIterator[Machine]:
    """A node in a folder; where it is not ended it goes as if it were killed."""
    clock = RealClock()
    owners = {"job"}
    store = store or MemoryStore(clock)
    objects = Objects(catalog().rules, clock, identities=Identities(Random(os.urandom(8))), has_namespaces=False)
    front = AsyncStore(store, pace_s=0)
    client = PlainClient(front, objects, "tests")
    feed = Feed(front, View({("pods", "node"): node_terms}), clock, resources=RESOURCES)
    host = Host(
        clock=clock,
        capacity={"cpu": "4", "memory": "1Gi"},
        token_for=lambda _pod, _wanted: "the token",
        variables={"PATH": os.environ["PATH"]},
        back_off=BackOff(first_s=0.1, most_s=0.4),
        checkpoints=Checkpoints(folder / "checkpoints", clock, lambda owner: owner["name"] in owners),
        **{"find_runtime": lambda: None, **more},
    )
    node = LocalNode(NODE, folder, host)
    loop = Loop(node, feed, client, clock)
    node.look_at = loop.look_at
    tasks = [asyncio.create_task(feed.run()), asyncio.create_task(loop.run())]
    try:
        yield Machine(feed.view, client, node, LocalStreams(node, clock), feed, owners)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if is_ended:
            await node.close()


def on_machine(test: Callable[[Machine], Awaitable[None]], folder: Path, **more: Any) -> None:
    """Run a test's coroutine with a node of its own; more is what its machine has."""

    async def run() -> None:
        async with machine(folder, **more) as made:
            await test(made)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as the server has it
        runner.run(run())
