"""Repeats: who has preempted whom how often, so that preemption cannot go round for ever.

Owned by the engine's state. A contender counts as the same as long as it is the same object and asks for the same; once
it has taken a victim too often it may not take it again, and the victim waits behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.model.workload import Workload

Identity = tuple[str, str, str]


def _identity(workload: Workload) -> Identity:
    """The same for a workload as long as it is the same one and asks for the same; a name may be used again."""
    return (workload.key, workload.uid, workload.kind_key)


class Repeats:
    """How often each workload was preempted by whom."""

    def __init__(self, most: int) -> None:
        self._most = most  # 0: no bound
        self._counts: dict[str, dict[Identity, int]] = {}  # by victim

    def note(self, victim: str, contender: Workload) -> None:
        """A workload was told to go for another."""
        counts = self._counts.setdefault(victim, {})
        by = _identity(contender)
        counts[by] = counts.get(by, 0) + 1

    def forget(self, victim: str) -> None:
        self._counts.pop(victim, None)

    def is_known(self, victim: str) -> bool:
        """Whether the workload was ever preempted."""
        return victim in self._counts

    def is_spared_from(self, victim: Workload, preemptor: Workload) -> bool:
        """Whether the preemptor has taken the victim so often already that it may not take it again."""
        if not self._most or victim.key not in self._counts:
            return False
        return self._counts[victim.key].get(_identity(preemptor), 0) >= self._most

    def too_often_by(self, victim: Workload) -> Iterator[tuple[Identity, int]]:
        """Who has taken the victim as often as anybody may, and how often."""
        if self._most:
            for identity, count in self._counts.get(victim.key, {}).items():
                if count >= self._most:
                    yield identity, count

    @staticmethod
    def is_same(workload: Workload, identity: Identity) -> bool:
        """Whether a workload is still the one that was counted."""
        return _identity(workload) == identity
