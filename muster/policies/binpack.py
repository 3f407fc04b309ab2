"""binpack: prefer the node that is left fullest, from 0 for an empty to 10 for a full one.

What counts are the cards when the pod asks for cards, else the mean of the resources it asks for. A node of eight cards
with six in use once the pod is there scores 7.5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.engine.node_table_rows import WHOLE, Demand, FloatArray, NodeRows, Scores
from muster.engine.policy import Hooks, Policy, argument

SCALE = 10


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Weight multiplies the score."""

    weight: int = argument(1, least=0, alias="binpack.weight")


def build(arguments: Arguments) -> Hooks:
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


POLICY = Policy(name="binpack", arguments=Arguments, build=build)
