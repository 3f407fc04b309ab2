"""What is not free yet although it will be: held by pods that were told to go, less what is promised of it.

Kept by `muster/engine/session.py` beside the table, which has all of it free already.
"""

from __future__ import annotations

import numpy as np

from muster.engine.node_table import NodeTable
from muster.engine.node_table_rows import BoolArray, IntArray
from muster.engine.slots import HELD_MOST
from muster.engine.standing import PodStanding


class Leaving:
    """Amounts by resource and row."""

    def __init__(self) -> None:
        self._amounts: dict[str, IntArray] = {}
        self._cards: dict[int, int] = {}  # by row: pods with cards that leave
        self._count = 0

    @property
    def is_any(self) -> bool:
        """Whether anybody leaves, or waits for somebody to leave."""
        return self._count > 0

    def shift(self, row: int, pod: PodStanding, sign: int) -> None:
        """What a pod holds is left soon; below zero, what is left soon is promised to it."""
        self._count += 1
        for name, amount in pod.pod.requests.items():
            column = self._amounts.get(name)
            if column is None or row >= len(column):
                column = self._lengthened(name, row)
            column[row] += sign * min(amount, HELD_MOST)
        if pod.pod.cards is not None or pod.demand.cards:
            self._cards[row] = self._cards.get(row, 0) + sign

    def undo(self, row: int, pod: PodStanding, sign: int) -> None:
        """Take back a shift of this sign."""
        self.shift(row, pod, -sign)
        self._count -= 2

    def _lengthened(self, name: str, row: int) -> IntArray:
        known = self._amounts.get(name, np.zeros(0, np.int64))
        column = self._amounts[name] = np.pad(known, (0, max(row + 1, 2 * len(known)) - len(known)))
        return column

    def of(self, name: str, row: int) -> int:
        """How much of a resource is not free yet on a row."""
        column = self._amounts.get(name)
        return int(column[row]) if column is not None and row < len(column) else 0

    def total(self, name: str) -> int:
        """How much of a resource is not free yet on all rows."""
        column = self._amounts.get(name)
        return int(column.sum()) if column is not None else 0

    def idle_rows(self, pod: PodStanding, fitting: BoolArray, table: NodeTable) -> BoolArray:
        """Of rows that will have room for a pod, those that have it now."""
        rows = fitting.copy()
        for name, amount in pod.demand.amounts:
            soon, at = self._amounts.get(name), table.column_of(name)
            if soon is None or at is None:
                continue
            count = min(len(soon), len(rows))
            rows[:count] &= table.free[at, :count] - soon[:count] >= amount
        if pod.demand.cards:
            # Which cards are still held cannot be told from amounts: where any are, the pod waits for all of them.
            for row, leaving in self._cards.items():
                if leaving > 0:
                    rows[row] = False
        return rows

    def facts(self) -> tuple[dict[tuple[str, int], int], dict[int, int]]:
        """Everything that is not zero."""
        amounts = {
            (name, row): int(column[row])
            for name, column in self._amounts.items()
            for row in np.flatnonzero(column).tolist()
        }
        return amounts, {row: count for row, count in self._cards.items() if count}
