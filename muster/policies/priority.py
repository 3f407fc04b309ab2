"""priority: who has the higher priority goes first, and may have those of lower priority leave. Volcano's plugin.

Groups compare by their own priority, pods of one group by that of the pod. Equals are left to other policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.engine.policy import Hooks, Policy
from muster.engine.standing import PodStanding, Standing, SubStanding


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """There is nothing to choose."""


def build(_arguments: Arguments) -> Hooks:
    return Hooks(
        compare_workloads=lambda first, second: second.priority - first.priority,
        compare_pods=lambda first, second: second.priority - first.priority,
        compare_subs=lambda first, second: _of_sub(second) - _of_sub(first),
        starving=is_short_of_pods,
        preempt=lower_ones,
        evict=lower_in_queue,
    )


def is_short_of_pods(group: Standing) -> bool:
    """Whether any of its pods has no place."""
    return group.ready + group.promised < group.count


def lower_ones(preemptor: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
    """Pods of groups of lower priority, and of its own group those pods of lower priority."""
    return frozenset(pod.key for pod in candidates if _is_lower(pod, preemptor))


def lower_in_queue(preemptor: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
    """Of its own queue pods of groups of lower priority; on other queues it has no opinion."""
    ours = preemptor.owner
    return frozenset(
        pod.key for pod in candidates if pod.owner.queue != ours.queue or pod.owner.priority < ours.priority
    )


def _is_lower(pod: PodStanding, preemptor: PodStanding) -> bool:
    theirs, ours = pod.owner, preemptor.owner
    return pod.priority < preemptor.priority if theirs is ours else theirs.priority < ours.priority


def _of_sub(sub: SubStanding) -> int:
    return max((pod.priority for pod in sub.pods.values()), default=0)


POLICY = Policy(name="priority", arguments=Arguments, build=build)
