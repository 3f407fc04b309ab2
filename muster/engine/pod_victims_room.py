"""Making room on rows: which running pods to take away first so that pods of one demand fit, and taking them.

For every row the pods that may go are lined up, cheapest first, and it is counted after how many of them how many more
pods fit; these steps of all rows together, cheapest first, are taken until there is room enough. The counting is over
columns; what is taken is released in the placer's table. Used by `pod_victims.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from muster.engine.arrays import grown
from muster.engine.gangs import ROOM_CAP, Member, may_stand
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.node_table_rows import WHOLE, BoolArray, Demand, IntArray, OnCards
from muster.engine.running_pods import RunningPods
from muster.model.slices import Slices

_BEYOND = 2**63 - 1  # more than anybody has, see `AMOUNT_CAP`

MayFollow = Callable[[Sequence[Member], Sequence[Member]], bool]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Pods that leave together: one that its gang can spare, or all that is left of a gang."""

    gang: int
    slots: tuple[int, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Line:
    """The pods that may go, row by row and within a row cheapest first, and the steps along it that make room."""

    slots: list[int]
    is_whole: list[bool]  # whether taking it takes its whole gang
    steps: list[tuple[int, int, tuple[int, bool]]]  # first of the row, last to go, how dear; cheapest first


class RoomMaker:
    """Takes running pods away until there is room, and remembers whom."""

    def __init__(
        self, placer: Placer, pods: RunningPods, is_open: BoolArray, *, may_follow: MayFollow | None = None
    ) -> None:
        self.placer = placer
        self.pods = pods
        self.taken: list[Bundle] = []
        self.whole: set[int] = set()  # gangs that left whole
        self._may_follow = may_follow
        self._candidates = is_open
        counts = np.array(pods.gangs.counts, np.int64)
        self._can_leave_whole = np.bincount(pods.gang[: pods.slots][is_open], minlength=len(counts)) == counts
        self._counts = counts
        self._spare = pods.spare()
        slots = np.flatnonzero(pods.is_running)
        gang = pods.gang[slots]
        self._gang_priority = np.full(len(counts), np.iinfo(np.int64).min)
        np.maximum.at(self._gang_priority, gang, pods.priority[slots])
        self._gang_started = np.full(len(counts), -np.inf)
        np.maximum.at(self._gang_started, gang, pods.started_at[slots])
        self._gang_rank = np.full(len(counts), len(slots))  # by the first name among its pods
        np.minimum.at(self._gang_rank, gang, pods.ranks()[slots])
        self.begin()

    def begin(self) -> None:
        """Start over with nobody taken; the table is the caller's to roll back."""
        self.taken.clear()
        self.whole.clear()
        self._is_open = self._candidates.copy()
        self._is_gone = np.zeros_like(self._is_open)
        self._is_whole_open = self._can_leave_whole.copy()
        self._left = self._counts.copy()
        self._spare_gang, self._spare_task = (spare.copy() for spare in self._spare)

    # Room ------------------------------------------------------------------------------------------------------------

    def room_at_best(self, demand: Demand) -> IntArray:
        """How many pods would fit on each row if all left who may."""
        table, pods = self.placer.table, self.pods
        slots = np.flatnonzero(self._can_go())
        rows = pods.row[slots]
        amounts = []
        for resource, _ in demand.amounts:
            free = table.rows().free(resource).copy()
            np.add.at(free, rows, pods.amounts(resource)[pods.demand[slots]])
            amounts.append(free)
        cards = table.rows().cards.copy()
        if demand.cards:
            np.add.at(cards, rows, self._cards_of(slots))
            np.minimum(cards, WHOLE, out=cards)
        return np.where(may_stand(self.placer, demand), _room(demand, amounts, cards), 0)

    def make_room(self, demand: Demand, count: int, *, beyond: int, within: BoolArray | None) -> bool:
        """Take pods away until so many fit, and at least so many beyond those that fit now; whether any was taken."""
        stands = may_stand(self.placer, demand)
        if within is not None:
            stands = stands & within
        if int(self.room_at_best(demand)[stands].sum()) < count:
            return False
        room = np.where(stands & self.placer.fits(demand), self._room_now(demand), 0)
        wanted = max(count, int(room.sum()) + beyond)
        before = len(self.taken)
        has_more = True
        while has_more and int(room.sum()) < wanted:
            has_more = self._take_round(demand, room, wanted=wanted, stands=stands)
        return len(self.taken) > before

    def _take_round(self, demand: Demand, room: IntArray, *, wanted: int, stands: BoolArray) -> bool:
        """Go along the steps until there is room, or until their order is out of date; whether that changed anything.

        `room` is brought up to date.
        """
        # Where the counted room is not to be had, it may be for somebody who is there.
        is_blocked = stands & (self._room_now(demand) > 0) & ~self.placer.fits(demand)
        line = self._line_up(demand, stands, is_blocked)
        total = int(room.sum())
        dearest: tuple[int, bool] | None = None  # a step that was put off because it is dearer now than when lined up
        has_changed = False
        for first, last, dear in line.steps:
            if total >= wanted or (dearest is not None and dear > dearest):
                break
            ahead = [index for index in range(first, last + 1) if not self._is_gone[line.slots[index]]]
            if not ahead:
                continue
            bundles = self._bundles([line.slots[index] for index in ahead], [line.is_whole[index] for index in ahead])
            has_changed = has_changed or bool(bundles)
            if not bundles or not self._are_let_go(bundles):
                dearest = dear if dearest is None else dearest
                continue
            for bundle in bundles:
                self._take(bundle)
            index = np.unique(self.pods.row[[slot for bundle in bundles for slot in bundle.slots]])
            can_stand = stands[index]
            if is_blocked[index].any():
                can_stand = can_stand & self.placer.fits(demand)[index]
            now = np.where(can_stand, self._room_now(demand, index), 0)
            total += int(now.sum() - room[index].sum())
            room[index] = now
        return has_changed

    def _room_now(self, demand: Demand, index: IntArray | None = None) -> IntArray:
        rows = self.placer.table.rows(index)
        return _room(demand, [rows.free(resource) for resource, _ in demand.amounts], rows.cards)

    # Taking ----------------------------------------------------------------------------------------------------------

    def _can_go(self) -> BoolArray:
        """Who may still go, by slot: spared by its gang, or with all of it."""
        slots = self.pods.slots
        gang, task = self.pods.gang[:slots], self.pods.task[:slots]
        is_spare = (self._spare_gang[gang] > 0) & (self._spare_task[task] > 0)
        can_go: BoolArray = self._is_open & (is_spare | self._is_whole_open[gang])
        return can_go

    def _bundles(self, slots: Sequence[int], is_whole: Sequence[bool]) -> list[Bundle]:
        """The bundles that these pods leave in; none when that is not possible any more as it was lined up."""
        bundles: list[Bundle] = []
        spare_gang, spare_task = Counter[int](), Counter[int]()
        whole: dict[int, None] = {}  # in the order of the line
        for slot, leaves_whole in zip(slots, is_whole, strict=True):
            gang, task = int(self.pods.gang[slot]), int(self.pods.task[slot])
            if not self._is_open[slot] or (leaves_whole and not self._is_whole_open[gang]):
                return []
            if leaves_whole:
                whole[gang] = None
                continue
            spare_gang[gang] += 1
            spare_task[task] += 1
            if spare_gang[gang] > self._spare_gang[gang] or spare_task[task] > self._spare_task[task]:
                return []
            bundles.append(Bundle(gang, (slot,), is_whole=False))
        alone = {bundle.slots[0] for bundle in bundles}
        for gang in whole:
            rest = [slot for slot in self.pods.slots_of(gang) if not self._is_gone[slot] and slot not in alone]
            rest.sort(key=self.pods.ranks().__getitem__)
            bundles.append(Bundle(gang, tuple(rest), is_whole=True))
        return bundles

    def _are_let_go(self, bundles: Iterable[Bundle]) -> bool:
        """Whether these may go after those before them; if not, they are not asked again."""
        if self._may_follow is None:
            return True
        before = [self.pods.member(slot) for bundle in self.taken for slot in bundle.slots]
        leaving = [self.pods.member(slot) for bundle in bundles for slot in bundle.slots]
        if self._may_follow(leaving, before):
            return True
        for bundle in bundles:
            self._is_open[list(bundle.slots)] = False
            self._is_whole_open[bundle.gang] = False
        return False

    def _take(self, bundle: Bundle) -> None:
        slots = list(bundle.slots)
        self._is_gone[slots] = True
        self._is_open[slots] = False
        self._left[bundle.gang] -= len(slots)
        if bundle.is_whole:
            self.whole.add(bundle.gang)
            self._is_whole_open[bundle.gang] = False
        else:
            self._spare_gang[bundle.gang] -= 1
            self._spare_task[self.pods.task[slots[0]]] -= 1
        self.taken.append(bundle)
        for row, demand, held in self._holdings(bundle):
            self.placer.release(row, demand, *held)

    def _holdings(self, bundle: Bundle) -> list[tuple[int, Demand, list[OnCards]]]:
        """What the pods of a bundle hold, alike pods of a row together."""
        holdings: dict[tuple[int, int], list[OnCards]] = {}
        for slot in bundle.slots:
            key = int(self.pods.row[slot]), int(self.pods.demand[slot])
            holdings.setdefault(key, []).append(self.pods.member(slot).place.held)
        return [(row, self.pods.demands.keys[number], held) for (row, number), held in holdings.items()]

    def put_back(self, bundle: Bundle) -> bool:
        """Act as if a bundle had not left; whether there was room for it. If not, the caller rolls back."""
        holdings = self._holdings(bundle)
        for row, demand, held in holdings:
            self.placer.charge(row, demand, *held, is_hold=True)
        return all(is_within(self.placer.table, row, demand, held) for row, demand, held in holdings)

    # Lining up -------------------------------------------------------------------------------------------------------

    def _line_up(self, demand: Demand, stands: BoolArray, is_blocked: BoolArray) -> _Line:
        """Everybody whose leaving helps, row by row, and the steps that make room, cheapest first."""
        pods = self.pods
        slots = np.flatnonzero(self._can_go() & stands[pods.row[: pods.slots]])
        slots = slots[self._helps(demand, slots) | is_blocked[pods.row[slots]]]
        is_whole = self._is_whole(slots)
        gang, row = pods.gang[slots], pods.row[slots]
        priority = np.where(is_whole, self._gang_priority[gang], pods.priority[slots])
        size = np.where(is_whole, self._left[gang], 1)
        started = np.where(is_whole, self._gang_started[gang], pods.started_at[slots])
        together = np.where(is_whole, self._gang_rank[gang], -1)  # pods that leave together stand together
        order = np.lexsort((pods.ranks()[slots], together, -started, size, is_whole, priority, row))
        slots, is_whole, row, priority = slots[order], is_whole[order], row[order], priority[order]
        started, together, size = started[order], together[order], size[order]
        if not len(slots):
            return _Line([], [], [])
        is_first = np.ones(len(slots), np.bool_)
        is_first[1:] = row[1:] != row[:-1]
        is_same = np.zeros(len(slots), np.bool_)
        is_same[1:] = is_whole[1:] & ~is_first[1:] & (together[1:] == together[:-1])
        gain = np.maximum(self._gains(demand, slots, is_first), is_blocked[row])
        last = np.flatnonzero(gain > 0)
        starts = np.flatnonzero(is_first)
        row_start = starts[np.cumsum(is_first)[last] - 1]
        begin = row_start.copy()
        begin[1:] = np.maximum(row_start[1:], last[:-1] + 1)
        pods_gone = np.concatenate(([0], np.cumsum(np.where(is_same, 0, size))))
        per_pod = (pods_gone[last + 1] - pods_gone[begin]) / gain[last]
        best = np.lexsort((row[last], -started[last], per_pod, is_whole[last], priority[last]))
        last, row_start = last[best], row_start[best]
        dear = zip(priority[last].tolist(), is_whole[last].tolist(), strict=True)
        steps = list(zip(row_start.tolist(), last.tolist(), dear, strict=True))
        return _Line(slots.tolist(), is_whole.tolist(), steps)

    def _helps(self, demand: Demand, slots: IntArray) -> BoolArray:
        """Whether a pod holds something of which its row has too little for one more such pod."""
        rows, pods = self.placer.table.rows(), self.pods
        room = self._room_now(demand)
        row = pods.row[slots]
        helps = np.zeros(len(slots), np.bool_)
        for resource, amount in demand.amounts:
            is_scarce = rows.free(resource) // _divisor(amount) <= room
            helps |= is_scarce[row] & (pods.amounts(resource)[pods.demand[slots]] > 0)
        if demand.cards:
            is_scarce = _room_on_cards(demand, rows.cards) <= room
            helps |= is_scarce[row] & pods.card_milli[slots].any(axis=1)
        return helps

    def _is_whole(self, slots: IntArray) -> BoolArray:
        """Whether a pod's leaving takes its gang along: on one row a gang spares no more pods than it can in all."""
        pods = self.pods
        gang, task = pods.gang[slots], pods.task[slots]
        is_whole = (self._spare_gang[gang] <= 0) | (self._spare_task[task] <= 0)
        for number, spare in ((task, self._spare_task), (gang, self._spare_gang)):
            at = np.flatnonzero(~is_whole)
            order = np.lexsort((pods.ranks()[slots[at]], -pods.started_at[slots[at]], number[at], pods.row[slots[at]]))
            at = at[order]
            is_new = np.ones(len(at), np.bool_)
            row = pods.row[slots[at]]
            is_new[1:] = (row[1:] != row[:-1]) | (number[at][1:] != number[at][:-1])
            since = np.arange(len(at)) - np.flatnonzero(is_new)[np.cumsum(is_new) - 1] if len(at) else at
            is_whole[at] = since >= spare[number[at]]
        return is_whole

    def _gains(self, demand: Demand, slots: IntArray, is_first: BoolArray) -> IntArray:
        """How many more pods fit once each of these, and those before it on its row, has left."""
        rows = self.placer.table.rows(self.pods.row[slots])
        amounts = [
            rows.free(resource) + _sums(self.pods.amounts(resource)[self.pods.demand[slots]], is_first)
            for resource, _ in demand.amounts
        ]
        cards = rows.cards
        if demand.cards:
            cards = np.minimum(cards + _sums(self._cards_of(slots), is_first), WHOLE)
        after = _room(demand, amounts, cards)
        before = np.empty_like(after)
        before[1:] = after[:-1]
        before[is_first] = self._room_now(demand, self.pods.row[slots[is_first]])
        return after - before

    def _cards_of(self, slots: IntArray) -> IntArray:
        """What pods hold of cards, as wide as the table's."""
        width = self.placer.table.cards.shape[1]
        held = self.pods.card_milli[slots, :width]
        return grown(held, 0, width - held.shape[1])


def is_within(table: NodeTable, row: int, demand: Demand, held: Sequence[OnCards]) -> bool:
    """Whether a row has what pods like this hold of it, none of it given out twice."""
    for resource, _ in demand.amounts:
        column = table.column_of(resource)
        if column is not None and table.free[column, row] < 0:
            return False
    if table.slices.is_known(row):
        return table.slices.is_sound(row, held)
    return all(table.cards[row, card] >= 0 for one in held if not isinstance(one, Slices) for card in one)


def _room(demand: Demand, amounts: Sequence[IntArray], cards: IntArray) -> IntArray:
    """How many pods fit where so much is free of each resource that they ask for and of each card."""
    room = np.full(len(cards), ROOM_CAP, np.int64)
    for free, (_, amount) in zip(amounts, demand.amounts, strict=True):
        room = np.minimum(room, free // _divisor(amount))
    if demand.cards:
        room = np.minimum(room, _room_on_cards(demand, cards))
    return np.maximum(room, 0)


def _room_on_cards(demand: Demand, cards: IntArray) -> IntArray:
    parts = np.maximum(cards, 0) // demand.milli
    room: IntArray = parts.sum(axis=1) // demand.cards
    if demand.cards > 1:
        room = np.where((parts > 0).sum(axis=1) >= demand.cards, room, 0)
    return room


def _divisor(amount: int) -> int:
    """What to divide by to count pods: nothing asked for is never short, and more than a cell holds is never there."""
    return min(max(1, amount), _BEYOND)


def _sums(values: IntArray, is_first: BoolArray) -> IntArray:
    """Running sums that start over at each first one."""
    sums = np.cumsum(values, axis=0)
    starts = np.flatnonzero(is_first)
    before = sums[starts] - values[starts]
    result: IntArray = sums - before[np.cumsum(is_first) - 1]
    return result
