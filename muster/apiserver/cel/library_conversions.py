"""Conversions between types, and the parts of moments and durations. Collected by `functions`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from muster.apiserver.cel.comparing import text_steps
from muster.apiserver.cel.formatting import double_text, text_of_bytes
from muster.apiserver.cel.library_operators import int64, uint64
from muster.apiserver.cel.moments import (
    SECOND,
    Duration,
    Timestamp,
    parse_duration,
    parse_timestamp,
    timestamp,
    zone_named,
)
from muster.apiserver.cel.problems import EvaluationProblem
from muster.apiserver.cel.signatures import overload
from muster.apiserver.cel.values import INT_LEAST, INT_MOST, Uint, type_value

NUMBER_MOST = 400  # characters of a number's text
_INT = re.compile(r"[+-]?[0-9]+")
_UINT = re.compile(r"[0-9]+")
_DOUBLE = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|[+-]?(?:inf|infinity)|nan|[+-]?0x[0-9a-f]{1,16}p[+-]?[0-9]{1,3}",
    re.IGNORECASE,
)
_BOOLS = dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "FALSE", "False"), False
)


def _not_converted(source: str, target: str) -> EvaluationProblem:
    return EvaluationProblem(f"type conversion error from '{source}' to '{target}'")


def _int_of_text(text: str) -> int:
    if len(text) > NUMBER_MOST or not _INT.fullmatch(text) or not INT_LEAST <= int(text) <= INT_MOST:
        raise _not_converted("string", "int")
    return int(text)


def _uint_of_text(text: str) -> Uint:
    if len(text) > NUMBER_MOST or not _UINT.fullmatch(text) or int(text) >= 2**64:
        raise _not_converted("string", "uint")
    return Uint(text)


def _double_of_text(text: str) -> float:
    if len(text) > NUMBER_MOST or not _DOUBLE.fullmatch(text):
        raise _not_converted("string", "double")
    if "x" in text.lower():
        return float.fromhex(text)
    value = float(text)
    if math.isinf(value) and "n" not in text.lower():  # a number too large, not one of the words for infinity
        raise _not_converted("string", "double")
    return value


def _bool_of_text(text: str) -> bool:
    if text not in _BOOLS:
        raise _not_converted("string", "bool")
    return _BOOLS[text]


def _int_of_double(value: float) -> int:
    # The ends themselves are refused too: a double cannot tell them from their neighbours.
    if not -(2.0**63) < value < 2.0**63:
        raise EvaluationProblem("integer overflow")
    return int(value)


def _uint_of_double(value: float) -> Uint:
    if not 0 <= value < 2.0**64:
        raise EvaluationProblem("unsigned integer overflow")
    return Uint(int(value))


def _bytes_of_text(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _duration_of_text(text: str) -> Duration:
    try:
        return parse_duration(text)
    except EvaluationProblem:
        raise _not_converted("string", "google.protobuf.Duration") from None


def _timestamp_of_text(text: str) -> Timestamp:
    try:
        return parse_timestamp(text)
    except EvaluationProblem:
        raise _not_converted("string", "google.protobuf.Timestamp") from None


def _same(value: Any) -> Any:
    return value


_CONVERSIONS = [
    overload("type(A) -> type(A)", type_value),
    overload("dyn(A) -> dyn", _same),
    overload("bool(bool) -> bool", _same),
    overload("bool(string) -> bool", _bool_of_text),
    overload("bytes(bytes) -> bytes", _same),
    overload("bytes(string) -> bytes", _bytes_of_text, text_steps),
    overload("double(double) -> double", _same),
    overload("double(int) -> double", float),
    overload("double(uint) -> double", float),
    overload("double(string) -> double", _double_of_text),
    overload("int(int) -> int", _same),
    overload("int(uint) -> int", lambda value: int64(int(value))),
    overload("int(double) -> int", _int_of_double),
    overload("int(string) -> int", _int_of_text),
    overload("int(duration) -> int", lambda value: value.nanoseconds),
    overload("int(timestamp) -> int", lambda value: value.nanoseconds // SECOND),
    overload("uint(uint) -> uint", _same),
    overload("uint(int) -> uint", uint64),
    overload("uint(double) -> uint", _uint_of_double),
    overload("uint(string) -> uint", _uint_of_text),
    overload("string(string) -> string", _same),
    overload("string(bool) -> string", lambda value: "true" if value else "false"),
    overload("string(int) -> string", str),
    overload("string(uint) -> string", lambda value: str(int(value))),
    overload("string(double) -> string", double_text),
    overload("string(bytes) -> string", text_of_bytes, text_steps),
    overload("string(timestamp) -> string", str),
    overload("string(duration) -> string", str),
    overload("duration(duration) -> duration", _same),
    overload("duration(string) -> duration", _duration_of_text),
    overload("duration(int) -> duration", Duration),
    overload("timestamp(timestamp) -> timestamp", _same),
    overload("timestamp(string) -> timestamp", _timestamp_of_text),
    overload("timestamp(int) -> timestamp", lambda value: timestamp(value * SECOND)),
]


def _part(read: Callable[[datetime], int]) -> Callable[..., int]:
    return lambda moment, zone="UTC": read(moment.at(zone_named(zone)))


_PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDate": lambda at: at.day,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDayOfWeek": lambda at: at.isoweekday() % 7,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
    "getHours": lambda at: at.hour,
    "getMinutes": lambda at: at.minute,
    "getSeconds": lambda at: at.second,
}


def _milliseconds(moment: Timestamp, zone: str = "UTC") -> int:
    zone_named(zone)  # all zones agree, but one that is unknown is a problem
    return moment.nanoseconds % SECOND // 1_000_000


def _whole(unit: int) -> Callable[[Duration], int]:
    """How many whole units a duration has, towards zero."""
    return lambda value: int(math.copysign(1, value.nanoseconds)) * (abs(value.nanoseconds) // unit)


_TIMES = [
    *(
        overload(f"timestamp.{name}({zone}) -> int", _part(read))
        for name, read in _PARTS.items()
        for zone in ("", "string")
    ),
    overload("timestamp.getMilliseconds() -> int", _milliseconds),
    overload("timestamp.getMilliseconds(string) -> int", _milliseconds),
    overload("duration.getHours() -> int", _whole(3600 * SECOND)),
    overload("duration.getMinutes() -> int", _whole(60 * SECOND)),
    overload("duration.getSeconds() -> int", _whole(SECOND)),
    overload("duration.getMilliseconds() -> int", _whole(1_000_000)),
]

OVERLOADS = [*_CONVERSIONS, *_TIMES]
