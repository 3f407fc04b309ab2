"""How the fields of a kind merge: which lists have keys, which are sets, what is only ever replaced whole.

Built-in kinds have it from the tables of `facts`, custom ones from the schema of their definition; of a value that no
schema tells about, it is deduced from the value. Used by everything else here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any

from muster.apiserver.facts import META, TYPES, Field, Shape, type_of

Object = dict[str, Any]
_NO_FIELDS: Mapping[str, Type] = MappingProxyType({})


class Scalar(Enum):
    """A plain value."""

    STRING = "string"
    NUMBER = "number"
    BOOLEAN = "boolean"
    ANY = "any"


class Relation(Enum):
    """How the items of a list belong together."""

    ATOMIC = "atomic"  # the list is one value
    SET = "set"  # an item is itself its name
    MAP = "map"  # some fields of an item are its name


@dataclass(frozen=True, slots=True, eq=False)
class ListOf:
    """A list."""

    item: Type
    relation: Relation = Relation.ATOMIC
    keys: tuple[str, ...] = ()  # sorted
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of those keys that may be left out


@dataclass(frozen=True, eq=False)
class MapOf:
    """An object with named fields, a map of anything, or both."""

    build: Callable[[], Mapping[str, Type]] = field(default=lambda: _NO_FIELDS)  # late: types hold themselves
    item: Type | None = None  # of what has no field of its own
    is_atomic: bool = False
    nulls: frozenset[str] = frozenset()  # fields that are null where they are absent

    @cached_property
    def fields(self) -> Mapping[str, Type]:
        """The named fields."""
        return self.build()

    def of(self, name: str) -> Type | None:
        """The type of what is under a name; `None` where nothing may be."""
        return self.fields.get(name, self.item)


class Deduced:
    """A value that no schema tells about: objects merge, lists do not."""


Type = Scalar | ListOf | MapOf | Deduced
DEDUCED = Deduced()
_DEDUCED_LIST = ListOf(DEDUCED)
_DEDUCED_MAP = MapOf(item=DEDUCED)


def settled(type_: Type, value: Any) -> Type:
    """The type with which to look at a value."""
    if type_ is not DEDUCED:
        return type_
    if isinstance(value, dict):
        return _DEDUCED_MAP
    return _DEDUCED_LIST if isinstance(value, list) else Scalar.ANY


# Built-in kinds ------------------------------------------------------------------------------------------------------

_SCALARS = {
    "string": Scalar.STRING,
    "bytes": Scalar.STRING,
    "bool": Scalar.BOOLEAN,
    "int32": Scalar.NUMBER,
    "int64": Scalar.NUMBER,
    "float64": Scalar.NUMBER,
    "quantity": Scalar.ANY,
    "time": Scalar.ANY,
    "microtime": Scalar.ANY,
    "intorstring": Scalar.ANY,
}
_ZEROS = {"string": "", "int32": 0, "int64": 0, "bool": False}


@cache
def builtin_type(api_version: str, kind: str) -> MapOf | None:
    """How a built-in kind merges; `None` for others."""
    group, _, version = api_version.rpartition("/")
    name = type_of(group, version, kind)
    return named_type(name) if name else None


@cache
def named_type(name: str) -> MapOf:
    """How a type of the tables merges."""
    found = TYPES[name]

    def build() -> Mapping[str, Type]:
        return {one.name: _field_type(one) for one in found.fields.values()}

    nulls = frozenset(one.name for one in found.fields.values() if _is_null_when_absent(one))
    return MapOf(build, is_atomic=found.map_type == "atomic", nulls=nulls)


def _is_null_when_absent(one: Field) -> bool:
    """Whether Go writes null for a field that nobody gave."""
    if one.shape.kind in ("time", "microtime") and not one.is_pointer:
        return not one.omits_zero
    return one.keeps_empty and (one.is_pointer or one.shape.kind in ("list", "map", "bytes", "raw"))


def _field_type(one: Field) -> Type:
    shape = one.shape
    if shape.kind == "list":
        return _list_type(one, shape)
    if shape.kind == "map":
        return MapOf(item=_shape_type(shape.item), is_atomic=one.map_type == "atomic")
    if shape.kind == "object" and one.map_type == "atomic":
        plain = named_type(shape.type_name)
        return MapOf(plain.build, is_atomic=True, nulls=plain.nulls)
    return _shape_type(shape)


def _shape_type(shape: Shape) -> Type:
    if shape.kind in _SCALARS:
        return _SCALARS[shape.kind]
    match shape.kind:
        case "object":
            return named_type(shape.type_name)
        case "list":
            return ListOf(_shape_type(shape.item))
        case "map":
            return MapOf(item=_shape_type(shape.item))
    return DEDUCED


def _list_type(one: Field, shape: Shape) -> ListOf:
    item = _shape_type(shape.item)
    keys = one.list_map_keys
    if one.list_type:
        relation = Relation(one.list_type)
    elif "merge" in one.patch_strategy:
        keys = (one.patch_merge_key,) if one.patch_merge_key else ()
        relation = Relation.MAP if keys else Relation.SET
    else:
        relation = Relation.ATOMIC
    if relation is not Relation.MAP:
        return ListOf(item, relation)
    fields = TYPES[shape.item.type_name].fields
    defaults = {key: default for key in keys if (default := _key_default(fields[key])) is not None}
    return ListOf(item, relation, tuple(sorted(keys)), defaults)


def _key_default(key: Field) -> Any:
    """What an item has under a key that it leaves out: Go's zero, unless its type says otherwise."""
    if key.default is not None:
        return key.default
    return None if key.is_pointer else _ZEROS.get(key.shape.kind)


