"""Hierarchical dominant resource fairness: a tree of queues with groups as leaves. Used by the drf policy.

The tree is named by annotations of queues: a path from the root, and a weight for each step. A branch is scaled so that
no child's share counts for more than the smallest among those that could still take something.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.engine.session import Session
from muster.engine.standing import PodStanding, Standing
from muster.engine.vectors import Vector, add, dominant_share, plus, tolerance, total_of
from muster.model.groups import FairQueue

PATH, WEIGHTS = "volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"
DEPTH_MOST = 32


@dataclass
class _Branch:
    """A queue or a step of a path."""

    name: str
    weight: float = 1.0
    children: dict[str, _Branch] = field(default_factory=dict)
    groups: list[Standing] = field(default_factory=list)
    share: float = 0.0
    is_saturated: bool = False
    held: dict[str, float] = field(default_factory=dict)


class FairTree:
    """The tree of one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.root = _Branch("root")
        self.paths: dict[str, list[_Branch]] = {}
        self._settled_at = -1  # the version of the session that the shares are of
        for name, standing in session.queues.items():
            self.paths[name] = self._grow(standing.queue)
            self.paths[name][-1].groups.extend(standing.groups)

    def _grow(self, queue: FairQueue) -> list[_Branch]:
        """The branches from the root to a queue, made where they are not there yet."""
        steps = [step for step in queue.annotations.get(PATH, "").split("/") if step][:DEPTH_MOST] or [queue.name]
        weights = [step for step in queue.annotations.get(WEIGHTS, "").split("/") if step]
        if steps[0] == self.root.name:
            steps, weights = steps[1:], weights[1:]
        path = [self.root]
        for index, step in enumerate(steps):
            known = path[-1].children.get(step)
            if known is None:
                known = path[-1].children[step] = _Branch(step, _weight(weights, index))
            path.append(known)
        return path

    def compare(self, first: str, second: str) -> int:
        """Below zero when the first queue goes first."""
        if self._settled_at != self.session.version:
            self._settle({})
            self._settled_at = self.session.version
        return self._compare_paths(self.paths[first], self.paths[second])

    def compare_after(self, reclaimer: PodStanding, victim: PodStanding) -> int:
        """How two queues would compare if one pod had left for the other."""
        changes = {
            reclaimer.owner.key: plus(reclaimer.owner.allocated, reclaimer.requests),
            victim.owner.key: dict(victim.owner.allocated),
        }
        add(changes[victim.owner.key], victim.requests, -1)
        self._settle(changes)
        self._settled_at = -1
        return self._compare_paths(self.paths[reclaimer.owner.queue], self.paths[victim.owner.queue])

    def _compare_paths(self, first: list[_Branch], second: list[_Branch]) -> int:
        for one, two in zip(first[1:], second[1:], strict=False):
            if one is two:
                continue
            if one.is_saturated != two.is_saturated:
                return 1 if one.is_saturated else -1
            left, right = one.share / one.weight, two.share / two.weight
            if left != right:
                return 1 if left > right else -1
        return 0

    # Shares ----------------------------------------------------------------------------------------------------------

    def _settle(self, changes: dict[str, dict[str, float]]) -> None:
        held = total_of(changes.get(group.key, group.allocated) for group in self.session.groups.values())
        spent = {name for name, amount in self.session.total.items() if held.get(name, 0) > amount - tolerance(name)}
        for branch in reversed(list(_below(self.root))):
            self._settle_branch(branch, changes, spent)

    def _settle_branch(self, branch: _Branch, changes: dict[str, dict[str, float]], spent: set[str]) -> None:
        parts: list[tuple[float, bool, Vector]] = [
            (one.share, one.is_saturated, one.held) for one in branch.children.values()
        ]
        for group in branch.groups:
            own = changes.get(group.key, group.allocated)
            parts.append((self._share(own), _is_saturated(group, own, spent), own))
        branch.is_saturated = all(is_saturated for _, is_saturated, _ in parts)
        least = min((share for share, is_saturated, _ in parts if share and not is_saturated), default=1.0)
        branch.held = {}
        for share, is_saturated, held in parts:
            scale = 1.0 if is_saturated or not share else least / share
            add(branch.held, {name: amount * scale for name, amount in held.items()})
        branch.share = self._share(branch.held)

    def _share(self, held: Vector) -> float:
        return dominant_share(held, self.session.total)


def _below(branch: _Branch) -> Iterable[_Branch]:
    found = [branch]
    for one in found:
        found.extend(one.children.values())
    return found


def _weight(weights: list[str], index: int) -> float:
    try:
        weight = float(weights[index])
    except (ValueError, IndexError):
        return 1.0
    return weight if 0 < weight < float("inf") else 1.0


def _is_saturated(group: Standing, held: Vector, spent: set[str]) -> bool:
    """Whether a group has all that it asks for of something, or something that it asks for is used up."""
    asked = total_of(pod.requests for pod in group.pods.values())
    return any(
        name in spent or held.get(name, 0) > amount - tolerance(name) for name, amount in asked.items() if amount
    )
