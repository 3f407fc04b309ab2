"""Placing pods by columns: for each demand which rows fit and how good they are, kept and brought up to date.

Scores depend on a row and a demand only, so a column is worked out once and afterwards only for rows that changed: a
placement costs in proportion to what changed since a pod like it was placed. Rules about other pods, and preferences
that compare nodes with each other, are asked each time, and only for pods that have any. Asked by the stages and the
simulator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from muster.engine.fit_pods import PodsOnNodes
from muster.engine.fit_rules import allowed_by_pods
from muster.engine.fit_scores import Candidates, has_preferences
from muster.engine.node_table import Change, NodeTable
from muster.engine.node_table_rows import (
    AMOUNT_CAP,
    BoolArray,
    Demand,
    FloatArray,
    IntArray,
    NodeRows,
    OnCards,
    Placed,
)
from muster.engine.policy import Hooks
from muster.engine.slices import cards_fit, cards_room, choose, is_alike_for_all, near_rows, tag_of
from muster.model.pod_rules import ANYWHERE
from muster.model.slices import Slices

COLUMNS_KEPT = 512  # demands seen longest ago are forgotten first
CELLS_KEPT = 4_000_000  # so that many nodes and many demands together do not fill the memory

Mark = tuple[int, int]  # of the table and of the pods on it

_SPARSE = 4  # where fewer than one in so many rows fit, only those are scored
_FEW = 8  # up to so many rows are looked at one by one
_NO_CARD = -1
_UNFIT = -np.inf


class Column:
    """What is known of every row for one demand."""

    __slots__ = ("card", "fact_tick", "layout", "merit", "tick")

    def __init__(self, layout: int) -> None:
        self.merit: FloatArray = np.zeros(0)  # the score where the pod fits
        self.card: IntArray | None = None  # the card that the policy would take
        self.tick = -1
        self.fact_tick = -1
        self.layout = layout


class Placer:
    """Finds nodes and cards for pods in a table, as its policies score them; ties go to the earlier row.

    With the pods on the nodes it keeps every rule of pods about nodes and other pods. All charges then go through it,
    so that the table and the pods stay in step. How many pods a node takes is a resource like any other: a demand has
    one of `pods` where that counts.
    """

    def __init__(self, table: NodeTable, hooks: Sequence[Hooks], pods: PodsOnNodes | None = None) -> None:
        self.table = table
        self.pods = pods
        self._columns: dict[Demand, Column] = {}
        self._hooks: tuple[Hooks, ...] = ()
        self.use(hooks)

    def adapt(self, seen: Mapping[Demand, int]) -> None:
        """Let policies know how often each kind of pod came of late."""
        if any(hook.adapt is not None for hook in self._hooks):
            self.use([hook if hook.adapt is None else hook.adapt(seen) for hook in self._hooks])

    def use(self, hooks: Sequence[Hooks]) -> tuple[Hooks, ...]:
        """Ask these policies from now on, and not those that are given back; what was worked out before is void."""
        self._columns.clear()
        before, self._hooks = self._hooks, tuple(hooks)
        self.fit_hooks = [hook.fit for hook in hooks if hook.fit is not None]
        self._scores = [hook.score for hook in hooks if hook.score is not None]
        self._prefers = [hook.prefer for hook in hooks if hook.prefer is not None]
        self._fills = all(hook.fills_nodes for hook in hooks)
        return before

    # Charges ---------------------------------------------------------------------------------------------------------

    def charge(self, row: int, demand: Demand, *pods: OnCards, is_hold: bool = False) -> None:
        """Put alike pods on a row, each named by its cards; a hold may take what others have not left yet."""
        self.table.charge(row, demand, *pods, is_hold=is_hold)
        if self.pods is not None and demand.rules is not ANYWHERE:
            self.pods.add(row, demand.rules, len(pods))

    def release(self, row: int, demand: Demand, *pods: OnCards) -> None:
        """Take alike pods off a row, each named by its cards."""
        self.table.release(row, demand, *pods)
        if self.pods is not None and demand.rules is not ANYWHERE:
            self.pods.remove(row, demand.rules, len(pods))

    def change(self, changes: Sequence[Change]) -> None:
        """Take holds and give back, for many pods in one go."""
        self.table.change(changes)
        if self.pods is None:
            return
        for row, demand, on_cards, sign in changes:
            if demand.rules is not ANYWHERE:
                shift = self.pods.add if sign > 0 else self.pods.remove
                shift(row, demand.rules, len(on_cards))

    def checkpoint(self) -> Mark:
        """A mark that `rollback` returns to."""
        return self.table.checkpoint(), 0 if self.pods is None else self.pods.checkpoint()

    def rollback(self, mark: Mark) -> None:
        """Undo everything since the mark."""
        of_table, of_pods = mark
        self.table.rollback(of_table)
        if self.pods is not None:
            self.pods.rollback(of_pods)

    def commit(self) -> None:
        """Keep everything: what happened cannot be undone."""
        self.table.commit()
        if self.pods is not None:
            self.pods.commit()

    # Columns ---------------------------------------------------------------------------------------------------------

    def column(self, demand: Demand) -> Column:
        """The demand's column, up to date: what depends on each node alone, whatever pods are on the others."""
        table = self.table
        if demand.rules is not ANYWHERE:
            assert self.pods is not None, "rules are asked of the pods on the nodes, which this placer was not given"
            demand = demand.of_nodes
        column = self._columns.pop(demand, None)
        if column is None or len(column.merit) != table.row_count or column.layout != table.layout:
            column = Column(table.layout)
        self._columns[demand] = column  # the newest stands last
        fact_tick = -1 if self.pods is None else self.pods.facts.tick
        if column.tick != table.tick or column.fact_tick != fact_tick:
            self._refresh(column, demand, self._changed_since(column))
            column.tick, column.fact_tick = table.tick, fact_tick
        if len(self._columns) > COLUMNS_KEPT or len(self._columns) * table.row_count > CELLS_KEPT:
            self._forget()
        return column

    def fits_alone(self, demand: Demand) -> BoolArray:
        """Which rows could take the pod now as far as each node by itself can tell, whatever pods are on the others."""
        fit: BoolArray = self.column(demand).merit > _UNFIT
        return fit

    def fits(self, demand: Demand) -> BoolArray:
        """Which rows could take the pod now."""
        fit = self.fits_alone(demand)
        allowed = self._allowed(demand, None)
        return fit if allowed is None else fit & allowed

    def retake(self, row: int, demand: Demand, *pods: OnCards) -> bool:
        """Put alike pods back on the places that were found for them; whether all of them are still free."""
        groups = [(pod,) for pod in pods] if demand.rules.is_moved_by_its_like else [pods]
        for group in groups:
            if not self._may_be_on(row, demand):
                return False
            self.charge(row, demand, *group, is_hold=True)
        return self.table.is_within(row, demand, *pods)

    def _may_be_on(self, row: int, demand: Demand) -> bool:
        """Whether a row lets one such pod in."""
        allowed = self._allowed(demand, None)
        return bool(self.column(demand).merit[row] > _UNFIT) and (allowed is None or bool(allowed[row]))

    def _changed_since(self, column: Column) -> IntArray | None:
        """The rows that changed since the column was right; `None` when it is as quick to do all of them."""
        index = self.table.changed_since(column.tick) if column.tick >= 0 else None
        if index is not None and self.pods is not None and column.fact_tick != self.pods.facts.tick:
            index = np.union1d(index, self.pods.facts.changed_since(column.fact_tick))
        return None if index is None or 2 * len(index) > self.table.row_count else index

    def _forget(self) -> None:
        oldest = next(iter(self._columns))
        if len(self._columns) > 1:
            del self._columns[oldest]

    def _refresh(self, column: Column, demand: Demand, index: IntArray | None) -> None:
        """Work a column out anew, or some rows of it; only where most rows fit it is quickest to look at all."""
        fit = self._fitting(demand, index)
        if index is None and _SPARSE * np.count_nonzero(fit) > len(fit):
            values, column.card = self._opinion(demand, self.table.rows())
            column.merit = np.where(fit, values, _UNFIT)
            return
        if index is None:
            column.merit, column.card = np.full(len(fit), _UNFIT), None
            index = np.flatnonzero(fit)
        else:
            column.merit[index] = _UNFIT
            index = index[fit]
        if not len(index):
            return  # nothing to compare, and the demand may be too absurd to reckon with
        column.merit[index], cards = self._opinion(demand, self.table.rows(index))
        if cards is not None:
            if column.card is None:
                column.card = np.full(len(column.merit), _NO_CARD, np.int64)
            column.card[index] = cards

    def _opinion(self, demand: Demand, rows: NodeRows) -> tuple[FloatArray | IntArray | int, IntArray | None]:
        """How good the policies find rows, and which card they would take."""
        opinions = [score(demand, rows) for score in self._scores]
        if len(opinions) == 1:
            return opinions[0].values, opinions[0].card
        cards = next((one.card for one in opinions if one.card is not None), None)
        return sum(one.values for one in opinions), cards

    def _fitting(self, demand: Demand, index: IntArray | None) -> BoolArray:
        """Which rows could take the pod as far as each node by itself can tell."""
        rows = self.table.rows(index)
        if index is not None and len(index) <= _FEW and demand.ask is None and demand.cards <= 1:
            fit = np.array([_fits_row(demand, self.table, row) for row in index.tolist()], np.bool_)
        else:
            fit = fit_rows(demand, rows)
        if self.pods is not None:
            facts = self.pods.facts
            assert facts.row_count == self.table.row_count, "the facts of every node come with the node"
            suits = facts.suits(demand.rules.nodes)
            fit &= suits if index is None else suits[index]
        for more in self.fit_hooks:
            fit &= more(demand, rows)
        return fit

    def _allowed(self, demand: Demand, within: BoolArray | None) -> BoolArray | None:
        """The rows that other pods leave to this one, and of those the wanted ones; `None`: all of them."""
        wanted = [within]
        if self.pods is not None and demand.rules is not ANYWHERE:
            wanted.append(allowed_by_pods(self.pods, demand.rules))
        if demand.ask is not None:
            wanted.append(near_rows(self.table, demand.ask, tag_of(demand)))
        masks = [mask for mask in wanted if mask is not None]
        if not masks:
            return None
        return masks[0] if len(masks) == 1 else np.logical_and.reduce(masks)

    # Placing ---------------------------------------------------------------------------------------------------------

    def find(self, demand: Demand, *, within: BoolArray | None = None) -> Placed | None:
        """The best place for one pod, among some rows if they are named; nothing is taken."""
        return self._find(demand, self._allowed(demand, within))

    def place(self, demand: Demand, *, within: BoolArray | None = None) -> Placed | None:
        """Finds the best place for one pod and takes it."""
        placed = self.find(demand, within=within)
        if placed is not None:
            self.charge(placed.row, demand, placed.held)
        return placed

    def place_all(self, demands: Iterable[Demand], *, within: BoolArray | None = None) -> tuple[Placed, ...] | None:
        """Places pods that differ, in this order, or none of them."""
        mark = self.checkpoint()
        placed: list[Placed] = []
        for demand in demands:
            found = self.place(demand, within=within)
            if found is None:
                self.rollback(mark)
                return None
            placed.append(found)
        return tuple(placed)

    def place_many(self, demand: Demand, count: int, *, within: BoolArray | None = None) -> tuple[Placed, ...] | None:
        """Places so many alike pods, or none of them: `None` when they do not all fit, and nothing is taken then."""
        if count == 1:
            placed_one = self.place(demand, within=within)
            return None if placed_one is None else (placed_one,)
        if not self._has_room(demand, count, within):
            return None
        if demand.rules.is_moved_by_its_like or self._has_preferences(demand):
            return self.place_all((demand for _ in range(count)), within=within)
        mark = self.checkpoint()
        put = self._fill_rows if self._fills else self._serve_rows
        placed = put(demand, count, self._allowed(demand, within))  # none of these pods keeps another one away
        if len(placed) < count:
            self.rollback(mark)
            return None
        return tuple(placed)

    def _find(self, demand: Demand, allowed: BoolArray | None) -> Placed | None:
        column = self.column(demand)
        if not len(column.merit):
            return None
        merit = column.merit if allowed is None else np.where(allowed, column.merit, _UNFIT)
        if self._has_preferences(demand):
            merit = self._with_preferences(demand, merit)
        while True:
            row = int(merit.argmax())
            if merit[row] == _UNFIT:
                return None
            placed = self._pick(demand, column, row)
            if placed is not None:
                return placed
            self._strike(demand, column, row)
            merit = merit.copy()
            merit[row] = _UNFIT

    def scores(self, demand: Demand, index: IntArray) -> FloatArray:
        """What each of these rows scores for a pod, whether it fits there now or not."""
        values, _ = self._opinion(demand.of_nodes, self.table.rows(index))
        merit: FloatArray = np.zeros(len(index)) + values
        if self.pods is not None and len(index) and self._has_preferences(demand):
            candidates = Candidates(demand.rules, index, self.pods)
            for prefer in self._prefers:
                merit += prefer(candidates)
        return merit

    def _has_preferences(self, demand: Demand) -> bool:
        """Whether the rows that fit have to be compared with each other."""
        return bool(self._prefers) and self.pods is not None and has_preferences(self.pods, demand.rules)

    def _with_preferences(self, demand: Demand, merit: FloatArray) -> FloatArray:
        """The scores with those added that compare the rows that fit with each other."""
        rows = np.flatnonzero(merit > _UNFIT)
        if self.pods is None or not len(rows):
            return merit
        merit = merit.copy()  # it may be a column that is kept
        candidates = Candidates(demand.rules, rows, self.pods)
        for prefer in self._prefers:
            merit[rows] += prefer(candidates)
        return merit

    def _serve_rows(self, demand: Demand, count: int, allowed: BoolArray | None) -> list[Placed]:
        """Give one pod to each of the best rows, again and again: a row that got one is less liked than the others."""
        placed: list[Placed] = []
        while len(placed) < count:
            column = self.column(demand)
            merit = column.merit if allowed is None else np.where(allowed, column.merit, _UNFIT)
            best = merit.max(initial=_UNFIT)
            if best == _UNFIT:
                break
            rows = np.flatnonzero(merit == best)[: count - len(placed)].tolist()
            if demand.ask is None and not demand.cards:  # nothing to choose on any of them
                self.change([Change(row, demand, ((),)) for row in rows])
                placed += [Placed(row) for row in rows]
                continue
            for row in rows:
                picked = self._pick(demand, column, row)
                if picked is not None:
                    self.charge(row, demand, picked.held)
                    placed.append(picked)
                elif not self._strike(demand, column, row):
                    allowed = np.ones(len(merit), np.bool_) if allowed is None else allowed.copy()
                    allowed[row] = False
        return placed

    def _fill_rows(self, demand: Demand, count: int, allowed: BoolArray | None) -> list[Placed]:
        """Put pods on the best row until it is full, then on the next best: how full one is changes no other."""
        column = self.column(demand)
        merit = column.merit.copy() if allowed is None else np.where(allowed, column.merit, _UNFIT)
        placed: list[Placed] = []
        while len(placed) < count and len(merit):
            row = int(merit.argmax())
            if merit[row] == _UNFIT:
                break
            merit[row] = _UNFIT
            fill = self._fill_cards if demand.ask is None else self._fill_slices
            placed.extend(fill(demand, column, row, count - len(placed)))
        return placed

    def _fill_cards(self, demand: Demand, column: Column, row: int, count: int) -> list[Placed]:
        """Put pods on one row, as many as fit."""
        first = self._pick(demand, column, row)  # the first gets the cards that the policy likes
        assert first is not None, "a row that fits has the cards"
        table = self.table
        room = min(count, int(room_in(demand, table.rows(np.array([row])))[0]))
        free = table.cards[row].copy()
        pods: list[tuple[int, ...]] = []
        cards: tuple[int, ...] | None = first.cards
        while cards is not None and len(pods) < room:
            for card in cards:
                free[card] -= demand.milli
            pods.append(cards)
            cards = tightest(demand, free)
        self.charge(row, demand, *pods)
        return [Placed(row, cards) for cards in pods]

    def _fill_slices(self, demand: Demand, column: Column, row: int, count: int) -> list[Placed]:
        """Put pods that ask for slices on one row, each after those before it."""
        placed: list[Placed] = []
        while len(placed) < count and fit_rows(demand, self.table.rows(np.array([row])))[0]:
            more = self._pick(demand, column, row)
            if more is None:
                if not placed:
                    self._strike(demand, column, row)
                break
            self.charge(row, demand, more.held)
            placed.append(more)
        return placed

    def _strike(self, demand: Demand, column: Column, row: int) -> bool:
        """Remember until the row changes that its cards do not suit such a pod; not where other pods fare otherwise."""
        is_alike = is_alike_for_all(self.table, row, demand)
        if is_alike:
            column.merit[row] = _UNFIT
        return is_alike

    def _has_room(self, demand: Demand, count: int, within: BoolArray | None) -> bool:
        """A quick look at whether so many could fit at all, so that hopeless gangs cost no search.

        Other pods are not asked: where pods are spread, each makes room for the next.
        """
        fit = self.fits_alone(demand)
        if within is not None:
            fit &= within
        if count <= int(np.count_nonzero(fit)):
            return True
        index = np.flatnonzero(fit)
        return int(np.minimum(room_in(demand, self.table.rows(index)), count).sum()) >= count

    def _pick(self, demand: Demand, column: Column, row: int) -> Placed | None:
        """The cards that a pod gets on a row; `None` where it wants others than the row has."""
        if demand.ask is not None:
            chosen = choose(self.table, row, demand.ask, tag=tag_of(demand))
            return Placed(row, slices=chosen) if isinstance(chosen, Slices) else None
        if demand.cards == 1 and column.card is not None:
            card = int(column.card[row])
            if card != _NO_CARD:
                return Placed(row, (card,))
        cards = tightest(demand, self.table.cards[row])
        assert cards is not None, "a row that fits has the cards"
        return Placed(row, cards)


