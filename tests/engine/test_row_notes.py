"""Notes of rows: who changed since when, told from the list of the last changes and from all rows alike."""

from __future__ import annotations

import random

import pytest

from muster.engine.row_notes import RECENT_MOST, RowNotes


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_changed_are_told_each_once(seed):
    chance = random.Random(seed)
    notes, changes = RowNotes(), []
    for _ in range(4 * RECENT_MOST):
        row = chance.randrange(40)
        notes.add(row)
        changes.append(row)
        tick = chance.randrange(len(changes) + 1)
        found = notes.since(tick).tolist()
        assert sorted(found) == sorted(set(changes[tick:]))
    assert notes.tick == len(changes)


def test_nothing_changed_yet():
    assert RowNotes().since(0).tolist() == []
