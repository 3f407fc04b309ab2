"""Which of several clusters a workload is sent to next: all at once, one after the other, or the best one first.

Called where workloads are sent to other clusters. The first that has room for it gets it; the others lose their copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from math import inf

ROUND_S = 300.0  # after which a workload that nobody has room for is offered to more clusters


class Preference(Enum):
    """What makes one cluster better than another."""

    AS_LISTED = "as listed"
    FREE_CAPACITY = "free capacity"
    PRICE = "price"
    DATA = "place of the data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """How workloads are sent out."""

    step: int | None = None  # clusters that are added in a round; None: all at once
    preference: Preference = Preference.AS_LISTED
    is_outside: bool = False  # somebody else nominates clusters


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A cluster as a workload sees it."""

    name: str
    is_reachable: bool = True
    fits: float = 0.0  # how many such workloads its queue has room for now
    price: float = inf  # of an hour there, in any unit; inf: it is not known
    data: frozenset[str] = frozenset()  # the sets of data that are near


def nominated(
    candidates: Iterable[Candidate],
    before: tuple[str, ...],
    dispatch: Dispatch,
    *,
    waited_s: float = 0.0,
    data: frozenset[str] = frozenset(),
) -> tuple[str, ...]:
    """The clusters that a workload is offered to, which only become more while it waits.

    Those that cannot be reached are passed over, so that they hold up nobody.
    """
    reachable = [one for one in candidates if one.is_reachable]
    kept = tuple(name for name in before if any(one.name == name for one in reachable))
    ranked = [one.name for one in _ranked(reachable, dispatch.preference, data) if one.name not in kept]
    if dispatch.step is None:
        return (*kept, *ranked)
    rounds = 1 + int(max(0.0, waited_s) // ROUND_S)
    return (*kept, *ranked[: max(0, rounds * dispatch.step - len(kept))])


def next_round_s(waited_s: float, dispatch: Dispatch) -> float | None:
    """After how long more clusters are nominated; `None`: never."""
    return None if dispatch.step is None else ROUND_S - max(0.0, waited_s) % ROUND_S


def _ranked(candidates: list[Candidate], preference: Preference, data: frozenset[str]) -> list[Candidate]:
    """The best first; among equals the order in which they are listed counts."""
    match preference:
        case Preference.FREE_CAPACITY:
            return sorted(candidates, key=lambda one: -one.fits)
        case Preference.PRICE:
            return sorted(candidates, key=lambda one: (one.price, -one.fits))
        case Preference.DATA:
            return sorted(candidates, key=lambda one: (-len(data & one.data), -one.fits))
    return candidates
