"""Events of a real cluster: beside the work, at a bounded rate, of each object the newest."""

from __future__ import annotations

import asyncio

from muster.store.errors import Unavailable
from muster.store.kinds import Object
from muster.store.kube_events import TellingClient
from muster.store.records import Key
from tests.store.scripted import QuickClock


class Noting:
    """A client that only writes down what it is asked for."""

    def __init__(self, *, fails: bool = False) -> None:
        self.told: list[str] = []
        self._fails = fails

    async def create(self, resource: str, given: Object) -> Object:
        return self._note(f"create {resource} {given.get('reason', '')}".rstrip())

    async def update(self, key: Key, given: Object, *_: object) -> Object:
        return self._note(f"update {key.resource} {given.get('reason', '')}".rstrip())

    def _note(self, row: str) -> Object:
        self.told.append(row)
        if self._fails:
            raise Unavailable("not now")
        return {}


def about(uid: str, reason: str, count: int = 1) -> Object:
    metadata = {"name": f"{uid}.{reason}", "namespace": "x"}
    return {"metadata": metadata, "involvedObject": {"uid": uid}, "reason": reason, "count": count}


async def _told(client: TellingClient, noting: Noting, wanted: int) -> None:
    task = asyncio.create_task(client.run())
    async with asyncio.timeout(60):
        while len(noting.told) < wanted:
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_of_each_object_the_newest():
    async def story() -> None:
        noting, clock = Noting(), QuickClock()
        client = TellingClient(noting, clock, per_s=10.0)  # type: ignore[arg-type]
        for one in (about("a", "QuotaReserved"), about("b", "Pending"), about("a", "Admitted")):
            assert await client.create("events", one) == one
        await client.update(Key("events", "x", "c"), about("c", "Again", count=2))
        await client.create("configmaps", {})
        await _told(client, noting, 4)
        assert noting.told == [
            "create configmaps",
            "create events Pending",
            "create events Admitted",
            "update events Again",
        ]
        assert clock.slept_s[1:3] == [0.1, 0.1]

    asyncio.run(story())


def test_none_where_none_are_wanted():
    async def story() -> None:
        noting = Noting()
        client = TellingClient(noting, QuickClock(), per_s=0.0)  # type: ignore[arg-type]
        await client.create("events", about("a", "Admitted"))
        task = asyncio.create_task(client.run())
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert noting.told == []

    asyncio.run(story())


def test_what_cannot_be_told_is_dropped():
    async def story() -> None:
        noting = Noting(fails=True)
        client = TellingClient(noting, QuickClock())  # type: ignore[arg-type]
        for uid in "ab":
            await client.create("events", about(uid, "Admitted"))
        await _told(client, noting, 2)
        assert noting.told == ["create events Admitted"] * 2

    asyncio.run(story())


def test_too_many_are_not_kept():
    async def story() -> None:
        client = TellingClient(Noting(), QuickClock())  # type: ignore[arg-type]
        for number in range(5_000):
            await client.create("events", about(str(number), "Admitted"))
        assert client.waiting == 2_048

    asyncio.run(story())
