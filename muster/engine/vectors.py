"""Amounts of several resources together: sums, differences and comparisons. Used by sessions and their policies.

Volcano compares with a tolerance of a tenth of its smallest unit, and takes what a vector does not name as nothing or
as no limit, as the question has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.model.resources import CPU, PODS

Vector = Mapping[str, float]
MEMORY = "memory"
INFINITE = float("inf")
_FINE = frozenset((CPU, MEMORY))


def tolerance(resource: str) -> float:
    """How far two amounts may be apart and count as equal."""
    return 0.1 if resource in _FINE else 0.0001


def add(total: dict[str, float], more: Vector, sign: int = 1) -> None:
    """Add a vector to a sum, or take it away; what comes to nothing is left out, so that equal sums are equal."""
    for name, amount in more.items():
        left = total.get(name, 0) + sign * amount
        if left:
            total[name] = left
        else:
            total.pop(name, None)


def total_of(vectors: Iterable[Vector]) -> dict[str, float]:
    """The sum of vectors."""
    total: dict[str, float] = {}
    for vector in vectors:
        add(total, vector)
    return total


def plus(first: Vector, *others: Vector) -> dict[str, float]:
    """The sum of a few vectors."""
    return total_of((first, *others))


def minus(first: Vector, second: Vector) -> dict[str, float]:
    """What is left of the first, never below nothing."""
    return {name: left for name, amount in first.items() if (left := amount - second.get(name, 0)) > 0}


def is_within(used: Vector, limit: Vector, names: Iterable[str] | None = None, *, absent: float = 0.0) -> bool:
    """Whether no amount, or none of those named, is above its limit; a limit that is not given is `absent`."""
    asked = used if names is None else names
    return all(used.get(name, 0) < limit.get(name, absent) + tolerance(name) for name in asked)


def exceeds_somewhere(used: Vector, limit: Vector, names: Iterable[str]) -> bool:
    """Whether any of the named amounts is above its limit; what is not limited is not exceeded."""
    return any(used.get(name, 0) > limit[name] + tolerance(name) for name in names if name in limit)


def least_of(first: Vector, second: Vector) -> dict[str, float]:
    """The smaller of each amount; what the second does not name is not limited by it."""
    return {name: min(amount, second.get(name, INFINITE)) for name, amount in first.items()}


def most_of(first: Vector, second: Vector) -> dict[str, float]:
    """The larger of each amount."""
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in dict.fromkeys((*first, *second))}


def is_nothing(vector: Vector) -> bool:
    """Whether it holds no amount but places for pods."""
    return all(amount < tolerance(name) for name, amount in vector.items() if name != PODS)


def asked_names(request: Vector) -> list[str]:
    """The resources that a request is about."""
    return [name for name, amount in request.items() if amount > 0]


def share(used: float, due: float) -> float:
    """A part of what is due; of nothing, all of it or none."""
    if due == 0:
        return 0.0 if used == 0 else 1.0
    return used / due


def dominant_share(used: Vector, due: Vector) -> float:
    """The largest part of any amount that is due."""
    return max([share(used.get(name, 0), amount) for name, amount in due.items()], default=0.0)
