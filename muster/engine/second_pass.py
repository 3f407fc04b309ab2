"""The second pass: workloads with quota whose place is still to be decided, and when to look for it again."""

from __future__ import annotations

from muster.model.workload import Workload

FIRST_DELAY_S = 1.0
DELAY_MOST_S = 30.0


class SecondPass:
    """Who waits for a place, since when, and how often it was looked for in vain."""

    def __init__(self) -> None:
        self._due: dict[str, tuple[float, int]] = {}

    def note(self, workload: Workload, now: float) -> None:
        """Learn what a workload has become."""
        if not workload.needs_place:
            self._due.pop(workload.key, None)
        elif workload.key not in self._due:
            self._due[workload.key] = (now + FIRST_DELAY_S, 0)

    def forget(self, key: str) -> None:
        self._due.pop(key, None)

    def ready(self, now: float) -> list[str]:
        """Whose turn it is."""
        return sorted(key for key, (due, _) in self._due.items() if due <= now)

    def retry(self, key: str, now: float) -> None:
        """Look again later; the time between two tries doubles up to a bound."""
        if key in self._due:
            tries = self._due[key][1] + 1
            self._due[key] = (now + min(DELAY_MOST_S, FIRST_DELAY_S * 2 ** min(tries, 10)), tries)

    def next_due(self) -> float | None:
        """When somebody's turn comes, as far as is known now."""
        return min((due for due, _ in self._due.values()), default=None)
