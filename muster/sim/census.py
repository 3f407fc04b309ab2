"""All objects of a world as they are, and what has changed since the last look. Used by the invariants.

It follows the store itself, not any process, so it knows the truth. It also keeps a digest of everything that was ever
written: two runs with the same digest are the same run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from muster.store.kinds import Object
from muster.store.objects import Objects, decode
from muster.store.port import Store
from muster.store.records import Action, Key, Record, Scope


class Change(NamedTuple):
    """One write to one object."""

    key: Key
    before: Object | None
    now: Object | None
    revision: int


class Census:
    """What there is."""

    def __init__(self, store: Store, objects: Objects) -> None:
        self._digest = hashlib.sha256()
        self._by_resource: dict[str, dict[Key, Object]] = {}
        self._watch = store.watch(Scope(), store.revision, lambda: None)
        self.changes: list[Change] = []  # of the last look
        self.revision = store.revision
        self.quotas_since = 0  # the revision of the newest change of a queue's or a cohort's spec
        self.rooms: dict[str, list[Object]] = {}  # by node: what it could give, at one time or another
        for resource in objects.kinds:
            for record in store.page(Scope(resource)).records:
                self._take(record, record)

    def look(self, each: Callable[[Change], None]) -> None:
        """Take in what has been written since the last look; each change is told while all else is as it was then."""
        taken = self._watch.take()
        self.changes = []
        for event in taken.events:
            self._digest.update(f"{event.action.value} {event.record.key} ".encode() + event.record.value)
            self._take(event.record, None if event.action is Action.DELETED else event.record)
            each(self.changes[-1])
        self.revision = taken.revision

    def digest(self) -> str:
        """What was written up to now, in short."""
        return self._digest.hexdigest()

    def all(self, resource: str) -> Iterator[Object]:
        """The objects of a resource, in the order in which they came."""
        yield from self._by_resource.get(resource, {}).values()

    def get(self, key: Key) -> Object | None:
        """An object, if it is there."""
        return self._by_resource.get(key.resource, {}).get(key)

    def keys(self, resource: str) -> set[Key]:
        """The keys of a resource."""
        return set(self._by_resource.get(resource, ()))

    def _take(self, written: Record, kept: Record | None) -> None:
        key = written.key
        known = self._by_resource.setdefault(key.resource, {})
        before, now = known.pop(key, None), decode(kept) if kept is not None else None
        if now is not None:
            known[key] = now
        self.changes.append(Change(key, before, now, written.revision))
        if key.resource.startswith(("clusterqueues.", "cohorts.")) and _spec(before) != _spec(now):
            self.quotas_since = written.revision
        if key.resource == "nodes":
            room = ((now or {}).get("status") or {}).get("allocatable") or {}
            if room not in (past := self.rooms.setdefault(key.name, [])):
                past.append(room)


def _spec(obj: Object | None) -> object:
    return None if obj is None else obj.get("spec")
