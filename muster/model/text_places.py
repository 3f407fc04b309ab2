"""Places in a text, and the errors that name them. Used by the readers of YAML and JSON."""

from __future__ import annotations

from muster.model.errors import InvalidObject


def place_of(text: str, position: int) -> tuple[int, int]:
    """Line and column of a position, counted from one."""
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


def refuse(source: str, line: int, column: int, problem: str, hint: str) -> InvalidObject:
    """The error for a place in a text, counted from one."""
    where = f"line {line}, column {column}"
    return InvalidObject(f"{source}, {where}" if source else where, problem, hint)


def repeated_key(source: str, line: int, column: int, key: str) -> InvalidObject:
    """The error for a key that its object already has."""
    return refuse(source, line, column, f"the key {key[:60]!r} is given twice", "give it once")
