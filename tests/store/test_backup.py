"""Backups: consistent while writes go on, checked before use, never in the place of something without being told."""

from __future__ import annotations

import sqlite3
import stat
import threading

import pytest

from muster.store.backup import backup, read_backup, restore
from muster.store.errors import Expired, Unavailable
from tests.store.builders import PODS, create, nothing, open_store, pod, remove, replace, together


@pytest.fixture
def saved(tmp_path, store):
    """A backup with three objects, made at revision 5."""
    store.write(together(*(create(pod(name), name) for name in "abcd")))
    store.write(remove(pod("d")))
    assert backup(store, tmp_path / "saved.db") == 5
    return tmp_path / "saved.db"


def test_what_was_saved_comes_back(saved, store, tmp_path):
    store.write(replace(pod("a"), "later"))
    restored_at = restore(saved, tmp_path / "new")
    new = open_store("sqlite", tmp_path / "new")
    assert new.page(PODS).records == store.page(PODS, at=5).records
    # No revision that somebody may have seen of the lost store is given out again; watches have to start anew.
    assert new.revision == restored_at > store.revision
    with pytest.raises(Expired):
        new.watch(PODS, 5, nothing)
    assert new.write(create(pod("e"))).revision == restored_at + 1
    new.close()


def test_only_the_owner_may_read_a_backup(saved):
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert [path.name for path in saved.parent.iterdir() if path.name.startswith("saved")] == ["saved.db"]


def test_nothing_is_overwritten_unless_told(saved, store, tmp_path):
    with pytest.raises(Unavailable, match=r"saved\.db exists already"):
        backup(store, saved)
    first = restore(saved, tmp_path / "new")
    again = open_store("sqlite", tmp_path / "new")
    again.write(create(pod("x")))
    with pytest.raises(Unavailable, match="in use by process"):
        restore(saved, tmp_path / "new", is_overwriting=True)
    again.close()
    with pytest.raises(Unavailable, match="say so if it is to be overwritten"):
        restore(saved, tmp_path / "new")
    assert restore(saved, tmp_path / "new", is_overwriting=True) > first + 1, "the overwritten store had seen more"
    restored = open_store("sqlite", tmp_path / "new")
    assert len(restored.page(PODS).records) == 3
    restored.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        pytest.param("UPDATE log SET value = x'7b7d' WHERE revision = 1", "is damaged: its content", id="a value"),
        pytest.param("DELETE FROM log WHERE revision = 2", "is damaged: its content", id="a row"),
        pytest.param("UPDATE about SET compacted = 4", "is damaged: its content", id="the revision"),
        pytest.param("UPDATE about SET digest = ''", "is not a finished backup", id="not finished"),
        pytest.param("UPDATE about SET version = 99", "written by a newer Muster", id="newer"),
        pytest.param("PRAGMA application_id = 1", "is not a store of Muster", id="something else"),
    ],
)
def test_what_was_changed_is_refused(saved, tmp_path, statement, message):
    connection = sqlite3.connect(saved)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(Unavailable, match=message):
        restore(saved, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(Unavailable, match="is not a file"):
        restore(tmp_path / "absent.db", tmp_path / "new")


def test_a_damaged_store_can_be_overwritten(saved, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "store.db").write_bytes(b"no database at all")
    restore(saved, tmp_path / "new", is_overwriting=True)
    restored = open_store("sqlite", tmp_path / "new")
    assert len(restored.page(PODS).records) == 3
    restored.close()


def test_a_backup_of_a_busy_store_is_of_one_moment(store, tmp_path):
    """Two objects always change together; no backup has one without the other."""
    store.write(together(create(pod("a"), 0), create(pod("b"), 0)))
    is_over = threading.Event()

    def churn() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            store.write(together(replace(pod("a"), number), replace(pod("b"), number)))

    writer = threading.Thread(target=churn)
    writer.start()
    for number in range(3):
        backup(store, tmp_path / f"{number}.db")
    is_over.set()
    writer.join()
    for number in range(3):
        revision, (a, b) = read_backup(tmp_path / f"{number}.db")
        assert b.revision == a.revision + 1 == revision
