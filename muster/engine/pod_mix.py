"""The mix of pods that came of late, for policies that place with an eye to those who will come.

Kept by `muster/engine/slots.py`. Old pods fade, and policies are told only when there is enough news: what they work
out from it is dear. It is lost at a restart and learned anew from the pods that are there.
"""

from __future__ import annotations

from collections.abc import Hashable

from muster.model.workload import PodSet

NEWS_LEAST = 100  # pods
NEWS_PART = 0.5  # of those known at the last time
REMEMBERED = 20_000  # pods, half of which are then forgotten
ALIKE_MOST = 2_000  # pods of one workload


class PodMix:
    """How often each kind of pod came, with one pod set as an example of each."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, int] = {}
        self._examples: dict[Hashable, PodSet] = {}
        self._total = 0
        self._news = 0
        self._told = 0  # how many were known when policies were last told

    def note(self, kind: Hashable, pod_set: PodSet) -> None:
        """Pods of a kind came; of very many alike only so many tell something."""
        count = min(pod_set.count, ALIKE_MOST)
        if kind not in self._counts:
            self._counts[kind] = 0
            self._examples[kind] = pod_set
        self._counts[kind] += count
        self._total += count
        self._news += count

    def renewed(self) -> list[tuple[PodSet, int]] | None:
        """The mix as it is now, where enough came since it was last given."""
        if self._news < max(NEWS_LEAST, NEWS_PART * self._told):
            return None
        if self._total > REMEMBERED:
            self._counts = {kind: count // 2 for kind, count in self._counts.items() if count > 1}
            self._examples = {kind: self._examples[kind] for kind in self._counts}
            self._total = sum(self._counts.values())
        self._news, self._told = 0, self._total
        return [(self._examples[kind], count) for kind, count in self._counts.items()]
