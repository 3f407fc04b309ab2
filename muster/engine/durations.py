"""Durations as Go writes them, for arguments of policies: whole and broken numbers with units."""

from __future__ import annotations

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
TEXT_MOST = 40


def duration_s(text: str) -> float | None:
    """The seconds of a duration such as 1h30m; `None` for what is none."""
    if not text or len(text) > TEXT_MOST:
        return None
    total, number, unit = 0.0, "", ""
    for letter in f"{text} ":
        if unit and (letter.isdecimal() or letter in ". "):
            if not _is_number(number) or unit not in _UNITS_S:
                return None
            total += float(number) * _UNITS_S[unit]
            number, unit = "", ""
        if letter.isdecimal() or letter == ".":
            number += letter
        elif letter != " ":
            unit += letter
    return None if number or unit else total


def _is_number(text: str) -> bool:
    return text.count(".") <= 1 and text.replace(".", "").isdecimal()
