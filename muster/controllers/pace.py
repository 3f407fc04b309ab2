"""How often people are told: what is only said, and decides nothing, must not keep an API server from its work. And
how much is decided at once: whoever is slow to write must not make those wait who come meanwhile.

Given to the scheduler by `app`. On a store of this process nothing is held back.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often the scheduler tells how things are, and how much it decides at once; zero: without a bound."""

    queue_s: float = 0.0  # between two writes of the status of one queue
    refusal_s: float = 0.0  # that a workload has waited before it is told why: many are served before
    refusals_per_s: float = 0.0  # workloads that are told why they wait, on the average
    refusals_at_once: int = 0  # and after a time in which none were told
    decisions_at_once: int = 0  # of one pass: who comes while they are written waits until they are


AT_ONCE = Pace()


class Allowance:
    """So many a second, and after a quiet time so many at once."""

    def __init__(self, per_s: float, at_once: int) -> None:
        self._per_s = per_s
        self._most = float(at_once)
        self._left = self._most
        self._seen_s = 0.0

    def has_one(self, now_s: float) -> bool:
        """Whether one more may go now; it is counted if so."""
        if not self._per_s:
            return True
        self._left = min(self._most, self._left + max(0.0, now_s - self._seen_s) * self._per_s)
        self._seen_s = now_s
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True

    def wait_s(self) -> float:
        """After how long one more may go."""
        return max(0.0, 1.0 - self._left) / self._per_s if self._per_s else 0.0
