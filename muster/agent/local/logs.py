"""The logs of containers as the keeper writes them, read as `kubectl logs` asks. Used by the local node.

A line is its time, where it came from, F for a whole line or P for a part of one, and the text.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import BinaryIO

from muster.model.errors import InvalidObject
from muster.model.pod_streams import LogOptions
from muster.model.times import parse_moment
from muster.store.clock import Clock

_READ_BYTES = 64 * 1024
_POLL_S = 0.1


async def read_log(folder: Path, options: LogOptions, clock: Clock) -> AsyncGenerator[bytes, None]:
    """A run's log in pieces; one that is followed goes on until the run has ended."""
    # Lines are counted first, so that a tail needs no memory.
    skipped = 0 if options.tail_lines is None else max(0, _count(folder, options) - options.tail_lines)
    async for line in _all_lines(folder, clock, is_followed=options.is_followed):
        text = _shown(line, options)
        if text is None:
            continue
        if skipped > 0:
            skipped -= text.endswith(b"\n")
        else:
            yield text


def _count(folder: Path, options: LogOptions) -> int:
    """How many lines there are; a part of a line is none."""
    count, is_part = 0, False
    for path in (folder / "log.1", folder / "log"):
        for line in _lines(path) if path.exists() else ():
            text = _shown(line, options)
            if text is not None:
                is_part = not text.endswith(b"\n")
                count += not is_part
    return count + is_part


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line


def _shown(line: bytes, options: LogOptions) -> bytes | None:
    """A line as it is wanted; `None` when it is too old."""
    moment, _, rest = line.partition(b" ")
    _, _, rest = rest.partition(b" ")
    mark, _, text = rest.partition(b" ")
    if options.since_s is not None and _moment_s(moment) < options.since_s:
        return None
    if mark == b"P":
        text = text[:-1]
    return moment + b" " + text if options.has_timestamps else text


def _moment_s(text: bytes) -> float:
    whole, _, fraction = text.decode().rstrip("Z").partition(".")
    try:
        return parse_moment(whole + "Z", "log") + float(f"0.{fraction or 0}")
    except (InvalidObject, ValueError):
        return 0.0


async def read_new(folder: Path, clock: Clock, at: int) -> AsyncGenerator[tuple[bytes, bytes], None]:
    """What is written after some place of the log until the run has ended: where it came from, and the text."""
    async for line in _from(folder, clock, at=at, is_followed=True):
        _, stream, mark, text = line.split(b" ", 3)
        yield stream, text if mark == b"F" else text[:-1]


def end_of(folder: Path) -> int:
    """The place up to which a log is written now."""
    try:
        return (folder / "log").stat().st_size
    except OSError:
        return 0


async def _all_lines(folder: Path, clock: Clock, *, is_followed: bool) -> AsyncGenerator[bytes, None]:
    """Every line as it stands in the files, through a change of files."""
    old = folder / "log.1"
    if old.exists():
        for line in _lines(old):
            yield line
    async for line in _from(folder, clock, at=0, is_followed=is_followed):
        yield line


async def _from(folder: Path, clock: Clock, *, at: int, is_followed: bool) -> AsyncGenerator[bytes, None]:
    """The lines of the present file from some place on, and of those that follow it."""
    log = folder / "log"
    try:
        file = log.open("rb")
    except FileNotFoundError:
        return  # the pod has gone
    try:
        file.seek(at)
        rest = b""
        while True:
            # Both are asked before the rest is read, so that nothing comes after it.
            is_put_aside = not _is_at(log, file)
            is_over = not is_followed or (folder / "end.json").exists()
            while piece := file.read(_READ_BYTES):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield line + b"\n"
            if is_put_aside:
                file.close()
                file, rest = log.open("rb"), b""
                continue
            if is_over:
                return
            await clock.sleep(_POLL_S)
    except FileNotFoundError:
        return  # the pod has gone, and all that was written has been read
    finally:
        file.close()


def _is_at(path: Path, file: BinaryIO) -> bool:
    """Whether an open file is the one that a path leads to."""
    try:
        return path.stat().st_ino == os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False
