"""Notes of when each row last changed, so that whoever keeps something by row brings it up to date at that cost.

Used by the node table and by the facts of nodes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RECENT_MOST = 64  # changes that are also kept in a list: a few of them are found without a look at all rows


class RowNotes:
    """When rows changed, counted in changes."""

    __slots__ = ("_last", "_recent", "tick")

    def __init__(self) -> None:
        self.tick = 0  # counts the changes so far
        self._last: NDArray[np.int64] = np.zeros(0, np.int64)  # by row: its last change
        self._recent: list[int] = []  # the rows of the last changes, the newest last

    def since(self, tick: int) -> NDArray[np.int64]:
        """The rows that changed after `tick`, each once."""
        missed = self.tick - tick
        if 0 < missed <= len(self._recent):
            return np.array(list(dict.fromkeys(self._recent[-missed:])), np.int64)
        return (self._last > tick).nonzero()[0]

    def add(self, row: int) -> None:
        """A row changed."""
        if row >= len(self._last):
            self._last = np.pad(self._last, (0, max(row + 1, 2 * len(self._last)) - len(self._last)))
        self.tick += 1
        self._last[row] = self.tick
        self._recent.append(row)
        if len(self._recent) > 2 * RECENT_MOST:
            del self._recent[:RECENT_MOST]
