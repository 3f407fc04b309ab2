"""Sets of fields, in the very form in which `fieldsV1` writes them: objects within objects.

A name begins with `f:` (a field), `k:` (an item of a list by its keys), `v:` (an item by its value) or `i:` (an item
by its place). What is under a name is empty for a member; it has a `.` where the member has members below it. So a set
that is stored needs no reading, and one that is kept no writing. Nothing here changes what it is given.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from muster.apiserver.apply.schema import ListOf, MapOf, Relation, Type, settled

FieldSet = dict[str, Any]
Path = tuple[str, ...]
SELF = "."
_LONGEST_NAME = 16 * 1024  # characters, of a key or a value in a set that a client sends


def is_member(node: FieldSet) -> bool:
    """Whether what is under a name is itself in the set, and not only something below it."""
    return not node or SELF in node


def _node(is_in: bool, below: FieldSet) -> FieldSet | None:
    if is_in:
        return {SELF: {}, **below} if below else {}
    return below or None


# Sets of two ---------------------------------------------------------------------------------------------------------


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is in either."""
    if not left or left == right:
        return right
    return _joined(left, right) if right else left


def _joined(left: FieldSet, right: FieldSet) -> FieldSet:
    result = dict(left)
    for name, node in right.items():
        mine = result.get(name)
        if mine is None:
            result[name] = node
        elif not mine or not node:  # one of them is a member with nothing below it
            below = mine or node
            result[name] = {SELF: {}, **below} if below else {}
        elif mine != node:
            result[name] = _joined(mine, node)
    return result


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is in the left one and not in the right one."""
    return _less(left, right) if left and right else left


def _less(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is left below, without the node itself."""
    result = {}
    for name, node in left.items():
        if name == SELF:
            continue
        other = right.get(name)
        if other is None:
            result[name] = node
            continue
        rest = _node(is_member(node) and not is_member(other), _less(node, other))
        if rest is not None:
            result[name] = rest
    return result


def without(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is in the left one and not at or below a member of the right one."""
    result = {}
    for name, node in left.items():
        other = right.get(name) if name != SELF else None
        if other is None:
            result[name] = node
        elif not is_member(other):
            rest = without(node, other)
            if rest or not node:
                result[name] = {} if rest.keys() == {SELF} else rest
    return result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """What is in both."""
    result = {}
    for name, node in left.items():
        other = right.get(name)
        if other is None or name == SELF:
            continue
        both = _node(is_member(node) and is_member(other), intersection(node, other))
        if both is not None:
            result[name] = both
    return result


def with_named_fields(given: FieldSet, type_: Type | None) -> FieldSet:
    """The set with every named field that has something below it as a member; entries of maps are not named fields."""
    result = {}
    is_map = isinstance(type_, MapOf)
    for name, node in given.items():
        if not node:
            result[name] = node
            continue
        below = _type_below(type_, name)
        inner = with_named_fields(node, below)
        if is_map and name[0] == "f" and name[2:] in type_.fields and SELF not in inner:  # type: ignore[union-attr]
            inner = {SELF: {}, **inner}
        result[name] = inner
    return result


def _type_below(type_: Type | None, name: str) -> Type | None:
    if type_ is None:
        return None
    if name[0] == "f":
        found = settled(type_, {})
        return found.of(name[2:]) if isinstance(found, MapOf) else None
    return type_.item if isinstance(type_, ListOf) else None


def fitted(given: FieldSet, type_: Type | None) -> FieldSet:
    """The set as a schema has it whose lists or maps have become atomic since: what was below them is the whole."""
    result = given
    for name, node in given.items():
        below = _type_below(type_, name) if node else None
        if below is None:
            continue
        if isinstance(below, MapOf) and below.is_atomic:
            new: FieldSet = {}
        elif isinstance(below, ListOf) and below.relation is Relation.ATOMIC:
            new = {}
        else:
            new = fitted(node, below)
        if new is not node:
            result = {**result, name: new}
    return result


def has(given: FieldSet, path: Path) -> bool:
    """Whether a path is a member."""
    node = given
    for name in path:
        found = node.get(name)
        if found is None:
            return False
        node = found
    return is_member(node)


# Names and paths -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8192)
def keyed(names: Path, values: tuple[Any, ...], _types: tuple[type, ...]) -> str:
    """The name of an item by its keys. The types are there to tell 1 from true."""
    return "k:" + json_text(dict(zip(names, values, strict=True)))


@lru_cache(maxsize=8192)
def valued(value: Any, _type: str) -> str:
    """The name of an item by its value. The type is there to tell 1 from true."""
    return "v:" + json_text(value)


def json_text(value: Any) -> str:
    """Go's JSON of a key."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isascii() else text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def paths_of(given: FieldSet) -> Iterator[Path]:
    """The members, those of a level before those below them."""
    for name, node in given.items():
        if name != SELF and is_member(node):
            yield (name,)
    for name, node in given.items():
        if node:
            yield from ((name, *path) for path in paths_of(node))


def path_text(path: Path) -> str:
    """A path as messages write it: `.spec.containers[name="a"].image`."""
    return "".join(map(_name_text, path))


def _name_text(name: str) -> str:
    text = name[2:]
    if name[0] == "f":
        return f".{text}"
    if name[0] == "k":
        return "[" + ",".join(f"{key}={json_text(value)}" for key, value in json.loads(text).items()) + "]"
    return f"[={text}]" if name[0] == "v" else f"[{text}]"


# Reading and writing -------------------------------------------------------------------------------------------------


class InvalidFields(Exception):
    """What a client sent is no set of fields."""


def read(given: Any) -> FieldSet:
    """A set as a client sends it, with its names in their one form; raises InvalidFields."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise InvalidFields("fieldsV1 is no object")
    result: FieldSet = {}
    for name, node in given.items():
        if name == SELF:
            result[SELF] = {}
            continue
        known = _read_name(name)
        if known is None:
            continue  # of a kind that a later version may know
        below = read(node)
        result[known] = {} if below.keys() == {SELF} else below
    return result


def _read_name(name: str) -> str | None:
    if len(name) < 2 or name[1] != ":" or len(name) > _LONGEST_NAME:
        raise InvalidFields(f"{name[:100]!r} is no name of a field")
    kind, text = name[0], name[2:]
    if kind == "f":
        return name
    if kind == "i":
        if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) < 10):
            raise InvalidFields(f"{name[:100]!r} is no place in a list")
        return f"i:{int(text)}"
    if kind not in "kv":
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidFields(f"{name[:100]!r} is not JSON") from None
    if kind == "v":
        return "v:" + json_text(value)
    if not isinstance(value, dict) or any(isinstance(one, (dict, list)) for one in value.values()):
        raise InvalidFields(f"{name[:100]!r} has no keys")
    return "k:" + json_text(dict(sorted(value.items())))


def ordered(given: FieldSet) -> FieldSet:
    """The set with its names in Kubernetes' order: fields, then keys, values and places, each by what it names."""
    names = sorted(given) if all(name[0] in ".f" for name in given) else sorted(given, key=name_order)
    return {name: ordered(node) if (node := given[name]) else node for name in names}


@lru_cache(maxsize=8192)
def name_order(name: str) -> tuple[Any, ...]:
    """Where a name comes among others."""
    kind, text = name[0], name[2:]
    if kind in ".f":
        return (0, text)
    if kind == "k":
        return (1, *((key, *_value_order(value)) for key, value in json.loads(text).items()))
    return (2, *_value_order(json.loads(text))) if kind == "v" else (3, int(text))


def _value_order(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, (int, float)):
        return 0, value
    return (1, value) if isinstance(value, str) else (3, json_text(value))