def fit_rows(demand: Demand, rows: NodeRows) -> BoolArray:
    """Which rows have what one pod asks for."""
    fit = rows.is_present.copy()
    for resource, amount in demand.amounts:
        if resource not in rows.resources or amount > AMOUNT_CAP:
            fit[:] = False
            return fit
        fit &= rows.free(resource) >= amount
    if demand.cards:
        fit &= cards_fit(demand, rows)
    if demand.models:
        fit &= has_model(demand, rows)
    return fit


def _fits_row(demand: Demand, table: NodeTable, row: int) -> bool:
    """The same for one row, and for a pod of at most one card: numbers are quicker than arrays of one number."""
    if not table.is_present.item(row) or (table.card_most.item(row) < demand.milli and demand.cards):
        return False
    for resource, amount in demand.amounts:
        column = table.column_of(resource)
        if column is None or amount > AMOUNT_CAP or table.free.item(column, row) < amount:
            return False
    return not demand.models or table.model_names[table.model.item(row)] in demand.models


def has_model(demand: Demand, rows: NodeRows) -> BoolArray:
    """Which rows have cards of a model that the pod names."""
    wanted = np.array([name in demand.models for name in rows.model_names])
    answer: BoolArray = wanted[rows.model]
    return answer


def room_in(demand: Demand, rows: NodeRows) -> IntArray:
    """How many such pods fit on each row, or a little more where pods ask for parts of several cards."""
    room = np.full(len(rows), AMOUNT_CAP, np.int64)
    for resource, amount in demand.amounts:
        if amount:
            room = np.minimum(room, rows.free(resource) // amount)
    if demand.cards:
        room = np.minimum(room, cards_room(demand, rows))
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
