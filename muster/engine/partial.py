"""Partial admission: the largest workload that can start when the full one cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from muster.model.workload import PodSet

Found = TypeVar("Found")


def largest_that_works(
    pod_sets: Sequence[PodSet], attempt: Callable[[Sequence[int]], Found | None], *, pods_least: int = 0
) -> Found | None:
    """Search by halves for the smallest reduction that works; all pod sets shrink in proportion to what they can.

    No fewer than `pods_least` pods of all sets together are tried.
    """
    deltas = [pod_set.count - pod_set.count_least for pod_set in pod_sets]
    total = sum(deltas)
    if total == 0:
        return None
    best: tuple[int, Found] | None = None
    most = min(total, sum(pod_set.count for pod_set in pod_sets) - pods_least)
    low, high = 0, most + 1
    while low < high:
        middle = (low + high) // 2
        counts = [pod_set.count - delta * middle // total for pod_set, delta in zip(pod_sets, deltas, strict=True)]
        found = attempt(counts)
        if found is not None:
            best = (middle, found)
            high = middle
        else:
            low = middle + 1
    return best[1] if best is not None and best[0] == low else None
