"""Placing pods by columns: for each demand which rows fit and how good they are, kept and brought up to date.

Scores depend on a row and a demand only, so a column is worked out once and afterwards only for rows that changed: a
placement costs in proportion to what changed since a pod like it was placed. Asked by the stages and the simulator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from muster.engine.node_table import NodeTable
from muster.engine.node_table_rows import AMOUNT_CAP, BoolArray, Demand, FloatArray, IntArray, NodeRows, Placed
from muster.engine.policy import Hooks

COLUMNS_KEPT = 512  # demands seen longest ago are forgotten first
CELLS_KEPT = 4_000_000  # so that many nodes and many demands together do not fill the memory

_NO_CARD = -1
_UNFIT = -np.inf


class Column:
    """What is known of every row for one demand."""

    __slots__ = ("card", "layout", "merit", "tick")

    def __init__(self, rows: int, layout: int) -> None:
        self.merit: FloatArray = np.full(rows, _UNFIT)  # the score where the pod fits
        self.card: IntArray | None = None  # the card that the policy would take
        self.tick = -1
        self.layout = layout


class Placer:
    """Finds nodes and cards for pods in a table, as its policies score them; ties go to the earlier row."""

    def __init__(self, table: NodeTable, hooks: Sequence[Hooks]) -> None:
        self.table = table
        self._fits = [hook.fit for hook in hooks if hook.fit is not None]
        self._scores = [hook.score for hook in hooks if hook.score is not None]
        self._fills = all(hook.fills_nodes for hook in hooks)
        self._columns: dict[Demand, Column] = {}

    # Columns ---------------------------------------------------------------------------------------------------------

    def column(self, demand: Demand) -> Column:
        """The demand's column, up to date."""
        table = self.table
        column = self._columns.pop(demand, None)
        if column is None or len(column.merit) != table.row_count or column.layout != table.layout:
            column = Column(table.row_count, table.layout)
        self._columns[demand] = column  # the newest stands last
        if column.tick != table.tick:
            index = table.changed_since(column.tick) if column.tick >= 0 else None
            if index is None or 2 * len(index) > table.row_count:
                index = None
            self._refresh(column, demand, index)
            column.tick = table.tick
        if len(self._columns) > COLUMNS_KEPT or len(self._columns) * table.row_count > CELLS_KEPT:
            self._forget()
        return column

    def fits(self, demand: Demand) -> BoolArray:
        """Which rows could take the pod now."""
        return self.column(demand).merit > _UNFIT

    def _forget(self) -> None:
        oldest = next(iter(self._columns))
        if len(self._columns) > 1:
            del self._columns[oldest]

    def _refresh(self, column: Column, demand: Demand, index: IntArray | None) -> None:
        rows = self.table.rows(index)
        fit = fit_rows(demand, rows)
        for more in self._fits:
            fit &= more(demand, rows)
        at: slice | IntArray = slice(None)
        if index is not None:
            at = index
        merit: FloatArray = np.where(fit, 0.0, _UNFIT)
        cards: IntArray | None = None
        # Where nobody fits there is nothing to compare, and the demand may be too absurd to reckon with.
        for score in self._scores if fit.any() else ():
            scores = score(demand, rows)
            merit += scores.values
            cards = scores.card if cards is None else cards
        column.merit[at] = merit
        if cards is not None:
            if column.card is None:
                column.card = np.full(len(column.merit), _NO_CARD, np.int64)
            column.card[at] = cards

    # Placing ---------------------------------------------------------------------------------------------------------

    def find(self, demand: Demand) -> Placed | None:
        """The best place for one pod; nothing is taken."""
        column = self.column(demand)
        if not len(column.merit):
            return None
        row = int(column.merit.argmax())
        if column.merit[row] == _UNFIT:
            return None
        return Placed(row, self._pick(demand, column, row))

    def place(self, demand: Demand) -> Placed | None:
        """Finds the best place for one pod and takes it."""
        placed = self.find(demand)
        if placed is not None:
            self.table.charge(placed.row, demand, placed.cards)
        return placed

    def place_all(self, demands: Iterable[Demand]) -> tuple[Placed, ...] | None:
        """Places pods that differ, in this order, or none of them."""
        mark = self.table.checkpoint()
        placed: list[Placed] = []
        for demand in demands:
            found = self.place(demand)
            if found is None:
                self.table.rollback(mark)
                return None
            placed.append(found)
        return tuple(placed)

    def place_many(self, demand: Demand, count: int) -> tuple[Placed, ...] | None:
        """Places so many alike pods, or none of them: `None` when they do not all fit, and nothing is taken then."""
        if not self._has_room(demand, count):
            return None
        mark = self.table.checkpoint()
        placed: list[Placed] = []
        put = self._fill_best if self._fills else self._serve_best
        while len(placed) < count:
            more = put(demand, count - len(placed))
            if not more:
                self.table.rollback(mark)
                return None
            placed.extend(more)
        return tuple(placed)

    def _serve_best(self, demand: Demand, count: int) -> list[Placed]:
        """Give one pod to each of the rows that are best; a row that got one is less liked than those that got none."""
        column = self.column(demand)
        best = column.merit.max(initial=_UNFIT)
        if best == _UNFIT:
            return []
        placed = []
        for row in np.flatnonzero(column.merit == best)[:count].tolist():
            cards = self._pick(demand, column, row)
            self.table.charge(row, demand, cards)
            placed.append(Placed(row, cards))
        return placed

    def _fill_best(self, demand: Demand, count: int) -> list[Placed]:
        """Put pods on the best row until it is full or all are placed."""
        best = self.find(demand)
        if best is None:
            return []
        table, row = self.table, best.row
        room = min(count, int(room_in(demand, table.rows(np.array([row])))[0]))
        free = table.cards[row].copy()
        pods: list[tuple[int, ...]] = []
        cards: tuple[int, ...] | None = best.cards  # the first gets the cards that the policy likes
        while cards is not None and len(pods) < room:
            for card in cards:
                free[card] -= demand.milli
            pods.append(cards)
            cards = tightest(demand, free)
        table.charge(row, demand, *pods)
        return [Placed(row, cards) for cards in pods]

    def _has_room(self, demand: Demand, count: int) -> bool:
        """A quick look at whether so many could fit at all, so that hopeless gangs cost no search."""
        fit = self.fits(demand)
        if count <= int(np.count_nonzero(fit)):
            return True
        index = np.flatnonzero(fit)
        return int(np.minimum(room_in(demand, self.table.rows(index)), count).sum()) >= count

    def _pick(self, demand: Demand, column: Column, row: int) -> tuple[int, ...]:
        if demand.cards == 1 and column.card is not None:
            card = int(column.card[row])
            if card != _NO_CARD:
                return (card,)
        cards = tightest(demand, self.table.cards[row])
        assert cards is not None, "a row that fits has the cards"
        return cards


