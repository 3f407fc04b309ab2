"""Deadlines of gangs: who has slots and has not filled them all in time, and who waits too long for others to leave.

Owned by the engine's state. A gang that is bound in part holds nodes that nobody can use, and a hold whose victims do
not leave keeps them from everybody; after the deadline each gives everything back.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable


class GangDeadlines:
    """When whose time is over."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.overdue: dict[str, None] = {}  # gangs that hold slots and did not fill them
        self._due: list[tuple[float, str]] = []
        self._due_at: dict[str, float] = {}  # of those that hold slots; what else is in the heap is out of date
        self._waiting_since: dict[str, float] = {}  # since when others are to leave for it
        self._paused_until: dict[str, float] = {}  # those who waited in vain leave others alone for a while

    def start(self, workload: str, now: float) -> None:
        """A workload got slots: its pods are to be bound from now on."""
        self._due_at[workload] = now + self.limit_s
        heapq.heappush(self._due, (now + self.limit_s, workload))

    def stop(self, workload: str) -> None:
        """A workload gave its slots back."""
        self.overdue.pop(workload, None)
        self._due_at.pop(workload, None)

    def advance(self, now: float, is_stuck: Callable[[str], bool]) -> None:
        """Look at those whose time is over by now."""
        while self._due and self._due[0][0] <= now:
            due_at, workload = heapq.heappop(self._due)
            if self._due_at.get(workload) == due_at and is_stuck(workload):
                self.overdue[workload] = None

    def next_due(self) -> float | None:
        """When somebody's time is over, as far as is known now; it may be that of one who is done already."""
        while self._due and self._due_at.get(self._due[0][1]) != self._due[0][0]:
            heapq.heappop(self._due)
        waits = [since + self.limit_s for since in self._waiting_since.values()]
        return min([*waits, *(due for due, _ in self._due[:1])], default=None)

    def wait(self, workload: str, now: float) -> None:
        """Others were told to leave for a workload, now or before."""
        self._waiting_since.setdefault(workload, now)

    def end_wait(self, workload: str) -> None:
        self._waiting_since.pop(workload, None)

    def pause(self, workload: str, until: float) -> None:
        """Nobody has left for a workload in time: until then it may start only where there is room as it is."""
        self._paused_until[workload] = until

    def end_pause(self, workload: str) -> None:
        self._paused_until.pop(workload, None)

    def paused_until(self, workload: str, now: float) -> float | None:
        """Until when a workload leaves others alone; `None` where it need not."""
        until = self._paused_until.get(workload)
        return until if until is not None and now < until else None

    def has_waited_too_long(self, workload: str, now: float) -> bool:
        """Whether those who are to leave for it have had all the time there is."""
        since = self._waiting_since.get(workload)
        return since is not None and now - since >= self.limit_s
