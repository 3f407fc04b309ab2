"""cdp: a pod that has just been placed is left alone for a while. Volcano's plugin of that name.

The while is said by a label or annotation of the pod; pods that say nothing are not spared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.engine.durations import duration_s
from muster.engine.policy import Hooks, Policy
from muster.engine.session import Session
from muster.engine.standing import PodStanding

COOLDOWN = "volcano.sh/cooldown-time"


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """There is nothing to choose."""


def build(_arguments: Arguments) -> Hooks:
    def opened(session: Session) -> Hooks:
        def cooled(_preemptor: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
            return frozenset(pod.key for pod in candidates if not _is_spared(pod, session.now))

        return Hooks(preempt=cooled, reclaim=cooled, evict=cooled)

    return Hooks(open=opened)


def _is_spared(pod: PodStanding, now: float) -> bool:
    said = pod.pod.annotations.get(COOLDOWN) or pod.pod.labels.get(COOLDOWN, "")
    rest_s = duration_s(said)
    return rest_s is not None and pod.pod.scheduled_at is not None and now < pod.pod.scheduled_at + rest_s


POLICY = Policy(name="cdp", arguments=Arguments, build=build)
