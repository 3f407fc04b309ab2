"""packing: prefer cards that are in use already, then free cards of nodes in use, and idle nodes last.

Among cards in use the fuller one goes first, among idle nodes the one with fewer cards. Pods without cards have no
preference. Scores are whole numbers from 0 to 100, as in the published experiments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.engine.node_table_rows import WHOLE, Demand, NodeRows, Scores
from muster.engine.policy import Hooks, Policy

SCALE = 100
USED_CARD, USED_NODE, IDLE_NODE = SCALE, SCALE // 2, SCALE // 3  # the best score of each case
STEPS = 10  # how finely the fullness of cards is told apart


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Weight multiplies the score."""

    weight: int = 1


def build(arguments: Arguments) -> Hooks:
    def score(pod: Demand, rows: NodeRows) -> Scores:
        if not pod.cards:
            return Scores(np.zeros(len(rows), np.int64))
        cards = rows.cards
        taken = np.sort(np.where(cards >= pod.milli, cards, 2 * WHOLE), axis=1)[:, : pod.cards]  # the tightest ones
        whole_taken = (taken == WHOLE).sum(axis=1)
        on_used = np.maximum(USED_CARD - (taken * SCALE // WHOLE).sum(axis=1) // STEPS, USED_NODE)
        beside = np.maximum(USED_NODE - whole_taken, IDLE_NODE)
        idle = np.maximum(IDLE_NODE - rows.card_count, rows.card_count)
        is_idle = (cards == WHOLE).sum(axis=1) == rows.card_count
        values = np.where(is_idle, idle, np.where(whole_taken > 0, beside, on_used))
        return Scores(values * arguments.weight)

    return Hooks(score=score)


POLICY = Policy(name="packing", arguments=Arguments, build=build)
