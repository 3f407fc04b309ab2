"""A disk that lives in memory and can lose power, fill up or break: SQLite on top of files written in Python.

A write that was not synced before the power went may be there afterwards, be there in part (whole sectors of 512
bytes), or be lost; each on its own, in any order. A file whose first sync did not happen may be lost altogether.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from random import Random

import apsw

from muster.store.sqlite_file import Driver

SECTOR = 512
_numbers = itertools.count()


class PowerCut(BaseException):
    """The power is gone. Not an Exception: no code of the store may catch it."""


class DiskFile:
    """The content of one file, and what has been written since it was last synced."""

    def __init__(self, durable: bytes | None) -> None:
        self.content = bytearray(durable or b"")
        self._durable = bytearray(durable or b"")
        self._is_durable = durable is not None  # else the file may not be found after a power cut
        self._unsynced: list[tuple[int, bytes] | int] = []  # writes at an offset, or truncations to a size

    def change(self, change: tuple[int, bytes] | int, *, is_off: bool) -> None:
        """Write or truncate. Without power only the program that is still there sees it."""
        _redo(self.content, change)
        if not is_off:
            self._unsynced.append(change)

    def sync(self) -> None:
        for change in self._unsynced:
            _redo(self._durable, change)
        self._unsynced.clear()
        self._is_durable = True

    def copy(self) -> DiskFile:
        """The same file for another process."""
        other = DiskFile(bytes(self._durable) if self._is_durable else None)
        for change in self._unsynced:
            other.change(change, is_off=False)
        return other

    def after_cut(self, chance: Random) -> bytes | None:
        """What a restart finds."""
        if not self._is_durable and chance.random() < 0.5:
            return None
        found = bytearray(self._durable)
        is_all_lost = chance.random() < 0.5
        for change in self._unsynced:
            if is_all_lost or chance.random() < 0.5:
                continue
            for part in _sectors(change):
                if chance.random() < 0.8:
                    _redo(found, part)
        return bytes(found)


def _sectors(change: tuple[int, bytes] | int) -> list[tuple[int, bytes] | int]:
    """A change in the parts that reach the disk or not, each on its own."""
    if isinstance(change, int):
        return [change]
    offset, data = change
    return [(offset + start, data[start : start + SECTOR]) for start in range(0, len(data), SECTOR)]


def _redo(content: bytearray, change: tuple[int, bytes] | int) -> None:
    if isinstance(change, int):
        _truncate(content, change)
    else:
        _write(content, *change)


def _write(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _truncate(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


class Disk:
    """Files by name, and what is to happen at each operation on them."""

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = {name: DiskFile(content) for name, content in (files or {}).items()}
        self.operations: list[str] = []  # such as "sync wal"
        self.on_operation: Callable[[str], None] = lambda name: None
        self.is_off = False
        self._vfs = _Files(self)

    def driver(self, synchronous: str = "FULL") -> Driver:
        """A way to SQLite on this disk; with less than FULL to show that the tests would notice."""
        return Driver(lambda path: _Connection(str(path), self._vfs.name, synchronous), (apsw.Error, OSError))

    def meet(self, operation: str, name: str) -> None:
        """Note an operation and let the test interfere."""
        what = f"{operation} {'wal' if name.endswith('-wal') else 'journal' if '-' in name else 'database'}"
        if self.is_off:
            return
        self.operations.append(what)
        try:
            self.on_operation(what)
        except PowerCut:
            self.is_off = True  # what the program does from here on reaches nobody
            raise

    def after_kill(self) -> Disk:
        """The disk as the next process finds it when only the last one has died: nothing is lost, or synced."""
        found = Disk()
        found.files = {name: file.copy() for name, file in self.files.items()}
        return found

    def after_cut(self, chance: Random) -> Disk:
        """The disk as a restart finds it."""
        found = {name: file.after_cut(chance) for name, file in sorted(self.files.items())}
        return Disk({name: content for name, content in found.items() if content is not None})


class _Connection:
    """apsw as the store wants it, with a choice of what `synchronous` means."""

    def __init__(self, path: str, vfs: str, synchronous: str) -> None:
        self._connection = apsw.Connection(path, vfs=vfs)
        self._synchronous = synchronous

    def execute(self, statement: str, values=()):
        statement = statement.replace("= FULL", f"= {self._synchronous}")
        # Checkpoints come early, so that a short test has many.
        return self._connection.execute(statement.replace("wal_autocheckpoint = 256", "wal_autocheckpoint = 8"), values)

    def close(self) -> None:
        self._connection.close()


class _Files(apsw.VFS):
    """The file system that SQLite sees."""

    def __init__(self, disk: Disk) -> None:
        self.name = f"disk-{next(_numbers)}"
        self._disk = disk
        super().__init__(self.name, base="")

    def xFullPathname(self, name: str) -> str:
        return name

    def xAccess(self, pathname: str, flags: int) -> bool:
        return _base(pathname) in self._disk.files

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._disk.meet("delete", _base(filename))
        if not self._disk.is_off:
            self._disk.files.pop(_base(filename), None)

    def xOpen(self, name, flags: list[int]):
        base = _base(name.filename() if isinstance(name, apsw.URIFilename) else name or f"temporary-{next(_numbers)}")
        flags[1] = flags[0]
        return _Handle(self._disk, base)


def _base(name: str) -> str:
    return Path(name).name


class _Handle:
    """One open file."""

    def __init__(self, disk: Disk, name: str) -> None:
        disk.meet("open", name)
        self._disk, self._name = disk, name
        self._file = disk.files.get(name) or DiskFile(None)
        if not disk.is_off:
            disk.files[name] = self._file

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self._file.content[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.meet("write", self._name)
        self._file.change((offset, bytes(data)), is_off=self._disk.is_off)

    def xSync(self, flags: int) -> None:
        self._disk.meet("sync", self._name)
        if not self._disk.is_off:
            self._file.sync()

    def xTruncate(self, size: int) -> None:
        self._disk.meet("truncate", self._name)
        self._file.change(size, is_off=self._disk.is_off)

    def xFileSize(self) -> int:
        return len(self._file.content)

    def xClose(self) -> None: ...

    def xLock(self, level: int) -> None: ...

    def xUnlock(self, level: int) -> None: ...

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, op: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return SECTOR

    def xDeviceCharacteristics(self) -> int:
        return 0
