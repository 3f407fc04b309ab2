"""Reads the files, folders and standard input that a command is given with -f. Called by the command line.

A folder stands for the manifests in it, in the order of their names; hidden entries are left out, as are the copies
that a mounted ConfigMap keeps beside its files. Whatever cannot be read is an `InvalidObject` that names the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from muster.model.documents import MOST_BYTES, Document, parse_documents
from muster.model.errors import InvalidObject

SUFFIXES = (".yaml", ".yml", ".json")
MOST_LEVELS = 10
MOST_FILES = 10_000
STDIN = "-"


def read_manifests(arguments: Iterable[str], stdin: BinaryIO | None = None) -> list[Document]:
    """The objects of all arguments, in order; each names the file it comes from."""
    documents: list[Document] = []
    is_stdin_read = False
    for argument in arguments:
        if argument == STDIN:
            if is_stdin_read or stdin is None:
                raise InvalidObject("-f -", "standard input can be read only once", "name it once")
            is_stdin_read = True
            documents.extend(parse_documents(_capped(stdin, "standard input"), "standard input"))
            continue
        for file in manifest_files(argument):
            documents.extend(parse_documents(read_file(file), file.as_posix()))
    return documents


def manifest_files(argument: str) -> list[Path]:
    """The files that an argument stands for: itself, or the manifests of a folder."""
    if "://" in argument:
        raise InvalidObject(argument, "is a URL", "save what it holds and give the file")
    path = Path(argument)
    try:
        if not path.is_dir():
            return [path]
        files = list(_in_folder(path, level=1, seen=set()))
    except (OSError, ValueError) as problem:
        raise _unreadable(path, problem) from None
    if not files:
        raise InvalidObject(argument, "holds no manifest", "put files named " + ", ".join(SUFFIXES) + " into it")
    if len(files) > MOST_FILES:
        raise InvalidObject(argument, f"holds more than {MOST_FILES} manifests", "give fewer at once")
    return files


def _in_folder(folder: Path, level: int, seen: set[tuple[int, int]]) -> Iterator[Path]:
    """The manifests of a folder and of those in it, each once whatever links lead to it."""
    if level > MOST_LEVELS:
        raise InvalidObject(str(folder), f"is more than {MOST_LEVELS} folders deep", "give the inner folder itself")
    if _is_known(folder, seen):
        return
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _in_folder(entry, level + 1, seen)
        elif entry.name.lower().endswith(SUFFIXES) and not _is_known(entry, seen):
            yield entry


def _is_known(path: Path, seen: set[tuple[int, int]]) -> bool:
    """Whether a file or folder was met before, by another name or through a link."""
    try:
        status = path.stat()
    except OSError as problem:
        raise _unreadable(path, problem) from None
    identity = (status.st_dev, status.st_ino)
    if identity in seen:
        return True
    seen.add(identity)
    return False


def read_file(path: Path) -> bytes:
    """What a file holds; one over the cap is refused before it is read."""
    try:
        with path.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size > MOST_BYTES:
                raise _too_long(path.as_posix())
            return _capped(stream, path.as_posix())
    except (OSError, ValueError) as problem:
        raise _unreadable(path, problem) from None


def _capped(stream: BinaryIO, name: str) -> bytes:
    """All of a stream, of which no more is read than the cap and one byte."""
    parts: list[bytes] = []
    left = MOST_BYTES + 1
    while left > 0 and (part := stream.read(left)):
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise _too_long(name)
    return b"".join(parts)


def _too_long(name: str) -> InvalidObject:
    return InvalidObject(name, f"is longer than {MOST_BYTES} bytes", "split it into several files")


def _unreadable(path: Path, problem: Exception) -> InvalidObject:
    if isinstance(problem, FileNotFoundError):
        return InvalidObject(str(path), "does not exist", "check the name")
    reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    return InvalidObject(str(path), f"cannot be read: {reason}", "check the name and who may read it")
