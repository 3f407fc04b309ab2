"""Clients that follow what changes, each in its own way, and keep all that they are told. Used by `test_streams`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from random import Random

from bench.wire import GONE, Connection
from tests.e2e.lives import Json, Lives, Version, version_of

INITIAL_END = "k8s.io/initial-events-end"
SHORT_S = 3  # of a watch that ends by itself
READ_AHEAD_BYTES = 64 * 1024
Key = tuple[str, str]  # namespace and name


@dataclass(frozen=True, slots=True)
class Seen:
    """One event."""

    kind: str
    key: Key
    version: Version


@dataclass(slots=True)
class Segment:
    """What a client has been told since it listed all there was."""

    start: int
    state: dict[Key, Version]
    events: list[Seen] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)  # bookmarks: how many events came before, the revision
    end: int = 0  # nothing up to here is missing


@dataclass(frozen=True, slots=True)
class Manners:
    """How a client behaves."""

    namespace: str  # empty for all
    has_bookmarks: bool
    wants_initial: bool  # asks for the present state as events rather than a list
    is_slow: bool  # does not read while much is written
    is_absent: bool  # goes away before much is written, and comes back after it


def manners_of(chance: Random, namespace: str) -> Manners:
    """A client's manners; few of them follow all namespaces, which is where the large objects are."""
    is_everywhere = chance.random() < 0.2
    return Manners(
        namespace="" if is_everywhere else namespace,
        has_bookmarks=chance.random() < 0.5,
        wants_initial=chance.random() < 0.3,
        is_slow=is_everywhere and chance.random() < 0.6,
        is_absent=not is_everywhere and chance.random() < 0.2,
    )


class Follower:
    """One stream: it is cut off now and then, goes on where it was, and starts anew where that is too long ago."""

    def __init__(
        self, lives: Lives, manners: Manners, *, chance: Random, last: Key, has_compacted: asyncio.Event
    ) -> None:
        self._lives = lives
        self._last = last  # what is made after all else
        self._chance = chance
        self._has_compacted = has_compacted
        self._needs_list = True
        self.has_left = asyncio.Event()
        if not manners.is_absent:
            self.has_left.set()
        self.manners = manners
        self.segments: list[Segment] = []
        self.expired_at: list[int] = []  # where it was when it was told to start anew
        self.late_at: int | None = None  # where it was when it came back after much had been written

    @property
    def _path(self) -> str:
        namespace = self.manners.namespace
        return f"/api/v1/namespaces/{namespace}/configmaps" if namespace else "/api/v1/configmaps"

    def has_all(self) -> bool:
        """Whether it knows of the last object."""
        if self._needs_list:
            return False
        last = self.segments[-1]
        return self._last in last.state or any(one.key == self._last for one in last.events)

    async def follow(self) -> None:
        """Follow to the end, over as many connections as that takes."""
        while not self.has_all():
            if self.manners.is_absent and self.segments and self.late_at is None:
                self.has_left.set()
                await self._has_compacted.wait()
                self.late_at = self.segments[-1].end
            try:
                connection = await self._lives.connect(buffer_bytes=READ_AHEAD_BYTES)
            except GONE:
                continue
            try:
                await self._once(connection)
            except GONE:
                continue
            finally:
                connection.close()

    async def _once(self, connection: Connection) -> None:
        if self._needs_list and not self.manners.wants_initial:
            _, answer = await connection.request("GET", self._path)
            self._begin(json.loads(answer))
        if self.has_all() or self._is_leaving():
            return
        wanted = f"{self._path}?watch=true&timeoutSeconds={SHORT_S}"
        if self._needs_list:
            wanted += "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        else:
            wanted += f"&resourceVersion={self.segments[-1].end}"
            wanted += "&allowWatchBookmarks=true" if self.manners.has_bookmarks else ""
        async with aclosing(connection.lines(wanted)) as lines:
            if self._needs_list:
                await self._begin_with_events(lines)
            if not self._needs_list and not self.has_all() and not self._is_leaving():
                await self._take(lines)

    def _is_leaving(self) -> bool:
        return self.manners.is_absent and not self._needs_list and self.late_at is None

    def _begin(self, listed: Json) -> None:
        state = {key_of(one): version_of(one) for one in listed["items"]}
        revision = int(listed["metadata"]["resourceVersion"])
        self.segments.append(Segment(revision, state, end=revision))
        self._needs_list = False

    async def _begin_with_events(self, lines: AsyncIterator[bytes]) -> None:
        items: list[Json] = []
        async for line in lines:
            event = json.loads(line)
            if event["type"] == "BOOKMARK":
                assert event["object"]["metadata"]["annotations"] == {INITIAL_END: "true"}, event
                self._begin({"items": items, "metadata": event["object"]["metadata"]})
                return
            assert event["type"] == "ADDED", event
            items.append(event["object"])

    async def _take(self, lines: AsyncIterator[bytes]) -> None:
        segment = self.segments[-1]
        async for line in lines:
            event = json.loads(line)
            shown = event.get("object", event)  # a refusal is no event
            if shown["kind"] == "Status":
                assert (shown["code"], shown["reason"]) == (410, "Expired"), shown
                self._needs_list = True
                self.expired_at.append(segment.end)
                return
            revision = int(shown["metadata"]["resourceVersion"])
            if event["type"] == "BOOKMARK":
                segment.marks.append((len(segment.events), revision))
            else:
                segment.events.append(Seen(event["type"], key_of(shown), version_of(shown)))
            segment.end = revision
            if event["type"] != "BOOKMARK" and key_of(shown) == self._last:
                return
            if await self._is_distracted():
                return

    async def _is_distracted(self) -> bool:
        """Whether it leaves, as connections do; one that is slow reads nothing for a while."""
        if self.manners.is_slow:
            await self._has_compacted.wait()
        return self._chance.random() < 0.02


def key_of(shown: Json) -> Key:
    return shown["metadata"]["namespace"], shown["metadata"]["name"]
