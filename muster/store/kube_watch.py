"""Follows one resource of a cluster: all of it first, then each change, for as long as anybody listens.

Run by the feed of a cluster's controllers. Whatever ends a watch, it is gone on with where it ended; where the server
no longer knows what came after that, everything is listed anew, and what was missed comes with it.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from muster.model.errors import InvalidObject
from muster.store.clock import Clock
from muster.store.errors import Expired, NotFound, StoreError, Unavailable
from muster.store.kinds import Object
from muster.store.kube import Kube, Place, Status, problem_of, problem_of_status
from muster.store.metadata import owners_of
from muster.store.readings import Readings
from muster.store.records import Action, Event, Key, Record

log = logging.getLogger(__name__)
PAGE = 500
OBJECTS_MOST = 500_000  # of one resource: three times as many pods as Kubernetes promises to hold
ABSENT_S = 5.0  # until it is asked again for a resource that the server does not have
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 30.0
_WATCH_S = (240, 480)  # a watch ends by itself within these, so that not all come back at once
_INITIAL_END = "k8s.io/initial-events-end"
_ACTIONS = {one.value: one for one in Action}


class Hearing(Protocol):
    """Who is told of a resource."""

    def listed(self, resource: str, records: list[Record], revision: int) -> None:
        """All objects there are, as of a revision."""

    def changed(self, resource: str, events: list[Event], revision: int) -> None:
        """What came after that, in order; with no events this only says that there were none up to a revision."""


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ListHead(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct):
    metadata: _ListHead
    items: list[Object] | None = None


_read_line = msgspec.json.Decoder(_Line).decode
_read_list = msgspec.json.Decoder(_List).decode
_read_object = msgspec.json.Decoder(Object).decode
_read_status = msgspec.json.Decoder(Status).decode
_encode = msgspec.json.Encoder().encode


class Follower:
    """One resource, followed."""

    def __init__(self, kube: Kube, resource: str, hearing: Hearing, *, clock: Clock, readings: Readings) -> None:
        self._kube = kube
        selector = kube.selectors.get(resource, "")
        self._selected = {"labelSelector": selector} if selector else {}
        self._resource = resource
        self._hearing = hearing
        self._clock = clock
        self._readings = readings
        self._chance = random.Random()
        self._revision = 0  # up to which everything was told; 0: nothing is known
        self._newest = 0  # that was ever told
        self._has_watch_list = True
        self._tries = 0

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                place = await self._kube.where(self._resource)
                if place is None:
                    await self._be_absent()
                elif self._revision == 0 and not self._has_watch_list:
                    await self._list(place)
                else:
                    known = self._revision
                    await self._watch(place)
                    if self._revision == known:
                        await self._pause()  # a server that ends watches at once is not asked at once
            except Expired:
                log.info("%s: the server's history does not go back that far, it is listed anew", self._resource)
                self._revision = 0
                await self._pause()
            except NotFound:
                self._kube.forget(self._resource)
                self._revision = 0
                await self._be_absent()
            except (StoreError, InvalidObject) as problem:
                log.warning("%s waits for the server: %s", self._resource, problem)
                await self._pause()

    async def _pause(self) -> None:
        longest_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**self._tries)
        self._tries = min(self._tries + 1, 16)
        await self._clock.sleep(longest_s * (0.5 + self._chance.random() / 2))

    async def _be_absent(self) -> None:
        """The server has no such resource now: there are none of its objects."""
        self._newest += 1  # what was known of them is older
        self._hearing.listed(self._resource, [], self._newest)
        await self._clock.sleep(ABSENT_S * (0.5 + self._chance.random()))

    # Listing ---------------------------------------------------------------------------------------------------------

    async def _list(self, place: Place) -> None:
        """All objects, page by page."""
        records: list[Record] = []
        query = {"limit": str(PAGE), **self._selected}
        while True:
            answer = await self._kube.ask("GET", place.path(), query=query)
            if not answer.is_good:
                raise problem_of(Key(self._resource, "", ""), answer)
            page = _read_list(answer.body)
            records += [self._record(one, place) for one in page.items or ()]
            if not page.metadata.continue_:
                break
            if len(records) > OBJECTS_MOST:
                raise Unavailable(f"there are more than {OBJECTS_MOST} {self._resource}")
            query["continue"] = page.metadata.continue_
        self._tell_all(records, int(page.metadata.resourceVersion))

    def _tell_all(self, records: list[Record], revision: int) -> None:
        self._revision, self._newest = revision, max(self._newest, revision)
        self._tries = 0
        self._hearing.listed(self._resource, records, revision)

    # Watching --------------------------------------------------------------------------------------------------------

    async def _watch(self, place: Place) -> None:
        """Follow until the server ends it; with all objects first where nothing is known."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._chance.randint(*_WATCH_S)),
            **self._selected,
        }
        if self._revision:
            query["resourceVersion"] = str(self._revision)
        else:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        try:
            async with self._kube.stream(place.path(), query) as lines:
                if not self._revision:
                    await self._take_initial(lines, place)
                async for some in lines:
                    self._take(some, place)
        except InvalidObject:
            if self._revision:
                raise
            self._has_watch_list = False  # an older server: it is asked for pages

    async def _take_initial(self, lines: AsyncIterator[list[bytes]], place: Place) -> None:
        """The objects that there are, up to the mark after the last."""
        records: list[Record] = []
        async for some in lines:
            for number, text in enumerate(some):
                kind, obj = self._read(text)
                if kind == "BOOKMARK" and _INITIAL_END in (obj["metadata"].get("annotations") or {}):
                    self._tell_all(records, int(obj["metadata"]["resourceVersion"]))
                    self._take(some[number + 1 :], place)
                    return
                if kind != "BOOKMARK":
                    records.append(self._record(obj, place))
            if len(records) > OBJECTS_MOST:
                raise Unavailable(f"there are more than {OBJECTS_MOST} {self._resource}")
        raise Unavailable(f"the list of {self._resource} ended before its end")

    def _take(self, lines: list[bytes], place: Place) -> None:
        events: list[Event] = []
        revision = self._revision
        try:
            for text in lines:
                if not text:
                    continue
                kind, obj = self._read(text)
                revision = int(obj["metadata"]["resourceVersion"])
                if (action := _ACTIONS.get(kind)) is not None:
                    events.append(Event(action, self._record(obj, place), None, 0.0))
        finally:
            # What came before a line that says that it is over is known all the same.
            if revision > self._revision or events:
                self._revision, self._newest = revision, max(self._newest, revision)
                self._tries = 0
                self._hearing.changed(self._resource, events, revision)

    def _read(self, text: bytes) -> tuple[str, Object]:
        try:
            line = _read_line(text)
        except msgspec.DecodeError:
            raise Unavailable(f"a line of the watch of {self._resource} cannot be read") from None
        if line.type == "ERROR":
            status = _read_status(line.object)
            raise problem_of_status(Key(self._resource, "", ""), status, status.code)
        return line.type, _read_object(line.object)

    def _record(self, obj: Object, place: Place) -> Record:
        """An object as it is kept: without what only servers look at, and with what lists leave out."""
        metadata = obj["metadata"]
        metadata.pop("managedFields", None)
        obj.setdefault("apiVersion", place.api_version)
        obj.setdefault("kind", place.kind)
        key = Key(self._resource, metadata.get("namespace") or "", metadata["name"])
        revision = int(metadata["resourceVersion"])
        owners = owners_of(obj) if "ownerReferences" in metadata else ()
        record = Record(key, metadata.get("uid") or "", revision, revision, _encode(obj), owners)
        self._readings.note(record, obj)
        return record
