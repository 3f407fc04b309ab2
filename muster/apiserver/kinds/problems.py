"""What can be wrong with a field, in the words that Kubernetes' answers begin with. Used by the rules of every kind.

The first words say which reason the answer gives as the cause; what follows is Muster's own sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from muster.model.errors import InvalidObject, InvalidObjects, quoted

Problems = Iterator[InvalidObject]


def required(path: str, detail: str = "") -> InvalidObject:
    return InvalidObject(path, _joined("Required value", detail))


def invalid(path: str, value: Any, detail: str) -> InvalidObject:
    return InvalidObject(path, _joined(f"Invalid value: {quoted(value)}", detail))


def not_supported(path: str, value: Any, choices: Iterable[str]) -> InvalidObject:
    """A value that is none of the few that there are."""
    known = ", ".join(json.dumps(one) for one in sorted(choices))
    return InvalidObject(path, f"Unsupported value: {quoted(value)}: supported values: {known}")


def duplicate(path: str, value: Any) -> InvalidObject:
    return InvalidObject(path, f"Duplicate value: {quoted(value)}")


def forbidden(path: str, detail: str) -> InvalidObject:
    return InvalidObject(path, f"Forbidden: {detail}")


def too_long(path: str, most_bytes: int) -> InvalidObject:
    return InvalidObject(path, f"Too long: may not be more than {most_bytes} byte{'s' * (most_bytes != 1)}")


def too_many(path: str, count: int, most: int) -> InvalidObject:
    return InvalidObject(path, f"Too many: {count}: must have at most {most} item{'s' * (most != 1)}")


def not_found(path: str, value: Any) -> InvalidObject:
    return InvalidObject(path, f"Not found: {quoted(value)}")


def raise_all(problems: Iterable[InvalidObject]) -> None:
    """Raise all problems as one; nothing happens without any."""
    found = tuple(problems)
    if found:
        raise found[0] if len(found) == 1 else InvalidObjects(found)


def _joined(start: str, detail: str) -> str:
    return f"{start}: {detail}" if detail else start
