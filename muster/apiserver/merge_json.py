"""The two patches that know nothing of types: operations (RFC 6902) and merging (RFC 7386). Called by `patches`.

Both work on a copy of the object that belongs to them and give the patched one. What cannot be done to the object is
Unprocessable, what is no patch at all is a bad request.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from muster.apiserver.statuses import Problem, bad_request

MOST_OPERATIONS = 10_000
MOST_COPIED_BYTES = 3 << 20  # by all copy operations of one patch together

Object = dict[str, Any]


def merged(before: Any, patch: Any) -> Any:
    """The merge patch applied: objects merge, null deletes, everything else replaces."""
    if not isinstance(patch, dict):
        return _without_nulls(patch)
    result = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def _without_nulls(value: Any) -> Any:
    """A value that replaces another; Kubernetes drops the null fields of objects in it, those within lists too."""
    if isinstance(value, list):
        return [merged({}, one) if isinstance(one, dict) else _without_nulls(one) for one in value]
    return value


def operated(before: Object, operations: list[Any]) -> Any:
    """The operations of a JSON patch applied one after the other."""
    if len(operations) > MOST_OPERATIONS:
        problem = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        raise Problem(413, "RequestEntityTooLarge", problem)
    document = _Document(before)
    for operation in operations:
        if not isinstance(operation, dict):
            raise bad_request(f"error decoding patch: an operation is {json.dumps(operation)[:60]}, not an object")
        document.do(operation)
    return document.root


class _Document:
    """The object under the patch, and how much has been copied within it."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.copied_bytes = 0

    def do(self, operation: Object) -> None:
        name = operation.get("op")
        act = _OPERATIONS.get(name) if isinstance(name, str) else None
        if act is None:
            raise _unprocessable(f"Unexpected kind: {name}")
        act(self, operation)

    def add(self, operation: Object) -> None:
        holder, last = self._holder(operation, "add")
        if isinstance(holder, list):
            position = len(holder) if last == "-" else _position(last, len(holder) + 1, "add", operation)
            holder.insert(position, operation.get("value"))
        else:
            holder[last] = operation.get("value")

    def remove(self, operation: Object) -> None:
        holder, last = self._holder(operation, "remove")
        if isinstance(holder, list):
            del holder[_position(last, len(holder), "remove", operation)]
        elif last not in holder:
            raise _not_applicable("remove", operation, "there is no such field")
        else:
            del holder[last]

    def replace(self, operation: Object) -> None:
        holder, last = self._holder(operation, "replace")
        if isinstance(holder, list):
            holder[_position(last, len(holder), "replace", operation)] = operation.get("value")
        else:
            # Kubernetes lets a field be replaced that is not there.
            holder[last] = operation.get("value")

    def test(self, operation: Object) -> None:
        wanted = operation.get("value")
        try:
            found = self._get(operation, "path", "test")
        except Problem:
            if wanted is not None:
                raise
            found = None  # what is not there is null
        if not _is_same(found, wanted):
            raise _unprocessable(f"testing value {operation.get('path')} failed: test failed")

    def move(self, operation: Object) -> None:
        value = self._get(operation, "from", "move")
        source, target = _text(operation, "from", "move"), _text(operation, "path", "move")
        if target.startswith(source + "/"):
            raise _not_applicable("move", operation, "a value cannot move into itself")
        self.remove({"path": source})
        self.add({"path": target, "value": value})

    def copy(self, operation: Object) -> None:
        try:
            value = self._get(operation, "from", "copy")
        except Problem:
            value = None  # Kubernetes copies what is not there as null
        text = json.dumps(value)
        self.copied_bytes += len(text)
        if self.copied_bytes > MOST_COPIED_BYTES:
            problem = f"the copy operations of the patch add up to more than {MOST_COPIED_BYTES} bytes"
            raise Problem(413, "RequestEntityTooLarge", problem)
        self.add({"path": operation.get("path"), "value": json.loads(text)})

    def _get(self, operation: Object, member: str, name: str) -> Any:
        holder, last = self._holder({"path": _text(operation, member, name)}, name)
        if isinstance(holder, list):
            return holder[_position(last, len(holder), name, operation)]
        if last not in holder:
            raise _not_applicable(name, operation, "there is no such field")
        return holder[last]

    def _holder(self, operation: Object, name: str) -> tuple[Any, str]:
        """What holds the value that a path leads to, and the last part of the path."""
        path = _text(operation, "path", name)
        if not path.startswith("/"):
            raise _not_applicable(name, operation, "the path leads to no field")
        parts = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
        value = self.root
        for part in parts[:-1]:
            if isinstance(value, list):
                value = value[_position(part, len(value), name, operation)]
            elif isinstance(value, dict) and part in value:
                value = value[part]
            else:
                raise _not_applicable(name, operation, "the path leads nowhere")
        if not isinstance(value, (list, dict)):
            raise _not_applicable(name, operation, "the path leads nowhere")
        return value, parts[-1]


_OPERATIONS: dict[str, Callable[[_Document, Object], None]] = {
    "add": _Document.add,
    "remove": _Document.remove,
    "replace": _Document.replace,
    "test": _Document.test,
    "move": _Document.move,
    "copy": _Document.copy,
}


def _text(operation: Object, member: str, name: str) -> str:
    value = operation.get(member)
    if not isinstance(value, str):
        raise _not_applicable(name, operation, f"{member} is missing")
    return value


def _position(text: str, count: int, name: str, operation: Object) -> int:
    """The index that a part of a path stands for; negative ones count from the end, as Kubernetes takes them."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise _not_applicable(name, operation, f"{text[:60]!r} is no index")
    number = int(text)
    if not -count <= number < count:
        raise _not_applicable(name, operation, f"there is no index {number}")
    return number if number >= 0 else number + count


def _not_applicable(name: str, operation: Object, why: str) -> Problem:
    path = json.dumps(operation.get("path"))[:400]
    return _unprocessable(f"{name} operation does not apply: doc is missing path: {path}: {why}")


def _is_same(found: Any, wanted: Any) -> bool:
    """Equality of JSON, where true is not 1."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(_is_same(found[name], wanted[name]) for name in found)
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_is_same, found, wanted))
    return bool(found == wanted)


def _unprocessable(problem: str) -> Problem:
    return Problem(422, "Invalid", problem)