def fit_rows(demand: Demand, rows: NodeRows) -> BoolArray:
    """Which rows have what one pod asks for."""
    fit = rows.is_present.copy()
    for resource, amount in demand.amounts:
        if resource not in rows.resources or amount > AMOUNT_CAP:
            fit[:] = False
            return fit
        fit &= rows.free(resource) >= amount
    if demand.cards == 1:
        fit &= rows.card_most >= demand.milli
    elif demand.cards:
        fit &= (rows.cards >= demand.milli).sum(axis=1) >= demand.cards
    if demand.models:
        wanted = np.array([name in demand.models for name in rows.model_names])
        fit &= wanted[rows.model]
    return fit


def room_in(demand: Demand, rows: NodeRows) -> IntArray:
    """How many such pods fit on each row, or a little more where pods ask for parts of several cards."""
    room = np.full(len(rows), AMOUNT_CAP, np.int64)
    for resource, amount in demand.amounts:
        if amount:
            room = np.minimum(room, rows.free(resource) // amount)
    if demand.cards:
        slots = (np.maximum(rows.cards, 0) // demand.milli).sum(axis=1)
        room = np.minimum(room, slots // demand.cards)
    return np.maximum(room, 0)


def tightest(demand: Demand, free: IntArray) -> tuple[int, ...] | None:
    """The cards of one node that are left fullest, the earlier ones among equals; `None` when there are too few."""
    if not demand.cards:
        return ()
    left = [(milli, card) for card, milli in enumerate(free.tolist()) if milli >= demand.milli]
    if len(left) < demand.cards:
        return None
    if demand.cards == 1:
        return (min(left)[1],)
    return tuple(sorted(card for _, card in sorted(left)[: demand.cards]))
