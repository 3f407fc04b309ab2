"""Functions of lists, sets and optional values. Collected by `functions`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

from muster.apiserver.cel.budget import Budget
from muster.apiserver.cel.comparing import contains, equal, order
from muster.apiserver.cel.library_operators import int64, uint64
from muster.apiserver.cel.moments import Duration, duration
from muster.apiserver.cel.problems import EvaluationProblem, no_such_overload
from muster.apiserver.cel.signatures import charging, overload
from muster.apiserver.cel.values import LISTS, MAPS, NONE, Optional, Uint, kind_of

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def _is_sorted(budget: Budget, values: Any) -> bool:
    found = list(values)
    budget.charge(len(found))
    return all(order(one, other) <= 0 for one, other in pairwise(found))


def _extreme(name: str, sign: int) -> Callable[[Budget, Any], Any]:
    def extreme(budget: Budget, values: Any) -> Any:
        budget.charge(len(values))
        found: Any = None
        for index, value in enumerate(values):
            if index == 0 or sign * order(value, found) > 0:
                found = value
        if not len(values):
            raise EvaluationProblem(f"{name} called on empty list")
        return found

    return extreme


def _sum(kind: str) -> Callable[[Budget, Any], Any]:
    def total(budget: Budget, values: Any) -> Any:
        budget.charge(len(values))
        found = list(values)
        if not all(kind_of(one) == kind for one in found):
            raise no_such_overload()
        match kind:
            case "int":
                return int64(sum(found))
            case "uint":
                return uint64(sum(map(int, found)))
            case "double":
                return sum(found, 0.0)
        return duration(sum(one.nanoseconds for one in found))

    return total


def _index_of(budget: Budget, values: Any, wanted: Any) -> int:
    for index, value in enumerate(values):
        budget.charge(1)
        if equal(budget, value, wanted):
            return index
    return -1


def _last_index_of(budget: Budget, values: Any, wanted: Any) -> int:
    for index in range(len(values) - 1, -1, -1):
        budget.charge(1)
        if equal(budget, values[index], wanted):
            return index
    return -1


def _slice(budget: Budget, values: Any, start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationProblem(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationProblem(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(values):
        raise EvaluationProblem(f"cannot slice({start}, {end}), list is length {len(values)}")
    budget.charge(end - start)
    return [values[index] for index in range(start, end)]


def _flatten(budget: Budget, values: Any, depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationProblem("level must be non-negative")
    found: list[Any] = []
    for value in values:
        budget.charge(1)
        if isinstance(value, LISTS) and depth > 0:
            found.extend(_flatten(budget, value, depth - 1))
        else:
            found.append(value)
    return found


def _range(budget: Budget, count: int) -> list[int]:
    budget.charge(max(count, 0))
    return list(range(count))


def _reverse(budget: Budget, values: Any) -> list[Any]:
    budget.charge(len(values))
    return list(values)[::-1]


def _distinct(budget: Budget, values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if not contains(budget, value, found):
            found.append(value)
    return found


def _sort(budget: Budget, values: Any) -> list[Any]:
    found = list(values)
    budget.charge(len(found) * len(found).bit_length())
    if len({kind_of(one) for one in found}) > 1:
        raise EvaluationProblem("list elements must have the same type")
    return sorted(found, key=cmp_to_key(order))


_LISTS = [
    *(charging(f"list({kind}).isSorted() -> bool", _is_sorted) for kind in _COMPARABLE),
    *(charging(f"list({kind}).min() -> {kind}", _extreme("min", -1)) for kind in _COMPARABLE),
    *(charging(f"list({kind}).max() -> {kind}", _extreme("max", 1)) for kind in _COMPARABLE),
    *(charging(f"list({kind}).sort() -> list({kind})", _sort) for kind in _COMPARABLE),
    *(charging(f"list({kind}).sum() -> {kind}", _sum(kind)) for kind in ("int", "uint", "double", "duration")),
    charging("list(A).indexOf(A) -> int", _index_of),
    charging("list(A).lastIndexOf(A) -> int", _last_index_of),
    charging("list(A).slice(int, int) -> list(A)", _slice),
    charging("list(list(A)).flatten() -> list(A)", _flatten),
    charging("list(dyn).flatten(int) -> list(dyn)", _flatten),
    charging("lists:range(int) -> list(int)", _range),
    charging("list(A).reverse() -> list(A)", _reverse),
    charging("list(A).distinct() -> list(A)", _distinct),
]


def _contains_all(budget: Budget, values: Any, wanted: Any) -> bool:
    return all(contains(budget, one, values) for one in wanted)


def _are_equivalent(budget: Budget, one: Any, other: Any) -> bool:
    return _contains_all(budget, one, other) and _contains_all(budget, other, one)


def _do_intersect(budget: Budget, one: Any, other: Any) -> bool:
    return any(contains(budget, value, other) for value in one)


_SETS = [
    charging("sets:contains(list(A), list(A)) -> bool", _contains_all),
    charging("sets:equivalent(list(A), list(A)) -> bool", _are_equivalent),
    charging("sets:intersects(list(A), list(A)) -> bool", _do_intersect),
]


def _of(value: Any) -> Optional:
    return Optional(True, value)


def _of_non_zero(value: Any) -> Optional:
    is_zero = value is None or (isinstance(value, Duration) and not value.nanoseconds)
    if isinstance(value, bool | int | Uint | float | str | bytes):
        is_zero = not value
    elif isinstance(value, LISTS + MAPS):
        is_zero = not len(value)
    return NONE if is_zero else Optional(True, value)


def _value(given: Optional) -> Any:
    if not given.has_value:
        raise EvaluationProblem("optional.none() dereference")
    return given.value


def _unwrapped(budget: Budget, values: Any) -> list[Any]:
    budget.charge(len(values))
    return [one.value for one in values if one.has_value]


_OPTIONALS = [
    overload("optional:of(A) -> optional(A)", _of),
    overload("optional:ofNonZeroValue(A) -> optional(A)", _of_non_zero),
    overload("optional:none() -> optional(A)", lambda: NONE),
    charging("optional:unwrap(list(optional(A))) -> list(A)", _unwrapped),
    charging("list(optional(A)).unwrapOpt() -> list(A)", _unwrapped),
    overload("optional(A).value() -> A", _value),
    overload("optional(A).hasValue() -> bool", lambda given: given.has_value),
    # The evaluator computes these itself, since their second side may not be needed.
    overload("optional(A).or(optional(A)) -> optional(A)", _value),
    overload("optional(A).orValue(A) -> A", _value),
    overload("list(A).first() -> optional(A)", lambda values: Optional(True, values[0]) if len(values) else NONE),
    overload("list(A).last() -> optional(A)", lambda values: Optional(True, values[-1]) if len(values) else NONE),
]

OVERLOADS = [*_LISTS, *_SETS, *_OPTIONALS]
