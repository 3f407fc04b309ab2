"""drf: who has the smallest dominant share of the cluster goes first. Volcano's plugin of that name.

With a hierarchy queues compare by their places in a tree that their annotations name, as hierarchical dominant
resource fairness has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from muster.engine.policy import Hooks, Policy
from muster.engine.session import Session
from muster.engine.session_fairness import FairTree
from muster.engine.standing import PodStanding, Standing
from muster.engine.vectors import Vector, add, dominant_share, plus

NEARLY = 0.000001


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Whether queues are a tree."""

    hierarchy: bool = False


def build(arguments: Arguments) -> Hooks:
    return Hooks(open=lambda session: _Drf(session, arguments).hooks())


class _Drf:
    """The shares of one session."""

    def __init__(self, session: Session, arguments: Arguments) -> None:
        self.session = session
        self.tree = FairTree(session) if arguments.hierarchy else None
        self._known: dict[str, tuple[int, float]] = {}

    def hooks(self) -> Hooks:
        tree = self.tree
        return Hooks(
            compare_workloads=self.compare,
            preempt=self.richer_ones,
            compare_queues=tree.compare if tree is not None else None,
            reclaim=self.of_richer_queues if tree is not None else None,
        )

    def compare(self, first: Standing, second: Standing) -> int:
        left, right = self._share_of(first), self._share_of(second)
        return (left > right) - (left < right)

    def _share_of(self, group: Standing) -> float:
        """The share of a group, worked out anew only when something of it changed."""
        if not group.allocated:
            return 0.0
        known = self._known.get(group.key)
        if known is None or known[0] != group.changes:
            known = self._known[group.key] = (group.changes, self._share(group.allocated))
        return known[1]

    def _share(self, held: Vector) -> float:
        return dominant_share(held, self.session.total)

    def richer_ones(self, preemptor: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
        """Pods of groups that would still have no less than the preemptor's group with the pod."""
        ours = self._share(plus(preemptor.owner.allocated, preemptor.requests))
        held: dict[str, dict[str, float]] = {}
        named: set[str] = set()
        for pod in candidates:
            theirs = held.setdefault(pod.owner.key, dict(pod.owner.allocated))
            add(theirs, pod.requests, -1)
            share = self._share(theirs)
            if ours < share or abs(ours - share) <= NEARLY:
                named.add(pod.key)
        return frozenset(named)

    def of_richer_queues(self, reclaimer: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
        """Pods of queues that would still have more than the reclaimer's queue with the pod."""
        assert self.tree is not None, "only asked where queues are a tree"
        return frozenset(pod.key for pod in candidates if self.tree.compare_after(reclaimer, pod) < 0)


POLICY = Policy(name="drf", arguments=Arguments, build=build)
