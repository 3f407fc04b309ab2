"""Following a resource: lists, watches, and whatever may end them. Nothing is told twice, and nothing is missed."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from muster.store.kube_watch import Follower
from muster.store.readings import Readings
from muster.store.records import Event, Record
from tests.store.scripted import bookmark, config, event, refuses, says, scripted, streams

STATUS_410 = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
LAST = streams(event("ADDED", config("last", 99)), bookmark(99, is_end=True), is_open=True)


class Heard:
    """Writes down what it is told, until it has heard of an object or a revision."""

    def __init__(self, until: int) -> None:
        self.rows: list[str] = []
        self._until = until
        self.is_done = asyncio.Event()

    def listed(self, resource: str, records: list[Record], revision: int) -> None:
        self._note(f"all {' '.join(one.key.name for one in records)}".rstrip(), revision)

    def changed(self, resource: str, events: list[Event], revision: int) -> None:
        told = " ".join(f"{one.action.value.lower()} {one.record.key.name}" for one in events)
        self._note(told or "nothing", revision)

    def _note(self, row: str, revision: int) -> None:
        self.rows.append(f"{revision}: {row}")
        if revision >= self._until:
            self.is_done.set()


async def _followed(*answers, until: int, resource: str = "configmaps") -> tuple[list[str], list[dict[str, str]]]:
    """What is told up to a revision, and the queries that it took."""
    async with scripted(*answers) as (kube, script, clock):
        heard = Heard(until)
        follower = Follower(kube, resource, heard, clock=clock, readings=Readings())
        task = asyncio.create_task(follower.run())
        async with asyncio.timeout(60):
            await heard.is_done.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return heard.rows, [query for _, _, query, _ in script.asked]


FIRST = (event("ADDED", config("a", 3)), bookmark(5, is_end=True))


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        pytest.param(
            [streams(*FIRST, event("MODIFIED", config("a", 7)), event("DELETED", config("a", 99)), is_open=True)],
            ["5: all a", "99: modified a deleted a"],
            id="one stream has all",
        ),
        pytest.param(
            [streams(*FIRST), streams(event("MODIFIED", config("a", 99)), is_open=True)],
            ["5: all a", "99: modified a"],
            id="a watch that ends is gone on with",
        ),
        pytest.param(
            [streams(*FIRST, bookmark(50)), streams(event("ADDED", config("b", 99)), is_open=True)],
            ["5: all a", "50: nothing", "99: added b"],
            id="a bookmark is where it goes on",
        ),
        pytest.param(
            [streams(*FIRST, event("ERROR", STATUS_410)), LAST],
            ["5: all a", "99: all last"],
            id="too old, as an event",
        ),
        pytest.param(
            [streams(*FIRST), refuses(410, "Expired"), LAST],
            ["5: all a", "99: all last"],
            id="too old, as an answer",
        ),
        pytest.param(
            [streams(*FIRST), refuses(500), refuses(429), streams(event("ADDED", config("b", 99)), is_open=True)],
            ["5: all a", "99: added b"],
            id="faults of the server",
        ),
        pytest.param(
            [streams(event("ADDED", config("a", 3))), LAST],
            ["99: all last"],
            id="a list that breaks off is none",
        ),
        pytest.param(
            [streams(*FIRST, event("MODIFIED", config("a", 99)), is_open=True, pieces=7)],
            ["5: all a", "99: modified a"],
            id="lines come in pieces",
        ),
    ],
)
def test_following(answers, wanted):
    rows, _ = asyncio.run(_followed(*answers, until=99))
    assert _together(rows) == wanted


def _together(rows: list[str]) -> list[str]:
    """Rows of changes that follow each other as one: how many come at a time is chance."""
    found: list[str] = []
    for row in rows:
        revision, _, told = row.partition(": ")
        before = found[-1].partition(": ")[2] if found else "nothing"
        if not any(one.startswith(("all", "nothing")) for one in (before, told)):
            found[-1] = f"{revision}: {before} {told}"
        else:
            found.append(row)
    return found


def test_a_watch_goes_on_after_the_last_revision():
    answers = (streams(*FIRST, bookmark(50)), streams(event("ADDED", config("b", 99)), is_open=True))
    _, queries = asyncio.run(_followed(*answers, until=99))
    assert queries[0]["sendInitialEvents"] == "true" and queries[0]["resourceVersionMatch"] == "NotOlderThan"
    assert queries[1]["resourceVersion"] == "50" and "sendInitialEvents" not in queries[1]


def test_an_older_server_is_asked_for_pages():
    first = says({"metadata": {"resourceVersion": "5", "continue": "more"}, "items": [config("a", 3)]})
    second = says({"metadata": {"resourceVersion": "5"}, "items": [config("b", 4)]})
    watch = streams(event("MODIFIED", config("a", 99)), is_open=True)
    rows, queries = asyncio.run(_followed(refuses(422, "Invalid"), first, second, watch, until=99))
    assert rows == ["5: all a b", "99: modified a"]
    assert [query.get("continue") for query in queries[1:3]] == [None, "more"]
    assert queries[1]["limit"] == "500" and queries[3]["resourceVersion"] == "5"


def test_pages_that_have_become_too_old_are_asked_for_anew():
    first = says({"metadata": {"resourceVersion": "5", "continue": "more"}, "items": [config("a", 3)]})
    whole = says({"metadata": {"resourceVersion": "99"}, "items": [config("b", 4)]})
    rows, _ = asyncio.run(_followed(refuses(400), first, refuses(410, "Expired"), whole, until=99))
    assert rows == ["99: all b"]


def test_a_resource_that_nobody_has_is_empty():
    rows, queries = asyncio.run(_followed(LAST, until=1, resource="queues.scheduling.volcano.sh"))
    assert rows[0] == "1: all" and not queries


def test_failures_are_waited_for_ever_longer():
    async def story() -> list[float]:
        async with scripted(refuses(500)) as (kube, _, clock):
            follower = Follower(kube, "configmaps", Heard(1), clock=clock, readings=Readings())
            task = asyncio.create_task(follower.run())
            async with asyncio.timeout(60):
                while len(clock.slept_s) < 12:
                    await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return clock.slept_s

    slept = asyncio.run(story())
    assert slept[0] <= 0.2 and 15.0 <= slept[11] <= 30.0
    assert all(longer > shorter / 2 for shorter, longer in itertools.pairwise(slept))


def test_a_server_that_ends_every_watch_at_once_is_not_asked_at_once():
    async def story() -> list[float]:
        async with scripted(streams(*FIRST), streams()) as (kube, script, clock):
            follower = Follower(kube, "configmaps", Heard(1), clock=clock, readings=Readings())
            task = asyncio.create_task(follower.run())
            async with asyncio.timeout(60):
                while len(script.asked) < 8:
                    await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return clock.slept_s

    slept = asyncio.run(story())
    assert len(slept) >= 6 and slept[5] > 1.0


def test_what_only_servers_look_at_is_left_out():
    async def story() -> None:
        given = config("a", 3)
        given["metadata"]["managedFields"] = [{"manager": "somebody"}]
        given["metadata"]["ownerReferences"] = [{"uid": "owner"}]
        for name in ("apiVersion", "kind"):
            del given[name]
        kept: list[Record] = []

        class Keeping(Heard):
            def listed(self, resource: str, records: list[Record], revision: int) -> None:
                kept.extend(records)
                super().listed(resource, records, revision)

        async with scripted(streams(event("ADDED", given), bookmark(5, is_end=True), is_open=True)) as (kube, _, clock):
            heard, readings = Keeping(5), Readings()
            task = asyncio.create_task(Follower(kube, "configmaps", heard, clock=clock, readings=readings).run())
            async with asyncio.timeout(60):
                await heard.is_done.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        (record,) = kept
        assert (record.uid, record.revision, record.owners) == ("uid-a", 3, ("owner",))
        obj = readings.of(record)
        assert (obj["apiVersion"], obj["kind"]) == ("v1", "ConfigMap") and "managedFields" not in obj["metadata"]
        assert Readings().of(record) == obj

    asyncio.run(story())
