"""How long something takes, told so that a slow or busy machine does not fail what is fast. Imported by tests."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

TRIES = 3  # what takes long by nature does so each time; what was disturbed does not
ANCHOR_S = 0.02  # what `_anchor` takes on the machine that limits are written for
ANCHOR_ROUNDS = 100_000
TRACED = 5 if sys.gettrace() else 1  # while coverage is measured


def is_done_within(limit_s: float, work: Callable[[], object]) -> bool:
    """Whether the work takes no more of this process's time than that, on the machine that limits are written for.

    A slower machine gets as much more as an anchor, measured right then, takes longer on it.
    """
    return any(_cpu_seconds(work) <= limit_s * slow_factor() for _ in range(TRIES))


def slow_factor() -> float:
    """How much longer this machine takes right now than the one that limits are written for."""
    return max(1.0, _cpu_seconds(_anchor) / ANCHOR_S) * TRACED


def _cpu_seconds(work: Callable[[], object]) -> float:
    begin_s = time.process_time()
    work()
    return time.process_time() - begin_s


def _anchor() -> dict[str, int]:
    """The kind of work that reading objects is: small functions, strings and tables."""
    counts: dict[str, int] = {}
    for number in range(ANCHOR_ROUNDS):
        name = str(number % 97)
        counts[name] = counts.get(name, 0) + len(name)
    return counts
