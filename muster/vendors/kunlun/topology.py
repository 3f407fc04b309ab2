"""Which of a Kunlun node's eight cards belong together: two wings of four, each card linked to one of the other."""

from __future__ import annotations

from collections.abc import Sequence

WING = 4  # cards of one wing, all of which are linked
ALL = 2 * WING
# Four cards of both wings in a ring of links, the better rings first.
RINGS = ((0, 1, 4, 5), (2, 3, 6, 7), (0, 2, 4, 6), (1, 3, 5, 7), (0, 3, 4, 7), (1, 2, 5, 6))
# How many free cards the wing should have out of which a single card is taken: those first that leave no odd one over.
WINGS_FOR_ONE = (1, 3, 2, 4)


def choose_numbers(free: Sequence[int], count: int) -> list[int]:
    """So many of the free cards, by number, that belong together; none where there are not."""
    if count == ALL:
        return list(free) if len(free) == ALL else []
    if count not in (1, 2, 4):
        return []
    wings = ([number for number in free if number < WING], [number for number in free if number >= WING])
    if max(map(len, wings)) >= count:
        for size in WINGS_FOR_ONE if count == 1 else range(count, WING + 1):
            for wing in wings:
                if len(wing) == size:
                    return wing[:count]
    return _across(free, count)


def _across(free: Sequence[int], count: int) -> list[int]:
    """Linked cards of both wings."""
    if count == 2:
        return next(([one, one + WING] for one in free if one < WING and one + WING in free), [])
    rings = [ring for ring in RINGS if set(ring) <= set(free)] if count == 4 and len(free) <= 6 else []
    if not rings:
        return []
    if len(free) < 6:
        return list(rings[0])
    # Of six the two that are left should be linked as well.
    kept = (ring for ring in rings if _are_linked(*(number for number in free if number not in ring)))
    return list(next(kept, rings[-1]))


def _are_linked(one: int, other: int) -> bool:
    return one // WING == other // WING or abs(one - other) == WING


def unevenness(taken: Sequence[int]) -> int:
    """How badly the taken cards break up the wings: 0 for full wings, more for odd ones."""
    if not taken:
        return 1
    wings = [sum(number // WING == side for number in taken) for side in (0, 1)]
    return sum({WING: 0, 1: 2}.get(size, 1) for size in wings)
