"""Quantities, versions and named formats. Collected by `functions`."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from muster.apiserver.cel.comparing import text_steps
from muster.apiserver.cel.library_networks import url_problem
from muster.apiserver.cel.moments import parse_date, parse_timestamp
from muster.apiserver.cel.problems import EvaluationProblem
from muster.apiserver.cel.signatures import overload
from muster.apiserver.cel.values import INT_LEAST, INT_MOST, NONE, Opaque, Optional
from muster.model.labels import (
    dns1035_label_problem,
    dns1123_label_problem,
    dns1123_subdomain_problem,
    label_key_problem,
    label_value_problem,
)
from muster.model.quantity import InvalidQuantity, Quantity, parse_quantity

# Quantities -----------------------------------------------------------------------------------------------------------

DIGITS_MOST = 1000  # of a sum; no amount of anything has as many
# Written with decimals or in parts of one: Kubernetes does not take these for integers, whatever their value.
_BROKEN = re.compile(r"\.[0-9]|[num]$|[eE]-")


@dataclass(frozen=True, slots=True)
class QuantityValue(Opaque):
    """An amount such as 500m; equal by value."""

    type_name: ClassVar[str] = "kubernetes.Quantity"
    amount: Quantity
    is_whole: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantityValue) and self.amount == other.amount

    def __hash__(self) -> int:
        return hash(self.amount)


def _quantity(text: str) -> QuantityValue:
    try:
        return QuantityValue(parse_quantity(text), not _BROKEN.search(text))
    except InvalidQuantity:
        raise EvaluationProblem(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except InvalidQuantity:
        return False
    return True


def _integer(value: QuantityValue) -> int | None:
    """The value as a whole number of 64 bits, where Kubernetes takes it for one."""
    amount = value.amount
    if not value.is_whole or amount.exponent < 0 or len(amount.digits) + amount.exponent > len(str(INT_MOST)):
        return None
    number = _number(amount, amount.exponent)
    return number if INT_LEAST <= number <= INT_MOST else None


def _number(amount: Quantity, power: int) -> int:
    """The value in units of 10 to the exponent less the power."""
    number: int = int(amount.digits or "0") * 10**power
    return -number if amount.is_negative else number


def _as_integer(value: QuantityValue) -> int:
    found = _integer(value)
    if found is None:
        raise EvaluationProblem("cannot convert value to integer")
    return found


def _sign(value: QuantityValue) -> int:
    return 0 if value.amount.is_zero else (-1 if value.amount.is_negative else 1)


def _order(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _sum(one: QuantityValue, other: QuantityValue, sign: int = 1) -> QuantityValue:
    exponent = min(one.amount.exponent, other.amount.exponent)
    powers = [amount.exponent - exponent for amount in (one.amount, other.amount)]
    if any(
        len(amount.digits) + power > DIGITS_MOST
        for amount, power in zip((one.amount, other.amount), powers, strict=True)
    ):
        raise EvaluationProblem(f"the sum of quantities has more than {DIGITS_MOST} digits")
    total = _number(one.amount, powers[0]) + sign * _number(other.amount, powers[1])
    written = str(abs(total))
    digits = written.rstrip("0").lstrip("0")
    if not digits:
        return QuantityValue(Quantity("", 0), one.is_whole and other.is_whole)
    trailing = len(written) - len(written.rstrip("0"))
    amount = Quantity(digits, exponent + trailing, is_negative=total < 0, format=one.amount.format)
    return QuantityValue(amount, one.is_whole and other.is_whole)


def _difference(one: QuantityValue, other: QuantityValue) -> QuantityValue:
    return _sum(one, other, -1)


def _float(value: QuantityValue) -> float:
    amount = value.amount
    sign = "-" if amount.is_negative else ""
    return float(f"{sign}{amount.digits[:40] or '0'}e{amount.exponent + max(0, len(amount.digits) - 40)}")


_QUANTITIES = [
    overload("quantity(string) -> quantity", _quantity, text_steps),
    overload("isQuantity(string) -> bool", _is_quantity, text_steps),
    overload("sign(quantity) -> int", _sign),
    overload("quantity.isGreaterThan(quantity) -> bool", lambda one, other: one.amount > other.amount),
    overload("quantity.isLessThan(quantity) -> bool", lambda one, other: one.amount < other.amount),
    overload("quantity.compareTo(quantity) -> int", lambda one, other: _order(one.amount, other.amount)),
    overload("quantity.asApproximateFloat() -> double", _float),
    overload("quantity.asInteger() -> int", _as_integer),
    overload("quantity.isInteger() -> bool", lambda value: _integer(value) is not None),
    overload("quantity.add(quantity) -> quantity", _sum),
    overload("quantity.add(int) -> quantity", lambda one, number: _sum(one, _quantity(str(number)))),
    overload("quantity.sub(quantity) -> quantity", _difference),
    overload("quantity.sub(int) -> quantity", lambda one, number: _difference(one, _quantity(str(number)))),
]

# Versions -------------------------------------------------------------------------------------------------------------

VERSION_MOST = 256  # characters; each number is at most 20 of them
_NUMBER = r"(0|[1-9][0-9]*)"
_WORD = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_WORD}(?:\.{_WORD})*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)


@dataclass(frozen=True, slots=True)
class SemverValue(Opaque):
    """A semantic version; what comes after a plus does not count."""

    type_name: ClassVar[str] = "kubernetes.Semver"
    numbers: tuple[int, int, int]
    words: tuple[str, ...]  # of a version before the release

    def order(self, other: SemverValue) -> int:
        """Below, at or above zero, as this comes before the other, is the same, or comes after."""
        if self.numbers != other.numbers:
            return _order(self.numbers, other.numbers)
        if not self.words or not other.words:
            return _order(not self.words, not other.words)
        return _order([_word_key(one) for one in self.words], [_word_key(one) for one in other.words])


def _word_key(word: str) -> tuple[bool, int, str]:
    return (False, int(word), "") if word.isdecimal() else (True, 0, word)


def _semver(text: str, is_lenient: bool = False) -> SemverValue:
    written = _completed(text) if is_lenient else text
    found = _SEMVER.fullmatch(written) if len(written) <= VERSION_MOST else None
    if found is None:
        raise EvaluationProblem(f'"{text[:60]}" is no semantic version')
    numbers = (int(found[1]), int(found[2]), int(found[3]))
    if max(numbers) >= 2**64:
        raise EvaluationProblem(f'"{text[:60]}" is no semantic version')
    return SemverValue(numbers, tuple(found[4].split(".")) if found[4] else ())


def _completed(text: str) -> str:
    """Without a v before it and zeros before numbers, and with the numbers that are missing."""
    parts = text.removeprefix("v").split(".", 2)
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        return ""
    for at, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[at] = stripped if stripped[:1].isdecimal() else f"0{stripped}"
    return ".".join([*parts, "0", "0"][:3])


def _is_semver(text: str, is_lenient: bool = False) -> bool:
    try:
        _semver(text, is_lenient)
    except EvaluationProblem:
        return False
    return True


def _version_steps(text: str, *_: bool) -> int:
    return text_steps(text)


_VERSIONS = [
    overload("semver(string) -> semver", _semver, _version_steps),
    overload("semver(string, bool) -> semver", _semver, _version_steps),
    overload("isSemver(string) -> bool", _is_semver, _version_steps),
    overload("isSemver(string, bool) -> bool", _is_semver, _version_steps),
    overload("semver.isGreaterThan(semver) -> bool", lambda one, other: one.order(other) > 0),
    overload("semver.isLessThan(semver) -> bool", lambda one, other: one.order(other) < 0),
    overload("semver.compareTo(semver) -> int", SemverValue.order),
    overload("semver.major() -> int", lambda value: value.numbers[0]),
    overload("semver.minor() -> int", lambda value: value.numbers[1]),
    overload("semver.patch() -> int", lambda value: value.numbers[2]),
]

# Formats --------------------------------------------------------------------------------------------------------------

TEXT_STEPS = 8  # for each ten characters: about what the pattern of a format costs
_UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)


def _as_prefix(problem_of: Callable[[str], str]) -> Callable[[str], str]:
    """For names that something will be added to: they may end with a dash."""
    return lambda text: problem_of(f"{text[:-1]}a" if text.endswith("-") else text)


def _byte_problem(text: str) -> str:
    if not text:
        return "invalid base64"
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return "invalid base64"
    return ""


def _parsed_by(parse: Callable[[str], object], problem: str) -> Callable[[str], str]:
    def problem_of(text: str) -> str:
        try:
            parse(text)
        except EvaluationProblem:
            return problem
        return ""

    return problem_of


_PROBLEMS: dict[str, Callable[[str], str]] = {
    "dns1123Label": dns1123_label_problem,
    "dns1123Subdomain": dns1123_subdomain_problem,
    "dns1035Label": dns1035_label_problem,
    "qualifiedName": label_key_problem,
    "dns1123LabelPrefix": _as_prefix(dns1123_label_problem),
    "dns1123SubdomainPrefix": _as_prefix(dns1123_subdomain_problem),
    "dns1035LabelPrefix": _as_prefix(dns1035_label_problem),
    "labelValue": label_value_problem,
    "uri": url_problem,
    "uuid": lambda text: "" if _UUID.fullmatch(text) else "does not match the UUID format",
    "byte": _byte_problem,
    "date": _parsed_by(parse_date, "invalid date"),
    "datetime": _parsed_by(parse_timestamp, "invalid datetime"),
}


@dataclass(frozen=True, slots=True)
class FormatValue(Opaque):
    """A format that texts may be checked against."""

    type_name: ClassVar[str] = "kubernetes.NamedFormat"
    name: str


def _validated(wanted: FormatValue, text: str) -> Optional:
    problem = _PROBLEMS[wanted.name](text)
    return Optional(True, [problem]) if problem else NONE


def _format_named(name: str) -> Optional:
    return Optional(True, FormatValue(name)) if name in _PROBLEMS else NONE


def _format(name: str) -> Callable[[], FormatValue]:
    return lambda: FormatValue(name)


_FORMATS = [
    *(overload(f"format:{name}() -> format", _format(name)) for name in _PROBLEMS),
    overload("format:named(string) -> optional(format)", _format_named),
    overload(
        "format.validate(string) -> optional(list(string))",
        _validated,
        lambda _, text: TEXT_STEPS * (1 + text_steps(text)),
    ),
]

OVERLOADS = [*_QUANTITIES, *_VERSIONS, *_FORMATS]
