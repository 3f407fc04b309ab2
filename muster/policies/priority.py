"""priority: who has the higher priority goes first, and may have those of lower priority leave. Volcano's plugin.

Workloads compare by their own priority, pods of one workload by that of the pod. Equals are left to other policies.
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
        compare_workloads=lambda first, second: second.workload.priority - first.workload.priority,
        compare_pods=lambda first, second: second.priority - first.priority,
        starving=is_short_of_pods,
        preempt=lower_ones,
    )


def is_short_of_pods(workload: Standing) -> bool:
    """Whether any of its pods has no place."""
    return workload.ready + workload.promised < workload.count


def lower_ones(preemptor: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
    """Pods of workloads of lower priority, and of its own workload those pods of lower priority."""
    return frozenset(pod.key for pod in candidates if _is_lower(pod, preemptor))


def _is_lower(pod: PodStanding, preemptor: PodStanding) -> bool:
    theirs, ours = pod.owner.workload, preemptor.owner.workload
    return pod.priority < preemptor.priority if theirs.key == ours.key else theirs.priority < ours.priority


POLICY = Policy(name="priority", arguments=Arguments, build=build)
