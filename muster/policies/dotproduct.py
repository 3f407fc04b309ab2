"""dotproduct: prefer the node whose free cpu and cards are least like a multiple of what the pod asks for.

The product of what is free and what is asked, each as a part of a big node's, is smallest where little is left of what
the pod needs most. Scores are whole numbers from 0 to 100, as in the published experiments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.engine.node_table_rows import Demand, NodeRows, Scores
from muster.engine.policy import Hooks, Policy
from muster.model.resources import CPU

SCALE = 100


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """How big a big node is: what is free and what is asked are measured by it."""

    weight: int = 1
    cpu_milli: int = 128_000
    card_milli: int = 8_000


def build(arguments: Arguments) -> Hooks:
    def score(pod: Demand, rows: NodeRows) -> Scores:
        # As parts of one: products of whole numbers would leave the range of exact ones on nodes of absurd size.
        cpu = rows.free(CPU) / arguments.cpu_milli * (pod.amount(CPU) / arguments.cpu_milli)
        free_cards = rows.card_sum
        cards = free_cards / arguments.card_milli * (pod.card_milli / arguments.card_milli)
        return Scores(np.floor((1 - (cpu + cards) / 2) * SCALE) * arguments.weight)

    return Hooks(score=score)


POLICY = Policy(name="dotproduct", arguments=Arguments, build=build)
