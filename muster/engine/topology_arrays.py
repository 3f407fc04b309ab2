"""Many leaves at once: what they have left as arrays, how often a need fits in each, and their order.

Used by `topology_leaves.py` and `topology_counts.py` where there are many leaves, and loaded only then: a small cluster
does without numpy. What does not fit into 64 bits is left to the exact counting there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from muster.engine.topology_tree import Column, Free

AMOUNT_MOST = 2**62
REFILL_LEAST = 64  # changed leaves from which on all of them are read again

Numbers = NDArray[np.int64]
Key = tuple[int, int, int]  # as in `topology_counts.py`


class LeftTable:
    """What every leaf of a column has left, a row for each resource; follows the column's record of changes."""

    __slots__ = ("_epoch", "_rows", "_seen", "_width")

    def __init__(self) -> None:
        self._rows: Numbers | None = None  # None: some amount is too large
        self._epoch, self._seen, self._width = -1, 0, 0

    def rows(self, column: Column, width: int) -> Numbers | None:
        """The amounts of so many resources as they are now; `None` where some are too large for an array."""
        changed = column.changed[self._seen :] if self._epoch == column.epoch else ()
        is_new = self._epoch != column.epoch or self._width != width
        if is_new or len(changed) > REFILL_LEAST + len(column.frees) // 8:
            self._rows = _read(column.frees, width)
        elif changed and self._rows is not None:
            positions = sorted(set(changed))
            some = _read([column.frees[position] for position in positions], width)
            if some is None:
                self._rows = None
            else:
                self._rows[:, positions] = some
        self._epoch, self._seen, self._width = column.epoch, len(column.changed), width
        return self._rows


def _read(frees: Sequence[Free | None], width: int) -> Numbers | None:
    """Amounts side by side; a leaf noted down before a resource was known has nothing of it."""
    nothing = (0,) * width
    amounts = [nothing if free is None else (*free.amounts, *nothing[len(free.amounts) :]) for free in frees]
    try:
        table = np.array(amounts, dtype=np.int64).reshape(len(frees), width)
    except OverflowError:
        return None
    if table.size and max(int(table.max()), -int(table.min())) > AMOUNT_MOST:
        return None
    return np.ascontiguousarray(table.T)


def times_each(
    rows: Numbers,
    amounts: Sequence[tuple[str, int]],
    resources: Mapping[str, int],
    most: Sequence[int] | None = None,
) -> Numbers:
    """How often a need fits in each leaf, where more is known of some, so often at most."""
    least = np.full(rows.shape[1], AMOUNT_MOST, dtype=np.int64)
    if most is not None:
        np.minimum(least, most, out=least)
    for resource, amount in amounts:
        number = resources.get(resource)
        if number is None or amount > AMOUNT_MOST:
            return np.zeros(rows.shape[1], dtype=np.int64)
        np.minimum(least, rows[number] // amount, out=least)
    return np.maximum(least, 0)


class LeafOrder(Sequence[Key]):
    """Leaves in ascending order of how many pods they take, where every pod is a slice of its own."""

    __slots__ = ("_positions", "_values")

    def __init__(self, numbers: Numbers) -> None:
        # Few different small numbers: sixteen bits are sorted by counting.
        is_small = numbers.size > 0 and int(numbers.max()) < 2**16
        self._positions = np.argsort(numbers.astype(np.uint16) if is_small else numbers, kind="stable")
        self._values = numbers[self._positions]

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> Key: ...
    @overload
    def __getitem__(self, index: slice) -> list[Key]: ...
    def __getitem__(self, index: int | slice) -> Key | list[Key]:
        if isinstance(index, slice):
            return [self[one] for one in range(*index.indices(len(self)))]
        value = int(self._values[index])
        return value, value, int(self._positions[index])

    def move(self, before: Key, after: Key) -> None:
        """Keep the order when one leaf takes more or fewer."""
        old, new = self._index(before), self._index(after)
        for numbers, number in ((self._values, after[0]), (self._positions, after[2])):
            if old < new:
                numbers[old : new - 1] = numbers[old + 1 : new]
                numbers[new - 1] = number
            else:
                numbers[new + 1 : old + 1] = numbers[new:old]
                numbers[new] = number

    def _index(self, key: Key) -> int:
        """Where a key is, or would be."""
        start = int(np.searchsorted(self._values, key[0], side="left"))
        end = int(np.searchsorted(self._values, key[0], side="right"))
        return start + int(np.searchsorted(self._positions[start:end], key[2]))
