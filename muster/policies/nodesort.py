"""nodesort: nodes by the part of them that is in use, the emptiest or the fullest first. YuniKorn's nodesortpolicy.

What counts is what is used already, whatever the pod asks for: a weighted mean over resources. A full node scores 100
where nodes are filled, an empty one where pods are spread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from muster.engine.node_table_rows import Demand, FloatArray, NodeRows, Scores
from muster.engine.policy import Hooks, Policy, argument
from muster.model.resources import CPU

BEST = 100


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Whether nodes are filled one after the other, and what each resource weighs."""

    fills: bool = False
    weights: Mapping[str, float] = field(
        default_factory=lambda: {CPU: 1.0, "memory": 1.0}, metadata=argument({}, least=0).metadata
    )


def build(arguments: Arguments) -> Hooks:
    def score(_pod: Demand, rows: NodeRows) -> Scores:
        share = used_share(arguments.weights, rows)
        return Scores(BEST * (share if arguments.fills else 1 - share))

    return Hooks(score=score, fills_nodes=arguments.fills)


def used_share(weights: Mapping[str, float], rows: NodeRows) -> FloatArray:
    """The weighted mean of the parts of each node that are used; what a node has not counts as unused."""
    whole = sum(weights.values())
    shares: FloatArray = np.zeros(len(rows))
    for resource, weight in weights.items():
        total = rows.total(resource)
        shares += weight * (total - rows.free(resource)) / np.maximum(total, 1)
    return shares / whole if whole else shares


POLICY = Policy(name="nodesort", arguments=Arguments, build=build)