# Kinds with a schema of their own ------------------------------------------------------------------------------------

_OPENAPI_SCALARS = {
    "string": Scalar.STRING,
    "integer": Scalar.NUMBER,
    "number": Scalar.NUMBER,
    "boolean": Scalar.BOOLEAN,
}
_OBJECT_META = f"{META}ObjectMeta"


def type_from_schema(schema: Mapping[str, Any]) -> MapOf:
    """How a custom resource merges, from the structural schema of its version."""
    found = _from_schema({**schema, "type": "object", "x-kubernetes-embedded-resource": True})
    assert isinstance(found, MapOf), "an object has fields"
    return found


def _from_schema(schema: Mapping[str, Any]) -> Type:
    if schema.get("x-kubernetes-int-or-string"):
        return Scalar.ANY
    kind = schema.get("type")
    if kind == "array":
        return _list_from_schema(schema)
    if kind == "object":
        return _map_from_schema(schema)
    return _OPENAPI_SCALARS.get(str(kind), DEDUCED)


def _map_from_schema(schema: Mapping[str, Any]) -> Type:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    item: Type | None = None
    if isinstance(additional, Mapping):
        item = _from_schema(additional)
    elif additional or schema.get("x-kubernetes-preserve-unknown-fields"):
        item = DEDUCED
    is_object = bool(schema.get("x-kubernetes-embedded-resource"))

    def build() -> Mapping[str, Type]:
        fields = {name: _from_schema(one) for name, one in properties.items()}
        if is_object:
            fields |= {"apiVersion": Scalar.STRING, "kind": Scalar.STRING, "metadata": named_type(_OBJECT_META)}
        return fields

    return MapOf(build, item=item, is_atomic=schema.get("x-kubernetes-map-type") == "atomic")


def _list_from_schema(schema: Mapping[str, Any]) -> Type:
    items = schema.get("items") or {}
    relation = Relation(schema.get("x-kubernetes-list-type", "atomic"))
    keys = tuple(sorted(schema.get("x-kubernetes-list-map-keys") or ()))
    properties = items.get("properties") or {}
    defaults = {key: properties[key]["default"] for key in keys if "default" in properties.get(key, {})}
    return ListOf(_from_schema(items), relation, keys, defaults)
