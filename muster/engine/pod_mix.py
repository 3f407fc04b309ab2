"""The mix of pods that came of late, for policies that place with an eye to those who will come.

Kept by `muster/engine/slots.py`. Old pods fade, and policies are told only when there is enough news: what they work
out from it is dear. It is lost at a restart and learned anew from the pods that are there.
"""

from __future__ import annotations

from muster.engine.node_table_rows import Demand

NEWS_LEAST = 100  # pods
NEWS_PART = 0.5  # of those known at the last time
REMEMBERED = 20_000  # pods, half of which are then forgotten
ALIKE_MOST = 2_000  # pods of one workload


class PodMix:
    """How often each kind of pod came; kinds are told apart by what policies look at, cpu and cards."""

    def __init__(self) -> None:
        self._counts: dict[Demand, int] = {}
        self._total = 0
        self._news = 0
        self._told = 0  # how many were known when policies were last told

    def note(self, kind: Demand, count: int) -> None:
        """Pods of a kind came; of very many alike only so many tell something."""
        count = min(count, ALIKE_MOST)
        self._counts[kind] = self._counts.get(kind, 0) + count
        self._total += count
        self._news += count

    def renewed(self) -> dict[Demand, int] | None:
        """The mix as it is now, where enough came since it was last given."""
        if self._news < max(NEWS_LEAST, NEWS_PART * self._told):
            return None
        if self._total > REMEMBERED:
            self._counts = {kind: count // 2 for kind, count in self._counts.items() if count > 1}
            self._total = sum(self._counts.values())
        self._news, self._told = 0, self._total
        return dict(self._counts)
