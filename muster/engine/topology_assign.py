"""From counts to places: choose the domain that holds all pods, or several, and go down to the leaves.

At the level asked for, the tightest domain that fits is taken. Where none fits, pods that only prefer the level go
one level up; at the top several domains are filled in order. On the way down, all chosen domains are filled together
as long as slices stay whole, and each by itself inside of a slice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from muster.engine.topology_balanced import balanced_shares
from muster.engine.topology_counts import Counts, Key, Levels, Ranking, walk
from muster.engine.topology_request import Target


class Share(NamedTuple):
    """What one domain gets: slices, or pods below the slices, and perhaps the leader."""

    position: int
    amount: int
    leads: bool = False


@dataclass(frozen=True, slots=True)
class Short:
    """Not everything fits; this much would."""

    fitting: int


@dataclass(frozen=True, slots=True)
class Choice:
    """Domains to choose from."""

    plain: Ranking
    led: Ranking | None  # with the leader, those that can take it; None: no leader is to be placed
    total: int  # what all of them hold without a leader
    loss: Callable[[int], int]  # how much less a domain holds beside the leader


class Search:
    """The search for one group of pods."""

    def __init__(
        self, counts: Counts, target: Target, *, scores: Levels | None = None, is_balanced: bool = False
    ) -> None:
        self._counts = counts
        self._target = target
        self._scores = scores  # how much each domain is liked; None: that does not matter
        self._is_balanced = is_balanced and not target.is_required and not target.is_unconstrained

    def run(self) -> list[Share] | Short:
        """The leaves and how many pods each gets, in the order of their names."""
        if self._is_balanced:
            balanced = balanced_shares(self._counts, self._target)
            if balanced is not None:
                level, rows = balanced
                return self._descend(level, [Share(*row) for row in rows], keeps_amounts=True)
        chosen = self._choose()
        if isinstance(chosen, Short):
            return chosen
        level, shares = chosen
        return self._descend(level, shares, keeps_amounts=False)

    # Where ---------------------------------------------------------------------------------------------------------

    def _choose(self) -> tuple[int, list[Share]] | Short:
        target, counts = self._target, self._counts
        level = target.level
        is_preferred = not target.is_required and not target.is_unconstrained
        while True:
            choice = self._at(level)
            ranking = choice.led if choice.led is not None else choice.plain
            # A liked domain that is too small is not passed over for one less liked: a wider domain holds both.
            tightest = ranking.smallest(target.need, top_only=is_preferred and self._scores is not None)
            if tightest is not None:
                return level, [Share(tightest[2], target.need, counts.has_leader)]
            if target.is_required:
                return Short(ranking.most or choice.plain.most)
            if target.is_unconstrained or level == 1:
                shares = spread(choice, target.need, is_descending=not target.packs)
                return (level, shares) if shares else Short(choice.total)
            level -= 1

    def _at(self, level: int) -> Choice:
        """All domains of a level, or the only one that may be used."""
        counts = self._counts
        if self._target.within is not None:
            assert self._target.within[0] == level, "a search within a domain starts there"
            return self._of(level, [self._target.within[1]], counts.has_leader)
        if self._scores is not None:
            return self._of(level, range(counts.layout.size(level)), counts.has_leader)
        led = Ranking([counts.led_order(level)]) if counts.has_leader else None
        total = counts.slices[0][0] if counts.slices[0] else 0
        return Choice(Ranking([counts.order(level)]), led, total, self._slice_loss(level))

    def _of(self, level: int, positions: Sequence[int], with_leader: bool) -> Choice:
        """Some domains of a level at or above the slices."""
        plain = self._ranked(level, self._counts.keys(level, positions))
        led = self._ranked(level, self._counts.led_keys(level, positions)) if with_leader else None
        return Choice(plain, led, plain.total, self._slice_loss(level))

    def _slice_loss(self, level: int) -> Callable[[int], int]:
        slices, slices_led = self._counts.slices[level], self._counts.slices_led[level]
        return lambda position: slices[position] - slices_led[position]

    def _of_units(self, level: int, positions: Sequence[int], with_leader: bool) -> Choice:
        """Some domains inside of a slice."""
        counts, unit = self._counts, self._target.slicing.unit(level)
        pods, pods_led = counts.pods[level], counts.pods_led[level]
        plain = self._ranked(level, counts.unit_keys(level, positions, unit))
        led = self._ranked(level, counts.led_unit_keys(level, positions, unit)) if with_leader else None
        return Choice(plain, led, plain.total, lambda position: pods[position] // unit - pods_led[position] // unit)

    def _ranked(self, level: int, keys: Iterable[Key]) -> Ranking:
        if self._scores is None:
            return Ranking([sorted(keys)])
        groups: dict[int, list[Key]] = {}
        for key in keys:
            groups.setdefault(self._scores[level][key[2]], []).append(key)
        return Ranking([sorted(groups[score]) for score in sorted(groups, reverse=True)])

    # Down to the leaves ----------------------------------------------------------------------------------------------

    def _descend(self, level: int, shares: list[Share], *, keeps_amounts: bool) -> list[Share]:
        slicing = self._target.slicing
        while level < slicing.level:
            parts = [[share] for share in shares] if keeps_amounts else [shares]
            shares = [child for part in parts for child in self._fill_together(level, part)]
            level += 1
        shares = [share._replace(amount=share.amount * slicing.size) for share in shares]
        while level < self._counts.layout.depth:
            shares = [child for share in shares for child in self._fill_slice(level, share)]
            level += 1
        return sorted(shares)

    def _fill_together(self, level: int, shares: Sequence[Share]) -> list[Share]:
        """Give the slices of several domains to their children, whichever parent these have."""
        counts, children = self._counts, self._counts.layout.children
        need, leads = sum(share.amount for share in shares), any(share.leads for share in shares)
        positions: Sequence[int] = children(level, shares[0].position)
        if len(shares) > 1:
            positions = [child for share in shares for child in children(level, share.position)]
        is_descending = not self._target.packs
        if is_descending and not leads and self._scores is None:
            fitting = [key for key in counts.keys(level + 1, positions) if key[0] >= need]
            if fitting:
                return [Share(min(fitting)[2], need)]
        found = spread(self._of(level + 1, positions, leads), need, is_descending=is_descending)
        assert found, "what fits in domains fits in their children"
        return found

    def _fill_slice(self, level: int, share: Share) -> list[Share]:
        """Give a domain's pods to its children, a unit at a time; the smallest child that helps comes first."""
        unit = self._target.slicing.unit(level + 1)
        choice = self._of_units(level + 1, self._counts.layout.children(level, share.position), share.leads)
        found = spread(choice, share.amount // unit, is_descending=False)
        assert found, "what fits in a domain fits in its children"
        return [child._replace(amount=child.amount * unit) for child in found]


# Filling -----------------------------------------------------------------------------------------------------------


def spread(choice: Choice, need: int, *, is_descending: bool) -> list[Share]:
    """Take domains in order until everything has a place, the leader first; nothing when not all of it fits."""
    if choice.total < need:
        return []
    if choice.led is None:
        return _fill(choice.plain, need, is_descending=is_descending)
    place = _leader_place(choice, choice.led, need, is_descending=is_descending)
    if place is None:
        return []
    first = min(place[0], need)
    rest = _fill(choice.plain, need - first, is_descending=is_descending, but=place[2])
    return [Share(place[2], first, True), *rest]


def _leader_place(choice: Choice, led: Ranking, need: int, *, is_descending: bool) -> Key | None:
    """Where the leader goes: with everybody in the tightest domain, or where the others still have enough room."""
    for group in led.groups:
        index = bisect_left(group, (need,))
        if is_descending and index < len(group):
            return group[index]
        for key in walk(group, is_descending=is_descending, least=0):
            if choice.total - choice.loss(key[2]) >= need:
                return key
    return None


def _fill(ranking: Ranking, need: int, *, is_descending: bool, but: int = -1) -> list[Share]:
    """Take domains in order, each as far as it goes; the last one is the tightest that holds the rest."""
    shares: list[Share] = []
    if need == 0:
        return shares
    for group in ranking.groups:
        for key in walk(group, is_descending=is_descending):
            capacity, _, position = key
            if position == but:
                continue
            if capacity >= need:
                tightest = _tightest(group, need, but) if is_descending else key
                # Those as large as this one that come before it have been taken already.
                return [*shares, Share(tightest[2] if tightest[0] < capacity else position, need)]
            shares.append(Share(position, capacity))
            need -= capacity
    raise AssertionError(f"{need} more should have fitted")


def _tightest(group: Sequence[Key], need: int, but: int) -> Key:
    index = bisect_left(group, (need,))
    return group[index] if group[index][2] != but else group[index + 1]
