"""The node table: what is free on every node, as matrices that are asked a column at a time.

Rows are nodes in the order in which they came, which is also the order of preference among equals. It is owned by the
engine's state and fed by changes; a cycle takes a checkpoint, charges and releases as it tries things, and rolls back,
as with the ledger. Every change of a row is noted, so that columns kept by `Placer` are brought up to date at the cost
of what changed. Cards that a node registers one by one are kept by `muster/engine/slices_table.py`; what policies see
of them here, in thousandths, follows from that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from muster.engine.arrays import grown
from muster.engine.card_patterns import CardPatterns
from muster.engine.node_table_rows import (
    AMOUNT_CAP,
    SHARED,
    WHOLE,
    BoolArray,
    Demand,
    IntArray,
    NodeRows,
    OnCards,
    TableNode,
)
from muster.engine.row_notes import RowNotes
from muster.engine.slices_table import CardColumns
from muster.model.slices import Slices

Mark = int
PodsOnCards = tuple[OnCards, ...]  # what each of some alike pods holds of cards

_AMOUNTS_KEPT = 4096
_ROWS_LEAST = 8
_BULK = 4  # from so many changes on they are made together
_PATTERNS_LEAST = 1024


class Change(NamedTuple):
    """What alike pods take of a row, each named by its cards, or give back."""

    row: int
    demand: Demand
    pods: PodsOnCards
    sign: int = 1  # -1: given back

    @property
    def has_cards(self) -> bool:
        return bool(self.demand.cards or (self.pods and isinstance(self.pods[0], Slices)))


class _Pattern(NamedTuple):
    """Cards that many rows have alike."""

    number: int
    model: int
    cards: tuple[int, ...]  # free thousandths
    most: int
    total: int


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
        self.sharers: IntArray = np.zeros((0, 0), np.int64)  # who hold cards that are only counted, one by one
        self.card_count: IntArray = np.zeros(0, np.int64)
        self.card_most: IntArray = np.zeros(0, np.int64)  # free on the emptiest card
        self.card_sum: IntArray = np.zeros(0, np.int64)  # free on all cards
        self.pattern: IntArray = np.zeros(0, np.int64)  # equal for rows whose cards are alike, one by one
        self.model: IntArray = np.zeros(0, np.int64)
        self.kinds: IntArray = np.zeros((0, SHARED + 1), np.int64)
        self.is_present: BoolArray = np.zeros(0, np.bool_)
        self.slices = CardColumns()
        self.layout = 0  # counts up when columns come: what was worked out for the old ones is void
        self.numbering = 0  # counts up when patterns are numbered anew
        self.patterns = CardPatterns(self)
        self._row_by_name: dict[str, int] = {}
        self._columns: dict[str, int] = {}
        self._amounts: dict[Demand, tuple[int, IntArray]] = {}
        self._asked: Demand | None = None  # what was asked of `_amounts` last, and what came of it
        self._asked_layout, self._asked_vector = -1, np.zeros(0, np.int64)
        self._patterns: dict[tuple[int, tuple[int, ...]], _Pattern] = {}
        self._pattern_list: list[_Pattern] = []  # by number
        self._patterns_most = _PATTERNS_LEAST  # then they are numbered anew
        self._record: list[Change] = []
        self._notes = RowNotes()
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
        self._put_cards(row, node)
        self.model[row] = self.model_names.index(node.model)
        self.is_present[row] = True
        self._settle_cards(row)
        self._note(row)
        return row

    def _put_cards(self, row: int, node: TableNode) -> None:
        before = int(self.card_count[row])
        self.card_count[row] = node.card_count
        if not node.devices and not self.slices.is_known(row):
            self.cards[row, before : node.cards] += WHOLE
            self.cards[row, node.cards : before] -= WHOLE  # below nothing where somebody still holds what is gone
            return
        held: list[tuple[int, int]] = []
        if not self.slices.is_known(row):
            free = self.cards[row].tolist()
            parts = [WHOLE * (card < before) - milli for card, milli in enumerate(free)]
            held = list(zip(parts, self.sharers[row].tolist(), strict=True))
            while held and held[-1] == (0, 0):
                held.pop()
        columns = self.slices.put(row, node.devices, held)
        self._widen((), columns)
        self.card_count[row] = len({device.uuid for device in node.devices})
        self.cards[row, :columns] = self.slices.settle_node(row)

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
        undone = [Change(row, demand, pods, -sign) for row, demand, pods, sign in reversed(self._record[mark:])]
        del self._record[mark:]
        self._shift_all(undone)

    def commit(self) -> None:
        """Keep everything: what happened cannot be undone."""
        self._record.clear()

    def charge(self, row: int, demand: Demand, *pods: OnCards, is_hold: bool = False) -> None:
        """Take what pods ask for from a node: for each of these alike pods its cards, its share from each of them.

        A hold may take more than is free: a place is held for a pod while those who were told to leave are still there,
        and pods that others placed are counted whatever they hold. Less than nothing is free then, and nobody fits.
        """
        change = Change(row, demand, pods)
        self._record.append(change)
        self._shift(change)
        for held in pods:
            assert isinstance(held, Slices) or len(held) == demand.cards, f"each pod has {demand.cards} cards"
        assert is_hold or self._is_card_sound(row, pods), f"a card of {self.names[row]} is given twice"

    def release(self, row: int, demand: Demand, *pods: OnCards) -> None:
        """Give back what alike pods held, each named by its cards."""
        self.change([Change(row, demand, pods, -1)])

    def change(self, changes: Sequence[Change]) -> None:
        """Take holds and give back, for many pods in one go."""
        self._record.extend(changes)
        self._shift_all(changes)
        for row, demand, _, sign in changes:
            assert sign > 0 or self.kinds[row, demand.kind] >= 0, f"{self.names[row]} does not hold so many such pods"

    # Questions -------------------------------------------------------------------------------------------------------

    def row_of(self, name: str) -> int:
        return self._row_by_name[name]

    def find_row(self, name: str) -> int | None:
        """The row of a node, also of one that is gone; `None` when it was never here."""
        return self._row_by_name.get(name)

    def know(self, demand: Demand, *, cards: int = 0) -> None:
        """Make columns for resources and cards that pods hold and no node has, so that even those are counted."""
        if demand in self._amounts and cards <= self._card_width:
            return
        unknown = {name: 0 for name, _ in demand.amounts if name not in self._columns}
        if unknown or cards > self._card_width:
            self._widen([TableNode(name="", amounts=unknown)], cards)

    def columns_of(self, row: int, cards: tuple[int, ...], names: tuple[str, ...]) -> tuple[int, ...]:
        """Where cards stand that are held by number and, where their node tells it, by name."""
        if not names:
            return cards
        columns = tuple(self.slices.column_of(row, *card) for card in zip(names, cards, strict=True))
        if max(columns) >= self._card_width:
            self._widen((), max(columns) + 1)
        return columns

    def card_width_of(self, row: int) -> int:
        """How many columns the cards of a row take; where some are gone and still held, more than it has cards."""
        return self.slices.width_of(row) if self.slices.is_known(row) else int(self.card_count[row])

    def is_within(self, row: int, demand: Demand, *pods: OnCards) -> bool:
        """Whether no more of a row is held than it has, of all that pods of this demand, on these cards, hold."""
        is_sound = all(self.free[self._columns[name], row] >= 0 for name, _ in demand.amounts)
        return is_sound and self._is_card_sound(row, pods)

    def column_of(self, resource: str) -> int | None:
        """Where a resource stands; `None` when no node ever had it."""
        return self._columns.get(resource)

    def rows(self, index: IntArray | None = None) -> NodeRows:
        """Some rows as columns; all of them when none are named."""
        return NodeRows(self, index)

    @property
    def tick(self) -> int:
        """Counts the changes so far."""
        return self._notes.tick

    def changed_since(self, tick: int) -> IntArray:
        """The rows that changed after `tick`, each once."""
        return self._notes.since(tick)

    # Inside ----------------------------------------------------------------------------------------------------------

    def _shift(self, change: Change) -> None:
        row, demand, pods, sign = change
        count = sign * len(pods)
        self.free[:, row] -= self._vector(demand) if count == 1 else count * self._vector(demand)
        if change.has_cards:
            self._shift_cards(change)
            self._settle_cards(row)
        self.kinds[row, demand.kind] += count
        self._note(row)

    def _shift_all(self, changes: Sequence[Change]) -> None:
        """The same for many changes, which are mostly of few rows."""
        if len(changes) < _BULK:
            for change in changes:
                self._shift(change)
            return
        rows = [change.row for change in changes]
        counts = np.array([change.sign * len(change.pods) for change in changes], np.int64)
        taken = np.array([self._vector(change.demand) for change in changes], np.int64) * counts[:, None]
        np.subtract.at(self.free.T, rows, taken)
        np.add.at(self.kinds, (rows, [change.demand.kind for change in changes]), counts)
        of_cards: dict[int, None] = {}
        for change in changes:
            if change.has_cards:
                self._shift_cards(change)
                of_cards[change.row] = None
        for row in of_cards:
            self._settle_cards(row)
        for row in dict.fromkeys(rows):
            self._note(row)

    def _shift_cards(self, change: Change) -> None:
        if self.slices.is_known(change.row):
            self._shift_known(change)
        else:
            self._shift_counted(change)

    def _shift_counted(self, change: Change) -> None:
        """Take from cards of which only the number is known, or give back."""
        row, demand, pods, sign = change
        free, sharers, step = self.cards[row], self.sharers[row], sign * demand.milli
        for held in pods:
            if isinstance(held, Slices):
                self.slices.take(row, held, sign)  # remembered until the node registers its cards
                continue
            for card in held:
                free[card] -= step
                sharers[card] += sign

    def _shift_known(self, change: Change) -> None:
        """Take from cards that are known one by one, or give back."""
        row, demand, pods, sign = change
        touched: set[int] = set()
        for held in pods:
            if isinstance(held, Slices):
                touched.update(self.slices.take(row, held, sign))
                continue
            for card in held:
                self.slices.take_part(row, card, milli=demand.milli, sign=sign)
            touched.update(held)
        for card in touched:
            self.cards[row, card] = self.slices.settle(row, card)

    def _is_card_sound(self, row: int, pods: PodsOnCards) -> bool:
        """Whether none of these pods' cards has been given out more than whole; cards that a node lost may be owed."""
        if self.slices.is_known(row):
            return self.slices.is_sound(row, pods)
        count, free = int(self.card_count[row]), self.cards[row]
        for held in pods:
            if not isinstance(held, Slices):
                for card in held:
                    if card < count and free[card] < 0:
                        return False
        return True

    def _settle_cards(self, row: int) -> None:
        """Bring what is known of a row's cards together up to date."""
        pattern = self._pattern_of(row)
        self.card_most[row], self.card_sum[row] = pattern.most, pattern.total
        self.pattern[row] = pattern.number
        if len(self._patterns) > self._patterns_most:
            self._number_patterns()  # most of them are of the past

    def _number_patterns(self) -> None:
        """Number the patterns that there are now from the first on, so that numbers stay low."""
        self.numbering += 1
        self._patterns.clear()
        self._pattern_list.clear()
        for row in range(self.row_count):
            self.pattern[row] = self._pattern_of(row).number
        self._patterns_most = max(_PATTERNS_LEAST, 2 * len(self._patterns))

    def _pattern_of(self, row: int) -> _Pattern:
        key = (int(self.model[row]), tuple(self.cards[row].tolist()))
        pattern = self._patterns.get(key)
        if pattern is None:
            most, total = max(key[1], default=0), sum(milli for milli in key[1] if milli > 0)
            pattern = self._patterns[key] = _Pattern(len(self._pattern_list), *key, most, total)
            self._pattern_list.append(pattern)
        return pattern

    @property
    def pattern_count(self) -> int:
        """One more than the highest number of a pattern."""
        return len(self._pattern_list)

    def cards_of_pattern(self, number: int) -> tuple[int, tuple[int, ...]]:
        """The model and the free thousandths of the cards that rows of a pattern have."""
        pattern = self._pattern_list[number]
        return pattern.model, pattern.cards

    def _vector(self, demand: Demand) -> IntArray:
        if demand is self._asked and self._asked_layout == self.layout:
            return self._asked_vector  # alike pods come one after the other
        known = self._amounts.get(demand)
        if known is None or known[0] != self.layout:
            vector = np.zeros(len(self.resources), np.int64)
            for name, amount in demand.amounts:
                # What no node has cannot be taken, so it was not asked of this table.
                vector[self._columns[name]] = amount
            if len(self._amounts) > _AMOUNTS_KEPT:
                self._amounts.clear()
            known = self._amounts[demand] = (self.layout, vector)
        self._asked, (self._asked_layout, self._asked_vector) = demand, known
        return self._asked_vector

    def _note(self, row: int) -> None:
        self._notes.add(row)

    def _widen(self, nodes: Iterable[TableNode], cards_least: int = 0) -> None:
        """Make columns for resources, cards and models that were not seen before."""
        resources, models = dict.fromkeys(self.resources), dict.fromkeys(self.model_names)
        cards = max(cards_least, self._card_width)
        for node in nodes:
            resources.update(dict.fromkeys(sorted(node.amounts)))
            models[node.model] = None
            cards = max(cards, node.card_count)
        if len(resources) == len(self.resources) and len(models) == len(self.model_names) and cards == self._card_width:
            return
        new = len(resources) - len(self.resources)
        self.resources, self.model_names = tuple(resources), tuple(models)
        self._columns = {name: column for column, name in enumerate(self.resources)}
        self.free = grown(self.free, new, 0)
        self.total = grown(self.total, new, 0)
        more = cards - self._card_width
        self.cards = grown(self.cards, 0, more)
        self.sharers = grown(self.sharers, 0, more)
        self.kinds = grown(self.kinds, 0, more)
        self._number_patterns()
        self.layout += 1

    @property
    def _card_width(self) -> int:
        return int(self.cards.shape[1])

    def _lengthen(self, rows: int) -> None:
        """Make room for rows, twice as much as there was, so that nodes can come one by one."""
        have = len(self.is_present)
        if rows <= have:
            return
        more = max(rows, 2 * have, _ROWS_LEAST) - have
        self.free = grown(self.free, 0, more)
        self.total = grown(self.total, 0, more)
        self.cards = grown(self.cards, more, 0)
        self.sharers = grown(self.sharers, more, 0)
        self.kinds = grown(self.kinds, more, 0)
        self.card_count = grown(self.card_count, more)
        self.card_most = grown(self.card_most, more)
        self.card_sum = grown(self.card_sum, more)
        self.pattern = grown(self.pattern, more)
        self.model = grown(self.model, more)
        self.is_present = grown(self.is_present, more)
        self.slices.lengthen(have + more)
