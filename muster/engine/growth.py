"""Growth: who runs with fewer pods than it wants, who of those that wait goes before it, and who was tried already.

Part of the engine's state (`muster/engine/state.py`); the stage that grows workloads is `muster/engine/stages/grow.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.model.plan import ScanProgress
from muster.model.workload import Workload

Attempt = tuple[str, str]  # a workload, and where its search for a flavor goes on
Rank = tuple[int, float, str, str]


def rank_of(workload: Workload) -> Rank:
    """Who goes first: the higher priority, then who waits longer."""
    return (-workload.priority, workload.queued_at, workload.uid, workload.key)


def attempt_of(key: str, progress: ScanProgress | None) -> Attempt:
    """What tells one try of a workload from the next: where its search for a flavor goes on."""
    return key, repr(progress.tried) if progress is not None else ""


class Growth:
    """Those that could have more pods, and those that wait for a place."""

    def __init__(self) -> None:
        self._wanting: dict[str, tuple[Workload, int]] = {}  # and when its growth was last tried
        self._hungry: dict[str, Workload] = {}
        self._tried: set[Attempt] = set()
        self._tried_at = -1

    # Who wants more --------------------------------------------------------------------------------------------------

    def note(self, workload: Workload) -> None:
        """Remember who runs with fewer pods than it wants and may get more."""
        if not workload.is_elastic:
            return
        stays = workload.is_admitted and not workload.leaving_slots and not workload.is_evicted
        wanted = sum(pod_set.count_left for pod_set in workload.pod_sets)
        if stays and 0 < workload.slot_count < wanted:
            _, tried_at = self._wanting.get(workload.key, (workload, -1))
            self._wanting[workload.key] = (workload, tried_at)
        else:
            self.forget(workload.key)

    def forget(self, key: str) -> None:
        self._wanting.pop(key, None)

    def due(self, version: int) -> list[Workload]:
        """Those to try, the most important first: only where something changed since they were tried."""
        return sorted((one for one, tried_at in self._wanting.values() if tried_at != version), key=rank_of)

    def mark(self, version: int) -> None:
        """All of them were tried."""
        self._wanting = {key: (one, version) for key, (one, _) in self._wanting.items()}

    # Who waits -------------------------------------------------------------------------------------------------------

    def wait(self, workload: Workload) -> None:
        """A workload could run if others left, and nobody will: it waits for room."""
        self._hungry[workload.key] = workload

    def end_wait(self, key: str) -> None:
        """A workload has a place, is gone, or could not run even if others left."""
        self._hungry.pop(key, None)

    def waiting(self) -> list[Workload]:
        """Those that wait for room, the first first; of those alike the one that showed it stands for all."""
        return sorted(self._hungry.values(), key=rank_of)

    # Who was tried ---------------------------------------------------------------------------------------------------

    def tried(self, attempts: Iterable[Attempt], version: int) -> None:
        """These got nothing as things were at a version."""
        if self._tried_at != version:
            self._tried.clear()
            self._tried_at = version
        self._tried.update(attempts)

    def were_tried(self, attempts: Iterable[Attempt], version: int) -> bool:
        """Whether all of these got nothing, and nothing has changed since."""
        return all(self._tried_at == version and attempt in self._tried for attempt in attempts)
