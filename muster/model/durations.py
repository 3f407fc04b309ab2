"""Durations as Go writes them ("5m", "1h30m", "1.5s"), exact to the nanosecond. Read by the configuration."""

from __future__ import annotations

from muster.model.errors import InvalidObject
from muster.model.fields import INT64_MAX, shown

NANOSECONDS = 1_000_000_000
_UNITS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # the micro sign
    "μs": 1_000,  # the Greek letter
    "ms": 1_000_000,
    "s": NANOSECONDS,
    "m": 60 * NANOSECONDS,
    "h": 3600 * NANOSECONDS,
}
_DIGITS = frozenset("0123456789")
_CHARACTERS = 100
_HINT = 'give a duration such as "30s", "5m" or "1h30m"'


def duration_ns(value: object, path: str) -> int:
    """The nanoseconds of a duration; raises `InvalidObject` for anything Go would not take."""
    if not isinstance(value, str):
        raise InvalidObject(path, f"is {shown(value)}", _HINT)
    is_negative = value.startswith("-")
    text = value[1:] if value[:1] in ("-", "+") else value
    if len(value) > _CHARACTERS or not text:
        raise InvalidObject(path, f"is {shown(value)}", _HINT)
    if text == "0":
        return 0
    total = 0
    while text:
        amount, text = _next_part(text, value, path)
        total += amount
    if total > INT64_MAX + is_negative:
        raise InvalidObject(path, f"is {shown(value)}", "give at most 290 years")
    return -total if is_negative else total


def _next_part(text: str, value: str, path: str) -> tuple[int, str]:
    """The first number with its unit, and what follows it."""
    whole, rest = _leading_digits(text)
    fraction = ""
    if rest.startswith("."):
        fraction, rest = _leading_digits(rest[1:])
    unit = rest[: next((at for at, c in enumerate(rest) if c in _DIGITS or c == "."), len(rest))]
    if not (whole or fraction) or unit not in _UNITS:
        problem = f"is {shown(value)}" + ("" if unit else ", which has no unit")
        raise InvalidObject(path, problem, _HINT)
    scale = _UNITS[unit]
    # Go drops what is finer than a nanosecond.
    amount = int(whole or "0") * scale + int(fraction or "0") * scale // 10 ** len(fraction)
    return amount, rest[len(unit) :]


def _leading_digits(text: str) -> tuple[str, str]:
    end = next((at for at, c in enumerate(text) if c not in _DIGITS), len(text))
    return text[:end], text[end:]
