"""gang: workloads that lack their minimum go first, and none falls below its minimum for another. Volcano's plugin.

That a workload starts with its minimum or not at all needs no policy: the stages see to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.engine.policy import Hooks, PodStanding, Policy, Standing


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """There is nothing to choose."""


def build(_arguments: Arguments) -> Hooks:
    return Hooks(
        compare_workloads=lambda first, second: _has_minimum(first) - _has_minimum(second),
        starving=lacks_minimum,
        preempt=spare_ones,
        reclaim=spare_ones,
    )


def lacks_minimum(workload: Standing) -> bool:
    """Whether it has no place, now or soon, for all the pods that must run together."""
    return workload.ready + workload.promised < workload.count_least


def spare_ones(_preemptor: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
    """Of every workload as many pods as it has above its minimum, the first of the candidates."""
    taken: dict[str, int] = {}
    spare: set[str] = set()
    for pod in candidates:
        owner = pod.owner
        gone = taken.get(owner.workload.key, 0)
        if owner.ready - gone > owner.count_least:
            taken[owner.workload.key] = gone + 1
            spare.add(pod.key)
    return frozenset(spare)


def _has_minimum(workload: Standing) -> bool:
    return workload.ready >= workload.count_least


POLICY = Policy(name="gang", arguments=Arguments, build=build)
