"""When two values are equal, and which comes first. Used by the evaluator and the libraries.

Numbers of different types are compared by value. Lists that a schema calls sets or maps are equal in any order.
Every look at an element is charged: two objects of megabytes may be compared again and again by one rule.
"""

from __future__ import annotations

from typing import Any

from muster.apiserver.cel.budget import Budget
from muster.apiserver.cel.problems import EvaluationProblem, no_such_overload
from muster.apiserver.cel.values import ListView, ObjectView, Optional, converted, kind_of

CHARACTERS_A_STEP = 10
KEYED_STEPS = 6  # for each element that has to be found by its keys
_NUMBERS = frozenset({"int", "uint", "double"})
_ORDERED = _NUMBERS | {"bool", "string", "bytes", "timestamp", "duration"}


def text_steps(*texts: str | bytes) -> int:
    """What walking over these texts is charged."""
    return sum(map(len, texts)) // CHARACTERS_A_STEP


def equal(budget: Budget, one: Any, other: Any) -> bool:
    """Whether two values are the same."""
    kind, other_kind = kind_of(one), kind_of(other)
    if kind != other_kind:
        return kind in _NUMBERS and other_kind in _NUMBERS and bool(one == other)
    if kind in ("string", "bytes"):
        budget.charge(min(len(one), len(other)) // CHARACTERS_A_STEP)
    elif kind == "list":
        return _equal_lists(budget, one, other)
    elif kind == "map":
        return _equal_maps(budget, one, other)
    elif kind == "optional_type":
        assert isinstance(one, Optional) and isinstance(other, Optional), "the kind says so"
        return one.has_value == other.has_value and (not one.has_value or equal(budget, one.value, other.value))
    return bool(one == other)


def contains(budget: Budget, wanted: Any, values: Any) -> bool:
    """Whether one of the values of a list is this one."""
    for value in values:
        budget.charge(1)
        if equal(budget, value, wanted):
            return True
    return False


def _equal_lists(budget: Budget, one: Any, other: Any) -> bool:
    if len(one) != len(other):
        return False
    budget.charge(len(one))
    if isinstance(one, ListView):
        if one.type.list_keys and isinstance(other, ListView):
            return _equal_by_keys(budget, one, other)
        if one.type.is_set:
            known = set(map(repr, one))
            return all(repr(value) in known for value in other)
    return all(equal(budget, left, right) for left, right in zip(one, other, strict=True))


def _equal_by_keys(budget: Budget, one: ListView, other: ListView) -> bool:
    def key_of(raw: Any) -> tuple[str, ...]:
        return tuple(repr(raw.get(key)) for key in one.type.list_keys) if isinstance(raw, dict) else ()

    known = {key_of(raw): raw for raw in one.raw}
    budget.charge(KEYED_STEPS * len(known))
    for raw in other.raw:
        key = key_of(raw)
        if key not in known:
            return False
        if not equal(budget, converted(known[key], one.type.element), converted(raw, other.type.element)):
            return False
    return True


def _equal_maps(budget: Budget, one: Any, other: Any) -> bool:
    if len(one) != len(other):
        return False
    budget.charge(len(one))
    if isinstance(one, ObjectView) and isinstance(other, ObjectView) and one.type is other.type:
        return _equal_objects(budget, one, other)
    return all(key in other and equal(budget, one[key], other[key]) for key in one)


def _equal_objects(budget: Budget, one: ObjectView, other: ObjectView) -> bool:
    """Equal in all fields, also in those that the schema does not tell of."""
    types = one.type.raw_types
    for name, left in one.raw.items():
        right = other.raw.get(name)
        if (left is None) != (right is None):
            return False
        if left is None:
            continue
        if name in types:
            left, right = converted(left, types[name]), converted(right, types[name])
        if not equal(budget, left, right):
            return False
    return True


def order(one: Any, other: Any) -> int:
    """Below zero if the first comes before the second, zero if they are the same in order, else above."""
    kind, other_kind = kind_of(one), kind_of(other)
    if kind not in _ORDERED or (kind != other_kind and not {kind, other_kind} <= _NUMBERS):
        raise no_such_overload()
    if one != one or other != other:
        raise EvaluationProblem("NaN values cannot be ordered")
    return int(one > other) - int(one < other)
