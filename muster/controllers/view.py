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
_OWNER = ""  # the index that every resource has


class Seen(NamedTuple):
    """A change as it reaches a controller. After a gap several changes may have become one."""

    key: Key
    before: Object | None  # None: it is new
    now: Object | None  # None: it is gone


class Place(NamedTuple):
    """Where objects of a resource can be looked up: by a term of an index, or by the uid of their owner."""

    resource: str
    by: str  # the name of the index
    term: str


class View:
    """The objects of some resources, found by key, by owner and by terms of one's own."""

    def __init__(
        self, indexes: Mapping[tuple[str, str], Terms] | None = None, readings: Readings | None = None
    ) -> None:
        self._records: dict[str, dict[str, dict[str, Record]]] = {}  # by resource, namespace, name
        self._known_indexes = frozenset(indexes or ())
        self._indexes: dict[str, list[tuple[str, Terms]]] = {}  # by resource
        for (resource, index), terms in (indexes or {}).items():
            self._indexes.setdefault(resource, []).append((index, terms))
        self._found_at: dict[Place, dict[Key, None]] = {}
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

    def keys(self, resource: str) -> list[Key]:
        """The keys of a resource's objects, in order."""
        return sorted(record.key for record in self.records(resource))

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
        return self._found(self._found_at.get(Place(resource, _OWNER, uid), ()))

    def with_term(self, resource: str, index: str, term: str) -> list[Object]:
        """The objects of a resource that an index has under a term, in order."""
        return self._found(self._found_at.get(self._place(resource, index, term), ()))

    def has_term(self, resource: str, index: str, term: str) -> bool:
        """Whether an index has anything under a term."""
        return self._place(resource, index, term) in self._found_at

    def has_reached(self, resource: str, revision: int) -> bool:
        """Whether all that was written to a resource up to a revision is known here, if it is followed at all."""
        return self._revisions.get(resource, revision) >= revision

    async def reaches(self, resource: str, revision: int) -> None:
        """Wait until that is so."""
        if not self.has_reached(resource, revision):
            known = asyncio.get_running_loop().create_future()
            self._waiting.append((resource, revision, known))
            await known

    def _place(self, resource: str, index: str, term: str) -> Place:
        assert (resource, index) in self._known_indexes, f"a view without the index {index} of {resource} was asked"
        return Place(resource, index, term)

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
        self.knows((resource,), revision)
        return [one for one in seen if one is not None]

    def knows(self, resources: Iterable[str], revision: int) -> None:
        """Note that nothing is missing of some resources up to a revision."""
        for resource in resources:
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
        named = self._records.setdefault(key.resource, {}).setdefault(key.namespace, {})
        if now is None:
            del named[key.name]
        else:
            named[key.name] = now
        seen = Seen(key, *(None if one is None else self._object(one) for one in (before, now)))
        had, has = self._places(before, seen.before), self._places(now, seen.now)
        for place in had - has:
            del self._found_at[place][key]
            if not self._found_at[place]:
                del self._found_at[place]  # else memory would grow with every owner that has ever been
        for place in has - had:
            self._found_at.setdefault(place, {})[key] = None
        return seen

    def _places(self, record: Record | None, seen: Object | None) -> set[Place]:
        """Every place where an object can be looked up."""
        if record is None or seen is None:
            return set()
        resource = record.key.resource
        places = {Place(resource, _OWNER, uid) for uid in record.owners}
        for index, terms in self._indexes.get(resource, ()):
            places.update(Place(resource, index, term) for term in terms(seen))
        return places
