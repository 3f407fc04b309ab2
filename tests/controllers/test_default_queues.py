"""A namespace is marked while it has a LocalQueue for jobs that name none."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from muster.app.kinds import catalog
from muster.controllers.default_queues import NAMESPACES, QUEUES, DefaultQueues
from muster.controllers.feed import Feed, run_together
from muster.controllers.loop import Loop
from muster.controllers.view import View
from muster.dialects.kueue.names import HAS_DEFAULT_QUEUE
from muster.store.aio import AsyncStore
from muster.store.client import PlainClient
from muster.store.clock import VirtualClock
from muster.store.identities import Identities
from muster.store.memory import MemoryStore
from muster.store.objects import Objects, decode
from muster.store.records import Key
from tests.controllers.jobs_world import KUEUE

SETTLED = 200  # turns of the loop, far more than a write takes


def a_queue(name):
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": "all"}}


@pytest.mark.parametrize(
    ("labels", "steps", "want"),
    [
        pytest.param({"a": "b"}, [], {"a": "b"}, id="no queue"),
        pytest.param({}, ["+main"], {}, id="another queue"),
        pytest.param({"a": "b"}, ["+default"], {"a": "b", HAS_DEFAULT_QUEUE: "true"}, id="the queue"),
        pytest.param({"a": "b"}, ["+default", "-default"], {"a": "b"}, id="it has gone"),
        pytest.param({HAS_DEFAULT_QUEUE: "no"}, ["+default"], {HAS_DEFAULT_QUEUE: "true"}, id="a mark of no meaning"),
        pytest.param({HAS_DEFAULT_QUEUE: "true"}, [], {}, id="it went while nobody looked"),
    ],
)
def test_the_mark_follows_the_queue(labels, steps, want):
    async def story():
        clock = VirtualClock(1_700_000_000.0)
        store = MemoryStore(clock)
        front = AsyncStore(store, pace_s=0)
        client = PlainClient(front, Objects(catalog().rules, clock, identities=Identities(Random(0))), "tests")
        metadata = {"name": "team", "labels": labels}
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        feed = Feed(front, View(), clock, resources={NAMESPACES, QUEUES})
        loop = Loop(DefaultQueues(), feed, client, clock)
        running = asyncio.create_task(run_together(feed.run(), loop.run()))
        for step in ["", *steps]:
            if step.startswith("+"):
                await client.create(QUEUES, a_queue(step[1:]))
            elif step:
                await client.delete(Key(QUEUES, "team", step[1:]))
            for _ in range(SETTLED):
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        found = decode(store.get(Key(NAMESPACES, "", "team")))["metadata"].get("labels") or {}
        return {name: value for name, value in found.items() if name != "kubernetes.io/metadata.name"}

    assert asyncio.run(story()) == want
