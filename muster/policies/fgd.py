"""fgd: place where the fragmentation of cards grows least (fragmentation gradient descent, USENIX ATC 2023).

Free cards of a node are fragmented for a kind of pod when it cannot run there: all of them where the node lacks cpu,
cards or the model, else those with less free than one of its cards needs. The fragmentation of a node is the mean over
typical pods, weighted by how frequent they are; pods without cards count all free cards as lost to them. The score of a
node is how much its fragmentation shrinks, put on a scale of whole numbers from 0 to 100: near ties are ties on
purpose, finer scores place worse. Everything is counted in whole numbers, so the order of summing cannot matter.

One thing the published rule does not see: that a node has cpu for one more pod does not mean that it has cpu for a pod
on each of its free cards. So cards count in full for a kind of pod only where cpu is left for as many of them as whole
cards are free, and half where it is left for one pod (`counts_cpu`; without it the rule is the published one).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import add
from typing import NamedTuple

import numpy as np

from muster.engine.node_table_rows import WHOLE, Demand, IntArray, NodeRows, Scores, demand
from muster.engine.policy import Hooks, Policy
from muster.model.pod_rules import ANYWHERE
from muster.model.resources import CPU

SCALE = 100  # the best score
PODS_COUNTED = 16  # on free cards of one node that cpu is looked for
KINDS_MOST = 512  # that are learned; what is looked up grows with them
_CANNOT = -(2**61)  # below any gain
_TAKES_KEPT = 64
_MANY = 256  # from so many rows on it pays to look for equal ones
_LISTED_MOST = 1_000_000  # cells of a table that is also kept as lists
_SPARSE = 32  # and only while there are not many more kinds than rows
_FEW = 24  # up to so many rows are done one by one
_CASES_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class TypicalPod:
    """A kind of pod that is expected to come, and how often compared with the others."""

    demand: Demand
    weight: int


# A mix for clusters whose pods are not known yet: mostly single cards, some parts of cards, some big jobs.
USUAL_MIX = (
    TypicalPod(demand({CPU: 8_000}, cards=1), 50),
    TypicalPod(demand({CPU: 4_000}, cards=1, milli=500), 20),
    TypicalPod(demand({CPU: 2_000}, cards=1, milli=250), 10),
    TypicalPod(demand({CPU: 16_000}, cards=2), 5),
    TypicalPod(demand({CPU: 32_000}, cards=4), 5),
    TypicalPod(demand({CPU: 64_000}, cards=8), 10),
)


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What is expected to come, unless that is learned from the pods that come; weight multiplies the score."""

    typical: tuple[TypicalPod, ...] = USUAL_MIX
    learns: bool = True
    counts_cpu: bool = True  # whether cards count in full only with cpu for all of them
    weight: int = 1


def typical_pods(demands: Iterable[Demand], *, percent: int = 95) -> tuple[TypicalPod, ...]:
    """The most frequent kinds among pods, as many as make up `percent` of them."""
    return typical_of(Counter(demands), percent=percent)


def typical_of(seen: Mapping[Demand, int], *, percent: int = 95) -> tuple[TypicalPod, ...]:
    """The same from how often each demand came; only cpu and cards tell kinds apart."""
    kinds: Counter[Demand] = Counter()
    for one, count in seen.items():
        kinds[_kind(one)] += count
    wanted = sum(kinds.values()) * percent
    typical: list[TypicalPod] = []
    covered = 0
    # Of equally frequent kinds the bigger go first: it decides which of them are still taken in.
    for kind, count in sorted(kinds.items(), key=lambda item: (item[1], _size(item[0])), reverse=True):
        if covered * 100 >= wanted:
            break
        covered += count
        typical.append(TypicalPod(kind, count))
    return tuple(typical)


