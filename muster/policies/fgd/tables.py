"""What typical pods can use of a node's free cards, ready to be looked up. Asked by the scores of fgd."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from muster.engine.node_table_rows import WHOLE, Demand, IntArray, NodeRows
from muster.model.resources import CPU

CANNOT = -(2**61)  # below any gain
_TAKES_KEPT = 64
_LISTED_MOST = 1_000_000  # cells of a table that is also kept as lists


@dataclass(frozen=True, slots=True)
class TypicalPod:
    """A kind of pod that is expected to come, and how often compared with the others."""

    demand: Demand
    weight: int


class Tables:
    """How much of a node's free cards the typical pods can use, all of them together, ready to be looked up.

    Pods of one card use each card by itself, so their part is a sum over cards of what is looked up by free cpu and the
    card's free share. Pods of several cards use them only if there are enough, so their part is looked up by how many
    there are. A level is a row of these tables: so much free cpu, on nodes of one card model.
    """

    def __init__(self, typical: tuple[TypicalPod, ...], models: tuple[str, ...], width: int) -> None:
        self.steps = np.array(sorted({one.demand.amount(CPU) for one in typical}), np.int64)
        self.has_models = any(one.demand.models for one in typical)
        self.height = len(self.steps) + 1
        shape = (len(models) if self.has_models else 1, self.height)
        single = np.zeros((*shape, WHOLE + 1), np.int64)
        shares = sorted({one.demand.milli for one in typical if one.demand.cards > 1} | {WHOLE})
        several = {milli: np.zeros((*shape, width + 1), np.int64) for milli in shares}
        free = np.arange(WHOLE + 1)
        for one in typical:
            wants = one.demand
            start = int(np.searchsorted(self.steps, wants.amount(CPU))) + 1
            for number in range(shape[0]):
                if wants.models and models[number] not in wants.models:
                    continue
                if wants.cards == 1:
                    single[number, start] += np.where(free >= wants.milli, free, 0) * one.weight
                elif wants.cards > 1:
                    several[wants.milli][number, start, wants.cards :] += one.weight
        for table in (single, *several.values()):
            table.cumsum(axis=1, out=table)  # with more cpu all run that run with less
        self.single = single.reshape(-1, WHOLE + 1)
        self.whole = several.pop(WHOLE).reshape(-1, width + 1) * np.arange(width + 1) * WHOLE
        self.parts = {milli: table.reshape(-1, width + 1) for milli, table in several.items()}
        self.step_list: list[int] = self.steps.tolist()
        self._takes: dict[int, IntArray] = {}
        self._lists: Lists | None = None

    @property
    def is_small(self) -> bool:
        """Whether a copy as plain lists is worth its memory."""
        return self.single.size <= _LISTED_MOST

    def lists(self) -> Lists:
        """The same tables as plain lists: for a single node they are looked up several times as fast."""
        if self._lists is None:
            parts = tuple((milli, table.tolist()) for milli, table in self.parts.items())
            height = self.height if self.has_models else 0
            self._lists = Lists(self.step_list, height, self.single.tolist(), self.whole.tolist(), parts)
        return self._lists

    def level(self, cpu: IntArray, rows: NodeRows) -> IntArray:
        """The level of nodes with so much free cpu."""
        level = self.steps.searchsorted(cpu, side="right")
        return level + rows.model * self.height if self.has_models else level

    def usable(self, level: IntArray, cards: IntArray) -> IntArray:
        """What all typical pods can use of each node's cards, weighted."""
        total: IntArray = self.single[level[:, None], cards].sum(axis=1)
        total += self.whole[level, (cards == WHOLE).sum(axis=1)]
        for milli, table in self.parts.items():
            serves = cards >= milli
            total += table[level, serves.sum(axis=1)] * np.where(serves, cards, 0).sum(axis=1)
        return total

    def usable_by_card(self, level: IntArray, cards: IntArray, taken: int) -> IntArray:
        """The same when a share of one card is taken, for each card; hugely negative where the card has it not."""
        at = level[:, None]
        is_whole = cards == WHOLE
        wholes = is_whole.sum(axis=1)[:, None] - is_whole  # a card that something is taken from is whole no more
        total: IntArray = self.single[at, cards].sum(axis=1)[:, None] + self._take(taken)[at, cards]
        total += self.whole[at, wholes]
        for milli, table in self.parts.items():
            left = cards - taken
            served, serves = cards >= milli, left >= milli
            part = np.where(served, cards, 0)
            part = part.sum(axis=1)[:, None] - part + np.where(serves, left, 0)
            total += table[at, served.sum(axis=1)[:, None] - served + serves] * part
        return total

    def _take(self, taken: int) -> IntArray:
        """What pods of one card can use less of a card, by level and its free share, when so much of it is taken."""
        known = self._takes.get(taken)
        if known is None:
            if len(self._takes) >= _TAKES_KEPT:
                self._takes.clear()
            known = np.full_like(self.single, CANNOT)
            known[:, taken:] = self.single[:, : WHOLE + 1 - taken] - self.single[:, taken:]
            self._takes[taken] = known
        return known


Rows = list[list[int]]


class Lists(NamedTuple):
    """The tables for one node at a time."""

    steps: list[int]
    height: int  # 0: models do not matter
    single: Rows
    whole: Rows
    parts: tuple[tuple[int, Rows], ...]

    def level(self, cpu: int, model: int) -> int:
        return bisect_right(self.steps, cpu) + model * self.height

    def usable(self, level: int, cards: list[int]) -> int:
        single = self.single[level]
        total = sum([single[card] for card in cards]) + self.whole[level][cards.count(WHOLE)]
        for milli, table in self.parts:
            serving = [card for card in cards if card >= milli]
            total += table[level][len(serving)] * sum(serving)
        return total

    def usable_by_card(self, level: int, cards: list[int], taken: int, different: list[int]) -> list[int]:
        """What is usable when a share of a card is taken, for each different one; hugely negative where it lacks it."""
        single, whole = self.single[level], self.whole[level]
        base, wholes = sum([single[card] for card in cards]), cards.count(WHOLE)
        of_parts = [(milli, table[level], [card for card in cards if card >= milli]) for milli, table in self.parts]
        totals = []
        for card in different:
            if card < taken:
                totals.append(CANNOT)
                continue
            left = card - taken
            total = base - single[card] + single[left] + whole[wholes - (card == WHOLE)]
            for milli, by_count, serving in of_parts:
                count, part = len(serving), sum(serving)
                if card >= milli:
                    count, part = count - 1, part - card
                if left >= milli:
                    count, part = count + 1, part + left
                total += by_count[count] * part
            totals.append(total)
        return totals
