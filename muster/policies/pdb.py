"""pdb: no more pods are told to go than disruption budgets allow. Volcano's plugin of that name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.engine.policy import Hooks, Policy
from muster.engine.session import Session
from muster.engine.standing import PodStanding
from muster.model.labels import selects


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """There is nothing to choose."""


def build(_arguments: Arguments) -> Hooks:
    def opened(session: Session) -> Hooks:
        def allowed(_preemptor: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
            return _within_budgets(session, candidates)

        def wanted(running: Sequence[PodStanding]) -> list[PodStanding]:
            named = _within_budgets(session, running)
            return [pod for pod in running if pod.key in named]

        return Hooks(preempt=allowed, reclaim=allowed, evict=allowed, wanted=wanted)

    return Hooks(open=opened)


def _within_budgets(session: Session, pods: Sequence[PodStanding]) -> frozenset[str]:
    """Pods in order, as long as every budget that is about them has one left."""
    left = {budget.key: budget.allowed for budget in session.snapshot.budgets}
    named: set[str] = set()
    for pod in pods:
        labels = pod.pod.labels
        if not labels:
            continue  # Volcano: a pod without labels is nobody's victim here
        about = [
            budget
            for budget in session.snapshot.budgets
            if budget.namespace == pod.owner.group.namespace and selects(budget.selector, labels)
        ]
        if all(left[budget.key] > 0 for budget in about):
            named.add(pod.key)
            for budget in about:
                left[budget.key] -= 1
    return frozenset(named)


POLICY = Policy(name="pdb", arguments=Arguments, build=build)
