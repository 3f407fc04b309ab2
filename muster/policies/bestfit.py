"""bestfit: prefer the node that has least left of cpu and cards together, each as a part of a big node's.

Scores are whole numbers from 0 to 100, as in the published experiments: nodes that are nearly equal are equal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.engine.node_table_rows import Demand, NodeRows, Scores
from muster.engine.policy import Hooks, Policy
from muster.model.resources import CPU

SCALE = 100
CPU_CAP = 2**40  # a billion cores: more counts as this much, so that products stay exact


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """How big a big node is: what is left is measured by it."""

    weight: int = 1
    cpu_milli: int = 128_000
    card_milli: int = 8_000


def build(arguments: Arguments) -> Hooks:
    whole = 2 * arguments.cpu_milli * arguments.card_milli  # so that both parts are whole numbers

    def score(pod: Demand, rows: NodeRows) -> Scores:
        cpu = np.minimum(rows.free(CPU) - pod.amount(CPU), CPU_CAP) * arguments.card_milli
        cards = (rows.card_sum - pod.card_milli) * arguments.cpu_milli
        return Scores(SCALE * (whole - cpu - cards) // whole * arguments.weight)

    return Hooks(score=score)


POLICY = Policy(name="bestfit", arguments=Arguments, build=build)
