"""The file of a store: its schema, and the few statements that touch it. Used by `sqlite` and `backup`.

One table holds every write as a row, in the order of revisions: the newest row of a key is the object, older ones are
the history. Rows are only ever appended, and deleted once nobody can ask for them any more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from muster.store.errors import Unavailable
from muster.store.records import Action, Event, Key, Record

_APPLICATION = 0x4D555354  # "MUST", so that no other program's file is taken for a store
_ROWS_A_STATEMENT = 500  # SQLite allows 32,766 values in one
_COLUMNS = "revision, resource, namespace, name, uid, created, owners, is_deleted, time_s, value"

_ALONE = "PRAGMA locking_mode = EXCLUSIVE"
# Durable means FULL: with NORMAL a power cut takes back writes that were acknowledged. Large pages hold several objects
# each, which keeps the file near the size of what is in it.
_SETTINGS = (
    "PRAGMA page_size = 16384",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",  # macOS tells the disk to write only when asked for this
    "PRAGMA wal_autocheckpoint = 256",
    "PRAGMA journal_size_limit = 4194304",
    "PRAGMA cache_size = -4096",
)

# The step at index n brings a file of version n to version n + 1.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        f"PRAGMA application_id = {_APPLICATION}",
        "CREATE TABLE about (version INTEGER NOT NULL, compacted INTEGER NOT NULL, digest TEXT NOT NULL)",
        "INSERT INTO about VALUES (0, 0, '')",
        """CREATE TABLE log (
            revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
            uid TEXT NOT NULL, created INTEGER NOT NULL, owners TEXT NOT NULL,
            is_deleted INTEGER NOT NULL, time_s REAL NOT NULL, value BLOB NOT NULL)""",
    ),
)


class Connection(Protocol):
    """What is needed of a connection to SQLite that is in autocommit mode."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Iterable[Any]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Driver:
    """A way to SQLite: how to connect, and what it raises when something goes wrong."""

    connect: Callable[[Path], Connection]
    errors: tuple[type[Exception], ...]


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


STANDARD = Driver(_connect, (sqlite3.Error, OSError))


class About(NamedTuple):
    """What a file says about itself."""

    compacted: int
    digest: str  # of a backup's content; empty in a store that is in use


