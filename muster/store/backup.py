"""Copies of a store: made while it runs, checked before they are used. Called by the commands and the server.

A backup is a store's file without history, sealed with a digest of what is in it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from muster.store.base import BaseStore
from muster.store.errors import Unavailable
from muster.store.records import Action, Event, Record
from muster.store.sqlite_file import STANDARD, StoreFile
from muster.store.sqlite_owner import Owner, make_private

# Clients may have seen revisions that the backup has not. None of those may be given out a second time.
_REVISIONS_SKIPPED = 1_000_000_000
_ROWS_AT_ONCE = 2_000


def backup(store: BaseStore, target: Path) -> int:
    """Write all objects as of one revision to a new file, while the store goes on; gives that revision."""
    if target.exists():
        raise Unavailable(f"{target} exists already")
    revision, records = store.state.everything()
    _write_copy(target, sorted(records, key=lambda record: record.revision), revision, is_sealed=True)
    return revision


def restore(source: Path, folder: Path, *, is_overwriting: bool = False) -> int:
    """Make a store's folder out of a checked backup; gives the revision that the store goes on from."""
    revision, records = read_backup(source)
    owner = Owner(folder)
    try:
        if owner.path.stat().st_size:
            if not is_overwriting:
                raise Unavailable(f"{owner.path} exists already; say so if it is to be overwritten")
            revision = max(revision, _newest_of(owner.path))
        beyond = revision + _REVISIONS_SKIPPED
        _write_copy(owner.path, records, beyond, is_sealed=False)
    finally:
        owner.release()
    return beyond


def read_backup(source: Path) -> tuple[int, list[Record]]:
    """The revision and the objects of a backup; refuses one that is damaged or was not finished."""
    if not source.is_file():
        raise Unavailable(f"{source} is not a file")
    file = StoreFile(source)
    try:
        about = file.about()
        records = [record for record, _, _ in file.events()]
    except STANDARD.errors as problem:
        raise Unavailable(f"{source} cannot be read: {problem}") from problem
    finally:
        file.close()
    if not about.digest:
        raise Unavailable(f"{source} is not a finished backup")
    if _digest(records, about.compacted) != about.digest:
        raise Unavailable(f"{source} is damaged: its content is not what was written")
    return about.compacted, records


def _newest_of(path: Path) -> int:
    """The newest revision of a store that is about to be overwritten; none when it cannot be read any more."""
    try:
        file = StoreFile(path)
    except Unavailable:
        return 0
    try:
        return file.newest()
    finally:
        file.close()


def _write_copy(target: Path, records: list[Record], revision: int, *, is_sealed: bool) -> None:
    """Write a file beside the target and put it in its place when it is complete and on disk."""
    draft = target.with_name(f"{target.name}.new")
    try:
        _remove_beside(draft)
        draft.unlink(missing_ok=True)
        make_private(draft)
        file = StoreFile(draft)
        try:
            for at in range(0, len(records), _ROWS_AT_ONCE):
                file.append([Event(Action.ADDED, record, None, 0.0) for record in records[at : at + _ROWS_AT_ONCE]])
            file.seal(revision, _digest(records, revision) if is_sealed else "")
        finally:
            file.close()
        _sync(draft)
        _remove_beside(target)
        os.replace(draft, target)
        _sync(target.parent)
    except STANDARD.errors as problem:
        raise Unavailable(f"{target} cannot be written: {problem}") from problem


def _remove_beside(path: Path) -> None:
    """Remove what SQLite has left beside a file: a log that stayed behind would be read into the next file."""
    for suffix in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _digest(records: Iterable[Record], revision: int) -> str:
    digest = hashlib.sha256(str(revision).encode())
    for record in records:
        header = (record.revision, *record.key, record.uid, record.created, *record.owners, len(record.value))
        digest.update("\0".join(map(str, header)).encode())
        digest.update(record.value)
    return digest.hexdigest()
