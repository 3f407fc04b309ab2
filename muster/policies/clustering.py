"""clustering: keep pods that use cards alike together: parts of a card, one card, two cards and so on.

A node with only such pods is best, then one with such pods among others, then an idle one, then one with other pods; in
each case the fuller node goes first. Pods without cards have no preference. Scores are whole numbers from 0 to 100, as
in the published experiments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.engine.node_table_rows import SHARED, Demand, NodeRows, Scores
from muster.engine.policy import Hooks, Policy

SCALE = 100
QUARTER = SCALE // 4
ONLY_ALIKE, ALSO_ALIKE, IDLE, OTHERS = 3 * QUARTER, 2 * QUARTER, QUARTER, 0  # what each case starts from


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """How many cards a big node has: fullness is measured by it."""

    weight: int = 1
    card_milli: int = 8_000


def build(arguments: Arguments) -> Hooks:
    def score(pod: Demand, rows: NodeRows) -> Scores:
        if not pod.cards:
            return Scores(np.zeros(len(rows), np.int64))
        kinds = rows.kinds
        if pod.kind >= kinds.shape[1]:  # more cards than any node has
            return Scores(np.zeros(len(rows), np.int64))
        alike = kinds[:, pod.kind] > 0
        kinds_there = (kinds[:, SHARED:] > 0).sum(axis=1)
        there = np.where(alike, np.where(kinds_there == 1, ONLY_ALIKE, ALSO_ALIKE), OTHERS)
        case = np.where(kinds_there == 0, IDLE, there)
        used = arguments.card_milli - rows.card_sum
        return Scores((QUARTER * used // arguments.card_milli + case) * arguments.weight)

    return Hooks(score=score)


POLICY = Policy(name="clustering", arguments=Arguments, build=build)
