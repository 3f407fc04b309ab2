"""What a plain YAML scalar means to Kubernetes' reader. Called by `documents`.

That reader resolves YAML 1.1 words and numbers, with its own exceptions: times of day such as 1:30 and dates stay
text, 010 is octal, and a number too large for a float is text again. Whole numbers stay exact at any size here; the
reader of each field checks its range.
"""

from __future__ import annotations

import re
import struct

MOST_DIGITS = 400

_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NOT_FINITE = frozenset(sign + name for sign in ("", "+", "-") for name in (".inf", ".Inf", ".INF")) | frozenset(
    (".nan", ".NaN", ".NAN")
)
_WORD_STARTS = frozenset("yYnNtTfFoO~")
_NUMBER_STARTS = frozenset("+-.0123456789")
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[oO]([0-7]+)|0[bB]([01]+)|0([0-7]*)|([1-9][0-9]*))")
_BASES = (16, 8, 2, 8, 10)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_POINT_FLOAT = re.compile(r"\.[0-9]+(?:[eE][-+]?[0-9]+)?")


class NotANumber(Exception):
    """A number that is infinite, not a number or too long to be meant."""


def plain_scalar(text: str) -> str | bool | int | float | None:
    """The value of a scalar written without quotes and without a tag."""
    first = text[:1]
    if first in _WORD_STARTS or not first:
        return _WORDS.get(text, text)
    if first not in _NUMBER_STARTS:
        return text
    if len(text) < 19 and text.isdigit() and text.isascii() and (first != "0" or len(text) == 1):
        return int(text)  # The common case, without the patterns below.
    if text in _NOT_FINITE:
        raise NotANumber(f"is {text}, which is not a finite number")
    if first == ".":
        return _float(text) if _POINT_FLOAT.fullmatch(text) else text
    digits = text.replace("_", "")
    whole = _INTEGER.fullmatch(digits)
    if whole is not None:
        return _integer(whole)
    return _float(digits, text) if _FLOAT.fullmatch(digits) else text


def _integer(found: re.Match[str]) -> int:
    sign, *by_base = found.groups()
    for base, digits in zip(_BASES, by_base, strict=True):
        if digits is None:
            continue
        if len(digits) > MOST_DIGITS:
            raise NotANumber(f"is a number of {len(digits)} digits, more than {MOST_DIGITS}")
        value = int(digits, base) if digits else 0
        return -value if sign == "-" else value
    raise AssertionError("one of the bases matched")


def _float(digits: str, text: str = "") -> str | int | float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        return text or digits
    # Go writes a whole float without a point, so that 3.0 reaches an integer field as 3.
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def key_text(value: object) -> str | None:
    """A scalar that is not text as the key it becomes in JSON; `None` for what cannot be one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if -(2**63) <= value < 2**63 else None
    if isinstance(value, float):
        return _float32_text(value)
    return None


def _float32_text(value: float) -> str:
    """The shortest text that gives this number in 32 bits, as Go's 'g' format writes it."""
    try:
        single = struct.pack("<f", value)
    except OverflowError:
        return ".inf" if value > 0 else "-.inf"
    shortest = next(
        text for text in (f"{value:.{places}e}" for places in range(17)) if struct.pack("<f", float(text)) == single
    )
    mantissa, exponent = shortest.split("e")
    if -4 <= int(exponent) < 6:
        return f"{float(shortest):.{max(0, len(mantissa.replace('-', '').replace('.', '')) - 1 - int(exponent))}f}"
    return f"{mantissa}e{exponent}"
