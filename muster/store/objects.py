"""Writes to objects that obey the rules, as changes for any store. Used by the API server and the controllers.

Each method gives a function for `Store.write` or `AsyncStore.write`. What can be checked without the present state is
checked before that function exists, so that a bad object never reaches the writer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

import msgspec

from muster.model.errors import InvalidObject
from muster.store.clock import Clock
from muster.store.errors import AlreadyExists, NotFound, Refused
from muster.store.identities import Identities
from muster.store.kinds import KindRules, Object
from muster.store.metadata import is_deleting, metadata_of, owners_of
from muster.store.port import Change, Transaction
from muster.store.records import Key, Record
from muster.store.rules import (
    Birth,
    Deletion,
    check_meant,
    check_same,
    created,
    deleted,
    is_gone,
    status_updated,
    updated,
)

NAMESPACES = "namespaces"
_NAMES_TRIED = 8
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Object).decode


class Part(Enum):
    """Which half of an object a write is for."""

    MAIN = "main"  # all but the status, where that is a subresource
    STATUS = "status"


class By(NamedTuple):
    """Who writes and how."""

    user: str = ""
    is_dry_run: bool = False
    manager: str = "muster"  # under which name its fields are noted
    api_version: str = ""  # in which it sees the object; as it is stored unless it says so
    subresource: str = ""
    is_applied: bool = False  # the object comes with its managers, who have been settled already


NOBODY = By()
PLAINLY = Deletion()


class Audit(NamedTuple):
    """One write that has become durable."""

    verb: str
    user: str
    record: Record


class Written(NamedTuple):
    """What a write has left: the object, or its last state when it is gone."""

    record: Record
    is_gone: bool = False


class Write(NamedTuple):
    """A write as whoever notes the owners of fields sees it."""

    asked: Object  # what the writer sent, before the server has completed it
    rules: KindRules
    by: By
    now_s: float


class Ownership(Protocol):
    """Notes who owns which field: the `managedFields` of an object after a write."""

    def of_new(self, new: Object, write: Write) -> list[Object]: ...

    def of_changed(self, before: Object, new: Object, write: Write) -> list[Object]:
        """The entries after a change; those before where the write is none but for its time."""


class Guard(Protocol):
    """Sees every write within its transaction, whoever makes it; may refuse it, and may write what follows from it."""

    def check(self, write: Transaction, key: Key, new: Object | None, before: Record | None) -> None:
        """After the write; `new` is None where the object is gone, `before` where there was none."""


class Notes(NamedTuple):
    """Who takes part in writes: notes them, or refuses them."""

    audit: Callable[[Audit], None] | None = None
    ownership: Ownership | None = None
    guard: Guard | None = None


NO_NOTES = Notes()
Complete = Callable[[Object, Object], Object]  # what the server adds to an object, given the one before


def decode(record: Record) -> Object:
    """The object of a record, as a copy of its own."""
    return _decode(record.value)


class Objects:
    """The kinds there are, and where time and identities come from."""

    def __init__(
        self,
        kinds: Mapping[str, KindRules],
        clock: Clock,
        *,
        identities: Identities,
        notes: Notes = NO_NOTES,
        has_namespaces: bool = True,  # whether an object's namespace has to exist
    ) -> None:
        self.kinds = kinds
        self._clock = clock
        self._identities = identities
        self._audit = notes.audit
        self._ownership = notes.ownership
        self._guard = notes.guard
        self._has_namespaces = has_namespaces

    def create(
        self, resource: str, given: Object, by: By = NOBODY, *, complete: Complete | None = None
    ) -> Change[Written]:
        """A write that adds an object."""
        rules = self._rules(resource, by)
        asked = given
        if complete is not None:
            given = complete(given, {})
        first = self._born(given, asked, rules, by)
        is_named = bool(metadata_of(given).get("name"))

        def change(write: Transaction) -> Written:
            new, key = first, _key_of(first, rules)
            self._check_namespace(write, key)
            for _ in range(0 if is_named else _NAMES_TRIED):
                if write.get(key) is None:
                    break
                new = self._born(given, asked, rules, by)
                key = _key_of(new, rules)
            if (there := write.get(key)) is not None:
                raise AlreadyExists(key, is_deleting=is_deleting(decode(there)))
            return self._put(write, "create", new, key, by)

        return change

    def update(self, key: Key, given: Object, *, part: Part = Part.MAIN, by: By = NOBODY) -> Change[Written]:
        """A write that replaces an object, or its status."""
        return self._changed(key, lambda _: given, part=part, by=by)

    def modify(
        self,
        key: Key,
        how: Callable[[Object], Object],
        *,
        part: Part = Part.MAIN,
        by: By = NOBODY,
        complete: Complete | None = None,
    ) -> Change[Written]:
        """A write that makes a new object out of the present one, which `how` may change."""
        rules = self._rules(key.resource, by)
        return self._changed(key, lambda record: how(rules.revive(decode(record))), part=part, by=by, complete=complete)

    def _changed(
        self,
        key: Key,
        how: Callable[[Record], Object],
        *,
        part: Part,
        by: By,
        complete: Complete | None = None,
    ) -> Change[Written]:
        rules = self._rules(key.resource, by)
        make = updated if part is Part.MAIN else status_updated

        def change(write: Transaction) -> Written:
            record, before = _present(write, key, rules)
            asked = given = how(record)
            wanted = metadata_of(given)
            check_same(key, before, uid=wanted.get("uid"), revision=wanted.get("resourceVersion"))
            if complete is not None:
                given = complete(given, before)
            new = make(before, given, rules)
            if self._ownership is not None:
                noted = Write(asked, rules, _in_part(by, part), write.now_s)
                _set_managers(new, self._ownership.of_changed(before, new, noted))
            if new == before and new == decode(record):
                return Written(record)  # no write, no revision, no event
            if is_deleting(before) and is_gone(new):
                return self._let_go(write, new, key, by)
            return self._put(write, "update" if part is Part.MAIN else "update status", new, key, by)

        return change

    def delete(self, key: Key, deletion: Deletion = PLAINLY, *, by: By = NOBODY) -> Change[Written]:
        """A write that removes an object, or marks it for those who have to finish with it first."""
        rules = self._rules(key.resource, by)

        def change(write: Transaction) -> Written:
            record, before = _present(write, key, rules)
            check_meant(key, before, deletion)
            new = deleted(before, deletion, rules, write.now_s)
            if is_gone(new):
                if rules.is_marked_first and new != before:
                    self._put(write, "delete", new, key, by)
                is_marked = rules.is_marked_first or is_deleting(before)
                return self._remove(write, new if is_marked else before, key, by)
            if new == before:
                return Written(record)
            return self._put(write, "delete", new, key, by)

        return change

    def settle(self, write: Transaction, key: Key, new: Object, *, by: By | None = NOBODY) -> None:
        """Within a write: keep an object of which only metadata was changed, or remove it if that was all it took.

        For the garbage collector. Nobody's validation is asked: an object must not become immortal by a new rule.
        Without `by` nobody owns what has changed.
        """
        if by is not None and self._ownership is not None:
            rules = self.kinds[key.resource]
            _, before = _present(write, key, rules)
            noted = Write(new, rules, by, write.now_s)
            _set_managers(new, self._ownership.of_changed(before, new, noted))
        if is_gone(new):
            self._let_go(write, new, key, NOBODY)
        else:
            self._put(write, "update", new, key, NOBODY)

    def _rules(self, resource: str, by: By) -> KindRules:
        rules = self.kinds[resource]
        return rules.versions.get(by.api_version, rules)

    def _born(self, given: Object, asked: Object, rules: KindRules, by: By) -> Object:
        suffix = "" if metadata_of(given).get("name") else self._identities.suffix()
        now_s = self._clock.now_s()
        new = created(given, rules, Birth(self._identities.uid(), suffix, now_s))
        if self._ownership is not None:
            _set_managers(new, self._ownership.of_new(new, Write(asked, rules, by, now_s)))
        return new

    def _check_namespace(self, write: Transaction, key: Key) -> None:
        if not key.namespace or not self._has_namespaces:
            return
        namespace = write.get(Key(NAMESPACES, "", key.namespace))
        if namespace is None:
            raise NotFound(Key(NAMESPACES, "", key.namespace))
        # Almost no namespace is being deleted, and looking for the word is much cheaper than reading the object.
        if b'"deletionTimestamp"' in namespace.value and is_deleting(decode(namespace)):
            raise Refused(key, f"the namespace {key.namespace} is being deleted")

    def _put(self, write: Transaction, verb: str, new: Object, key: Key, by: By) -> Written:
        before = write.get(key)
        value = _encoded(new, write.next_revision)
        record = write.put(key, uid=new["metadata"]["uid"], value=value, owners=owners_of(new))
        if self._guard is not None:
            self._guard.check(write, key, new, before)
        return self._finish(write, verb, Written(record), by)

    def _let_go(self, write: Transaction, new: Object, key: Key, by: By) -> Written:
        """Remove what nothing holds any more: others see it as it was stored last, the writer as it is now."""
        record, before = _present(write, key, self.kinds[key.resource])
        new["metadata"]["resourceVersion"] = str(record.revision)
        gone = self._remove(write, before, key, by)
        return Written(msgspec.structs.replace(gone.record, value=_encode(new)), is_gone=True)

    def _remove(self, write: Transaction, last: Object, key: Key, by: By) -> Written:
        before = write.get(key)
        record = write.remove(key, _encoded(last, write.next_revision))
        if self._guard is not None:
            self._guard.check(write, key, None, before)
        return self._finish(write, "delete", Written(record, is_gone=True), by)

    def _finish(self, write: Transaction, verb: str, written: Written, by: By) -> Written:
        if by.is_dry_run:
            write.discard()
        elif (audit := self._audit) is not None:
            write.on_commit(lambda: audit(Audit(verb, by.user, written.record)))
        return written


def _in_part(by: By, part: Part) -> By:
    is_named = part is Part.MAIN or by.subresource
    return by if is_named else by._replace(subresource=part.value)


def _set_managers(new: Object, entries: list[Object]) -> None:
    if entries:
        new["metadata"]["managedFields"] = entries
    else:
        new["metadata"].pop("managedFields", None)


def _key_of(given: Object, rules: KindRules) -> Key:
    metadata = given["metadata"]
    return Key(rules.resource, metadata.get("namespace") or "", metadata["name"])


def _present(write: Transaction, key: Key, rules: KindRules) -> tuple[Record, Object]:
    record = write.get(key)
    if record is None:
        raise NotFound(key)
    return record, rules.revive(decode(record))


def _encoded(new: Object, revision: int) -> bytes:
    new["metadata"]["resourceVersion"] = str(revision)
    try:
        return _encode(new)
    except (OverflowError, UnicodeEncodeError) as problem:
        raise InvalidObject(
            "", f"cannot be stored: {problem}", "give numbers of 64 bits and whole characters"
        ) from None
