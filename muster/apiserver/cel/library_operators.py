"""Arithmetic, order, indexes and sizes. Collected by `functions`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from muster.apiserver.cel.budget import Budget
from muster.apiserver.cel.comparing import contains, order, text_steps
from muster.apiserver.cel.moments import Duration, Timestamp, duration, timestamp
from muster.apiserver.cel.problems import EvaluationProblem, no_such_overload
from muster.apiserver.cel.signatures import Overload, charging, overload
from muster.apiserver.cel.values import (
    INT_LEAST,
    INT_MOST,
    LISTS,
    MAPS,
    NONE,
    UINT_MOST,
    ListView,
    Optional,
    Uint,
    kind_of,
    plain,
)


def int64(number: int) -> int:
    """A signed number of 64 bits, or a problem."""
    if not INT_LEAST <= number <= INT_MOST:
        raise EvaluationProblem("integer overflow")
    return number


def uint64(number: int) -> Uint:
    """An unsigned number of 64 bits, or a problem."""
    if not 0 <= number <= UINT_MOST:
        raise EvaluationProblem("unsigned integer overflow")
    return Uint(number)


def _quotient(one: int, other: int) -> int:
    if other == 0:
        raise EvaluationProblem("division by zero")
    found = abs(one) // abs(other)
    return found if (one < 0) == (other < 0) else -found


def _remainder(one: int, other: int) -> int:
    if other == 0:
        raise EvaluationProblem("modulus by zero")
    found = abs(one) % abs(other)
    return -found if one < 0 else found


def _divided(one: float, other: float) -> float:
    if other != 0:
        return one / other
    if one == 0 or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1.0, other)


def _checked(kind: str, compute: Callable[[int, int], int]) -> Callable[[int, int], int]:
    fit: Callable[[int], int] = int64 if kind == "int" else uint64
    return lambda one, other: fit(compute(int(one), int(other)))


def _list_sum(budget: Budget, one: Any, other: Any) -> Any:
    """Both lists one after the other; one that is a set or a map takes in what it does not have yet."""
    budget.charge((len(one) + len(other)) // 10)
    if not isinstance(one, ListView) or not (one.type.is_set or one.type.list_keys):
        return [*one, *other]
    keys = one.type.list_keys

    def key_of(raw: Any) -> str:
        return repr([raw.get(key) for key in keys] if keys and isinstance(raw, dict) else raw)

    budget.charge(len(one) + len(other))
    merged = {key_of(raw): raw for raw in one.raw}
    merged.update({key_of(raw): raw for raw in map(plain, other)})
    return ListView(list(merged.values()), one.type)


_ARITHMETIC = [
    *(
        overload(f"_{sign}_({kind}, {kind}) -> {kind}", _checked(kind, compute))
        for kind in ("int", "uint")
        for sign, compute in {
            "+": operator.add,
            "-": operator.sub,
            "*": operator.mul,
            "/": _quotient,
            "%": _remainder,
        }.items()
    ),
    overload("_+_(double, double) -> double", operator.add),
    overload("_-_(double, double) -> double", operator.sub),
    overload("_*_(double, double) -> double", operator.mul),
    overload("_/_(double, double) -> double", _divided),
    overload("_+_(string, string) -> string", operator.add, text_steps),
    overload("_+_(bytes, bytes) -> bytes", operator.add, text_steps),
    charging("_+_(list(A), list(A)) -> list(A)", _list_sum),
    overload("-_(int) -> int", lambda value: int64(-value)),
    overload("-_(double) -> double", operator.neg),
    overload("!_(bool) -> bool", operator.not_),
]


def _moved(moment: Timestamp, by: Duration, sign: int = 1) -> Timestamp:
    return timestamp(moment.nanoseconds + sign * by.nanoseconds, moment.offset_s)


_TIMES = [
    overload("_+_(duration, duration) -> duration", lambda a, b: duration(a.nanoseconds + b.nanoseconds)),
    overload("_-_(duration, duration) -> duration", lambda a, b: duration(a.nanoseconds - b.nanoseconds)),
    overload("_+_(timestamp, duration) -> timestamp", _moved),
    overload("_+_(duration, timestamp) -> timestamp", lambda by, moment: _moved(moment, by)),
    overload("_-_(timestamp, duration) -> timestamp", lambda moment, by: _moved(moment, by, -1)),
    overload("_-_(timestamp, timestamp) -> duration", lambda a, b: duration(a.nanoseconds - b.nanoseconds)),
]

_NUMBERS = ("int", "uint", "double")
_ORDERED_PAIRS = [(one, other) for one in _NUMBERS for other in _NUMBERS] + [
    (kind, kind) for kind in ("bool", "string", "bytes", "timestamp", "duration")
]
_EXACT = ("int", "uint", "bool", "timestamp", "duration")  # Python's own order is right for these


def _comparison(sign: str, pair: tuple[str, str]) -> Overload:
    compute = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[sign]
    signature = f"_{sign}_({pair[0]}, {pair[1]}) -> bool"
    if pair[0] in _EXACT and pair[1] in _EXACT:
        return overload(signature, compute)
    cost = text_steps if pair[0] in ("string", "bytes") else None
    return overload(signature, lambda one, other: compute(order(one, other), 0), cost)


_COMPARISONS = [_comparison(sign, pair) for sign in ("<", "<=", ">", ">=") for pair in _ORDERED_PAIRS]


def _index(value: Any, key: Any) -> Any:
    found = _found(value, key)
    if isinstance(value, Optional):
        return found
    if not found.has_value:
        problem = "index out of bounds" if isinstance(value, LISTS) else "no such key"
        raise EvaluationProblem(f"{problem}: {key}")
    return found.value


def _found(value: Any, key: Any) -> Optional:
    """The value at a key or an index, if there is one."""
    if isinstance(value, Optional):
        return _found(value.value, key) if value.has_value else NONE
    if isinstance(value, LISTS):
        if kind_of(key) not in _NUMBERS or key != key // 1:
            raise EvaluationProblem(f"unsupported index: {key}")
        return Optional(True, value[int(key)]) if 0 <= key < len(value) else NONE
    if isinstance(value, MAPS):
        if kind_of(key) not in ("string", "bool", *_NUMBERS):
            raise no_such_overload()
        return Optional(True, value[key]) if key in value else NONE
    raise no_such_overload()


def _is_in_map(wanted: Any, values: Any) -> bool:
    return kind_of(wanted) in ("string", "bool", *_NUMBERS) and wanted in values


_ACCESS = [
    *(
        overload(f"{function}({indexed}, {key}) -> {result}", compute)
        for function, compute in (("_[_]", _index), ("_[?_]", _found))
        for indexed, key, result in (
            ("list(A)", "int", "A" if function == "_[_]" else "optional(A)"),
            ("map(K, V)", "K", "V" if function == "_[_]" else "optional(V)"),
            ("optional(list(A))", "int", "optional(A)"),
            ("optional(map(K, V))", "K", "optional(V)"),
        )
    ),
    charging("@in(A, list(A)) -> bool", contains),
    overload("@in(A, map(A, B)) -> bool", _is_in_map),
    # The evaluator computes these itself; here they have their types.
    overload("_==_(A, A) -> bool", operator.eq),
    overload("_!=_(A, A) -> bool", operator.ne),
]

_SIZES = [
    overload(signature.format(kind), len)
    for kind in ("string", "bytes", "list(A)", "map(A, B)")
    for signature in ("size({}) -> int", "{}.size() -> int")
]

OVERLOADS = [*_ARITHMETIC, *_TIMES, *_COMPARISONS, *_ACCESS, *_SIZES]