def _learned(seen: Mapping[Demand, int]) -> tuple[TypicalPod, ...]:
    """The kinds of pods that came: of few pods even the rare ones tell something, of many kinds only the rough ones."""
    kinds: Counter[Demand] = Counter()
    for one, count in seen.items():
        kinds[_kind(one)] += count
    if len(kinds) > KINDS_MOST:
        rough: Counter[tuple[int, int, int, tuple[str, ...]]] = Counter()
        for kind, count in kinds.items():
            cpu = kind.amount(CPU)
            rough[1 << (cpu - 1).bit_length() if cpu else 0, kind.cards, kind.milli, kind.models] += count
        kinds = Counter(
            {
                demand({CPU: cpu}, cards=cards, milli=milli, models=models): count
                for (cpu, cards, milli, models), count in rough.items()
            }
        )
    return typical_of(dict(kinds.most_common(KINDS_MOST)), percent=100)


def _kind(one: Demand) -> Demand:
    amounts = tuple([pair for pair in one.amounts if pair[0] == CPU])
    is_plain = len(amounts) == len(one.amounts) and one.rules is ANYWHERE and one.ask is None
    return one if is_plain else Demand(amounts, one.cards, one.milli, one.models)


def _size(kind: Demand) -> tuple[int, int, int, tuple[str, ...]]:
    return kind.amount(CPU), kind.milli, kind.cards, kind.models


# What is usable ------------------------------------------------------------------------------------------------------


class _Tables:
    """How much of a node's free cards the typical pods can use, all of them together, ready to be looked up.

    Pods of one card use each card by itself, so their part is a sum over cards of what is looked up by free cpu and the
    card's free share. Pods of several cards use them only if there are enough, so their part is looked up by how many
    there are. A level is a row of these tables: so much free cpu, on nodes of one card model.
    """

    def __init__(self, typical: tuple[TypicalPod, ...], models: tuple[str, ...], width: int) -> None:
        self.steps = np.array(sorted({one.demand.amount(CPU) for one in typical}), np.int64)
        self.has_models = any(one.demand.models for one in typical)
        self.height = len(self.steps) + 1
        shape = (len(models) if self.has_models else 1, self.height)
        single = np.zeros((*shape, WHOLE + 1), np.int64)
        shares = sorted({one.demand.milli for one in typical if one.demand.cards > 1} | {WHOLE})
        several = {milli: np.zeros((*shape, width + 1), np.int64) for milli in shares}
        free = np.arange(WHOLE + 1)
        for one in typical:
            wants = one.demand
            start = int(np.searchsorted(self.steps, wants.amount(CPU))) + 1
            for number in range(shape[0]):
                if wants.models and models[number] not in wants.models:
                    continue
                if wants.cards == 1:
                    single[number, start:] += np.where(free >= wants.milli, free, 0) * one.weight
                elif wants.cards > 1:
                    several[wants.milli][number, start:, wants.cards :] += one.weight
        self.single = single.reshape(-1, WHOLE + 1)
        self.whole = several.pop(WHOLE).reshape(-1, width + 1) * np.arange(width + 1) * WHOLE
        self.parts = {milli: table.reshape(-1, width + 1) for milli, table in several.items()}
        self.step_list: list[int] = self.steps.tolist()
        self._takes: dict[int, IntArray] = {}
        self._lists: _Lists | None = None

    @property
    def is_small(self) -> bool:
        """Whether a copy as plain lists is worth its memory."""
        return self.single.size <= _LISTED_MOST

    def lists(self) -> _Lists:
        """The same tables as plain lists: for a single node they are looked up several times as fast."""
        if self._lists is None:
            parts = tuple((milli, table.tolist()) for milli, table in self.parts.items())
            height = self.height if self.has_models else 0
            self._lists = _Lists(self.step_list, height, self.single.tolist(), self.whole.tolist(), parts)
        return self._lists

    def level(self, cpu: IntArray, rows: NodeRows) -> IntArray:
        """The level of nodes with so much free cpu."""
        level = self.steps.searchsorted(cpu, side="right")
        return level + rows.model * self.height if self.has_models else level

    def usable(self, level: IntArray, cards: IntArray) -> IntArray:
        """What all typical pods can use of each node's cards, weighted."""
        total: IntArray = self.single[level[:, None], cards].sum(axis=1)
        total += self.whole[level, (cards == WHOLE).sum(axis=1)]
        for milli, table in self.parts.items():
            serves = cards >= milli
            total += table[level, serves.sum(axis=1)] * np.where(serves, cards, 0).sum(axis=1)
        return total

    def usable_by_card(self, level: IntArray, cards: IntArray, taken: int) -> IntArray:
        """The same when a share of one card is taken, for each card; hugely negative where the card has it not."""
        at = level[:, None]
        is_whole = cards == WHOLE
        wholes = is_whole.sum(axis=1)[:, None] - is_whole  # a card that something is taken from is whole no more
        total: IntArray = self.single[at, cards].sum(axis=1)[:, None] + self._take(taken)[at, cards]
        total += self.whole[at, wholes]
        for milli, table in self.parts.items():
            left = cards - taken
            served, serves = cards >= milli, left >= milli
            part = np.where(served, cards, 0)
            part = part.sum(axis=1)[:, None] - part + np.where(serves, left, 0)
            total += table[at, served.sum(axis=1)[:, None] - served + serves] * part
        return total

    def _take(self, taken: int) -> IntArray:
        """What pods of one card can use less of a card, by level and its free share, when so much of it is taken."""
        known = self._takes.get(taken)
        if known is None:
            if len(self._takes) >= _TAKES_KEPT:
                self._takes.clear()
            known = np.full_like(self.single, _CANNOT)
            known[:, taken:] = self.single[:, : WHOLE + 1 - taken] - self.single[:, taken:]
            self._takes[taken] = known
        return known


