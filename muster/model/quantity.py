"""Kubernetes quantities ("500m", "2Gi", "1e3"), exact and of any size. Read by `fields`, counted by `resources`.

A value is kept as decimal digits and a power of ten and is never written out: "1e999999999" costs as little as
"1". Everything here works on text in linear time, because a hostile manifest may hold a hundred thousand digits.
Which texts are taken, what they mean and how they are written back follows apimachinery's ParseQuantity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, total_ordering

_REMEMBERED_CHARACTERS = 24
MAX_CHARACTERS = 2**20  # Longer texts are refused; the API server takes no object that large either.
FINEST_POWER = -9  # Kubernetes counts in billionths at the finest.
BINARY_MOST = 2**63 - 1  # Kubernetes caps quantities with a binary suffix here, and no others.
SHOWN_CHARACTERS = 60

_POWERS_OF_TEN = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_POWERS_OF_TWO = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _POWERS_OF_TEN.items()}
_BINARY_SUFFIX = {0: ""} | {power: suffix for suffix, power in _POWERS_OF_TWO.items()}
_TOP_SI_POWER = 18
_TOP_EXPONENT = 2**31 - 2  # The largest multiple of three that Kubernetes reads back.

# Possessive quantifiers: nothing is tried twice, so a text that does not match fails in linear time.
_GRAMMAR = re.compile(r"([+-]?+)([0-9]*+)(?:\.([0-9]*+))?+([eEinumkKMGTP]*+[-+]?+[0-9]*+)")
_EXPONENT = re.compile(r"[eE]([+-]?+)([0-9]++)")


class InvalidQuantity(ValueError):
    """A text that Kubernetes does not take as a quantity either; the message says what is wrong with it."""


class Format(Enum):
    """How a quantity is written: 1500m and 2k, 2Ki, or 2e3."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quantity:
    """digits x 10**exponent, negative or not; equal and ordered by value, however it is written."""

    digits: str  # no zero at either end; empty means zero
    exponent: int
    is_negative: bool = False
    format: Format = Format.DECIMAL
    written: str = ""  # the original text where Kubernetes gives that back unchanged

    def __post_init__(self) -> None:
        assert self.digits.strip("0") == self.digits, "digits of a quantity start or end with 0"
        assert self.digits or (self.exponent == 0 and not self.is_negative), "zero has one form only"

    @property
    def is_zero(self) -> bool:
        return not self.digits

    def canonical(self) -> str:
        """The text that Kubernetes gives for this quantity; reading it gives the same value."""
        if self.written:
            return self.written
        if self.is_zero:
            return "0"
        sign = "-" if self.is_negative else ""
        if self.format is Format.BINARY and (text := self._binary_text()):
            return sign + text
        top = _TOP_EXPONENT if self.format is Format.EXPONENT else _TOP_SI_POWER
        # Kubernetes has no suffix above E and then writes none, which changes the value: zeros are kept instead.
        power = min(self.exponent // 3 * 3, top)
        number = self.digits + "0" * (self.exponent - power)
        if self.format is Format.EXPONENT:
            return sign + number + (f"e{power}" if power else "")
        return sign + number + _DECIMAL_SUFFIX[power]

    def _binary_text(self) -> str:
        """Written with a binary suffix; empty where Kubernetes writes a decimal: fractions, and below 1024."""
        if self.exponent < 0 or len(self.digits) + self.exponent > len(str(BINARY_MOST)):
            return ""
        amount = int(self.digits) * 10**self.exponent
        # Above the cap a binary suffix would be read back as the cap.
        if not 1024 <= amount <= BINARY_MOST:
            return ""
        power = 0
        while amount % 1024 == 0:
            amount //= 1024
            power += 10
        return f"{amount}{_BINARY_SUFFIX[power]}"

    def scaled(self, power: int, most: int) -> int:
        """The value x 10**power, rounded away from zero as Kubernetes rounds, and held within -most..most."""
        assert most >= 0, f"the bound {most} is negative"
        shift = self.exponent + power
        places = len(self.digits) + shift  # how many digits the result has before its point
        if self.is_zero:
            amount = 0
        elif places > most.bit_length() // 3 + 1:
            amount = most
        elif places <= 0:
            amount = 1
        elif shift >= 0:
            amount = int(self.digits) * 10**shift
        else:
            # The digits cut off end in one that is not zero, so there is always something to round up.
            amount = int(self.digits[:places]) + 1
        amount = min(amount, most)
        return -amount if self.is_negative else amount

    def _order(self) -> tuple[int, str]:
        """Sorts magnitudes: the place of the first digit, then the digits as a fraction."""
        return len(self.digits) + self.exponent, self.digits

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.is_negative == other.is_negative and self._order() == other._order()

    def __hash__(self) -> int:
        return hash((self.is_negative, self.exponent, self.digits))

    def __lt__(self, other: Quantity) -> bool:
        if self.is_negative != other.is_negative:
            return self.is_negative
        if self.is_negative:
            return other._order() < self._order()
        if self.is_zero or other.is_zero:
            return not other.is_zero and self.is_zero
        return self._order() < other._order()

    def __str__(self) -> str:
        return self.canonical()

    def __repr__(self) -> str:
        text = self.canonical()
        return f"Quantity({text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + '…'})"


ZERO = Quantity("", 0)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A quantity's text taken apart, with the unit understood."""

    text: str
    is_negative: bool
    whole: str  # without leading zeros; "0" when nothing is left
    fraction: str
    power: int  # of ten, or of two when the format is binary
    format: Format

    @property
    def scale(self) -> int:
        """The power of ten of the last digit. Kubernetes computes it in 32 bits."""
        return _as_int32(self.power - len(self.fraction))

    @property
    def fits_int64(self) -> bool:
        """Whether Kubernetes keeps this in an int64, which decides about the text it gives back."""
        if self.format is Format.BINARY:
            return not self.fraction and len(self.whole) + self.power * 3 // 10 <= 14
        return len(self.whole) + len(self.fraction) <= 18 and self.scale >= FINEST_POWER

    @property
    def is_kept_as_written(self) -> bool:
        """Whether Kubernetes takes this text for canonical already; it is generous about that ("+5", "5.")."""
        if not self.fits_int64:
            return False
        if self.format is Format.BINARY:
            return int(self.whole) % 8 != 0
        digits = self.whole + self.fraction
        return self.scale % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")


def parse_quantity(text: str) -> Quantity:
    """Reads a quantity; takes and refuses what Kubernetes does, and texts above a mebibyte are refused too."""
    return _parsed_before(text) if len(text) <= _REMEMBERED_CHARACTERS else _parsed(text)


def _parsed(text: str) -> Quantity:
    if text == "0":
        return Quantity("", 0, written=text)
    parts, has_digits = _take_apart(text)
    # Kubernetes takes a missing number for 0 where it reads the quantity as an int64 ("m" is 0), and nowhere else.
    if not has_digits and not parts.fits_int64:
        raise InvalidQuantity("has no number")
    digits, exponent = _binary_value(parts) if parts.format is Format.BINARY else _decimal_value(parts)
    if not digits:
        return Quantity("", 0, format=parts.format)
    return Quantity(
        digits,
        exponent,
        is_negative=parts.is_negative,
        format=parts.format,
        written=text if parts.is_kept_as_written else "",
    )


_parsed_before = lru_cache(maxsize=4096)(_parsed)  # a cluster has few different ones, and reads them all the time


def quantity_text(amount: int, *, power: int, binary: bool) -> str:
    """Canonical text of a count of 10**-power: 2500 at power 3 is "2500m"; 3 x 2**30 in binary is "3Gi"."""
    assert 0 <= power <= -FINEST_POWER, f"Kubernetes has no suffix for 10**-{power}"
    digits, exponent = _normal(str(abs(amount)), -power)
    style = Format.BINARY if binary else Format.DECIMAL
    return Quantity(digits, exponent, is_negative=amount < 0, format=style).canonical()


def sum_of(first: Quantity, second: Quantity) -> Quantity:
    """Both together, exact to the finest that Kubernetes knows; written as the first is unless that is zero."""
    power, most = -FINEST_POWER, 10**60
    amount = first.scaled(power, most) + second.scaled(power, most)
    digits, exponent = _normal(str(abs(amount)), FINEST_POWER)
    style = second.format if first.is_zero else first.format
    return Quantity(digits, exponent, is_negative=amount < 0, format=style)


def negated(given: Quantity) -> Quantity:
    """The same amount taken away."""
    is_negative = not given.is_zero and not given.is_negative
    return Quantity(given.digits, given.exponent, is_negative=is_negative, format=given.format)


def _take_apart(text: str) -> tuple[_Parts, bool]:
    """The parts of the text, and whether its number has any digit at all."""
    if not text:
        raise InvalidQuantity("is empty")
    if len(text) > MAX_CHARACTERS:
        raise InvalidQuantity(f"is longer than {MAX_CHARACTERS} characters")
    found = _GRAMMAR.fullmatch(text)
    if found is None:
        raise InvalidQuantity("is not a number followed by a suffix")
    sign, whole, fraction, suffix = found.group(1), found.group(2), found.group(3) or "", found.group(4)
    power, style = _understand_suffix(suffix)
    parts = _Parts(text, sign == "-", whole.lstrip("0") or "0", fraction, power, style)
    return parts, bool(whole or fraction)


def _understand_suffix(suffix: str) -> tuple[int, Format]:
    """The power a suffix stands for and the way of writing it belongs to."""
    if suffix in _POWERS_OF_TEN:
        return _POWERS_OF_TEN[suffix], Format.DECIMAL
    if suffix in _POWERS_OF_TWO:
        return _POWERS_OF_TWO[suffix], Format.BINARY
    found = _EXPONENT.fullmatch(suffix)
    if found is None:
        raise InvalidQuantity("has an unknown suffix")
    digits = found.group(2).lstrip("0") or "0"
    # Twenty digits overflow an int64; a million of them would also take int() a long time.
    exponent = int(found.group(1) + digits) if len(digits) < 20 else 2**63
    if not -(2**63) <= exponent < 2**63:
        raise InvalidQuantity("has an exponent that is too large")
    return _as_int32(exponent), Format.EXPONENT


def _as_int32(number: int) -> int:
    """The low 32 bits: Kubernetes reads exponents as 64 bits and keeps these, so 1e4294967297 means 10."""
    return (number + 2**31) % 2**32 - 2**31


def _normal(digits: str, exponent: int) -> tuple[str, int]:
    """The same value without zeros at either end of the digits."""
    kept = digits.rstrip("0")
    exponent += len(digits) - len(kept)
    kept = kept.lstrip("0")
    return (kept, exponent) if kept else ("", 0)


def _decimal_value(parts: _Parts) -> tuple[str, int]:
    """Digits and exponent of a decimal quantity, rounded up to billionths."""
    exponent = parts.scale if parts.fits_int64 else parts.power - len(parts.fraction)
    digits, exponent = _normal(parts.whole + parts.fraction, exponent)
    too_fine = FINEST_POWER - exponent
    if not digits or too_fine <= 0:
        return digits, exponent
    # What is cut ends in a digit that is not zero: something is always lost, so always one billionth more.
    return _one_more(digits[:-too_fine], FINEST_POWER)


def _one_more(digits: str, exponent: int) -> tuple[str, int]:
    """The next number of so many digits, without converting what may be a hundred thousand of them."""
    kept = digits.rstrip("9")
    exponent += len(digits) - len(kept)
    return (kept[:-1] + str(int(kept[-1]) + 1), exponent) if kept else ("1", exponent)


def _binary_value(parts: _Parts) -> tuple[str, int]:
    """Digits and exponent of a quantity with a binary suffix, rounded up to billionths and capped."""
    if len(parts.whole) > len(str(BINARY_MOST)):
        return _normal(str(BINARY_MOST), 0)
    # Multiplied by at most 2**60, digits after the 69th cannot reach another billionth; only whether any is
    # not zero matters to the rounding, and one digit says that as well as all of them.
    places = parts.power - FINEST_POWER
    fraction = parts.fraction[:places] + ("1" if parts.fraction[places:].strip("0") else "")
    billionths = -(-(int(parts.whole + fraction) << parts.power) * 10**9 // 10 ** len(fraction))
    return _normal(str(min(billionths, BINARY_MOST * 10**9)), FINEST_POWER)
