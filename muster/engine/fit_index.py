"""What `fit_pods.py` counts with: a number for each row, and selectors found by labels without a walk over all of them.

Nearly every selector asks for one value of some label: it is filed under that value, and only the few that do not are
looked at each time. What is found here may match; whether it does is for the caller to check.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

import numpy as np

from muster.engine.fit_nodes import LabelColumn
from muster.engine.node_table_rows import BoolArray, IntArray
from muster.model.labels import Operator, Requirement, Selector
from muster.model.pod_rules import LabelPairs

Item = TypeVar("Item", bound=Hashable)

_FEW = 8  # with fewer than one in so many rows it is quicker to look at those alone


class RowCounts:
    """A number for each row, most of them zero; where many are not, the column of all rows is kept as well."""

    __slots__ = ("_column", "by_row")

    def __init__(self) -> None:
        self.by_row: dict[int, int] = {}
        self._column: IntArray | None = None

    def add(self, row: int, amount: int) -> None:
        total = self.by_row.get(row, 0) + amount
        if total:
            self.by_row[row] = total
        else:
            del self.by_row[row]
        if self._column is not None and row < len(self._column):
            self._column[row] = total

    def column(self, rows: int) -> IntArray:
        """The numbers of the first so many rows, which are all that have any."""
        if self._column is None or len(self._column) != rows:
            self._column = np.zeros(rows, np.int64)
            self._column[list(self.by_row)] = list(self.by_row.values())
        return self._column

    def totals(self, places: LabelColumn, where: BoolArray) -> IntArray:
        """The sums over the rows `where`, by the number of a label's value; nothing for rows without the label."""
        if _FEW * len(self.by_row) < len(where):
            rows = np.fromiter(self.by_row.keys(), np.int64, len(self.by_row))
            amounts = np.fromiter(self.by_row.values(), np.int64, len(self.by_row)) * where[rows]
            ids = places.ids[rows]
        else:
            ids, amounts = places.ids, self.column(len(where)) * where
        # Sums of 53 bits are exact, and no cluster has as many pods.
        totals = np.bincount(ids, weights=amounts, minlength=places.width).astype(np.int64)
        totals[0] = 0
        return totals


class SelectorIndex(Generic[Item]):
    """Things with a selector, found by the labels that it might take."""

    def __init__(self) -> None:
        self._by_pair: dict[tuple[str, str], dict[Item, None]] = {}
        self._others: dict[Item, None] = {}

    def add(self, item: Item, selector: Selector) -> None:
        anchor = _anchor(selector)
        if anchor is None:
            self._others[item] = None
            return
        for value in anchor.values:
            self._by_pair.setdefault((anchor.key, value), {})[item] = None

    def remove(self, item: Item, selector: Selector) -> None:
        anchor = _anchor(selector)
        if anchor is None:
            del self._others[item]
            return
        for value in anchor.values:
            filed = self._by_pair[anchor.key, value]
            del filed[item]
            if not filed:
                del self._by_pair[anchor.key, value]

    def candidates(self, labels: LabelPairs) -> Iterator[Item]:
        """What might take these labels, each once: labels have one value for a key, and a thing is filed by one key."""
        yield from self._others
        for pair in labels:
            yield from self._by_pair.get(pair, ())


class LabelIndex(Generic[Item]):
    """Things with labels, found by a selector that might take them."""

    def __init__(self) -> None:
        self._all: dict[Item, None] = {}
        self._by_pair: dict[tuple[str, str], dict[Item, None]] = {}

    def add(self, item: Item, labels: LabelPairs) -> None:
        self._all[item] = None
        for pair in labels:
            self._by_pair.setdefault(pair, {})[item] = None

    def remove(self, item: Item, labels: LabelPairs) -> None:
        del self._all[item]
        for pair in labels:
            filed = self._by_pair[pair]
            del filed[item]
            if not filed:
                del self._by_pair[pair]

    def candidates(self, selector: Selector) -> Iterator[Item]:
        """What the selector might take, each once."""
        anchor = _anchor(selector)
        if anchor is None:
            yield from self._all
            return
        for value in sorted(anchor.values):
            yield from self._by_pair.get((anchor.key, value), ())


def _anchor(selector: Selector) -> Requirement | None:
    """The requirement that the selector is filed under: the first that names values."""
    return next((one for one in selector.requirements if one.operator is Operator.IN), None)
