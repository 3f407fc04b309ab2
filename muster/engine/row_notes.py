"""Notes of rows that changed, in order, so that whoever keeps something by row brings it up to date at that cost.

Used by the node table and by the facts of nodes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NOTES_LEAST = 4096  # notes kept at least, however few the rows


class RowNotes:
    """Which rows changed, the newest last; the oldest are forgotten."""

    __slots__ = ("_dropped", "_rows")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._dropped = 0

    @property
    def tick(self) -> int:
        """Counts the changes so far."""
        return self._dropped + len(self._rows)

    def since(self, tick: int) -> NDArray[np.int64] | None:
        """The rows that changed after `tick`, each once; `None` when that is too long ago to tell."""
        start = tick - self._dropped
        if start < 0:
            return None
        return np.array(list(dict.fromkeys(self._rows[start:])), np.int64)

    def add(self, row: int, row_count: int) -> None:
        """A row changed, of so many that there are."""
        rows = self._rows
        if len(rows) > NOTES_LEAST and len(rows) > 4 * row_count:
            half = len(rows) // 2
            del rows[:half]
            self._dropped += half
        rows.append(row)
