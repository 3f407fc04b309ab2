"""Card patterns: whatever comes and goes, every row lies within the range of its pattern, and no range is of nobody."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from muster.engine.node_table import NodeTable
from muster.engine.node_table_rows import TableNode, demand
from muster.model.resources import CPU


def check(table: NodeTable) -> None:
    ranges = table.patterns.ranges()
    patterns = table.pattern[: table.row_count].tolist()
    assert {number: one.rows for number, one in ranges.items()} == Counter(patterns)
    column = table.column_of(CPU)
    for row, number in enumerate(patterns):
        one = ranges[number]
        cpu = 0 if column is None else int(table.free[column, row])
        assert one.least <= cpu <= one.most
        assert (one.model, one.cards) == (int(table.model[row]), tuple(table.cards[row].tolist()))
        assert one.cards_most == max(one.cards, default=0)


@pytest.mark.parametrize("seed", range(10))
def test_ranges_follow_the_table(seed, monkeypatch):
    monkeypatch.setattr("muster.engine.node_table._PATTERNS_LEAST", 8)  # so that they are numbered anew
    chance = random.Random(seed)
    table = NodeTable()
    check(table)
    for _ in range(150):
        choice = chance.random()
        if choice < 0.1 or not table.row_count:
            amounts = {CPU: chance.randrange(8, 64)} if chance.random() < 0.8 else {}
            model = chance.choice(["a", "b"])
            name = f"n{chance.randrange(12)}"
            if table.find_row(name) is None:
                table.put(TableNode(name=name, amounts=amounts, cards=chance.randrange(4), model=model))
        elif choice < 0.9:
            row = chance.randrange(table.row_count)
            count = int(table.card_count[row])
            wanted = demand({CPU: chance.randrange(4)}, cards=1 if count else 0, milli=chance.choice([250, 1000]))
            table.know(wanted)
            mark = table.checkpoint()
            table.charge(row, wanted, (chance.randrange(count),) if count else (), is_hold=True)
            if chance.random() < 0.5:
                table.rollback(mark)
        if chance.random() < 0.3:
            check(table)
    check(table)


def test_ranges_narrow_again_after_a_while():
    table = NodeTable([TableNode(name=name, amounts={CPU: 8}) for name in ("a", "b")])
    busy = demand({CPU: 6})
    table.charge(0, busy, ())
    check(table)
    table.release(0, busy, ())
    for _ in range(3):
        table.charge(1, demand({CPU: 1}), ())
        table.release(1, demand({CPU: 1}), ())
    (only,) = table.patterns.ranges().values()
    assert (only.least, only.most, only.rows) == (8, 8, 2)
