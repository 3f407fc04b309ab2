"""The store in a file: who may open it, what a restart finds, and how big it gets."""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from random import Random

import pytest

from muster.store import sqlite, sqlite_file
from muster.store.clock import VirtualClock
from muster.store.errors import Expired, Unavailable
from muster.store.history import Limits
from muster.store.sqlite import Committer
from muster.store.sqlite_file import MIGRATIONS, StoreFile
from muster.store.sqlite_owner import FILE_NAME
from tests.store.builders import PODS, create, nothing, open_store, pod, remove, replace, together


def test_a_restart_finds_everything(tmp_path):
    store = open_store("sqlite", tmp_path)
    owner = store.write(create(pod("owner")))
    store.write(create(pod("a"), 1, owners=(owner.uid, 'lost, "for\0 ever"')))
    store.write(together(replace(pod("a"), 2), create(pod("b")), remove(pod("b"))))
    before, events = store.page(PODS), store.watch(PODS, 0, nothing).take()
    store.close()
    again = open_store("sqlite", tmp_path)
    assert again.page(PODS) == before
    assert again.watch(PODS, 0, nothing).take() == events, "watches go on where they were"
    assert again.strays() == [pod("a")]
    assert again.write(create(pod("c"))).revision == 6
    again.close()


def test_no_revision_comes_back_when_the_newest_rows_are_gone(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "_ROWS_TO_FORGET", 1)
    store = open_store("sqlite", tmp_path, Limits(events=0))
    store.write(create(pod("a")))
    store.write(remove(pod("a")))
    store.close()
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        assert connection.execute("SELECT count(*) FROM log").fetchone() == (0,)
    connection.close()
    again = open_store("sqlite", tmp_path)
    assert again.revision == 2 and again.write(create(pod("a"))).revision == 3
    with pytest.raises(Expired):
        again.watch(PODS, 1, nothing)
    again.close()


def test_a_restart_with_less_history_forgets_the_rest(tmp_path, monkeypatch):
    store = open_store("sqlite", tmp_path)
    store.write(create(pod("a")))
    for number in range(20):
        store.write(replace(pod("a"), number))
    store.write(together(create(pod("b")), remove(pod("b")), create(pod("c"))))
    before = store.page(PODS)
    store.close()
    monkeypatch.setattr(sqlite, "_ROWS_TO_FORGET", 5)
    again = open_store("sqlite", tmp_path, Limits(events=1))
    assert (again.page(PODS), again.compacted) == (before, 23)
    again.write(create(pod("d")))
    again.close()
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        assert connection.execute("SELECT revision FROM log").fetchall() == [(21,), (24,), (25,)]
    connection.close()


# Opening -------------------------------------------------------------------------------------------------------------


def test_nobody_else_may_look(tmp_path):
    folder = tmp_path / "new" / "data"
    store = open_store("sqlite", folder)
    store.write(create(pod("a")))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {"store.db": 0o600, "store.db-wal": 0o600, "store.lock": 0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    store.close()
    os.chmod(folder / FILE_NAME, 0o644)
    open_store("sqlite", folder).close()
    assert stat.S_IMODE((folder / FILE_NAME).stat().st_mode) == 0o600


def test_a_folder_has_one_owner(tmp_path):
    store = open_store("sqlite", tmp_path)
    with pytest.raises(Unavailable, match=f"is in use by process {os.getpid()}"):
        open_store("sqlite", tmp_path)
    store.write(create(pod("a")))
    store.close()
    open_store("sqlite", tmp_path).close()


def test_after_closing_nothing_is_accepted(tmp_path):
    store = open_store("sqlite", tmp_path)
    store.close()
    store.close()
    with pytest.raises(Unavailable, match="the store is closed"):
        store.write(create(pod("a")))


def test_closing_finishes_what_waits(tmp_path):
    store = open_store("sqlite", tmp_path)
    outcomes = []
    for number in range(50):
        store.submit(create(pod(f"p{number}")), outcomes.append)
    store.close()
    assert [outcome.get().revision for outcome in outcomes] == list(range(1, 51))


def make_file(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_newer_file_is_refused_and_left_alone(tmp_path):
    open_store("sqlite", tmp_path).close()
    make_file(tmp_path / FILE_NAME, "UPDATE about SET version = 99")
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(Unavailable, match="written by a newer Muster: it has version 99, this one knows up to 1"):
        open_store("sqlite", tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path):
    make_file(tmp_path / FILE_NAME, "CREATE TABLE about (version INTEGER)")
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(Unavailable, match="is not a store of Muster"):
        open_store("sqlite", tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        pytest.param(0, "cannot be opened: file is not a database", id="no database"),
        pytest.param(3 * 16384, "is damaged|cannot be opened|cannot be read", id="a broken page"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, offset, message):
    store = open_store("sqlite", tmp_path)
    for number in range(100):
        store.submit(create(pod(f"p{number}"), "x" * 1_000), lambda outcome: None)
    store.close()
    with open(tmp_path / FILE_NAME, "r+b") as file:
        file.seek(offset)
        file.write(b"\xff" * 200)
    with pytest.raises(Unavailable, match=message):
        open_store("sqlite", tmp_path)
    with pytest.raises(Unavailable, match=message):  # and the folder is free again
        open_store("sqlite", tmp_path)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot be used"):
        open_store("sqlite", tmp_path / "file" / "data")


def test_migrations_run_one_by_one_and_as_a_whole(tmp_path, monkeypatch):
    store = open_store("sqlite", tmp_path)
    store.write(create(pod("a")))
    store.close()
    add = ("ALTER TABLE about ADD COLUMN color TEXT",)
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", (*MIGRATIONS, add, ("CREATE TABLE more (x)", "nonsense")))
    with pytest.raises(Unavailable, match="nonsense"):
        open_store("sqlite", tmp_path)
    connection = sqlite3.connect(tmp_path / FILE_NAME)
    assert connection.execute("SELECT version, color FROM about").fetchall() == [(2, None)]
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'more'").fetchone() == (0,)
    connection.close()
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", (*MIGRATIONS, add))
    again = open_store("sqlite", tmp_path)
    assert again.get(pod("a")).revision == 1
    again.close()


def test_writes_are_durable_by_default(tmp_path):
    """No other setting may become the default: less than FULL loses acknowledged writes when the power goes."""
    file = StoreFile(tmp_path / FILE_NAME)
    assert file._rows("PRAGMA synchronous") == [(2,)]
    assert file._rows("PRAGMA journal_mode") == [("wal",)]
    file.close()


# Size ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_file_stays_near_what_is_in_it(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(sqlite, "_ROWS_TO_FORGET", 50)
    monkeypatch.setattr(sqlite, "_SMALL_FILE_BYTES", 400_000)
    chance = Random(seed)
    file = StoreFile(tmp_path / FILE_NAME)
    committer = Committer(file, VirtualClock(1.0), Limits(events=60))
    for turn in range(60):
        changes = []
        for _ in range(40):
            key, what = pod(f"p{chance.randrange(400)}"), "x" * chance.choice((500, 1_300, 3_000))
            # It grows, is shuffled, and shrinks again.
            kinds = (create, create, replace) if turn < 30 else (create, replace, replace, None, None)
            kind = chance.choice(kinds)
            changes.append((kind(key, what) if kind else remove(key), lambda outcome: None))
        committer.commit(changes)
        held_bytes = committer.state.live_bytes + committer.state.history.size_bytes
        assert file.size_bytes() <= max(600_000, 2 * held_bytes), f"turn {turn}"
    committer.close()
