"""How many pods of one kind, and how many slices of them, fit in every domain; counted from the leaves up.

A `Counts` belongs to one kind of pod (and its leader, if it has one) and one way of slicing. It is kept between
searches: only the leaves that changed since are counted again. `Ranking` puts domains in order for the search.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Union

from muster.engine.topology_leaves import LeafCounts, Need
from muster.engine.topology_tree import DomainTree

if TYPE_CHECKING:
    from muster.engine.topology_arrays import LeafOrder, Numbers

REBUILD_LEAST = 16  # changed leaves from which on counting all of them may be quicker

Key = tuple[int, int, int]  # how much of the ask fits, how many pods fit, position: the order of domains
Order = Union[list[Key], "LeafOrder"]
Levels = list[list[int]]  # a number for every domain of every level


@dataclass(frozen=True, slots=True)
class Slicing:
    """How pods hang together: slices of `size` within one domain of a level, and smaller slices inside of them."""

    level: int
    size: int
    inner: tuple[tuple[int, int], ...] = ()  # (level, size), outermost first

    def rounding(self, level: int) -> int:
        """A domain of this level holds pods only in multiples of this."""
        return next((size for at, size in self.inner if at == level), 1)

    def unit(self, level: int) -> int:
        """How many pods go to a domain of this level at a time: those of the next slices at or below it."""
        return next((size for at, size in self.inner if at >= level), 1)


class Ranking:
    """Domains in the order in which they are taken. Groups differ in how much they are liked; the best comes first."""

    __slots__ = ("groups",)

    def __init__(self, groups: Sequence[Sequence[Key]]) -> None:
        self.groups = groups  # each in ascending order

    def smallest(self, need: int, *, top_only: bool = False) -> Key | None:
        """The tightest domain that takes all of it."""
        for group in self.groups[:1] if top_only else self.groups:
            index = bisect_left(group, (need,))
            if index < len(group):
                return group[index]
        return None

    @property
    def most(self) -> int:
        """What fits in one domain at best."""
        return max((group[-1][0] for group in self.groups if group), default=0)

    @property
    def total(self) -> int:
        return sum(key[0] for group in self.groups for key in group)


def walk(group: Sequence[Key], *, is_descending: bool, least: int = 1) -> Iterator[Key]:
    """A group from the fullest or the emptiest domain on; equals always in the order of fewer pods, then of names."""
    start, end = bisect_left(group, (least,)), len(group)
    if not is_descending:
        for index in range(start, end):
            yield group[index]
        return
    while end > start:
        begin = bisect_left(group, (group[end - 1][0],), start, end)
        for index in range(begin, end):
            yield group[index]
        end = begin


class Counts:
    """The counts of one kind of pod in one tree."""

    def __init__(self, tree: DomainTree, column: int, *, need: Need, leader: Need | None, slicing: Slicing) -> None:
        self.layout = tree.layout
        self.slicing = slicing
        self.has_leader = leader is not None
        depth = self.layout.depth
        self.pods: Levels = [[] for _ in range(depth + 1)]
        self.slices: Levels = [[] for _ in range(depth + 1)]  # empty below the level of the slices
        # The same with one leader in the domain, where a leader fits; without a leader they stay empty.
        self.leads: Levels = [[] for _ in range(depth + 1)]
        self.pods_led: Levels = [[] for _ in range(depth + 1)]
        self.slices_led: Levels = [[] for _ in range(depth + 1)]
        self._leaves = LeafCounts(tree, column, need=need, leader=leader)
        self._rounding = [slicing.rounding(level) for level in range(depth + 1)]
        self._orders: dict[int, Order] = {}  # by level, made when first asked for
        self._led_orders: dict[int, list[Key]] = {}
        self._fresh: Numbers | None = None  # the pods of the leaves as they were just counted, until one changes
        self._epoch, self._seen = -1, 0

    # Reading ---------------------------------------------------------------------------------------------------------

    def order(self, level: int) -> Order:
        """All domains of a level in ascending order."""
        found = self._orders.get(level)
        if found is None and level == self.layout.depth and self._fresh is not None:
            from muster.engine.topology_arrays import LeafOrder  # loads numpy: a small cluster does without

            found = self._orders[level] = LeafOrder(self._fresh)
        elif found is None:
            rows = zip(self.slices[level], self.pods[level], range(self.layout.size(level)), strict=True)
            found = self._orders[level] = sorted(rows)
        return found

    def led_order(self, level: int) -> list[Key]:
        """The domains of a level that can take a leader, counted with it."""
        found = self._led_orders.get(level)
        if found is None:
            positions = range(self.layout.size(level))
            found = self._led_orders[level] = sorted(
                (self.slices_led[level][i], self.pods_led[level][i], i) for i in positions if self.leads[level][i]
            )
        return found

    def keys(self, level: int, positions: Iterable[int]) -> Iterator[Key]:
        """Domains at or above the slices, by slices."""
        slices, pods = self.slices[level], self.pods[level]
        return ((slices[i], pods[i], i) for i in positions)

    def led_keys(self, level: int, positions: Iterable[int]) -> Iterator[Key]:
        slices, pods, leads = self.slices_led[level], self.pods_led[level], self.leads[level]
        return ((slices[i], pods[i], i) for i in positions if leads[i])

    def unit_keys(self, level: int, positions: Iterable[int], unit: int) -> Iterator[Key]:
        """Domains below the slices, by how many units of pods they take."""
        pods = self.pods[level]
        return ((pods[i] // unit, pods[i], i) for i in positions)

    def led_unit_keys(self, level: int, positions: Iterable[int], unit: int) -> Iterator[Key]:
        pods, leads = self.pods_led[level], self.leads[level]
        return ((pods[i] // unit, pods[i], i) for i in positions if leads[i])

    # Keeping up ------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Count again what changed since the last time."""
        column = self._leaves.column
        changed = column.changed
        if self._epoch != column.epoch:
            self._build()
        elif self._seen < len(changed):
            positions = set(changed[self._seen :])
            if len(positions) > REBUILD_LEAST + len(column.frees) // 8:
                self._build()
            elif self.has_leader:
                self._update_led(positions)
            else:
                self._update(positions)
        self._epoch, self._seen = column.epoch, len(changed)

    def _build(self) -> None:
        self._orders, self._led_orders, self._fresh = {}, {}, None
        if self.has_leader:
            self._build_led()
            return
        layout, slicing = self.layout, self.slicing
        counted = self._leaves.array()
        self.pods[layout.depth] = counted.tolist() if counted is not None else self._leaves.all_pods()
        for level in range(layout.depth - 1, -1, -1):
            below, size = self.pods[level + 1], self._rounding[level + 1]
            if size > 1:
                below = [pods - pods % size for pods in below]
            self.pods[level] = [sum(below[start:end]) for start, end in pairwise(layout.first[level])]
        if slicing.level == layout.depth and slicing.size == 1:
            self.slices, self._fresh = self.pods, counted
            return
        self.slices[slicing.level] = [pods // slicing.size for pods in self.pods[slicing.level]]
        for level in range(slicing.level - 1, -1, -1):
            below = self.slices[level + 1]
            self.slices[level] = [sum(below[start:end]) for start, end in pairwise(layout.first[level])]

    def _update(self, positions: Iterable[int]) -> None:
        """Carry the changes of leaves up to the whole, a level at a time."""
        self._fresh = None
        gains = {
            position: (after - before, 0)
            for position in positions
            if (after := self._leaves.pods(position)) != (before := self.pods[self.layout.depth][position])
        }
        for level in range(self.layout.depth, -1, -1):
            above: dict[int, tuple[int, int]] = {}
            size = self._rounding[level]
            for position, gain in gains.items():
                before, after, slices = self._gain(level, position, *gain)
                parent = self.layout.parents[level][position] if level else 0
                pods = (after - after % size) - (before - before % size)
                if pods or slices:
                    known = above.get(parent, (0, 0))
                    above[parent] = known[0] + pods, known[1] + slices
            gains = above

    def _gain(self, level: int, position: int, pods: int, slices: int) -> tuple[int, int, int]:
        """Add pods and slices to a domain; how many pods it had and has, and how many slices it gained."""
        before = self.pods[level][position]
        after = before + pods
        if level > self.slicing.level:
            self.pods[level][position] = after
            return before, after, 0
        held = self.slices[level][position]
        if self.slices is self.pods:
            slices = pods
        elif level == self.slicing.level:
            slices = after // self.slicing.size - held
        self.pods[level][position] = after
        self.slices[level][position] = held + slices
        if level in self._orders:
            _move(self._orders[level], (held, before, position), (held + slices, after, position))
        return before, after, slices

    # With a leader ---------------------------------------------------------------------------------------------------

    def _build_led(self) -> None:
        layout, slicing = self.layout, self.slicing
        leaves = layout.depth
        rows = self._leaves.all_led()
        self.pods[leaves] = self._leaves.all_pods()
        self.leads[leaves] = [leads for leads, _ in rows]
        self.pods_led[leaves] = [pods for _, pods in rows]
        size = slicing.size if slicing.level == leaves else 0
        self.slices[leaves] = [pods // size if size else 0 for pods in self.pods[leaves]]
        self.slices_led[leaves] = [pods // size if size else 0 for pods in self.pods_led[leaves]]
        for level in range(leaves - 1, -1, -1):
            for numbers in (self.pods, self.slices, self.leads, self.pods_led, self.slices_led):
                numbers[level] = [0] * layout.size(level)
            for position in range(layout.size(level)):
                self._put_led(level, position)

    def _update_led(self, positions: Iterable[int]) -> None:
        dirty = set(positions)
        for level in range(self.layout.depth, -1, -1):
            changed = [position for position in dirty if self._put_led(level, position)]
            dirty = {self.layout.parents[level][position] for position in changed} if level else set()

    def _put_led(self, level: int, position: int) -> bool:
        """Count one domain from its children; says whether anything changed."""
        if level == self.layout.depth:
            pods, (leads, pods_led) = self._leaves.pods(position), self._leaves.led(position)
            slices = slices_led = 0
        else:
            children = self.layout.children(level, position)
            size = self._rounding[level + 1]
            leads_below = self.leads[level + 1]
            leads = int(any(leads_below[child] for child in children))
            pods, pods_led = _sum_led(self.pods[level + 1], self.pods_led[level + 1], leads_below, children, size)
            slices, slices_led = _sum_led(self.slices[level + 1], self.slices_led[level + 1], leads_below, children, 1)
        if level == self.slicing.level:
            slices, slices_led = pods // self.slicing.size, pods_led // self.slicing.size
        numbers = (self.pods, self.slices, self.leads, self.pods_led, self.slices_led)
        before = tuple(values[level][position] for values in numbers)
        after = (pods, slices, leads, pods_led, slices_led)
        if before == after:
            return False
        for values, value in zip(numbers, after, strict=True):
            values[level][position] = value
        _move(self._orders.get(level), (before[1], before[0], position), (slices, pods, position))
        _move(
            self._led_orders.get(level),
            (before[4], before[3], position) if before[2] else None,
            (slices_led, pods_led, position) if leads else None,
        )
        return True


def _sum_led(plain: list[int], led: list[int], leads: list[int], children: range, size: int) -> tuple[int, int]:
    """What children hold together, without and with a leader: the one that loses least takes it."""
    total, loss = 0, -1
    for child in children:
        held = plain[child] - plain[child] % size
        total += held
        if leads[child]:
            lost = held - (led[child] - led[child] % size)
            if loss < 0 or lost < loss:
                loss = lost
    return total, total - max(0, loss)


def _move(order: Order | None, before: Key | None, after: Key | None) -> None:
    """Keep an order sorted when one of its keys changes, comes or goes."""
    if order is None or before == after:
        return
    if not isinstance(order, list):
        assert before is not None and after is not None, "every leaf has its place in the order of all leaves"
        order.move(before, after)
        return
    if before is not None:
        del order[bisect_left(order, before)]
    if after is not None:
        insort(order, after)
