"""JSONPath as definitions use it for columns: names, indices, slices, wildcards and filters. Used by `columns`.

`parse_path(".status.conditions[?(@.type=='Ready')].status")` gives a function from an object to the values found there.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

Step = Callable[[Any], Iterable[Any]]
Path = Callable[[Any], list[Any]]
MOST_FOUND = 10_000  # values that one step may give: nobody reads more of them in one cell

_NAME = re.compile(r"(?:[^\s.\[\]\\{}'\"()=!<>,]|\\.)+")
_INDEX = re.compile(r"\[\s*(-?\d{1,9})\s*\]")
_SLICE = re.compile(r"\[\s*(-?\d{0,9})\s*:\s*(-?\d{0,9})\s*\]")
_QUOTED = re.compile(r"\[\s*(?:'([^']*)'|\"([^\"]*)\")\s*\]")
_EVERY = re.compile(r"\[\s*\*\s*\]")
_FILTER = re.compile(r"\[\?\(\s*@((?:\.[\w\\./-]+|\['[^']*'\])*)\s*(?:(==|!=|<=|>=|<|>)\s*([^()\[\]]*?))?\s*\)\]")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


def parse_path(text: str) -> Path | None:
    """What finds the values at a path; `None` for a path that cannot be read."""
    steps: list[Step] = []
    place = 0
    while place < len(text):
        if text[place] == "[":
            step, place = _bracket(text, place)
        elif text[place] == "." and text[place + 1 : place + 2] == "*":
            step, place = _every, place + 2
        elif text[place] == "." and (found := _NAME.match(text, place + 1)):
            step, place = _named(_plain(found[0])), found.end()
        elif text[place] == "." and text[place + 1 : place + 2] in ("", "["):
            place += 1
            continue
        else:
            return None
        if step is None:
            return None
        steps.append(step)
    return lambda item: _walk(item, steps)


def _walk(item: Any, steps: list[Step]) -> list[Any]:
    values = [item]
    for step in steps:
        values = [found for one in values for found in step(one)][:MOST_FOUND]
    return values


def _bracket(text: str, place: int) -> tuple[Step | None, int]:
    if found := _INDEX.match(text, place):
        return _indexed(int(found[1])), found.end()
    if found := _QUOTED.match(text, place):
        return _named(found[1] if found[1] is not None else found[2]), found.end()
    if found := _EVERY.match(text, place):
        return _every, found.end()
    if found := _SLICE.match(text, place):
        return _sliced(slice(*(int(one) if one else None for one in found.groups()))), found.end()
    if found := _FILTER.match(text, place):
        return _filtered(found), found.end()
    return None, place


def _plain(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _named(name: str) -> Step:
    return lambda item: [item[name]] if isinstance(item, dict) and name in item else []


def _indexed(index: int) -> Step:
    return lambda item: item[index : index + 1 or None] if isinstance(item, list) else []


def _sliced(which: slice) -> Step:
    return lambda item: item[which] if isinstance(item, list) else []


def _every(item: Any) -> Iterable[Any]:
    if isinstance(item, dict):
        return [item[name] for name in sorted(item)]
    return item if isinstance(item, list) else []


def _filtered(found: re.Match[str]) -> Step | None:
    inner = parse_path(found[1])
    if inner is None:
        return None
    if found[2] is None:
        return lambda item: [one for one in _every(item) if inner(one)]
    wanted = _literal(found[3])
    compare = _COMPARE[found[2]]

    def matches(one: Any) -> bool:
        values = inner(one)
        try:
            return bool(values) and compare(values[0], wanted)
        except TypeError:  # values of two types have no order
            return False

    return lambda item: [one for one in _every(item) if matches(one)]


def _literal(text: str) -> Any:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


def text_of_found(values: list[Any]) -> str:
    """Values as a cell shows them, one after the other."""
    return " ".join(_text(one) for one in values)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "<nil>"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
