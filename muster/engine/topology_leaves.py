"""How many pods of one kind each leaf takes; counted once for leaves that have the same left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.engine.topology_match import Demands, allowed_leaves, demands_of
from muster.engine.topology_tree import DomainTree, Free
from muster.model.podspec import PodShape
from muster.model.resources import PODS
from muster.model.topology import NodeRoom

if TYPE_CHECKING:
    from muster.engine.topology_arrays import Numbers

KNOWN_LEAST = 1024
ARRAY_LEAST = 256  # leaves from which on counting them all at once is quicker


@dataclass(frozen=True, slots=True)
class Need:
    """What one pod takes of a leaf, and which leaves it may use."""

    amounts: tuple[tuple[str, int], ...]
    demands: Demands
    room: NodeRoom | None = None  # None: amounts tell all


def need_of(shape: PodShape, tree: DomainTree, room: NodeRoom | None = None) -> Need:
    """What a pod of this shape takes: its requests, and a place among the pods of its node."""
    return Need(tuple(sorted(pod_amounts(shape.requests).items())), demands_of(shape, tree), room)


def pod_amounts(requests: Mapping[str, int], count: int = 1) -> dict[str, int]:
    """What so many pods take of a leaf."""
    amounts = {resource: amount * count for resource, amount in requests.items() if amount > 0}
    amounts[PODS] = amounts.get(PODS, 0) + count
    return amounts


class LeafCounts:
    """The counts of the leaves, for one kind of pod and, if it has one, its leader."""

    def __init__(self, tree: DomainTree, column: int, *, need: Need, leader: Need | None) -> None:
        self.column = tree.columns[column]
        self._resources = tree.resources
        self._need, self._leader = need, leader
        self._most = _most(need, tree)
        self._allowed = allowed_leaves(need.demands, tree)
        self._leads_allowed = _leads_allowed(leader, tree) if leader is not None else None
        self._pods: dict[Free | None, int] = {None: 0}
        self._led: dict[Free | None, tuple[int, int]] = {None: (0, 0)}

    def pods(self, position: int) -> int:
        """How many pods a leaf takes."""
        if self._allowed is not None and not self._allowed[position]:
            return 0
        free = self.column.frees[position]
        found = self._pods.get(free)
        if found is None:
            assert free is not None, "a leaf without nodes is known to take nothing"
            self._forget()
            found = self._pods[free] = self._times(free.amounts, self._need)
        return found if self._most is None else min(found, self._most[position])

    def led(self, position: int) -> tuple[int, int]:
        """How many leaders a leaf takes, none or one, and how many pods beside it."""
        if self._leads_allowed is not None and not self._leads_allowed[position]:
            return 0, self.pods(position)
        free = self.column.frees[position]
        found = self._led.get(free)
        if found is None:
            assert free is not None, "a leaf without nodes is known to take nothing"
            self._forget()
            found = self._led[free] = self._beside_leader(free)
        if self._allowed is not None and not self._allowed[position]:
            return found[0], 0
        return found if self._most is None else (found[0], min(found[1], self._most[position]))

    def array(self) -> Numbers | None:
        """The same as `pods` for every leaf, where there are many; `None` where there are few, or amounts too large."""
        if len(self.column.frees) < ARRAY_LEAST:
            return None
        from muster.engine.topology_arrays import LeftTable, times_each  # loads numpy: a small cluster does without

        if self.column.table is None:
            self.column.table = LeftTable()
        rows = self.column.table.rows(self.column, len(self._resources))
        if rows is None:
            return None
        found = times_each(rows, self._need.amounts, self._resources, self._most)
        return found if self._allowed is None else found * self._allowed

    def all_pods(self) -> list[int]:
        """The same as `pods` for every leaf."""
        known, frees = self._pods, self.column.frees
        self._forget()
        new = [free for free in set(frees) if free is not None and free not in known]
        known.update(zip(new, self._times_each(new), strict=True))
        counts = [known[free] for free in frees]
        if self._most is not None:
            counts = list(map(min, counts, self._most))
        if self._allowed is None:
            return counts
        return [count if may else 0 for count, may in zip(counts, self._allowed, strict=True)]

    def all_led(self) -> list[tuple[int, int]]:
        """The same as `led` for every leaf."""
        return [self.led(position) for position in range(len(self.column.frees))]

    def _forget(self) -> None:
        """What leaves had left long ago is not kept for ever."""
        most = 4 * len(self.column.frees) + KNOWN_LEAST
        if len(self._pods) > most:
            self._pods = {None: 0}
        if len(self._led) > most:
            self._led = {None: (0, 0)}

    def _times(self, have: Sequence[int], need: Need) -> int:
        """How often a need fits."""
        least = -1
        for resource, amount in need.amounts:
            number = self._resources.get(resource, len(have))
            times = have[number] // amount if number < len(have) else 0
            if times <= 0:
                return 0
            if least < 0 or times < least:
                least = times
        return least

    def _times_each(self, frees: Sequence[Free]) -> list[int]:
        """How often the need fits in each; a resource at a time, which is quicker than a leaf at a time."""
        least: list[int] = []
        for resource, amount in self._need.amounts:
            number = self._resources.get(resource)
            if number is None:
                return [0] * len(frees)
            try:
                times = [free.amounts[number] // amount for free in frees]
            except IndexError:  # some were noted down before the resource was known
                return [self._times(free.amounts, self._need) for free in frees]
            least = list(map(min, least, times)) if least else times
        return [times if times > 0 else 0 for times in least]

    def _beside_leader(self, free: Free) -> tuple[int, int]:
        assert self._leader is not None, "only counts with a leader know it"
        if not self._times(free.amounts, self._leader):
            return 0, self._times(free.amounts, self._need)
        left = list(free.amounts)
        for resource, amount in self._leader.amounts:
            left[self._resources[resource]] -= amount
        return 1, self._times(left, self._need)


def _most(need: Need, tree: DomainTree) -> list[int] | None:
    """How many pods each leaf takes at most; `None` where amounts tell all."""
    return None if need.room is None else [need.room.at(leaf.key, leaf.nodes) for leaf in tree.layout.leaves]


def _leads_allowed(leader: Need, tree: DomainTree) -> list[bool] | None:
    """Whether each leaf may have the leader, as far as amounts do not decide it; `None` when all may."""
    allowed, most = allowed_leaves(leader.demands, tree), _most(leader, tree)
    if most is None:
        return allowed
    return [count > 0 and (allowed is None or allowed[position]) for position, count in enumerate(most)]
