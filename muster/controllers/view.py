"""What a controller knows of the objects it follows: the newest states that have reached it. Kept by a feed.

Objects stay the texts they came as and are read when somebody asks: tens of thousands of them cost little until then.
Whoever gets an object must not change it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from muster.store.kinds import Object
from muster.store.readings import Readings
from muster.store.records import Action, Event, Key, Record

Terms = Callable[[Object], Iterable[str]]


class Seen(NamedTuple):
    """A change as it reaches a controller. After a gap several changes may have become one."""

    key: Key
    before: Object | None  # None: it is new
    now: Object | None  # None: it is gone


class View:
    """The objects of some resources, found by key, by owner and by terms of one's own."""

    def __init__(
        self, indexes: Mapping[tuple[str, str], Terms] | None = None, readings: Readings | None = None
    ) -> None:
        self._records: dict[str, dict[str, dict[str, Record]]] = {}  # by resource, namespace, name
        self._owned: dict[str, dict[Key, None]] = {}  # by the owner's uid
        self._indexes = {name: (terms, dict[str, dict[Key, None]]()) for name, terms in (indexes or {}).items()}
        self._revisions: dict[str, int] = {}  # up to which everything is known of a resource
        self._object = (readings or Readings()).of  # views of one store share theirs
        self._waiting: list[tuple[str, int, asyncio.Future[None]]] = []

    # Asking ----------------------------------------------------------------------------------------------------------

    def get(self, key: Key) -> Object | None:
        """An object, if it is there."""
        record = self.record(key)
        return None if record is None else self._object(record)

    def record(self, key: Key) -> Record | None:
        """An object's text and revision, if it is there."""
        return self._records.get(key.resource, {}).get(key.namespace, {}).get(key.name)

    def records(self, resource: str) -> list[Record]:
        """The texts of a resource's objects as of now, for somebody who takes longer than now."""
        return [record for named in self._records.get(resource, {}).values() for record in named.values()]

    def all(self, resource: str, namespace: str = "") -> Iterator[Object]:
        """The objects of a resource, in one namespace or in all, in order."""
        by_namespace = self._records.get(resource, {})
        for one in [namespace] if namespace else sorted(by_namespace):
            named = by_namespace.get(one, {})
            for name in sorted(named):
                yield self._object(named[name])

    def count(self, resource: str) -> int:
        """How many objects of a resource there are."""
        return sum(len(named) for named in self._records.get(resource, {}).values())

    def owned(self, uid: str, resource: str) -> list[Object]:
        """The objects of a resource that name this uid as an owner, in order."""
        return self._found(key for key in self._owned.get(uid, ()) if key.resource == resource)

    def with_term(self, resource: str, index: str, term: str) -> list[Object]:
        """The objects of a resource that an index has under a term, in order."""
        return self._found(self._indexes[resource, index][1].get(term, ()))

    def has_term(self, resource: str, index: str, term: str) -> bool:
        """Whether an index has anything under a term."""
        return bool(self._indexes[resource, index][1].get(term))

    def has_reached(self, resource: str, revision: int) -> bool:
        """Whether all that was written to a resource up to a revision is known here, if it is followed at all."""
        return self._revisions.get(resource, revision) >= revision

    async def reaches(self, resource: str, revision: int) -> None:
        """Wait until that is so."""
        if not self.has_reached(resource, revision):
            known = asyncio.get_running_loop().create_future()
            self._waiting.append((resource, revision, known))
            await known

    def _found(self, keys: Iterable[Key]) -> list[Object]:
        found = (self.get(key) for key in sorted(keys))
        return [one for one in found if one is not None]

    # Learning --------------------------------------------------------------------------------------------------------

    def learn(self, event: Event) -> Seen | None:
        """Take in a change; `None` where it is older than what is known."""
        record = event.record
        if record.revision <= self._revisions.get(record.key.resource, 0):
            return None  # told once more: an object that is gone by now must not come back
        return self._set(record.key, None if event.action is Action.DELETED else record, record.revision)

    def learn_all(self, resource: str, records: Iterable[Record], revision: int) -> list[Seen]:
        """Take in a list of all objects of a resource; gives what that changes."""
        now = {record.key: record for record in records}
        known = self._records.get(resource, {})
        gone = [record.key for named in known.values() for record in named.values() if record.key not in now]
        seen = [self._set(key, None, revision) for key in gone]
        seen += [self._set(key, record, record.revision) for key, record in now.items()]
        self.knows(resource, revision)
        return [one for one in seen if one is not None]

    def knows(self, resource: str, revision: int) -> None:
        """Note that nothing is missing of a resource up to a revision."""
        self._revisions[resource] = max(revision, self._revisions.get(resource, 0))
        still: list[tuple[str, int, asyncio.Future[None]]] = []
        for wanted, wanted_revision, waiting in self._waiting:
            if self._revisions.get(wanted, 0) < wanted_revision:
                still.append((wanted, wanted_revision, waiting))
            elif not waiting.done():
                waiting.set_result(None)
        self._waiting = still

    def _set(self, key: Key, now: Record | None, revision: int) -> Seen | None:
        before = self.record(key)
        if before is not None and before.revision >= revision:
            return None  # it comes late, or twice
        if before is None and now is None:
            return None
        seen_before = None if before is None else self._object(before)
        if before is not None and seen_before is not None:
            self._forget(before, seen_before)
        if now is None:
            return Seen(key, seen_before, None)
        self._records.setdefault(key.resource, {}).setdefault(key.namespace, {})[key.name] = now
        seen_now = self._object(now)
        for terms in self._terms(now, seen_now):
            terms[key] = None
        return Seen(key, seen_before, seen_now)

    def _forget(self, record: Record, seen: Object) -> None:
        key = record.key
        del self._records[key.resource][key.namespace][key.name]
        for terms in self._terms(record, seen):
            terms.pop(key, None)

    def _terms(self, record: Record, seen: Object) -> Iterator[dict[Key, None]]:
        """Every place where an object can be looked up."""
        for uid in record.owners:
            yield self._owned.setdefault(uid, {})
        for (resource, _), (terms, by_term) in self._indexes.items():
            if resource == record.key.resource:
                for term in terms(seen):
                    yield by_term.setdefault(term, {})
