"""Which fields of a custom kind its objects can be selected by, and what is wrong with them. Called by `checks`."""

from __future__ import annotations

from typing import Any

from muster.apiserver.kinds.problems import Problems, duplicate, invalid, required, too_many

Json = dict[str, Any]
MOST = 8
_SCALARS = ("string", "boolean", "integer")
_WRONG_KIND = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)


def selectable_problems(version: Json, path: str) -> Problems:
    """What is wrong with a version's `selectableFields`."""
    given = version.get("selectableFields") or []
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    seen: set[str] = set()
    is_fine = True
    for index, one in enumerate(given):
        text, where = one.get("jsonPath") or "", f"{path}[{index}].jsonPath"
        if not text:
            yield required(where)
            continue
        why = _path_problem(text, schema)
        is_fine = is_fine and not why
        if why:
            yield invalid(where, text, why)
        elif text in seen:
            yield duplicate(where, text)
        seen.add(text)
    if is_fine and len(given) > MOST:
        yield too_many(path, len(given), MOST)


def _path_problem(text: str, schema: Json) -> str:
    if not text.startswith("."):
        return f"is an invalid path: expected [ or . but got: {text.partition('.')[0]}"
    if "[" in text:
        return "is an invalid path: array notation is not allowed"
    names = text[1:].split(".")
    found: Any = schema
    for name in names:
        found = (found.get("properties") or {}).get(name) if isinstance(found, dict) else None
    if not isinstance(found, dict) or names[0] == "metadata":
        return "is an invalid path: does not refer to a valid field"
    return "" if found.get("type") in _SCALARS else _WRONG_KIND
