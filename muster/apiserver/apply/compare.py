"""What of an object is new, other or gone, and which fields an object has, as sets of fields. Used by `updater`."""

from __future__ import annotations

from typing import Any, NamedTuple

from muster.apiserver.apply.fieldsets import SELF, FieldSet, json_text, keyed, valued
from muster.apiserver.apply.schema import DEDUCED, ListOf, MapOf, Object, Relation, Scalar, Type, settled

_PLAIN = (str, int, float, bool)


class Absent:
    """Not even null."""


ABSENT = Absent()


class Unnameable(Exception):
    """An item of a list that has no name: a key is missing, or it is no plain value. The message is Kubernetes'."""


class Comparison(NamedTuple):
    """What has happened between two states of an object."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet


_Parts = tuple[FieldSet | None, FieldSet | None, FieldSet | None]  # of one value: None where there is nothing
_SAME: _Parts = (None, None, None)


def compare(type_: Type, before: Object, after: Object) -> Comparison:
    """What is new, other and gone in an object; raises Unnameable."""
    added, modified, removed = _compare(type_, before, after)
    return Comparison(added or {}, modified or {}, removed or {})


def _compare(type_: Type, left: Any, right: Any) -> _Parts:
    if left is ABSENT:
        return everything(type_, right), None, None
    if right is ABSENT:
        return None, None, everything(type_, left)
    if left == right and type(left) is type(right):
        return _SAME
    type_ = settled(type_, left if right is None else right)
    if isinstance(type_, MapOf) and not type_.is_atomic and (left or right) and _are(dict, left, right):
        return _compare_maps(type_, left or {}, right or {})
    is_keyed = isinstance(type_, ListOf) and type_.relation is not Relation.ATOMIC
    if isinstance(type_, ListOf) and is_keyed and (left or right) and _are(list, left, right):
        return _compare_lists(type_, left or [], right or [])
    return None, {}, None


def _are(form: type, left: Any, right: Any) -> bool:
    return (left is None or type(left) is form) and (right is None or type(right) is form)


def _compare_maps(type_: MapOf, left: Object, right: Object) -> _Parts:
    parts: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
    fields, item, nulls = type_.fields, type_.item or DEDUCED, type_.nulls
    names = left if left.keys() == right.keys() else {**left, **right}
    for name in names:
        absent = None if name in nulls else ABSENT
        mine, other = left.get(name, absent), right.get(name, absent)
        if mine is other:
            continue
        _collect(parts, f"f:{name}", _compare(fields.get(name, item), mine, other))
    return parts[0] or None, parts[1] or None, parts[2] or None


def _collect(parts: tuple[FieldSet, FieldSet, FieldSet], name: str, found: _Parts) -> None:
    if found is not _SAME:
        for part, node in zip(parts, found, strict=True):
            if node is not None:
                part[name] = node


def _compare_lists(type_: ListOf, left: list[Any], right: list[Any]) -> _Parts:
    parts: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
    mine, other = by_name(type_, left), by_name(type_, right)
    for name in {**mine, **other}:
        here, there = mine.get(name, []), other.get(name, [])
        if len(here) > 1 or len(there) > 1:
            # Items of one name cannot be told apart: they are one value.
            whole: _Parts = (None, {}, None) if here != there else _SAME
            _collect(parts, name, whole if here and there else (None, None, {}) if here else ({}, None, None))
        else:
            one = here[0] if here else ABSENT
            _collect(parts, name, _compare(type_.item, one, there[0] if there else ABSENT))
    return parts[0] or None, parts[1] or None, parts[2] or None


def everything(type_: Type, value: Any) -> FieldSet:
    """A value that is new, and all that is in it."""
    if type_ is DEDUCED:
        type_ = settled(type_, value)
    if type_.__class__ is Scalar or not value:
        return {}
    result: FieldSet = {SELF: {}}
    if isinstance(type_, MapOf):
        if type_.is_atomic or type(value) is not dict:
            return {}
        fields, item = type_.fields, type_.item or DEDUCED
        names = sorted(value) if not type_.nulls else sorted({*value, *type_.nulls})
        for name in names:
            inner = fields.get(name, item)
            result[f"f:{name}"] = {} if inner.__class__ is Scalar else everything(inner, value.get(name))
        return result
    assert isinstance(type_, ListOf), f"{type_} is no type"
    if type_.relation is Relation.ATOMIC or type(value) is not list:
        return {}
    for name, items in by_name(type_, value).items():
        result[name] = everything(type_.item, items[0]) if len(items) == 1 else {}
    return result


def fields_of(type_: Type, value: Any) -> FieldSet:
    """The fields that somebody speaks of who applies an object: no field that only holds others."""
    type_ = settled(type_, value)
    result: FieldSet = {}
    if isinstance(type_, MapOf) and not type_.is_atomic and isinstance(value, dict):
        for name, one in value.items():
            inner = type_.fields.get(name)
            node = _spoken_of(inner or type_.item or DEDUCED, one, is_member=inner is None or one is None or one == {})
            if node is not None:
                result[f"f:{name}"] = node
    elif isinstance(type_, ListOf) and type_.relation is not Relation.ATOMIC and isinstance(value, list):
        for name, items in by_name(type_, value).items():
            node = _spoken_of(type_.item, items[0], is_member=True) if len(items) == 1 else {}
            assert node is not None, "an item is a member"
            result[name] = node
    return result


def _spoken_of(type_: Type, value: Any, *, is_member: bool) -> FieldSet | None:
    type_ = settled(type_, value)
    if isinstance(type_, Scalar) or _is_atomic(type_):
        return {}
    below = fields_of(type_, value)
    if not is_member:
        return below or None
    return {SELF: {}, **below} if below else {}


def _is_atomic(type_: Type) -> bool:
    if isinstance(type_, ListOf):
        return type_.relation is Relation.ATOMIC
    return isinstance(type_, MapOf) and type_.is_atomic


# Items of lists ------------------------------------------------------------------------------------------------------


def by_name(type_: ListOf, items: list[Any]) -> dict[str, list[Any]]:
    """The items of a list by their names; more than one where a name is there twice."""
    result: dict[str, list[Any]] = {}
    for place, item in enumerate(items):
        try:
            result.setdefault(item_name(type_, item), []).append(item)
        except Unnameable as problem:
            raise Unnameable(f"element {place}: {problem}") from None
    return result


def item_name(type_: ListOf, item: Any) -> str:
    """The name of an item of a list with keys, or of a set."""
    if type_.relation is Relation.MAP:
        return _keyed_name(type_, item)
    if isinstance(item, _PLAIN):
        return valued(item, repr(item.__class__))
    if isinstance(item, dict):
        raise Unnameable("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise Unnameable("not supported: associative list with lists as elements")
    raise Unnameable("associative list without keys has an element that's an explicit null")


def _keyed_name(type_: ListOf, item: Any) -> str:
    if type(item) is not dict:
        what = "a null element" if item is None else "non-map elements"
        raise Unnameable(f"associative list with keys may not have {what}")
    if len(type_.keys) == 1 and type(value := item.get(type_.keys[0])) is str:
        return keyed(type_.keys, (value,), (str,))
    defaults = type_.defaults
    values = tuple(item[key] if key in item else defaults.get(key, ABSENT) for key in type_.keys)
    for key, value in zip(type_.keys, values, strict=True):
        if value is ABSENT:
            why = f"omits key field {json_text(key)} (and doesn't have default value)"
            raise Unnameable(f"associative list with keys has an element that {why}")
        if isinstance(value, (dict, list)):
            raise Unnameable(f"associative list with keys has an element whose key field {key} is no plain value")
    return keyed(type_.keys, values, tuple(map(type, values)))
