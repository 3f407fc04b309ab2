"""Scores of fgd: how much the fragmentation of a node shrinks with a pod, for many nodes at once or for a few.

The rule itself is said in the docstring of the package. Nodes whose cards are alike and whose cpu falls into the same
steps score the same, so each such case is worked out once and looked up afterwards.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from operator import add
from typing import NamedTuple

import numpy as np

from muster.engine.node_table_rows import WHOLE, Demand, IntArray, NodeRows, Scores
from muster.model.resources import CPU
from muster.policies.fgd.tables import CANNOT, Lists, Tables, TypicalPod

SCALE = 100  # the best score
PODS_COUNTED = 16  # on free cards of one node that cpu is looked for
_MANY = 256  # from so many rows on it pays to look for equal ones
_SPARSE = 32  # and only while there are not many more kinds than rows
_FEW = 24  # up to so many rows are done one by one
_ROWS_LEAST = 8  # of a pattern, in the mean: with fewer it is quicker to do all rows at once
_CASES_KEPT = 20_000

_Node = tuple[int, int, tuple[int, ...]]  # free cpu, the number of the model, free thousandths of each card


class _Case(NamedTuple):
    """All that the score of a node for a pod depends on."""

    cards: int
    milli: int
    before: int  # the level of the node without the pod
    after: int  # and with it
    full_before: int  # the same of the cpu for each of the pods that could be on its cards
    full_after: int
    free: tuple[int, ...]  # thousandths of each card


_CaseKey = tuple[int, int, int, int, int, int, tuple[int, ...]]  # a case as it is looked up: quicker to make


class _Pair(NamedTuple):
    """What counts where cpu is left for one pod, and what pods of one card count on top where it is left for all."""

    one: Tables
    full: Tables | None  # None: nothing
    steps: IntArray  # the amounts of free cpu at which any of it changes


class Scorer:
    """Scores of nodes for one list of typical pods."""

    def __init__(self, typical: tuple[TypicalPod, ...], *, counts_cpu: bool, weight: int) -> None:
        self._typical, self._factor = typical, weight
        self._typical_full: tuple[TypicalPod, ...] = ()
        if counts_cpu:
            several = [TypicalPod(one.demand, 2 * one.weight) for one in typical if one.demand.cards != 1]
            self._typical_full = tuple(one for one in typical if one.demand.cards == 1)
            self._typical = (*self._typical_full, *several)
        self._weight = max(1, sum(one.weight for one in (*self._typical, *self._typical_full)))
        self._bounds = _bounds(self._weight)
        self._bound_list = self._bounds.tolist()
        self._known: dict[tuple[tuple[str, ...], int], _Pair] = {}
        self._cases: dict[_CaseKey, tuple[int, int]] = {}

    def score(self, pod: Demand, rows: NodeRows) -> Scores:
        """The scores of rows, one by one where there are few of them, else of those that are alike at once."""
        tables = self._tables_for(rows)
        if not rows.card_width or not tables.one.is_small:
            return self._score_kinds(pod, rows, tables)
        if len(rows) <= _FEW:
            return self._score_few(pod, rows, tables)
        return self._score_patterns(pod, rows, tables) or self._score_kinds(pod, rows, tables)

    def _score_few(self, pod: Demand, rows: NodeRows, tables: _Pair) -> Scores:
        return self._score_listed(pod, tables, _nodes_at(rows.free(CPU), rows.pattern, rows))

    def _score_patterns(self, pod: Demand, rows: NodeRows, tables: _Pair) -> Scores | None:
        """The scores by the patterns of cards; `None` where there are too many of them.

        Rows of a pattern score the same unless their cpu falls into different steps: only those are looked at again.
        """
        ranges, pattern = rows.cpu_ranges, rows.pattern
        here = ranges.items() if rows.is_all else [(number, ranges[number]) for number in set(pattern.tolist())]
        # Where the cards do not do, nobody asks for a score; slices of cards fit by other rules.
        serving = [pair for pair in here if not pod.milli or pod.ask is not None or pair[1].cards_most >= pod.milli]
        if len(serving) > max(_FEW, len(rows) // _ROWS_LEAST):
            return None
        least = self._cases_of(pod, tables, [(one.least, one.model, one.cards) for _, one in serving])
        most = self._cases_of(pod, tables, [(one.most, one.model, one.cards) for _, one in serving])
        values, cards = np.zeros((2, rows.pattern_count), np.int64)
        mixed: list[int] = []
        for (number, _), case, other in zip(serving, least, most, strict=True):
            if case != other:
                mixed.append(number)
            else:
                values[number], cards[number] = self._look_up(case, tables)
        found = Scores(values.take(pattern), cards.take(pattern) if pod.cards == 1 else None)
        return self._with_mixed(found, pod, rows, mixed) if mixed else found

    def _with_mixed(self, found: Scores, pod: Demand, rows: NodeRows, mixed: list[int]) -> Scores:
        """The scores with those of the rows of some patterns added that have to be told apart."""
        is_mixed = np.zeros(rows.pattern_count, np.bool_)
        is_mixed[mixed] = True
        index = is_mixed.take(rows.pattern).nonzero()[0]
        tables, picked = self._tables_for(rows), rows.pick(index)
        score = self._score_few if len(index) <= _FEW else self._score_kinds
        more = score(pod, picked, tables)
        found.values[index] = more.values
        if found.card is not None and more.card is not None:
            found.card[index] = more.card
        return found

    def _score_kinds(self, pod: Demand, rows: NodeRows, tables: _Pair) -> Scores:
        """The scores of each kind of rows once: cards alike, and cpu in the same steps before and after."""
        if len(rows) < _MANY or rows.pattern_count * len(tables.one.step_list) > _SPARSE * len(rows):
            return self._score_each(pod, rows)
        both = _merged(tables.steps, tables.steps + pod.amount(CPU))
        height = len(both) + 1
        size = rows.pattern_count * height
        if size > _SPARSE * len(rows):
            return self._score_each(pod, rows)
        kind = both.searchsorted(rows.free(CPU), side="right")
        kind += rows.pattern * height
        kinds = np.flatnonzero(np.bincount(kind, minlength=size))
        if rows.card_width and tables.one.is_small and len(kinds) <= _FEW:
            found = self._score_listed(pod, tables, _nodes_of(rows, kinds, both))
        else:
            example = np.zeros(size, np.int64)
            example[kind] = np.arange(len(rows))
            found = self._score_each(pod, rows.pick(example[kinds]))
        values = np.zeros(size, np.int64)
        values[kinds] = found.values
        if found.card is None:
            return Scores(values.take(kind))
        cards = np.zeros(size, np.int64)
        cards[kinds] = found.card
        return Scores(values.take(kind), cards.take(kind))

    def _score_each(self, pod: Demand, rows: NodeRows) -> Scores:
        one, full, _ = self._tables_for(rows)
        cards, cpu = np.maximum(rows.cards, 0), rows.free(CPU)
        left = cpu - pod.amount(CPU)
        before, after = one.level(cpu, rows), one.level(left, rows)
        # Fragmented is what is free and not usable: what the pod takes is free no more, whoever could have used it.
        offset = pod.card_milli * self._weight - one.usable(before, cards)
        full_after = after
        if full is not None:
            free = rows.cards.sum(axis=1)
            offset -= full.usable(full.level(cpu // _pods_on(free), rows), cards)
            full_after = full.level(left // _pods_on(free - pod.card_milli), rows)
        if pod.cards != 1:
            remaining = _without(cards, pod)
            gain = one.usable(after, remaining) + offset
            if full is not None:
                gain += full.usable(full_after, remaining)
            return Scores((self._bounds.searchsorted(gain, side="right") - 1) * self._factor)
        gains = one.usable_by_card(after, cards, pod.milli) + offset[:, None]
        if full is not None:
            gains += full.usable_by_card(full_after, cards, pod.milli)
        by_card = self._bounds.searchsorted(gains, side="right")
        card = by_card.argmax(axis=1)  # the first of the best: cards of equal whole scores are equal
        return Scores((by_card.max(axis=1) - 1) * self._factor, card)

    def _score_listed(self, pod: Demand, tables: _Pair, nodes: Iterable[_Node]) -> Scores:
        """The same for a few nodes."""
        found = [self._look_up(case, tables) for case in self._cases_of(pod, tables, nodes)]
        values = np.array([value for value, _ in found], np.int64)
        return Scores(values, np.array([card for _, card in found], np.int64) if pod.cards == 1 else None)

    def _cases_of(self, pod: Demand, tables: _Pair, nodes: Iterable[_Node]) -> Iterator[_CaseKey]:
        """What the scores of nodes depend on."""
        wanted, taken, milli, count = pod.amount(CPU), pod.card_milli, pod.milli, pod.cards
        one = tables.one.lists()
        steps, height = one.steps, one.height
        full = tables.full.lists() if tables.full is not None else None
        full_before = full_after = 0
        for cpu, model, free in nodes:
            left = cpu - wanted
            if full is not None:
                whole = sum(free)
                full_before = full.level(cpu // _POD_COUNTS[whole // WHOLE], model)
                full_after = full.level(left // _POD_COUNTS[(whole - taken) // WHOLE], model)
            start = model * height
            before, after = start + bisect_right(steps, cpu), start + bisect_right(steps, left)
            yield count, milli, before, after, full_before, full_after, free

    def _look_up(self, key: _CaseKey, tables: _Pair) -> tuple[int, int]:
        """The score of a case, and the best card for a pod of one; one that was met before is not worked out again."""
        known = self._cases.get(key)
        if known is None:
            if len(self._cases) >= _CASES_KEPT:
                self._cases.clear()
            full = tables.full.lists() if tables.full is not None else None
            known = self._cases[key] = self._score_case(_Case(*key), tables.one.lists(), full)
        return known

    def _score_case(self, case: _Case, one: Lists, full: Lists | None) -> tuple[int, int]:
        """The same, worked out."""
        cards = [max(0, card) for card in case.free]
        offset = case.cards * case.milli * self._weight - one.usable(case.before, cards)
        if full is not None:
            offset -= full.usable(case.full_before, cards)
        if case.cards != 1:
            remaining = _taken(cards, case)
            gain = one.usable(case.after, remaining) + offset
            if full is not None:
                gain += full.usable(case.full_after, remaining)
            return (bisect_right(self._bound_list, gain) - 1) * self._factor, 0
        different = list(dict.fromkeys(cards))  # cards of which as much is free are worth the same
        gains = one.usable_by_card(case.after, cards, case.milli, different)
        if full is not None:
            gains = list(map(add, gains, full.usable_by_card(case.full_after, cards, case.milli, different)))
        values = [bisect_right(self._bound_list, gain + offset) for gain in gains]
        best = max(values)
        return (best - 1) * self._factor, cards.index(different[values.index(best)])

    def _tables_for(self, rows: NodeRows) -> _Pair:
        key = (rows.model_names, rows.card_width)
        if key not in self._known:
            one = Tables(self._typical, *key)
            full = Tables(self._typical_full, *key) if self._typical_full else None
            self._known[key] = _Pair(one, full, _steps(one, full, rows.card_width))
        return self._known[key]


def _pods_on(free: IntArray) -> IntArray:
    """How many pods of one card could be on cards with so much free: as many as are free in whole, and never none."""
    return np.clip(free // WHOLE, 1, PODS_COUNTED)


class _PodCounts(dict[int, int]):
    """The same for one node, by how many whole cards are free."""

    def __missing__(self, whole: int) -> int:
        return min(PODS_COUNTED, max(1, whole))


_POD_COUNTS = _PodCounts((whole, max(1, whole)) for whole in range(PODS_COUNTED + 1))


def _steps(one: Tables, full: Tables | None, card_width: int) -> IntArray:
    """The amounts of free cpu at which the levels of a node change."""
    steps = set(one.step_list)
    if full is not None:
        counts = range(1, min(PODS_COUNTED, card_width) + 1)
        steps |= {step * count for step in full.step_list for count in counts}
    return np.array(sorted(steps), np.int64)


def _merged(one: IntArray, other: IntArray) -> IntArray:
    """The numbers of two sorted lists, in order and each once."""
    both = np.concatenate((one, other))
    both.sort(kind="stable")  # which is linear where all is in order but for one place
    return both[np.concatenate(([True], both[1:] != both[:-1]))] if len(both) else both


def _nodes_at(cpu: IntArray, patterns: IntArray, rows: NodeRows) -> Iterator[_Node]:
    """Nodes with so much free cpu and the cards of these patterns."""
    for amount, pattern in zip(cpu.tolist(), patterns.tolist(), strict=True):
        model, cards = rows.cards_of_pattern(pattern)
        yield amount, model, cards


def _nodes_of(rows: NodeRows, kinds: IntArray, steps: IntArray) -> Iterator[_Node]:
    """A node of each kind of rows; kinds are numbered by pattern and then by the step that the free cpu has reached."""
    patterns, reached = np.divmod(kinds, len(steps) + 1)
    floors = np.concatenate((steps[:1] - 1, steps))[reached] if len(steps) else reached
    return _nodes_at(floors, patterns, rows)


def _without(cards: IntArray, pod: Demand) -> IntArray:
    """The cards as a pod of several leaves them: it takes the tightest that fit, of equals the first."""
    if not pod.cards:
        return cards
    order = np.where(cards >= pod.milli, cards, WHOLE + 1)
    rank = order.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return np.where((rank < pod.cards) & (cards >= pod.milli), cards - pod.milli, cards)


def _taken(cards: list[int], pod: _Case) -> list[int]:
    """The same for the cards of one node."""
    fitting = sorted((card, number) for number, card in enumerate(cards) if card >= pod.milli)[: pod.cards]
    left = list(cards)
    for card, number in fitting:
        left[number] = card - pod.milli
    return left


def _bounds(total_weight: int) -> IntArray:
    """From which gain on each whole score is reached: the logistic curve of the gain in cards, in hundredths.

    The first bound is for 0 itself: what lies below it is no score at all.
    """
    steps = [math.log(k / (SCALE - k)) * WHOLE * total_weight for k in range(1, SCALE)]
    return np.array([CANNOT // 2, *(math.ceil(step) for step in steps)], np.int64)
