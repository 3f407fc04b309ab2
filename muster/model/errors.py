"""What is wrong with a user's object, as data: where, what, and what to do. Raised by readers, shown everywhere."""

from __future__ import annotations

import json
from typing import Any

SHOWN_CHARACTERS = 400


class InvalidObject(Exception):
    """A user's mistake: the field, the problem with it, and what to write instead."""

    def __init__(self, path: str, problem: str, hint: str = "", *, cause: str = "") -> None:
        super().__init__(path, problem, hint)
        self.path = path
        self.problem = problem
        self.hint = hint
        self.cause = cause  # what kind of mistake it is, where the words of the problem do not tell

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        what_to_do = f"; {self.hint}" if self.hint else ""
        return f"{where}{self.problem}{what_to_do}"


class InvalidObjects(InvalidObject):
    """Several mistakes found in one pass; the first one is the exception's own."""

    def __init__(self, problems: tuple[InvalidObject, ...]) -> None:
        assert problems, "several mistakes need at least one"
        super().__init__(problems[0].path, problems[0].problem, problems[0].hint)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


def quoted(value: Any) -> str:
    """A value as the API's messages show it, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
