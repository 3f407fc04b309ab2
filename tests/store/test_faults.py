"""A disk that is full, read-only or broken: writes are refused with a reason, and go on when the disk does."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import apsw
import pytest

from muster.store import sqlite
from muster.store.clock import RealClock, VirtualClock
from muster.store.errors import AlreadyExists, Unavailable
from muster.store.history import Limits
from muster.store.sqlite import Committer, SqliteStore
from muster.store.sqlite_file import StoreFile
from tests.store.builders import PODS, create, names, nothing, pod, replace, together, told
from tests.store.disk import Disk
from tests.support import ROOT

PATH = Path("store.db")


def committer_on(disk: Disk, limits: Limits | None = None) -> Committer:
    return Committer(StoreFile(PATH, disk.driver()), VirtualClock(1.0), limits or Limits())


def commit(committer: Committer, *changes):
    outcomes = []
    committer.commit([(change, outcomes.append) for change in changes])
    return [outcome.error or outcome.get() for outcome in outcomes]


def break_at(disk: Disk, operation: str, error: Exception) -> None:
    def meet(what: str) -> None:
        if what.startswith(operation):
            raise error

    disk.on_operation = meet


def mend(disk: Disk) -> None:
    disk.on_operation = lambda what: None


FAULTS = [
    pytest.param("write", apsw.FullError("the disk is full"), id="disk full"),
    pytest.param("write", apsw.ReadOnlyError("the disk is read-only"), id="read-only"),
    pytest.param("write", apsw.IOError("the disk cannot write"), id="write error"),
    pytest.param("sync", apsw.IOError("the disk cannot sync"), id="sync error"),
]


@pytest.mark.parametrize(("operation", "error"), FAULTS)
def test_a_broken_disk_refuses_and_a_mended_one_goes_on(operation, error):
    disk = Disk()
    committer = committer_on(disk)
    commit(committer, create(pod("a")))
    watch = committer.state.watch(PODS, 1, nothing)
    break_at(disk, operation, error)
    for _ in range(3):
        refused, also_refused = commit(committer, create(pod("b")), create(pod("b")))
        assert isinstance(refused, Unavailable) and str(error) in str(refused)
        # Nobody may hear that the name is taken by a write that is not there.
        assert isinstance(also_refused, Unavailable)
    mend(disk)
    found = committer.state.revision
    commit(committer, create(pod("c")))
    assert committer.state.revision in (found + 1, found + 2)  # the refused write may be there after all
    revisions = [event.record.revision for event in watch.take().events]
    assert revisions == list(range(2, committer.state.revision + 1))
    before = committer.state.page(PODS, limit=0, at=0, after="")
    committer.close()
    assert committer_on(disk).state.page(PODS, limit=0, at=0, after="") == before


class Unlucky:
    """A connection that fails at one statement, once: before it is done, or after."""

    def __init__(self, connection, statement: str, *, is_done: bool) -> None:
        self._connection, self._statement, self._is_done = connection, statement, is_done

    def execute(self, statement: str, values=()):
        if not statement.startswith(self._statement):
            return self._connection.execute(statement, values)
        self._statement = "no other"
        if self._is_done:
            self._connection.execute(statement, values)
        raise apsw.IOError("the cable is loose")

    def close(self) -> None:
        self._connection.close()


def test_a_refused_write_that_is_there_after_all_is_shown():
    """The answer was lost, not the write: nobody was told yes, and nobody may be told that it is not so."""
    disk = Disk()
    committer = committer_on(disk)
    file = committer._file
    commit(committer, create(pod("a")))
    file._connection = Unlucky(file._connection, "INSERT", is_done=True)
    watch = committer.state.watch(PODS, 1, nothing)
    assert isinstance(commit(committer, together(create(pod("b")), replace(pod("b"), 2)))[0], Unavailable)
    assert watch.take().events == []
    taken, new = commit(committer, create(pod("b")), create(pod("c")))
    assert isinstance(taken, AlreadyExists) and new.revision == 4
    assert told(watch.take()) == [
        ("ADDED", "default/b", 2),
        ("MODIFIED", "default/b", 3),
        ("ADDED", "default/c", 4),
    ]


def test_a_transaction_that_was_left_open_swallows_nothing():
    """A failed commit of many rows must not take the next write with it."""
    disk = Disk()
    committer = committer_on(disk)
    file = committer._file
    file._connection = Unlucky(file._connection, "COMMIT", is_done=False)
    many = together(*(create(pod(f"p{number}")) for number in range(600)))
    assert isinstance(commit(committer, many)[0], Unavailable)
    assert commit(committer, create(pod("a")))[0].revision == 1
    found = committer_on(disk.after_cut(Random(0))).state
    assert names(found.page(PODS, limit=0, at=0, after="").records) == ["default/a"]


@pytest.mark.parametrize("step", ["forget", "shrink"])
def test_tidying_that_fails_costs_nothing(monkeypatch, step):
    monkeypatch.setattr(sqlite, "_ROWS_TO_FORGET", 5)
    monkeypatch.setattr(sqlite, "_SMALL_FILE_BYTES", 0)
    disk = Disk()
    committer = committer_on(disk, Limits(events=3))
    failures = []

    def fail(self, *given) -> None:
        failures.append(step)
        raise apsw.FullError("disk is full")

    monkeypatch.setattr(StoreFile, step, fail)
    commit(committer, create(pod("a")))
    for number in range(20):
        assert commit(committer, replace(pod("a"), "x" * 20_000))[0].revision == number + 2
    assert failures
    monkeypatch.undo()
    commit(committer, replace(pod("a"), "last"))
    committer.close()
    assert committer_on(disk).state.revision == 22


CHILD = """
import json, resource, sys
from pathlib import Path
from muster.store.clock import RealClock
from muster.store.errors import Unavailable
from muster.store.sqlite import SqliteStore
from tests.store.builders import create, pod

