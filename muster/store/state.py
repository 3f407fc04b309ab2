"""All objects of a store and their recent past, in memory: what every read is answered from.

`memory` and `sqlite` own one each and publish to it what has been written. Reading is safe from any thread; publishing
is for the one writer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple

from muster.store.errors import Expired, NotFound, TooNew
from muster.store.history import History, Limits
from muster.store.records import ALL, Action, Event, Key, Page, Record, Scope, Taken
from muster.store.table import Table


class Published(NamedTuple):
    """What follows from a publication."""

    dropped: list[Event]  # no longer in the history
    wakes: list[Callable[[], None]]  # of the watches that have news


class State:
    """Objects, the indexes over them, and the history, as of one revision."""

    def __init__(self, limits: Limits, *, revision: int = 0, records: Iterable[Record] = ()) -> None:
        self.lock = threading.Lock()
        self.revision = revision
        self.history = History(limits, compacted=revision)
        self.live_bytes = 0
        self._keys: dict[str, Key] = {}  # by uid
        self._dependents: dict[str, set[Key]] = {}  # by the uid of their owner
        by_resource: dict[str, list[Record]] = {}
        for record in records:
            by_resource.setdefault(record.key.resource, []).append(record)
            self._index(record)
        self._tables = {resource: Table(found) for resource, found in by_resource.items()}

    # Reading -----------------------------------------------------------------------------------------------------

    def get(self, key: Key) -> Record:
        """The object as it is now."""
        with self.lock:
            record = self.peek(key)
        if record is None:
            raise NotFound(key)
        return record

    def page(self, scope: Scope, *, limit: int, at: int, after: str) -> Page:
        """The objects in scope at a revision, after a path."""
        assert scope.resource != ALL, "a list is of one resource"
        with self.lock:
            at = at or self.revision
            self._check_reach(at)
            past = self.history.past(scope.resource, at) if at < self.revision else {}
            table = self.table(scope.resource)
            records, remaining = table.page(scope.namespace, limit=limit, after=after, past=past)
        return Page(records, at, remaining)

    def watch(self, scope: Scope, since: int, wake: Callable[[], None]) -> HistoryWatch:
        """A place in the history right after a revision."""
        with self.lock:
            self._check_reach(since)
            watch = HistoryWatch(self, scope, since)
            self.history.feed(scope.resource).wakes[watch] = wake
        return watch

    def everything(self) -> tuple[int, list[Record]]:
        """The revision and all objects as of it, for a backup."""
        with self.lock:
            return self.revision, [record for table in self._tables.values() for record in table.records.values()]

    def strays(self) -> list[Key]:
        """The objects that name an owner which does not exist, or not where it could be theirs."""
        with self.lock:
            found = {key for uid, keys in self._dependents.items() for key in keys if not self._is_owner(uid, key)}
        return sorted(found)

    def _is_owner(self, uid: str, dependent: Key) -> bool:
        owner = self._keys.get(uid)
        return owner is not None and owner.can_own(dependent)

    def _check_reach(self, revision: int) -> None:
        if revision < self.history.compacted:
            raise Expired(revision, self.history.compacted)
        if revision > self.revision:
            raise TooNew(revision, self.revision)

    # The writer's own view: it alone changes the state, so it needs no lock to read --------------------------------

    def peek(self, key: Key) -> Record | None:
        table = self._tables.get(key.resource)
        return table.records.get(key.path) if table is not None else None

    def find(self, uid: str) -> Record | None:
        key = self._keys.get(uid)
        return self.peek(key) if key is not None else None

    def dependents(self, uid: str) -> set[Key]:
        return self._dependents.get(uid, set())

    def table(self, resource: str) -> Table:
        """The objects of a resource."""
        if resource not in self._tables:
            self._tables[resource] = Table()
        return self._tables[resource]

    def publish(self, events: list[Event]) -> Published:
        """Make durable writes visible, all at once."""
        if not events:
            return Published([], [])
        with self.lock:
            for event in events:
                self._apply(event)
            self.revision = events[-1].record.revision
            self.history.add(events)
            dropped = self.history.trim()
            resources = {event.record.key.resource: None for event in events}
            wakes = [wake for one in (ALL, *resources) for wake in self.history.feed(one).wakes.values()]
        return Published(dropped, wakes)

    def _apply(self, event: Event) -> None:
        record = event.record
        if event.before is not None:
            self._unindex(event.before)
        if event.action is Action.DELETED:
            self.table(record.key.resource).remove(record.key.path)
        else:
            self._index(record)
            self.table(record.key.resource).put(record)

    def _index(self, record: Record) -> None:
        self.live_bytes += len(record.value)
        self._keys[record.uid] = record.key
        for owner in record.owners:
            self._dependents.setdefault(owner, set()).add(record.key)

    def _unindex(self, record: Record) -> None:
        self.live_bytes -= len(record.value)
        self._keys.pop(record.uid, None)
        for owner in record.owners:
            keys = self._dependents[owner]
            keys.discard(record.key)
            if not keys:
                del self._dependents[owner]


class HistoryWatch:
    """A watch: a scope and a place in the feed of its resource."""

    def __init__(self, state: State, scope: Scope, since: int) -> None:
        self._state = state
        self._scope = scope
        self._feed = state.history.feed(scope.resource)
        self._place = self._feed.place_after(since)
        self._revision = since  # all up to here has been taken

    def take(self) -> Taken:
        """All events since the last call. What one write has changed comes together, never in two halves."""
        with self._state.lock:
            events = self._feed.since(self._place)
            if events is None:
                raise Expired(self._revision, self._state.history.compacted)
            self._place = self._feed.end()
            self._revision = self._state.revision
        if self._scope.namespace != ALL:
            events = [event for event in events if event.record.key.namespace == self._scope.namespace]
        return Taken(events, self._revision)

    def close(self) -> None:
        with self._state.lock:
            self._feed.wakes.pop(self, None)
