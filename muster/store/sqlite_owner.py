"""Who owns a store's folder: one process at a time, and nobody else may look. Used by `sqlite` and `backup`."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from muster.store.errors import Unavailable

FILE_NAME = "store.db"
_LOCK_NAME = "store.lock"


class Owner:
    """The claim of this process on a folder. It ends with the process, however that ends."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            raise Unavailable(f"{folder} cannot be used: {problem.strerror}") from problem
        try:
            self._claim(folder)
        except BaseException:
            os.close(self._lock)
            raise

    def _claim(self, folder: Path) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._lock, 20, 0).decode(errors="replace").strip() or "another"
            raise Unavailable(f"{folder} is in use by process {holder}") from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)
        # SQLite gives the files it makes beside this one the same mode.
        make_private(self.path)

    def release(self) -> None:
        os.close(self._lock)


def make_private(path: Path) -> None:
    """Make a file, if there is none, and let nobody else read it."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(file, 0o600)
        finally:
            os.close(file)
    except OSError as problem:
        raise Unavailable(f"{path} cannot be used: {problem.strerror}") from problem