store = SqliteStore(Path(sys.argv[1]), RealClock())
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
written, reasons = [], []
for number in range(200):
    try:
        store.write(create(pod(f"p{number}"), "x" * 5_000))
        written.append(number)
    except Unavailable as problem:
        reasons.append(str(problem))
        if len(reasons) == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
print(json.dumps([written, reasons]))
"""


def test_a_file_that_may_not_grow(tmp_path):
    """The same with the machine's own file system and the standard library's SQLite."""
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    written, reasons = json.loads(done.stdout)
    assert len(reasons) == 3 and all("the store cannot write: " in one for one in reasons), reasons
    assert len(written) == 197 and max(written) == 199
    store = SqliteStore(tmp_path, RealClock())
    assert {record.key.name for record in store.page(PODS).records} >= {f"p{number}" for number in written}
    store.close()


def test_a_fault_of_our_own_stops_the_writer_and_says_so(tmp_path, monkeypatch, caplog):
    store = SqliteStore(tmp_path, VirtualClock())
    is_full, outcomes = threading.Event(), []

    def fail(events) -> None:
        is_full.wait()
        raise ZeroDivisionError

    monkeypatch.setattr(store.state, "publish", fail)
    for number in range(600):  # more than one turn takes
        store.submit(create(pod(f"p{number}")), outcomes.append)
    is_full.set()
    with pytest.raises(Unavailable, match="restart to go on"):
        store.write(create(pod("b")))
    store.close()
    assert len(outcomes) == 600, "nobody waits for ever"
    for outcome in outcomes:
        assert isinstance(outcome.error, Unavailable) and "restart to go on" in str(outcome.error)
    assert "the store's writer stopped" in caplog.text
    again = SqliteStore(tmp_path, VirtualClock())
    assert again.revision > 0, "what had been written is there, though nobody was told so"
    again.close()
