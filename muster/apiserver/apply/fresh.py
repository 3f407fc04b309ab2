"""The fields of a new object as JSON, in one pass: what `compare` would say, written down at once.

Most writes are creates, and theirs is the only set of fields that is made whole and never looked at. Used by
`ownership`.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple

import msgspec

from muster.apiserver.apply.compare import by_name, everything
from muster.apiserver.apply.fieldsets import FieldSet, name_order, ordered
from muster.apiserver.apply.schema import DEDUCED, ListOf, MapOf, Object, Relation, Scalar, Type
from muster.apiserver.apply.updater import STRIPPED

_encode = msgspec.json.Encoder().encode
_MOST_KEPT = 16  # names in a map whose text is kept
_SERVERS_OWN = frozenset(name[2:] for name in STRIPPED["f:metadata"])


def fields_of_new(type_: MapOf, new: Object, empty: Object, ignored: FieldSet) -> bytes:
    """The set of all fields of a new object that its kind does not have by itself; nothing where there are none."""
    parts = []
    for name in sorted(new):
        if name in ("apiVersion", "kind") or f"f:{name}" in ignored:
            continue
        value = new[name]
        if name == "metadata":
            value = {key: one for key, one in value.items() if key not in _SERVERS_OWN}
        parts.append(_beside(type_, name, value, empty))
    text = ",".join(filter(None, parts))
    return f"{{{text}}}".encode() if text else b""


def _beside(type_: MapOf, name: str, value: Any, had: Object) -> str:
    """A field of an object that is there without it too, with its name; empty where it has what it had."""
    inner = type_.fields.get(name, type_.item or DEDUCED)
    if name not in had and name not in type_.nulls:
        return f"{_quoted(name)}:{_whole(inner, value)}"
    before = had.get(name)
    if value == before:
        return ""
    if isinstance(inner, MapOf) and not inner.is_atomic and isinstance(value, dict):
        found = [_beside(inner, one, value[one], before or {}) for one in sorted(value)]
        text = ",".join(filter(None, found))
    elif isinstance(inner, ListOf) and inner.relation is not Relation.ATOMIC and isinstance(value, list):
        text = _items(inner, value)
    else:
        return f"{_quoted(name)}:{{}}"
    return f"{_quoted(name)}:{{{text}}}" if text else ""


def _whole(type_: Type, value: Any) -> str:
    """A value that is new, and all that is in it."""
    if not value or type_.__class__ is Scalar:
        return "{}"
    if type_.__class__ is MapOf:
        return "{}" if type_.is_atomic else _whole_map(type_, value)
    if type_.__class__ is ListOf:
        is_one = type_.relation is Relation.ATOMIC
        return "{}" if is_one else '{".":{},' + _items(type_, value) + "}"
    return _encode(ordered(everything(type_, value))).decode()


class _Plan(NamedTuple):
    """What is written of the fields of a type: all of it where that does not depend on the value."""

    fixed: dict[str, str]
    others: dict[str, tuple[str, Type]]


@cache
def _plan(type_: MapOf) -> _Plan:
    plain = {name for name, one in type_.fields.items() if isinstance(one, Scalar)}
    fixed = {name: f"{_quoted(name)}:{{}}" for name in plain}
    others = {name: (f"{_quoted(name)}:", one) for name, one in type_.fields.items() if name not in plain}
    return _Plan(fixed, others)


def _whole_map(type_: MapOf, value: Object) -> str:
    if len(value) <= _MOST_KEPT and (whole := _plain_map(type_, tuple(value))):
        return whole
    fixed, others = _plan(type_)
    parts = ['".":{}']
    names = value if type_.nulls <= value.keys() else {*value, *type_.nulls}
    for name in sorted(names):
        text = fixed.get(name)
        if text is None:
            start, inner = others.get(name) or (f"{_quoted(name)}:", type_.item or DEDUCED)
            text = start + _whole(inner, value.get(name))
        parts.append(text)
    return "{" + ",".join(parts) + "}"


@lru_cache(maxsize=2048)
def _plain_map(type_: MapOf, names: tuple[str, ...]) -> str:
    """A map that holds nothing but plain values: its names say it all. Empty for any other."""
    types = [type_.fields.get(name, type_.item) for name in names]
    if not type_.nulls <= set(names) or not all(isinstance(one, Scalar) for one in types):
        return ""
    return "{" + ",".join(['".":{}', *(f"{_quoted(name)}:{{}}" for name in sorted(names))]) + "}"


def _items(type_: ListOf, value: list[Any]) -> str:
    named = by_name(type_, value)
    names = sorted(named, key=name_order) if len(named) > 1 else named
    return ",".join(
        f"{_json(name)}:{_whole(type_.item, named[name][0]) if len(named[name]) == 1 else '{}'}" for name in names
    )


@lru_cache(maxsize=8192)
def _quoted(name: str) -> str:
    return _json(f"f:{name}")


@lru_cache(maxsize=8192)
def _json(text: str) -> str:
    return _encode(text).decode()