class StoreFile:
    """An open file. Its errors are the driver's; only opening turns them into Unavailable."""

    def __init__(self, path: Path, driver: Driver = STANDARD) -> None:
        self.path = path
        self.driver = driver
        try:
            self._connection = driver.connect(path)
            self._prepare()
        except driver.errors as problem:
            raise Unavailable(f"{path} cannot be opened: {problem}") from problem

    def _prepare(self) -> None:
        try:
            self._rows(_ALONE)
            version = self._version()
            self._settle()
            self._migrate(version)
            (verdict,) = self._rows("PRAGMA quick_check(1)")[0]
            if verdict != "ok":
                raise Unavailable(f"{self.path} is damaged: {verdict}; restore a backup")
        except BaseException:
            self._connection.close()
            raise

    def _settle(self) -> None:
        """Make what the file seems to hold durable: a write that was cut short can be read and yet be in no file."""
        for setting in _SETTINGS:
            self._rows(setting)
        self._rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def _migrate(self, version: int) -> None:
        for number, step in enumerate(MIGRATIONS[version:], start=version + 1):
            self._together([*((statement, ()) for statement in step), ("UPDATE about SET version = ?", (number,))])

    def _version(self) -> int:
        """The version of a file that this program can use; asked before anything is written to it."""
        tables = {name for (name,) in self._rows("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return 0
        (application,) = self._rows("PRAGMA application_id")[0]
        if application != _APPLICATION or "about" not in tables:
            raise Unavailable(f"{self.path} is not a store of Muster")
        version = int(self._rows("SELECT version FROM about")[0][0])
        if version > len(MIGRATIONS):
            raise Unavailable(
                f"{self.path} was written by a newer Muster: it has version {version}, this one knows up to "
                f"{len(MIGRATIONS)}; nothing was changed"
            )
        return version

    # Reading -----------------------------------------------------------------------------------------------------

    def about(self) -> About:
        return About(*self._rows("SELECT compacted, digest FROM about")[0])

    def newest(self) -> int:
        """The newest revision in the file."""
        compacted, newest = self._rows("SELECT compacted, (SELECT max(revision) FROM log) FROM about")[0]
        return max(int(compacted), int(newest or 0))

    def events(self, since: int = 0) -> Iterable[tuple[Record, bool, float]]:
        """The writes after a revision, in order: the state each left, whether it was a deletion, and when it was."""
        # Names and namespaces come back as new texts each time; one copy of each namespace and resource is enough.
        known: dict[str, str] = {}
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM log WHERE revision > ? ORDER BY revision", (since,))
        for revision, resource, namespace, name, uid, created, owners, is_deleted, time_s, value in rows:
            key = Key(known.setdefault(resource, resource), known.setdefault(namespace, namespace), name)
            owner_uids = msgspec.json.decode(owners, type=tuple[str, ...]) if owners else ()
            yield Record(key, uid, revision, created, value, owner_uids), bool(is_deleted), time_s

    def size_bytes(self) -> int:
        """How long the file is, or will be after the next checkpoint."""
        pages: int = self._rows("PRAGMA page_count")[0][0]
        page_bytes: int = self._rows("PRAGMA page_size")[0][0]
        return pages * page_bytes

    # Writing -----------------------------------------------------------------------------------------------------

    def append(self, events: Sequence[Event]) -> None:
        """Write events durably, all or none of them."""
        if len(events) <= _ROWS_A_STATEMENT:
            self._connection.execute(*_insert(events))
            return
        parts = [events[at : at + _ROWS_A_STATEMENT] for at in range(0, len(events), _ROWS_A_STATEMENT)]
        self._together([_insert(part) for part in parts])

    def forget(self, revisions: Sequence[int], compacted: int) -> None:
        """Delete rows that nobody can ask for any more, and note from where on the history is whole."""
        parts = [revisions[at : at + _ROWS_A_STATEMENT] for at in range(0, len(revisions), _ROWS_A_STATEMENT)]
        deletes = [(_delete_text(len(part)), part) for part in parts]
        self._together([*deletes, ("UPDATE about SET compacted = ?", (compacted,))])

    def seal(self, compacted: int, digest: str) -> None:
        """Say what the whole file holds, as backups do."""
        self._rows("UPDATE about SET compacted = ?, digest = ?", (compacted, digest))

    def shrink(self) -> None:
        """Write the file anew without its holes."""
        self._rows("VACUUM")
        self._rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def reopen(self) -> None:
        """Start with a new connection after an error that left the old one in doubt."""
        self._connection.close()
        self._connection = self.driver.connect(self.path)
        self._rows(_ALONE)
        self._settle()

    def close(self) -> None:
        self._connection.close()

    def _together(self, statements: Iterable[tuple[str, Sequence[Any]]]) -> None:
        """One transaction. After an error the connection must be closed or reopened, which rolls it back."""
        self._rows("BEGIN IMMEDIATE")
        for statement, values in statements:
            self._rows(statement, values)
        self._rows("COMMIT")

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        return list(self._connection.execute(statement, values))


# One statement for all rows, because each statement lets go of the interpreter and has to wait to get it back.


@lru_cache(maxsize=_ROWS_A_STATEMENT)
def _insert_text(count: int) -> str:
    row = "(" + ",".join("?" * len(_COLUMNS.split(","))) + ")"
    return f"INSERT INTO log ({_COLUMNS}) VALUES " + ",".join([row] * count)


@lru_cache(maxsize=_ROWS_A_STATEMENT)
def _delete_text(count: int) -> str:
    return "DELETE FROM log WHERE revision IN (" + ",".join("?" * count) + ")"


def _insert(events: Sequence[Event]) -> tuple[str, list[Any]]:
    values: list[Any] = []
    for event in events:
        record = event.record
        owners = msgspec.json.encode(record.owners).decode() if record.owners else ""
        values += (record.revision, *record.key, record.uid, record.created, owners)
        values += (event.action is Action.DELETED, event.time_s, record.value)
    return _insert_text(len(events)), values
