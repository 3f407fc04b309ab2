"""conformance: pods of the cluster itself are nobody's victims. Volcano's plugin of that name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.engine.policy import Hooks, Policy
from muster.engine.standing import PodStanding


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """There is nothing to choose."""


def build(_arguments: Arguments) -> Hooks:
    return Hooks(preempt=ordinary_ones, reclaim=ordinary_ones, evict=ordinary_ones)


def ordinary_ones(_preemptor: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
    """All but those that the cluster cannot do without."""
    return frozenset(pod.key for pod in candidates if not pod.pod.is_critical)


POLICY = Policy(name="conformance", arguments=Arguments, build=build)
