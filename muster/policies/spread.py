"""spread: prefer the node that is left emptiest, from 0 for a full to 10 for an empty one, and its emptiest card.

What counts are the cards when the pod asks for cards, else the mean of the resources it asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.engine.node_table_rows import WHOLE, Demand, FloatArray, NodeRows, Scores
from muster.engine.policy import Hooks, Policy

SCALE = 10


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Weight multiplies the score."""

    weight: int = 1


def build(arguments: Arguments) -> Hooks:
    def score(pod: Demand, rows: NodeRows) -> Scores:
        values = free_share_after(pod, rows) * (SCALE * arguments.weight)
        if pod.cards != 1:
            return Scores(values)
        return Scores(values, rows.cards.argmax(axis=1))

    # Each pod makes its node less liked: alike pods go to different nodes.
    return Hooks(score=score, fills_nodes=False)


def free_share_after(pod: Demand, rows: NodeRows) -> FloatArray:
    """The part of each node that is free once the pod is there."""
    if pod.cards:
        share: FloatArray = (rows.card_sum - pod.card_milli) / np.maximum(rows.card_count * WHOLE, 1)
        return share
    shares: FloatArray = np.zeros(len(rows))
    for resource, amount in pod.amounts:
        shares += (rows.free(resource) - amount) / np.maximum(rows.total(resource), 1)
    return shares / max(1, len(pod.amounts))


POLICY = Policy(name="spread", arguments=Arguments, build=build)
