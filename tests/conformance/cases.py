"""Cases as files: a folder of JSON arrays, one case an object with its `source` and `name`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Case:
    """One recorded case."""

    source: str
    name: str
    body: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.source}: {self.name}"


def cases_in(folder: Path) -> Iterator[Case]:
    """All cases of a folder, in the order of file names and positions."""
    for path in sorted(folder.rglob("*.json")):
        document = json.loads(path.read_text())
        if not isinstance(document, list):
            continue
        for body in document:
            yield Case(str(body.get("source", "")), str(body.get("name", "")), body)


class Mismatch(AssertionError):
    """The engine's answer differs from the recorded one."""


class Skip(Exception):
    """The case is not run; the text says why."""


def expect_equal(what: str, got: object, want: object) -> None:
    """Fail with both answers when they differ."""
    if got != want:
        raise Mismatch(f"{what}\n      got  {got}\n      want {want}")
