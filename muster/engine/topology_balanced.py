"""Balanced placement: spread preferred pods evenly over as few domains as they need.

Tried before the tightest fit when the setting is on; whenever it does not work out, the tightest fit decides. Domains
are balanced one level below the level asked for, or at the slices if those are wider. First the widest even share
that some neighbourhood allows is found, then the fewest domains that fit tightest, then what is left over is dealt out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import log2

from muster.engine.topology_counts import Counts, Key, walk
from muster.engine.topology_request import Target

STEPS_MOST = 2_000_000  # of one choice of domains; beyond, the tightest fit decides

Row = tuple[int, int, bool]  # position, slices, whether the leader is there


@dataclass(frozen=True, slots=True)
class _Part:
    """A domain to choose: what it holds, what it holds beside the leader (below zero: no leader), how even it is."""

    position: int
    slices: int
    pods: int
    slices_led: int = -1
    evenness: float = 0.0

    @property
    def loss(self) -> int:
        return self.slices - self.slices_led


def balanced_shares(counts: Counts, target: Target) -> tuple[int, list[Row]] | None:
    """The balanced level and how many slices each of its domains gets; `None` when there is no balance to be had."""
    level = min(target.level + 1, target.slicing.level)
    best: tuple[tuple[int, int, int], int, list[_Part]] | None = None
    for around in range(counts.layout.size(target.level - 1)):
        share = _even_share(_parts(counts, level, counts.layout.span(target.level - 1, around, level)), counts, target)
        if share < 1:
            continue
        wide = _wide_parts(counts, target, around, share)
        taken = _greedy(wide, target.need, counts.has_leader)
        if taken and (best is None or (-share, len(taken), around) < best[0]):
            best = (-share, len(taken), around), share, wide
    if best is None:
        return None
    _, share, wide = best
    rows = _dealt(counts, target, share, wide)
    return (level, rows) if rows is not None else None


def _dealt(counts: Counts, target: Target, share: int, wide: list[_Part]) -> list[Row] | None:
    """Choose the fewest domains of the level asked for, then of the balanced level, and deal out the slices."""
    chosen = _fewest(wide, target.need, counts.has_leader)
    level = min(target.level + 1, target.slicing.level)
    if chosen is not None and level > target.level:
        inside = [child for part, _ in chosen for child in counts.layout.children(target.level, part.position)]
        chosen = _fewest(_pruned(_parts(counts, level, inside), share), target.need, counts.has_leader)
    if chosen is None or len(chosen) * share > target.need:
        return None
    rows: list[Row] = []
    extra = target.need - len(chosen) * share
    for part, leads in chosen:
        more = min(extra, (part.slices_led if leads else part.slices) - share)
        extra -= more
        rows.append((part.position, share + more, leads))
    return rows if extra == 0 else None


def _parts(counts: Counts, level: int, positions: Iterable[int]) -> list[_Part]:
    slices, pods = counts.slices[level], counts.pods[level]
    if not counts.has_leader:
        return [_Part(at, slices[at], pods[at]) for at in positions]
    leads, led = counts.leads[level], counts.slices_led[level]
    return [_Part(at, slices[at], pods[at], led[at] if leads[at] else -1) for at in positions]


def _pruned(parts: Iterable[_Part], share: int) -> list[_Part]:
    """Only domains that hold the share; one that holds it only without the leader is no place for the leader."""
    return [
        part if part.slices_led >= share else replace(part, slices_led=-1) for part in parts if part.slices >= share
    ]


def _wide_parts(counts: Counts, target: Target, around: int, share: int) -> list[_Part]:
    """The domains of the level asked for in one neighbourhood, counting only what can take a share."""
    layout, level = counts.layout, min(target.level + 1, target.slicing.level)
    positions = layout.children(target.level - 1, around)
    if level == target.level:
        return _pruned(_parts(counts, level, positions), share)
    found = []
    for position in positions:
        inside = _pruned(_parts(counts, level, layout.children(target.level, position)), share)
        losses = [part.loss for part in inside if part.slices_led >= 0]
        total = sum(part.slices for part in inside)
        led = total - min(losses) if losses else -1
        if total:
            evenness = _evenness([part.slices for part in inside])
            found.append(_Part(position, total, counts.pods[target.level][position], led, evenness))
    return found


def _evenness(numbers: Sequence[int]) -> float:
    """The entropy of a distribution: the more equal parts, the higher."""
    total = sum(numbers)
    return -sum(number / total * log2(number / total) for number in numbers if number)


def _even_share(parts: list[_Part], counts: Counts, target: Target) -> int:
    """The most slices that each domain could get if as few as possible were used."""
    taken = _greedy(parts, target.need, counts.has_leader)
    if not taken:
        return 0
    last, leads = taken[-1]
    return min(target.need // len(taken), last.slices_led if leads else last.slices)


def _greedy(parts: list[_Part], need: int, has_leader: bool) -> list[tuple[_Part, bool]]:
    """The leader's domain, then the largest ones until all slices have a place; nothing when they have not."""
    by_position = {part.position: part for part in parts}
    total = sum(part.slices for part in parts)
    taken: list[tuple[_Part, bool]] = []
    if has_leader:
        for key in walk(_ordered(parts, led=True), is_descending=True, least=0):
            part = by_position[key[2]]
            if total - part.loss >= need:
                taken.append((part, True))
                need -= part.slices_led
                break
        else:
            return []
    elif total < need:
        return []
    for key in walk(_ordered(parts, led=False), is_descending=True):
        if need <= 0:
            break
        part = by_position[key[2]]
        if not taken or part is not taken[0][0]:
            taken.append((part, False))
            need -= part.slices
    return taken


def _ordered(parts: Iterable[_Part], *, led: bool) -> list[Key]:
    if led:
        return sorted((part.slices_led, part.pods, part.position) for part in parts if part.slices_led >= 0)
    return sorted((part.slices, part.pods, part.position) for part in parts)


# The fewest domains --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pick:
    """Domains picked so far, as a chain."""

    part: _Part
    leads: bool
    before: _Pick | None
    evenness: float


_State = tuple[int, bool, int]  # how many domains, whether the leader has a place, how many slices they hold


def _fewest(parts: list[_Part], need: int, has_leader: bool) -> list[tuple[_Part, bool]] | None:
    """The fewest domains that hold everything, of those the tightest, of those the most even; largest first."""
    bound = _greedy(parts, need, has_leader)
    if not bound or len(parts) * len(bound) * need > STEPS_MOST:
        return None
    by_position = {part.position: part for part in parts}
    states: dict[_State, _Pick | None] = {(0, not has_leader, 0): None}
    for key in walk(_ordered(parts, led=False), is_descending=True):
        part = by_position[key[2]]
        for (number, is_led, slices), pick in list(states.items()):
            if number == len(bound) or (slices >= need and is_led):
                continue
            evenness = (pick.evenness if pick is not None else 0.0) + part.evenness
            ways = [(part.slices, False)]
            if not is_led and part.slices_led >= 0:
                ways.append((part.slices_led, True))
            for held, leads in ways:
                state = (number + 1, is_led or leads, slices + held)
                other = states.get(state)
                if other is None or evenness > other.evenness:
                    states[state] = _Pick(part, leads, pick, evenness)
    ends = [(number, slices) for number, is_led, slices in states if is_led and slices >= need]
    if not ends:
        return None
    number, slices = min(ends)
    return _chain(states[number, True, slices])


def _chain(pick: _Pick | None) -> list[tuple[_Part, bool]]:
    found = []
    while pick is not None:
        found.append((pick.part, pick.leads))
        pick = pick.before
    return found[::-1]
