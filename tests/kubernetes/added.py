"""Objects with one more field than they have: every field that their types know, with values that may or may not do.

Used by test_validation. `comparison.broken` changes what an object says; this adds what it does not say.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from muster.apiserver.facts import META, TYPES, Field, Shape
from tests.kubernetes.comparison import kind_of

Json = dict[str, Any]
_SCALARS: dict[str, tuple[Any, ...]] = {
    "string": ("a", "Not Valid!", "a/b", "1.2.3.4", ""),
    "int32": (1, -1, 70_000),
    "int64": (1, -1, 0),
    "bool": (True, False),
    "float64": (1.5,),
    "quantity": ("1", "-1", "1m"),
    "intorstring": (1, "50%", "a-name", 0),
    "time": ("2024-02-29T01:02:03Z",),
    "microtime": ("2024-02-29T01:02:03.000004Z",),
    "bytes": ("YQ==",),
    "raw": ({"a": 1},),
}
# What other rules than those of the object itself decide, or what is refused whatever it holds.
_SKIPPED = frozenset({"managedFields", "apiVersion", "kind", "ownerReferences", "namespace", "resourceVersion"})
_SKIPPED |= {"ephemeralContainers", "runtimeClassName", "generation"}
_SCHEMAS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


def added(item: Json) -> Iterator[tuple[str, Json]]:
    """Copies of an object with one field added each, and what was added."""
    for path, type_name in _objects(item, kind_of(item).type_name, ()):
        holder = _at(item, path)
        for field in TYPES[type_name].fields.values():
            if "template" in path and item["kind"] != "ResourceClaimTemplate":
                continue  # pods are looked at by themselves
            if field.name in _SKIPPED or (not path and field.name == "status"):
                continue
            if holder.get(field.name) is not None:
                continue
            for value in _values(field):
                copy = deepcopy(item)
                _at(copy, path)[field.name] = value
                yield f"{'.'.join(map(str, (*path, field.name)))} = {value!r}", copy


def _objects(value: Any, type_name: str, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Every part of an object whose fields are known, and its type."""
    if type_name not in TYPES or type_name == _SCHEMAS:
        return
    yield path, type_name
    fields = TYPES[type_name].fields
    for name, one in value.items():
        if name in fields and name not in ("status", "managedFields"):
            yield from _within(one, fields[name].shape, (*path, name))


def _within(value: Any, shape: Shape, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    if shape.kind == "object" and isinstance(value, dict):
        yield from _objects(value, shape.type_name, path)
    elif shape.kind == "list" and isinstance(value, list):
        for index, one in enumerate(value[:1]):
            yield from _within(one, shape.item, (*path, index))
    elif shape.kind == "map" and isinstance(value, dict):
        for key in list(value)[:1]:
            yield from _within(value[key], shape.item, (*path, key))


def _values(field: Field) -> Iterator[Any]:
    if field.enum:
        yield from (*field.enum, "Else")
        return
    yield from _of_shape(field.shape, depth=0)


def _of_shape(shape: Shape, depth: int) -> Iterator[Any]:
    """Values of a shape: empty, with what is required, and with each further field in turn."""
    match shape.kind:
        case "object":
            yield {}
            if shape.type_name in TYPES and depth < 2:
                yield from _of_type(shape.type_name, depth)
        case "list":
            yield from ([one] for one in _of_shape(shape.item, depth))
        case "map":
            yield from ({"a": one} for one in _of_shape(shape.item, depth))
        case kind:
            yield from _SCALARS.get(kind, ())


def _of_type(type_name: str, depth: int) -> Iterator[Json]:
    fields = TYPES[type_name].fields
    needed = _needed(type_name)
    if needed:
        yield needed
    for field in fields.values():
        if depth == 0 and not type_name.startswith(META):
            for value in _values_deeper(field, depth):
                yield {**needed, field.name: value}


def _values_deeper(field: Field, depth: int) -> Iterator[Any]:
    if field.enum:
        yield from (*field.enum, "Else")
    else:
        yield from _of_shape(field.shape, depth + 1)


def _needed(type_name: str) -> Json:
    """A value of a type with what it requires."""
    found = {}
    for field in TYPES[type_name].fields.values():
        if field.is_required:
            found[field.name] = field.enum[0] if field.enum else _first(field.shape)
    return found


def _first(shape: Shape) -> Any:
    match shape.kind:
        case "object":
            return _needed(shape.type_name) if shape.type_name in TYPES else {}
        case "list":
            return [_first(shape.item)]
        case "map":
            return {"a": _first(shape.item)}
        case kind:
            return (_SCALARS.get(kind) or ("a",))[0]


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        value = value[name]
    return value
