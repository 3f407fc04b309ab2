"""nodegroup: queues keep to groups of nodes, as their affinity says. Volcano's plugin of that name.

Nodes are in a group by a label. A queue may also be bounded in what it uses of a group, by an annotation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from muster.engine.node_table_rows import BoolArray, FloatArray, IntArray
from muster.engine.policy import Hooks, Policy, argument
from muster.engine.session import Session
from muster.engine.session_tree import ROOT
from muster.engine.standing import PodStanding
from muster.engine.vectors import Vector, add, is_within, plus
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.groups import HOLDING, NodeGroupWish, PodStatus
from muster.model.resources import amount_of

LABEL = "volcano.sh/nodegroup-name"
LIMITS = "volcano.sh/nodegroup-resource-limits"
REQUIRED, PREFERRED, DISLIKED = 100.0, 50.0, -1.0
_USING = HOLDING | {PodStatus.PIPELINED}
TEXT_MOST = 100_000


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Whether nodes of no group are shut, and whether groups named first are liked more."""

    strict: bool = True
    ordered: bool = argument(False, alias="enablePreferredOrder")
    hierarchy: bool = False


def build(arguments: Arguments) -> Hooks:
    return Hooks(open=lambda session: _NodeGroups(session, arguments).hooks())


class _NodeGroups:
    """The groups of nodes of one session."""

    def __init__(self, session: Session, arguments: Arguments) -> None:
        self.session = session
        self.arguments = arguments
        nodes = session.snapshot.nodes
        self.group_of = [nodes[name].labels.get(LABEL, "") if name in nodes else "" for name in self._names]
        self.limits = {name: _limits_of(one.queue.annotations) for name, one in session.queues.items()}

    @property
    def _names(self) -> list[str]:
        return self.session.placer.table.names

    def hooks(self) -> Hooks:
        return Hooks(fit_pod=self.fit, score_pod=self.score)

    def _wish_of(self, queue: str) -> NodeGroupWish | None:
        """What a queue says, or the nearest above it that says anything."""
        seen: set[str] = set()
        while queue in self.session.queues and queue not in seen:
            seen.add(queue)
            standing = self.session.queues[queue]
            if standing.queue.node_groups is not None or not self.arguments.hierarchy:
                return standing.queue.node_groups
            queue = standing.queue.parent or (ROOT if queue != ROOT else "")
        return None

    def fit(self, pod: PodStanding) -> BoolArray:
        wish = self._wish_of(pod.owner.queue)
        limits = self.limits[pod.owner.queue]
        if limits is None:
            return np.zeros(len(self._names), np.bool_)  # what cannot be read cannot be kept
        allowed = {group: self._lets_in(wish, group) for group in set(self.group_of)}
        for group, limit in limits.items():
            if allowed.get(group):
                used = plus(self._used_in(pod.owner.queue, group), pod.requests)
                allowed[group] = is_within(used, limit, [name for name in pod.requests if name in limit])
        return np.array([allowed[group] for group in self.group_of], np.bool_)

    def _lets_in(self, wish: NodeGroupWish | None, group: str) -> bool:
        if not group:
            return not self.arguments.strict and (wish is None or not wish.required)
        if wish is None or (group in wish.forbidden and group not in wish.disliked):
            return False  # Volcano: a group that is both forbidden and disliked is only disliked
        return group in wish.required or group in wish.preferred or group in wish.disliked

    def _used_in(self, queue: str, group: str) -> Vector:
        total: dict[str, float] = {}
        for standing in self.session.queues[queue].groups:
            for pod in standing.pods.values():
                if pod.status in _USING and pod.row >= 0 and self.group_of[pod.row] == group:
                    add(total, pod.requests)
        return total

    def score(self, pod: PodStanding, rows: IntArray) -> FloatArray | None:
        wish = self._wish_of(pod.owner.queue)
        if wish is None:
            return None
        by_group = {group: self._score_of(wish, group) for group in set(self.group_of)}
        return np.array([by_group[self.group_of[row]] for row in rows.tolist()])

    def _score_of(self, wish: NodeGroupWish, group: str) -> float:
        if not group:
            return 0.0
        score = REQUIRED if group in wish.required else 0.0
        if group in wish.preferred:
            count = len(wish.preferred)
            part = (count - wish.preferred.index(group)) / count if self.arguments.ordered else 1.0
            score += PREFERRED * part
        return score + DISLIKED if group in wish.disliked else score


def _limits_of(annotations: Mapping[str, str]) -> dict[str, Vector] | None:
    """What a queue may use of each group; `None` when that cannot be read."""
    text = annotations.get(LIMITS, "")
    if not text:
        return {}
    if len(text) > TEXT_MOST:
        return None
    try:
        fields = Fields.of(json.loads(text), LIMITS)
        return {
            group: {name: amount_of(name, amount) for name, amount in fields.quantities(group).items()}
            for group in fields.values
        }
    except (ValueError, RecursionError, InvalidObject):
        return None


POLICY = Policy(name="nodegroup", arguments=Arguments, build=build)