Rows = list[list[int]]


class _Lists(NamedTuple):
    """The tables for one node at a time."""

    steps: list[int]
    height: int  # 0: models do not matter
    single: Rows
    whole: Rows
    parts: tuple[tuple[int, Rows], ...]

    def level(self, cpu: int, model: int) -> int:
        return bisect_right(self.steps, cpu) + model * self.height

    def usable(self, level: int, cards: list[int]) -> int:
        single = self.single[level]
        total = sum([single[card] for card in cards]) + self.whole[level][cards.count(WHOLE)]
        for milli, table in self.parts:
            serving = [card for card in cards if card >= milli]
            total += table[level][len(serving)] * sum(serving)
        return total

    def usable_by_card(self, level: int, cards: list[int], taken: int) -> list[int]:
        """What is usable when a share of one card is taken, for each card; hugely negative where it has it not."""
        single, whole = self.single[level], self.whole[level]
        base, wholes = sum([single[card] for card in cards]), cards.count(WHOLE)
        totals = []
        for card in cards:
            if card < taken:
                totals.append(_CANNOT)
                continue
            left = card - taken
            total = base - single[card] + single[left] + whole[wholes - (card == WHOLE)]
            for milli, table in self.parts:
                serving = [other for other in cards if other >= milli]
                count, part = len(serving), sum(serving)
                if card >= milli:
                    count, part = count - 1, part - card
                if left >= milli:
                    count, part = count + 1, part + left
                total += table[level][count] * part
            totals.append(total)
        return totals


# Scores --------------------------------------------------------------------------------------------------------------

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


class _Pair(NamedTuple):
    """What counts where cpu is left for one pod, and what pods of one card count on top where it is left for all."""

    one: _Tables
    full: _Tables | None  # None: nothing
    steps: IntArray  # the amounts of free cpu at which any of it changes


