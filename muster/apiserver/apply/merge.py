"""Objects put together and taken apart by their schema: what is applied merged into what is there, fields removed, and
what is wrong with an object that somebody applies. Used by `updater`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from muster.apiserver.apply.compare import ABSENT, Unnameable, by_name, item_name
from muster.apiserver.apply.fieldsets import FieldSet, is_member, path_text
from muster.apiserver.apply.schema import DEDUCED, ListOf, MapOf, Object, Relation, Scalar, Type, settled

_SHOWN = 200  # characters of a value that is wrong


def merged(type_: Type, live: Any, applied: Any) -> Any:
    """What is there with what is applied; where both say something, what is applied."""
    if applied is ABSENT:
        return live
    type_ = settled(type_, live if applied is None else applied)
    if isinstance(type_, MapOf) and not type_.is_atomic:
        mine = live if isinstance(live, dict) else {}
        if mine or applied:
            fields, item = type_.fields, type_.item or DEDUCED
            news = (applied or {}).items()
            return mine | {name: merged(fields.get(name, item), mine.get(name, ABSENT), value) for name, value in news}
    if isinstance(type_, ListOf) and type_.relation is not Relation.ATOMIC:
        items = live if isinstance(live, list) else []
        if items or applied:
            return _merged_lists(type_, items, applied or [])
    return applied


def _merged_lists(type_: ListOf, live: list[Any], applied: list[Any]) -> list[Any]:
    """The items of both in an order that keeps that of what is applied, and as far as possible that of what was there.

    Kubernetes goes through both lists at once, and so does this, since the order is seen by everyone.
    """
    theirs = [item_name(type_, item) for item in applied]
    ours = [item_name(type_, item) for item in live]
    wanted = dict(zip(theirs, applied, strict=True))
    present: dict[str, Any] = {}
    for name, item in zip(ours, live, strict=True):
        present[name] = ABSENT if name in present else item  # one that is there twice cannot be merged
    shared = iter([name for name in theirs if name in present])
    following = next(shared, None)
    result: list[Any] = []
    done: set[str] = set()
    left = right = 0
    while left < len(ours) or right < len(theirs):
        if left < len(ours):
            name = ours[left]
            if right < len(theirs) and name != theirs[right] and name in wanted and following not in (None, name):
                left += 1  # a shared item, but not the one whose turn it is
                continue
            if name not in wanted:
                result.append(live[left])
                left += 1
                continue
            if name in done or (right < len(theirs) and name == theirs[right]):
                left += 1
        if right < len(theirs):
            name = theirs[right]
            done.add(name)
            result.append(merged(type_.item, present.get(name, ABSENT), wanted[name]))
            right += 1
            if following == name:
                following = next(shared, None)
    return result


# Removing ------------------------------------------------------------------------------------------------------------


def removed(type_: Type, value: Any, gone: FieldSet) -> Any:
    """A value without the members of a set; what is left empty by that is null."""
    type_ = settled(type_, value)
    if isinstance(type_, MapOf):
        if type_.is_atomic or not isinstance(value, dict):
            return None
        return _removed_from_map(type_, value, gone) or None
    if isinstance(type_, ListOf):
        if type_.relation is Relation.ATOMIC or not isinstance(value, list):
            return None
        items = []
        for item in value:
            node = gone.get(item_name(type_, item))
            if node is None:
                items.append(item)
            elif not is_member(node):
                items.append(removed(type_.item, item, node))
        return items or None
    return value


def _removed_from_map(type_: MapOf, value: Object, gone: FieldSet) -> Object:
    fields, item = type_.fields, type_.item or DEDUCED
    result = {}
    for name, one in value.items():
        node = gone.get(f"f:{name}")
        if node is None:
            result[name] = one
        elif not is_member(node):
            result[name] = removed(fields.get(name, item), one, node)
    return result


def without_nulls(value: Any) -> Any:
    """A value without fields that are null; lists keep theirs."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


# Checking ------------------------------------------------------------------------------------------------------------


def problems_of(type_: Type, value: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
    """What about an applied object does not fit its schema, in Kubernetes' words."""
    if value is None:
        return
    type_ = settled(type_, value)
    where = path_text(path)
    if isinstance(type_, MapOf):
        yield from (
            _map_problems(type_, value, path)
            if isinstance(value, dict)
            else (f"{where}: expected map, got &{{{_go_value(value)}}}",)
        )
    elif isinstance(type_, ListOf):
        yield from (
            _list_problems(type_, value, path)
            if isinstance(value, list)
            else (f"{where}: expected list, got &{{{_go_value(value)}}}",)
        )
    elif problem := _scalar_problem(type_, value):
        yield f"{where}: {problem}"


def _map_problems(type_: MapOf, value: Object, path: tuple[str, ...]) -> Iterator[str]:
    for name, one in value.items():
        inner = type_.of(name)
        if inner is None:
            yield f"{path_text((*path, f'f:{name}'))}: field not declared in schema"
            return  # as in Kubernetes, which looks no further
        yield from problems_of(inner, one, (*path, f"f:{name}"))


def _list_problems(type_: ListOf, value: list[Any], path: tuple[str, ...]) -> Iterator[str]:
    if type_.relation is Relation.ATOMIC:
        for place, item in enumerate(value):
            yield from problems_of(type_.item, item, (*path, f"i:{place}"))
        return
    try:
        named = by_name(type_, value)
    except Unnameable as problem:
        yield f"{path_text(path)}: {problem}"
        return
    for name, items in named.items():
        if len(items) > 1:
            yield f"{path_text(path)}: duplicate entries for key {path_text((name,))}"
        yield from problems_of(type_.item, items[0], (*path, name))


def _scalar_problem(type_: Type, value: Any) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match type_:
        case Scalar.NUMBER if not is_number:
            return f"expected numeric (int or float), got {_go_type(value)}"
        case Scalar.STRING if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
        case Scalar.BOOLEAN if not isinstance(value, bool):
            return f"expected boolean, got &{{{_go_value(value)}}}"
        case Scalar.ANY if isinstance(value, (dict, list)):
            return f"expected any scalar, got &{{{_go_value(value)}}}"
    return ""


def _go_type(value: Any) -> str:
    if isinstance(value, list):
        return "[]interface {}"
    names: dict[type, str] = {str: "string", bool: "bool", int: "int64", float: "float64"}
    return names.get(type(value), "map[string]interface {}")


def _go_value(value: Any) -> str:
    """A value as Go prints it."""
    if isinstance(value, dict):
        text = "map[" + " ".join(f"{name}:{_go_value(one)}" for name, one in sorted(value.items())) + "]"
    elif isinstance(value, list):
        text = "[" + " ".join(map(_go_value, value)) + "]"
    elif value is None:
        text = "<nil>"
    else:
        text = value if isinstance(value, str) else json.dumps(value)
    return text[:_SHOWN]


def _go_syntax(value: Any) -> str:
    """A value as Go would write it in a program."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(name)}:{_go_syntax(one)}" for name, one in sorted(value.items()))
        text = f"map[string]interface {{}}{{{inner}}}"
    elif isinstance(value, list):
        text = f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    else:
        text = "interface {}(nil)" if value is None else json.dumps(value)
    return text[:_SHOWN]
