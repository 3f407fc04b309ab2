"""Card patterns: of the rows whose cards are alike, one by one, between which amounts their free cpu lies.

What holds at both ends of such a range holds for all rows in it, where only cards and steps of free cpu matter. Kept by
the node table for policies, and brought up to date when one asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from muster.model.resources import CPU

if TYPE_CHECKING:
    from muster.engine.node_table import NodeTable

_NONE = -1


class CpuRange:
    """The rows of one pattern: their cards, how many rows, and the least and the most free cpu, or a little beyond."""

    __slots__ = ("cards", "cards_most", "least", "model", "most", "rows")

    def __init__(self, cpu: int, model: int, cards: tuple[int, ...]) -> None:
        self.least = self.most = cpu
        self.model = model
        self.cards = cards  # free thousandths
        self.cards_most = max(cards, default=0)
        self.rows = 0

    def widen(self, cpu: int) -> None:
        """Take one more row in."""
        self.rows += 1
        if cpu < self.least:
            self.least = cpu
        elif cpu > self.most:
            self.most = cpu


class CardPatterns:
    """The ranges of all patterns that rows have now."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._ranges: dict[int, CpuRange] = {}  # by the number of the pattern
        self._pattern: list[int] = []  # by row, as the ranges have it
        self._tick = 0
        self._numbering = _NONE  # of the patterns, as the ranges have it
        self._due = 0  # then ranges are made anew: rows that leave one do not narrow it

    def ranges(self) -> Mapping[int, CpuRange]:
        """The ranges by the number of the pattern, as of now."""
        table = self._table
        if table.tick >= self._due or table.numbering != self._numbering:
            self._ranges, self._pattern = {}, []
            self._follow(range(table.row_count))
            self._numbering, self._due = table.numbering, table.tick + table.row_count
        elif table.tick != self._tick:
            self._follow(table.changed_since(self._tick).tolist())
        self._tick = table.tick
        return self._ranges

    def _follow(self, rows: Iterable[int]) -> None:
        """Take rows out of the ranges that they were in, and into those where they are now."""
        table, ranges, pattern = self._table, self._ranges, self._pattern
        pattern.extend([_NONE] * (table.row_count - len(pattern)))
        column = table.column_of(CPU)
        for row in rows:
            before, number = pattern[row], int(table.pattern[row])
            cpu = int(table.free[column, row]) if column is not None else 0
            found = ranges.get(number)
            if found is None:
                found = ranges[number] = CpuRange(cpu, *table.cards_of_pattern(number))
            found.widen(cpu)
            pattern[row] = number
            if before != _NONE:
                ranges[before].rows -= 1
                if not ranges[before].rows:
                    del ranges[before]
