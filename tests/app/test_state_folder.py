"""The folder of an embedded server: made private, told from others, and emptied with care."""

from __future__ import annotations

import stat

import pytest

from muster.app.state_folder import WrongFolder, default_folder, is_ours, prepare_folder
from muster.store.clock import RealClock
from muster.store.errors import Unavailable
from muster.store.sqlite import SqliteStore


@pytest.fixture
def used(tmp_path):
    """A folder with a store in it."""
    folder = tmp_path / "state"
    SqliteStore(folder, RealClock()).close()
    (folder / "token").write_text("t")
    (folder / "tls").mkdir()
    (folder / "notes.txt").write_text("mine")
    return folder


def test_a_new_folder_is_private(tmp_path):
    folder = tmp_path / "a" / "b"
    prepare_folder(folder, is_fresh=False)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    prepare_folder(folder, is_fresh=True)


def test_an_own_folder_is_used_again_and_made_private_again(used):
    used.chmod(0o755)
    prepare_folder(used, is_fresh=False)
    assert stat.S_IMODE(used.stat().st_mode) == 0o700
    assert (used / "token").exists()


def test_beginning_anew_takes_only_what_is_ours(used):
    prepare_folder(used, is_fresh=True)
    assert sorted(path.name for path in used.iterdir()) == ["notes.txt", "store.lock"]
    prepare_folder(used, is_fresh=False)


def test_a_folder_that_is_in_use_is_not_emptied(used):
    store = SqliteStore(used, RealClock())
    with pytest.raises(Unavailable, match="in use"):
        prepare_folder(used, is_fresh=True)
    store.close()
    assert (used / "token").exists()


@pytest.mark.parametrize("name", ["store.db", "letter.txt"])
def test_folders_of_others_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"SQLite format 3\0" + b"x" * 100)
    for is_fresh in (False, True):
        with pytest.raises(WrongFolder, match="not Muster's"):
            prepare_folder(tmp_path, is_fresh=is_fresh)
    assert not is_ours(tmp_path)
    assert (tmp_path / name).exists()


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(WrongFolder, match="is not a folder"):
        prepare_folder(tmp_path / "file", is_fresh=False)


def test_where_the_state_is_by_default(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "muster"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".local" / "state" / "muster"
