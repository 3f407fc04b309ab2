"""Copies and comparisons of parsed objects that never recurse: how deep a manifest nests is its author's choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.model.quantity import InvalidQuantity, parse_quantity

_LEAVES = frozenset({str, int, float, bool, type(None)})  # asked for first: asking for a Mapping takes long
# Under these fields of a pod, texts are quantities, and "1" is the same as "1000m".
_QUANTITY_FIELDS = frozenset({"requests", "limits", "overhead", "resourceUsage"})


def copied(value: Any) -> Any:
    """A copy that shares nothing changeable with the original."""
    return value if type(value) in _LEAVES else _rebuilt(value, drops_nulls=False)


def without_nulls(value: Any) -> Any:
    """A copy in which no object has a field that is null; nulls inside lists stay, they hold a place."""
    return _rebuilt(value, drops_nulls=True)


def _rebuilt(value: Any, *, drops_nulls: bool) -> Any:
    top: list[Any] = [value]
    pending: list[tuple[Any, Any]] = [(top, 0)]  # containers of the copy with a slot that still holds an original
    while pending:
        container, slot = pending.pop()
        original = container[slot]
        fresh: Any
        if type(original) is dict or isinstance(original, Mapping):  # the plain question first: it is much quicker
            fresh = {key: item for key, item in original.items() if item is not None or not drops_nulls}
            pending.extend((fresh, key) for key, item in fresh.items() if type(item) not in _LEAVES)
        elif isinstance(original, list):
            fresh = list(original)
            pending.extend((fresh, index) for index, item in enumerate(fresh) if type(item) not in _LEAVES)
        else:
            continue
        container[slot] = fresh
    return top[0]


def is_same(one: Any, other: Any) -> bool:
    """Whether two objects mean the same: nulls are absent, and quantities of pods count by value."""
    pending: list[tuple[Any, Any, bool]] = [(one, other, False)]
    while pending:
        left, right, holds_quantities = pending.pop()
        if type(left) in _LEAVES and left == right and type(left) is type(right):
            continue
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            for key in left.keys() | right.keys():
                pending.append((left.get(key), right.get(key), holds_quantities or key in _QUANTITY_FIELDS))
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            pending.extend((a, b, holds_quantities) for a, b in zip(left, right, strict=True))
        elif not _is_same_leaf(left, right, holds_quantities=holds_quantities):
            return False
    return True


def _is_same_leaf(left: Any, right: Any, *, holds_quantities: bool) -> bool:
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    if left == right:
        return True
    if not holds_quantities or not isinstance(left, (str, int)) or not isinstance(right, (str, int)):
        return False
    try:
        return parse_quantity(str(left)) == parse_quantity(str(right))
    except (InvalidQuantity, ValueError):  # The latter: an integer of more digits than Python writes out.
        return False
