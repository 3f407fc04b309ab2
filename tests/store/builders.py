"""Small stores and writes for the tests of the store."""

from __future__ import annotations

import json
from pathlib import Path

from muster.store.base import BaseStore
from muster.store.clock import VirtualClock
from muster.store.errors import AlreadyExists, Conflict, NotFound
from muster.store.history import Limits
from muster.store.memory import MemoryStore
from muster.store.port import Change, Transaction
from muster.store.records import Event, Key, Record, Scope, Taken
from muster.store.sqlite import SqliteStore

PODS = Scope("pods")


def pod(name: str, namespace: str = "default") -> Key:
    return Key("pods", namespace, name)


def open_store(kind: str, folder: Path, limits: Limits | None = None, clock: VirtualClock | None = None) -> BaseStore:
    """A store of either kind; the one in a file is opened again when the folder has been used before."""
    clock = clock or VirtualClock(1_000.0)
    return MemoryStore(clock, limits) if kind == "memory" else SqliteStore(folder, clock, limits=limits)


def text(write: Transaction, content: object) -> bytes:
    """A value that names its revision, as the values of objects do."""
    return json.dumps({"content": content, "revision": write.next_revision}).encode()


def content(record: Record) -> object:
    """What was put, after a look at whether the value names the revision of its record."""
    value = json.loads(record.value)
    assert value["revision"] == record.revision, f"{record} holds revision {value['revision']}"
    return value["content"]


def create(key: Key, what: object = "", owners: tuple[str, ...] = ()) -> Change[Record]:
    def change(write: Transaction) -> Record:
        if write.get(key) is not None:
            raise AlreadyExists(key)
        uid = f"{key.resource}/{key.path}#{write.next_revision}"
        return write.put(key, uid=uid, value=text(write, what), owners=owners)

    return change


def replace(key: Key, what: object, revision: int = 0) -> Change[Record]:
    """Replace an object; with a revision, only in that state."""

    def change(write: Transaction) -> Record:
        present = write.get(key)
        if present is None:
            raise NotFound(key)
        if revision and present.revision != revision:
            raise Conflict(key, f"is at {present.revision}")
        return write.put(key, uid=present.uid, value=text(write, what), owners=present.owners)

    return change


def remove(key: Key) -> Change[Record]:
    def change(write: Transaction) -> Record:
        present = write.get(key)
        if present is None:
            raise NotFound(key)
        return write.remove(key, text(write, content(present)))

    return change


def together(*changes: Change[Record]) -> Change[list[Record]]:
    return lambda write: [change(write) for change in changes]


def nothing() -> None:
    """For watches that are asked, never woken."""


def names(records: list[Record]) -> list[str]:
    return [record.key.path for record in records]


def told(taken: Taken | list[Event]) -> list[tuple[str, str, int]]:
    """Events as rows: what happened, to whom, at which revision."""
    events = taken.events if isinstance(taken, Taken) else taken
    return [(event.action.value, event.record.key.path, event.record.revision) for event in events]