class _Scorer:
    """Scores of nodes for one list of typical pods."""

    def __init__(self, arguments: Arguments) -> None:
        self._typical, self._factor = arguments.typical, arguments.weight
        self._typical_full: tuple[TypicalPod, ...] = ()
        if arguments.counts_cpu:
            several = [TypicalPod(one.demand, 2 * one.weight) for one in self._typical if one.demand.cards != 1]
            self._typical_full = tuple(one for one in self._typical if one.demand.cards == 1)
            self._typical = (*self._typical_full, *several)
        self._weight = max(1, sum(one.weight for one in (*self._typical, *self._typical_full)))
        self._bounds = _bounds(self._weight)
        self._bound_list = self._bounds.tolist()
        self._known: dict[tuple[tuple[str, ...], int], _Pair] = {}
        self._cases: dict[_Case, tuple[int, int]] = {}

    def score(self, pod: Demand, rows: NodeRows) -> Scores:
        """The scores of rows, one by one where there are few of them, else of each kind once."""
        tables = self._tables_for(rows)
        is_listed = rows.card_width > 0 and tables.one.is_small
        if is_listed and len(rows) <= _FEW:
            nodes = zip(rows.free(CPU).tolist(), rows.model.tolist(), map(tuple, rows.cards.tolist()), strict=True)
            return self._score_listed(pod, tables, nodes)
        if len(rows) < _MANY:
            return self._score_each(pod, rows)
        # Rows whose cards are alike and whose cpu falls into the same steps, before and after, score the same.
        if rows.pattern_count * len(tables.one.step_list) > _SPARSE * len(rows):
            return self._score_each(pod, rows)
        both = _merged(tables.steps, tables.steps + pod.amount(CPU))
        height = len(both) + 1
        size = rows.pattern_count * height
        if size > _SPARSE * len(rows):
            return self._score_each(pod, rows)
        kind = both.searchsorted(rows.free(CPU), side="right")
        kind += rows.pattern * height
        kinds = np.flatnonzero(np.bincount(kind, minlength=size))
        if is_listed and len(kinds) <= _FEW:
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
        """The same for a few nodes; a case that was met before is only looked up."""
        wanted, values, cards = pod.amount(CPU), [], []
        one = tables.one.lists()
        full = tables.full.lists() if tables.full is not None else None
        taken, milli, count = pod.card_milli, pod.milli, pod.cards
        full_before = full_after = 0
        for cpu, model, free in nodes:
            left = cpu - wanted
            if full is not None:
                whole = sum(free)
                full_before = full.level(cpu // _POD_COUNTS[whole // WHOLE], model)
                full_after = full.level(left // _POD_COUNTS[(whole - taken) // WHOLE], model)
            before, after = one.level(cpu, model), one.level(left, model)
            case = _Case(count, milli, before, after, full_before, full_after, free)
            known = self._cases.get(case)
            if known is None:
                if len(self._cases) >= _CASES_KEPT:
                    self._cases.clear()
                known = self._cases[case] = self._score_case(case, one, full)
            values.append(known[0])
            cards.append(known[1])
        return Scores(np.array(values, np.int64), np.array(cards, np.int64) if pod.cards == 1 else None)

    def _score_case(self, case: _Case, one: _Lists, full: _Lists | None) -> tuple[int, int]:
        """The score, and the best card for a pod of one."""
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
        gains = one.usable_by_card(case.after, cards, case.milli)
        if full is not None:
            gains = list(map(add, gains, full.usable_by_card(case.full_after, cards, case.milli)))
        values = [bisect_right(self._bound_list, gain + offset) for gain in gains]
        best = max(values)
        return (best - 1) * self._factor, values.index(best)

    def _tables_for(self, rows: NodeRows) -> _Pair:
        key = (rows.model_names, rows.card_width)
        if key not in self._known:
            one = _Tables(self._typical, *key)
            full = _Tables(self._typical_full, *key) if self._typical_full else None
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


def _steps(one: _Tables, full: _Tables | None, card_width: int) -> IntArray:
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


def _nodes_of(rows: NodeRows, kinds: IntArray, steps: IntArray) -> Iterator[_Node]:
    """A node of each kind of rows; kinds are numbered by pattern and then by the step that the free cpu has reached."""
    patterns, reached = np.divmod(kinds, len(steps) + 1)
    floors = np.concatenate((steps[:1] - 1, steps))[reached] if len(steps) else reached
    for pattern, floor in zip(patterns.tolist(), floors.tolist(), strict=True):
        model, cards = rows.cards_of_pattern(pattern)
        yield floor, model, cards


def build(arguments: Arguments) -> Hooks:
    def adapt(seen: Mapping[Demand, int]) -> Hooks:
        return build(replace(arguments, typical=_learned(seen) or USUAL_MIX))

    return Hooks(score=_Scorer(arguments).score, adapt=adapt if arguments.learns else None)


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
    return np.array([_CANNOT // 2, *(math.ceil(step) for step in steps)], np.int64)


POLICY = Policy(name="fgd", arguments=Arguments, build=build)
