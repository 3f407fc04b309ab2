"""The store seen from coroutines: writes and watches that can be awaited, one wake for many answers."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace

import pytest

from muster.store import aio
from muster.store.aio import PACE_S, SLOWEST_PACE_S, AsyncStore
from muster.store.clock import VirtualClock
from muster.store.errors import AlreadyExists, Expired
from muster.store.history import Limits
from muster.store.memory import MemoryStore
from muster.store.records import Scope
from tests.store.builders import PODS, create, pod, replace, told


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 20))


def test_writes_from_many_coroutines(store):
    async def main():
        front = AsyncStore(store)
        records = await asyncio.gather(*(front.write(create(pod(f"p{number}"))) for number in range(40)))
        assert sorted(record.revision for record in records) == list(range(1, 41))
        with pytest.raises(AlreadyExists):
            await front.write(create(pod("p1")))

    run(main())


def test_a_cancelled_writer_harms_nobody(store):
    async def main():
        front = AsyncStore(store)
        impatient = asyncio.create_task(front.write(create(pod("a"))))
        await asyncio.sleep(0)
        impatient.cancel()
        assert (await front.write(create(pod("b")))).revision == 2

    run(main())


def test_a_watch_waits_for_its_events(store):
    async def main():
        front = AsyncStore(store)
        watch, other = front.watch(PODS, 0), front.watch(Scope("nodes"), 0)
        taking = asyncio.create_task(watch.take())
        await asyncio.sleep(0)
        assert not taking.done()
        await front.write(create(pod("a")))
        assert told(await taking) == [("ADDED", "default/a", 1)]
        assert await other.take(timeout_s=0.001) == ([], 1), "a bookmark"
        await front.write(replace(pod("a"), 1))
        await front.write(replace(pod("a"), 2))
        taken = await watch.take()
        while taken.revision < 3:
            taken = await watch.take()
        assert taken.events[-1].record.revision == 3
        watch.close()
        other.close()

    run(main())


def test_all_who_watch_are_woken(store):
    async def main():
        front = AsyncStore(store)
        watches = [front.watch(PODS, 0) for _ in range(5)]
        taking = [asyncio.create_task(watch.take()) for watch in watches]
        await asyncio.sleep(0)
        await front.write(create(pod("a")))
        assert {len(taken.events) for taken in await asyncio.gather(*taking)} == {1}

    run(main())


def test_without_a_pace_every_event_comes_by_itself():
    async def main():
        front = AsyncStore(MemoryStore(VirtualClock()), pace_s=0)
        watch = front.watch(PODS, 0)
        for number in range(3):
            await front.write(create(pod(f"p{number}")))
            assert len((await watch.take()).events) == 1
        assert await watch.take(timeout_s=0) == ([], 3)

    run(main())


@pytest.mark.parametrize(("cost_s", "pace_s"), [(0.0001, PACE_S), (0.01, 0.04), (3.0, SLOWEST_PACE_S)])
def test_the_dearer_the_watches_the_slower_the_pace(monkeypatch, cost_s, pace_s):
    times = (number * cost_s for number in itertools.count())
    monkeypatch.setattr(aio, "time", SimpleNamespace(monotonic=lambda: next(times)))

    async def main():
        front = AsyncStore(MemoryStore(VirtualClock()))
        watch = front.watch(PODS, 0)
        taking = asyncio.create_task(watch.take())
        await asyncio.sleep(0)
        await front.write(create(pod("a")))
        await taking
        await asyncio.sleep(0)
        assert front.pace_s == pytest.approx(pace_s)

    asyncio.run(main())


def test_a_slow_watch_is_told(make_store):
    async def main():
        front = AsyncStore(make_store(Limits(events=2)))
        watch = front.watch(PODS, 0)
        for number in range(4):
            await front.write(create(pod(f"p{number}")))
        with pytest.raises(Expired):
            await watch.take()

    run(main())
