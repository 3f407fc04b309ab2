"""Amounts of resources as YuniKorn's configuration writes and compares them. Called by whoever reads queues or limits.

YuniKorn counts `vcore` in thousandths of a core and everything else in its base unit, in 64 bits. A resource that a
maximum does not name has no maximum.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from muster.model.errors import InvalidObject
from muster.model.fields import INT64_MAX, shown

VCORE = "vcore"
MILLI = 1000

Amounts = Mapping[str, int]

_SPACES = re.compile(r"\s+")
_AMOUNT = re.compile(r"([+-]?[0-9]+)([A-Za-z]*)")
_DIGITS_MOST = 19  # of a number that fits 64 bits
_SCALES: Mapping[str, int] = {
    "": 1,
    **{unit: MILLI ** (power + 1) for power, unit in enumerate("kMGTPE")},
    **{f"{unit}i": 1024 ** (power + 1) for power, unit in enumerate("KMGTPE")},
}


def parse_amount(resource: str, text: str, path: str) -> int:
    """A quantity such as 10, 500m (cores alone) or 16Gi; never a fraction, never below zero."""
    found = _AMOUNT.fullmatch(_SPACES.sub("", text))
    if found is None:
        raise InvalidObject(path, f"is {shown(text)}", "give a whole number, with a unit such as M or Gi if need be")
    number, unit = found.groups()
    is_in_milli = resource == VCORE and unit == "m"
    if unit not in _SCALES and not is_in_milli:
        units = ", ".join(name for name in _SCALES if name)
        hint = f"{units} are units" + (", and m for thousandths of a core" if resource == VCORE else "")
        raise InvalidObject(path, f"has the unit {shown(unit)}", hint)
    # The length first: to read a number of a million digits takes long.
    is_too_long = len(number.lstrip("+-").lstrip("0")) > _DIGITS_MOST
    amount = 0 if is_too_long else int(number) * (1 if is_in_milli else _SCALES[unit])
    if resource == VCORE and not is_in_milli:
        amount *= MILLI
    if is_too_long or not -INT64_MAX - 1 <= amount <= INT64_MAX:
        raise InvalidObject(path, "does not fit into 64 bits", "give a smaller number")
    if amount < 0:
        raise InvalidObject(path, f"is {shown(text)}", "give 0 or more")
    return amount


def parse_amounts(texts: Mapping[str, str] | None, path: str) -> dict[str, int]:
    """All amounts of a list of resources; none where there is no list."""
    return {name: parse_amount(name, text, f"{path}.{name}") for name, text in (texts or {}).items()}


def is_within(amounts: Amounts, most: Amounts) -> bool:
    """Whether amounts stay within a maximum; what the maximum does not name may be anything."""
    return all(amount <= most[name] for name, amount in amounts.items() if name in most)


def least_of(first: Amounts, second: Amounts) -> dict[str, int]:
    """What two maximums allow together."""
    return {
        name: min(first.get(name, second.get(name, 0)), second.get(name, first.get(name, 0)))
        for name in (*first, *(name for name in second if name not in first))
    }
