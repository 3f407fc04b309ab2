"""JSON text into values, with a place for every refusal. Called by `documents`.

Python's own reader keeps the last of two equal keys, takes NaN and Infinity, and says nothing of where. The checks
here run inside it; only when one fails is the text walked again to find the line.
"""

from __future__ import annotations

import json
import re
from typing import Any

from muster.model.errors import InvalidObject
from muster.model.text_places import place_of, refuse, repeated_key
from muster.model.yaml_scalars import MOST_DIGITS

# A string without its end runs to the end of the text, so that each of these passes is linear.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_BRACKET_OR_STRING = re.compile(_STRING + r"|[{}\[\]]", re.DOTALL)
_TOKEN = re.compile(_STRING + r"|[{}\[\]:]", re.DOTALL)
_NUMBER = re.compile(_STRING + r"|-?(?:NaN|Infinity|[0-9][0-9.eE+-]*)", re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")


class _RepeatedKey(Exception):
    """A key given twice in one JSON object; the line is found afterwards."""


class _BadNumber(Exception):
    """A JSON number that is refused; the line is found afterwards."""

    def __init__(self, digits: str) -> None:
        super().__init__(digits)
        self.digits = digits


def begins_as_json(text: str, most_depth: int) -> bool:
    """Whether a text may be JSON, and nests little enough for a reader that recurses into it."""
    if text[_space_end(text, 0) : _space_end(text, 0) + 1] not in ("{", "["):
        return False
    depth = 0
    for token in _BRACKET_OR_STRING.finditer(text):
        first = text[token.start()]
        if first in "{[":
            depth += 1
            if depth > most_depth:
                return False
        elif first in "}]":
            depth -= 1
    return True


def _space_end(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return found.end() if found else start


def json_values(text: str, source: str) -> list[tuple[Any, int]]:
    """The values of a text with the line each starts on; raises what `json` raises for what is no JSON."""
    decoder = json.JSONDecoder(
        object_pairs_hook=_object_of,
        parse_int=_integer_of,
        parse_float=_float_of,
        parse_constant=_float_of,
    )
    values = []
    position, line, counted = _space_end(text, 0), 1, 0
    while position < len(text):
        line += text.count("\n", counted, position)
        counted = position
        try:
            value, position = decoder.raw_decode(text, position)
        except _RepeatedKey:
            raise _repeated_json_key(text, source) from None
        except _BadNumber as problem:
            raise _bad_json_number(text, problem.digits, source) from None
        values.append((value, line))
        position = _space_end(text, position)
    return values


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _RepeatedKey
    return result


def _integer_of(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise _BadNumber(digits)
    return int(digits)


def _float_of(digits: str) -> float:
    value = float(digits)
    if value - value != 0:  # true of infinities and of not-a-number alone
        raise _BadNumber(digits)
    return value


def _bad_json_number(text: str, digits: str, source: str) -> InvalidObject:
    """Where a number is that has too many digits or is not finite."""
    start = next((found.start() for found in _NUMBER.finditer(text) if found.group() == digits), 0)
    line, column = place_of(text, start)
    if len(digits) > MOST_DIGITS:
        problem = f"is a number of {len(digits)} digits"
        return refuse(source, line, column, problem, f"give at most {MOST_DIGITS}")
    return refuse(source, line, column, f"is {digits}, which is not a finite number", "give a finite number")


def _repeated_json_key(text: str, source: str) -> InvalidObject:
    """Where the first key is that its object already has."""
    open_objects: list[set[str] | None] = []
    last_string, last_start = "", 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in "{[":
            open_objects.append(set() if first == "{" else None)
        elif first in "}]" and open_objects:
            open_objects.pop()
        elif first == '"':
            last_string, last_start = token.group(), token.start()
        elif first == ":" and open_objects:
            keys, key = open_objects[-1], json.loads(last_string)
            if keys is not None and key in keys:
                return repeated_key(source, *place_of(text, last_start), key)
            if keys is not None:
                keys.add(key)
    return InvalidObject(source, "gives a key twice", "give each key once")
