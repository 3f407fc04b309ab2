"""Numbers that may be given as a share of another: 3 or 25%. Used for surges, unavailability and budgets."""

from __future__ import annotations

from typing import Any


def share(given: Any, total: int, *, is_rounded_up: bool) -> int:
    """How many of the total a number or percentage stands for; absent is none."""
    if given is None:
        return 0
    if isinstance(given, int):
        return given
    percent = int(str(given).removesuffix("%"))
    return -(-percent * total // 100) if is_rounded_up else percent * total // 100
