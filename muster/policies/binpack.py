"""binpack: prefer the node that is left fullest, from 0 for an empty to 10 for a full one.

What counts are the cards when the pod asks for cards, else the mean of the resources it asks for. A node of eight cards
with six in use once the pod is there scores 7.5. `by_resource` makes it Volcano's plugin of that name: each resource
has a weight of its own, and a full node scores 100.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from muster.engine.node_table_rows import WHOLE, Demand, FloatArray, NodeRows, Scores
from muster.engine.policy import Hooks, Policy, argument
from muster.model.resources import CPU

SCALE = 10
BEST = 100


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Weight multiplies the score; the others are what each resource weighs where they are told apart."""

    weight: int = argument(1, least=0, alias="binpack.weight")
    by_resource: bool = False
    cpu: int = argument(1, alias="binpack.cpu")
    memory: int = argument(1, alias="binpack.memory")
    listed: str = argument("", alias="binpack.resources")
    resources: Mapping[str, int] = field(
        default_factory=dict, metadata=argument({}, prefix="binpack.resources.").metadata
    )

    @property
    def weights(self) -> dict[str, int]:
        """The weight of every resource that counts; Volcano: what is below nothing means one."""
        listed = dict.fromkeys((name.strip() for name in self.listed.split(",") if name.strip()), 1)
        given = {CPU: self.cpu, "memory": self.memory, **listed, **self.resources}
        return {name: weight if weight >= 0 else 1 for name, weight in given.items()}


def build(arguments: Arguments) -> Hooks:
    if arguments.by_resource:
        weights = arguments.weights

        def score_each(pod: Demand, rows: NodeRows) -> Scores:
            return Scores(weighted_share_with(weights, pod, rows) * (BEST * arguments.weight))

        return Hooks(score=score_each)

    def score(pod: Demand, rows: NodeRows) -> Scores:
        return Scores(used_share_with(pod, rows) * (SCALE * arguments.weight))

    return Hooks(score=score)


def used_share_with(pod: Demand, rows: NodeRows) -> FloatArray:
    """The part of each node that is used once the pod is there."""
    if pod.cards:
        total = rows.card_count * WHOLE
        used = total - rows.card_sum + pod.card_milli
        share: FloatArray = used / np.maximum(total, 1)
        return share
    shares: FloatArray = np.zeros(len(rows))
    for resource, amount in pod.amounts:
        total = rows.total(resource)
        shares += (total - rows.free(resource) + amount) / np.maximum(total, 1)
    return shares / max(1, len(pod.amounts))


def weighted_share_with(weights: Mapping[str, int], pod: Demand, rows: NodeRows) -> FloatArray:
    """The weighted mean of the parts of a node that are used once the pod is there; nothing where it is too little."""
    shares: FloatArray = np.zeros(len(rows))
    fits = np.ones(len(rows), np.bool_)
    whole = 0
    for resource, weight in weights.items():
        amount = pod.amount(resource)
        if not amount or not weight:
            continue
        whole += weight
        total = rows.total(resource)
        used = total - rows.free(resource) + amount
        fits &= (total == 0) | (used <= total)
        shares += np.where(total > 0, weight * used / np.maximum(total, 1), 0.0)
    return np.where(fits, shares / whole, 0.0) if whole else shares


POLICY = Policy(name="binpack", arguments=Arguments, build=build)
