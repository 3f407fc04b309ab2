"""The node table: what is free on every node, as matrices that are asked a column at a time.

Rows are nodes in the order in which they came, which is also the order of preference among equals. It is owned by the
engine's state and fed by changes; a cycle takes a checkpoint, charges and releases as it tries things, and rolls back,
as with the ledger. Every change of a row is noted, so that columns kept by `Placer` are brought up to date at the cost
of what changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from muster.engine.node_table_rows import AMOUNT_CAP, SHARED, WHOLE, BoolArray, Demand, IntArray, NodeRows, TableNode

Mark = int
CardsOfPods = tuple[tuple[int, ...], ...]  # the cards of each of some alike pods

_NOTES_LEAST = 4096  # notes kept at least, however few the rows


@dataclass(frozen=True, slots=True)
class _Change:
    """What alike pods took of a row, or gave back."""

    row: int
    demand: Demand
    cards: CardsOfPods
    sign: int


class NodeTable:
    """Free and total amounts of every node, its cards, and who is where by kind, with an undo record."""

    def __init__(self, nodes: Iterable[TableNode] = ()) -> None:
        self.row_count = 0
        self.names: list[str] = []
        self.resources: tuple[str, ...] = ()
        self.model_names: tuple[str, ...] = ("",)
        self.free: IntArray = np.zeros((0, 0), np.int64)  # resources by rows: a column of nodes lies in one piece
        self.total: IntArray = np.zeros((0, 0), np.int64)
        self.cards: IntArray = np.zeros((0, 0), np.int64)  # rows by cards
        self.card_count: IntArray = np.zeros(0, np.int64)
        self.card_most: IntArray = np.zeros(0, np.int64)  # free on the emptiest card
        self.card_sum: IntArray = np.zeros(0, np.int64)  # free on all cards
        self.pattern: IntArray = np.zeros(0, np.int64)  # equal for rows whose cards are alike, one by one
        self.model: IntArray = np.zeros(0, np.int64)
        self.kinds: IntArray = np.zeros((0, SHARED + 1), np.int64)
        self.version: IntArray = np.zeros(0, np.int64)  # when the row last changed
        self.is_present: BoolArray = np.zeros(0, np.bool_)
        self.layout = 0  # counts up when columns come: what was worked out for the old ones is void
        self._row_by_name: dict[str, int] = {}
        self._columns: dict[str, int] = {}
        self._amounts: dict[Demand, tuple[int, IntArray]] = {}
        self._patterns: dict[tuple[int, bytes], int] = {}
        self._record: list[_Change] = []
        self._notes: list[int] = []  # rows in the order in which they changed
        self._notes_dropped = 0
        wanted = list(nodes)
        self._widen(wanted)
        self._lengthen(len(wanted))
        for node in wanted:
            self.put(node)

    # Changes that come from outside ----------------------------------------------------------------------------------

    def put(self, node: TableNode) -> int:
        """Learn of a node, new or changed; what pods hold of it stays held. Gives its row."""
        self._widen([node])
        row = self._row_by_name.get(node.name)
        if row is None:
            row = self.row_count
            self._lengthen(row + 1)
            self.row_count = row + 1
            self._row_by_name[node.name] = row
            self.names.append(node.name)
        totals = np.array([min(node.amounts.get(name, 0), AMOUNT_CAP) for name in self.resources], np.int64)
        self.free[:, row] += totals - self.total[:, row]
        self.total[:, row] = totals
        before = int(self.card_count[row])
        self.cards[row, before : node.cards] += WHOLE
        self.cards[row, node.cards : before] -= WHOLE  # below nothing where somebody still holds a card that is gone
        self.card_count[row] = node.cards
        self.model[row] = self.model_names.index(node.model)
        self.is_present[row] = True
        self._settle_cards(row)
        self._note(row)
        return row

    def drop(self, name: str) -> None:
        """Learn that a node is gone; what is held of it is remembered in case it comes back."""
        row = self._row_by_name.get(name)
        if row is not None and self.is_present[row]:
            self.is_present[row] = False
            self._note(row)

    # What pods hold --------------------------------------------------------------------------------------------------

    def checkpoint(self) -> Mark:
        """A mark that `rollback` returns to."""
        return len(self._record)

    def rollback(self, mark: Mark) -> None:
        """Undo everything since the mark, newest first."""
        assert mark <= len(self._record), "a checkpoint is rolled back once, and inner ones before outer ones"
        while len(self._record) > mark:
            change = self._record.pop()
            self._shift(change.row, change.demand, change.cards, -change.sign)

    def commit(self) -> None:
        """Keep everything: what happened cannot be undone."""
        self._record.clear()

    def charge(self, row: int, demand: Demand, *pods: tuple[int, ...]) -> None:
        """Take what pods ask for from a node: for each of these alike pods its cards, its share from each of them."""
        self._record.append(_Change(row, demand, pods, 1))
        self._shift(row, demand, pods, 1)
        assert all(len(cards) == demand.cards for cards in pods), f"each pod has {demand.cards} cards"
        assert not demand.cards or self._is_card_sound(row), f"a card of {self.names[row]} is given twice"

    def release(self, row: int, demand: Demand, *pods: tuple[int, ...]) -> None:
        """Give back what alike pods held, each named by its cards."""
        assert self.kinds[row, demand.kind] >= len(pods), f"{self.names[row]} does not hold so many such pods"
        self._record.append(_Change(row, demand, pods, -1))
        self._shift(row, demand, pods, -1)

    # Questions -------------------------------------------------------------------------------------------------------

    def row_of(self, name: str) -> int:
        return self._row_by_name[name]

    def column_of(self, resource: str) -> int | None:
        """Where a resource stands; `None` when no node ever had it."""
        return self._columns.get(resource)

    def rows(self, index: IntArray | None = None) -> NodeRows:
        """Some rows as columns; all of them when none are named."""
        return NodeRows(self, index)

    @property
    def tick(self) -> int:
        """Counts the changes so far."""
        return self._notes_dropped + len(self._notes)

    def changed_since(self, tick: int) -> IntArray | None:
        """The rows that changed after `tick`, each once; `None` when that is too long ago to tell."""
        start = tick - self._notes_dropped
        if start < 0:
            return None
        return np.array(list(dict.fromkeys(self._notes[start:])), np.int64)

    # Inside ----------------------------------------------------------------------------------------------------------

    def _shift(self, row: int, demand: Demand, pods: CardsOfPods, sign: int) -> None:
        count = sign * len(pods)
        self.free[:, row] -= count * self._vector(demand)
        if demand.cards:
            free, step = self.cards[row], sign * demand.milli
            for cards in pods:
                for card in cards:
                    free[card] -= step
            self._settle_cards(row)
        self.kinds[row, demand.kind] += count
        self._note(row)

    def _is_card_sound(self, row: int) -> bool:
        """Whether no card has been given out more than whole; cards that a node lost may be owed."""
        count = int(self.card_count[row])
        return bool(self.cards[row, :count].min(initial=0) >= 0)

    def _settle_cards(self, row: int) -> None:
        """Bring what is known of a row's cards together up to date."""
        free = self.cards[row].tolist()
        self.card_most[row] = max(free, default=0)
        self.card_sum[row] = sum(milli for milli in free if milli > 0)
        if len(self._patterns) > _NOTES_LEAST + 2 * self.row_count:
            self._patterns.clear()  # most of them are of the past
            for each in range(self.row_count):
                self.pattern[each] = self._pattern_of(each)
        self.pattern[row] = self._pattern_of(row)

    def _pattern_of(self, row: int) -> int:
        return self._patterns.setdefault((int(self.model[row]), self.cards[row].tobytes()), len(self._patterns))

    @property
    def pattern_count(self) -> int:
        """One more than the highest number of a pattern."""
        return len(self._patterns)

    def _vector(self, demand: Demand) -> IntArray:
        known = self._amounts.get(demand)
        if known is None or known[0] != self.layout:
            vector = np.zeros(len(self.resources), np.int64)
            for name, amount in demand.amounts:
                # What no node has cannot be taken, so it was not asked of this table.
                vector[self._columns[name]] = amount
            if len(self._amounts) > _NOTES_LEAST:
                self._amounts.clear()
            known = self._amounts[demand] = (self.layout, vector)
        return known[1]

    def _note(self, row: int) -> None:
        if len(self._notes) > max(_NOTES_LEAST, 4 * self.row_count):
            half = len(self._notes) // 2
            del self._notes[:half]
            self._notes_dropped += half
        self._notes.append(row)
        self.version[row] = self.tick

    def _widen(self, nodes: Iterable[TableNode]) -> None:
        """Make columns for resources, cards and models that were not seen before."""
        resources, models, cards = dict.fromkeys(self.resources), dict.fromkeys(self.model_names), self.cards.shape[1]
        for node in nodes:
            resources.update(dict.fromkeys(sorted(node.amounts)))
            models[node.model] = None
            cards = max(cards, node.cards)
        if len(resources) == len(self.resources) and len(models) == len(self.model_names) and cards == self._card_width:
            return
        new = len(resources) - len(self.resources)
        self.resources, self.model_names = tuple(resources), tuple(models)
        self._columns = {name: column for column, name in enumerate(self.resources)}
        self.free = np.pad(self.free, ((0, new), (0, 0)))
        self.total = np.pad(self.total, ((0, new), (0, 0)))
        more = cards - self._card_width
        self.cards = np.pad(self.cards, ((0, 0), (0, more)))
        self.kinds = np.pad(self.kinds, ((0, 0), (0, more)))
        self._patterns.clear()
        for row in range(self.row_count):
            self.pattern[row] = self._pattern_of(row)
        self.layout += 1

    @property
    def _card_width(self) -> int:
        return int(self.cards.shape[1])

    def _lengthen(self, rows: int) -> None:
        """Make room for rows, twice as much as there was, so that nodes can come one by one."""
        have = len(self.version)
        if rows <= have:
            return
        more = max(rows, 2 * have) - have
        self.free = np.pad(self.free, ((0, 0), (0, more)))
        self.total = np.pad(self.total, ((0, 0), (0, more)))
        self.cards = np.pad(self.cards, ((0, more), (0, 0)))
        self.kinds = np.pad(self.kinds, ((0, more), (0, 0)))
        self.card_count = np.pad(self.card_count, (0, more))
        self.card_most = np.pad(self.card_most, (0, more))
        self.card_sum = np.pad(self.card_sum, (0, more))
        self.pattern = np.pad(self.pattern, (0, more))
        self.model = np.pad(self.model, (0, more))
        self.version = np.pad(self.version, (0, more))
        self.is_present = np.pad(self.is_present, (0, more))
