"""From an OpenAPI v3 structural schema to the type of its values. Called by whoever compiles rules of a schema.

What the schema does not describe cannot be reached by an expression: values without a type, unknown fields that are
kept, and names that cannot be written as one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from muster.apiserver.cel.problems import CelProblem
from muster.apiserver.cel.types import (
    BOOL,
    BYTES,
    DATE,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
)

_WORDS = "true false null in as break const continue else for function if import let loop package namespace return var"
RESERVED = frozenset(f"{_WORDS} void while".split())
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile(r"__|[-./]")
_WRITABLE = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*")
_STRING_FORMATS = {"byte": BYTES, "date": DATE, "date-time": TIMESTAMP, "duration": DURATION}
_SIMPLE = {"boolean": BOOL, "number": DOUBLE, "integer": INT}
_NAMES = {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}}
_RESOURCE_FIELDS = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": _NAMES}


def type_of_schema(schema: Mapping[str, Any], *, is_resource_root: bool = False) -> Type:
    """The type of the values that the schema describes; a root also has apiVersion, kind and its names."""
    found = _type_of(schema, is_resource_root=is_resource_root)
    if found is None:
        raise CelProblem("failed to convert to declType for CEL validation rules")
    return found


def escaped(name: str) -> str | None:
    """How an expression writes the name of a property, or None where it cannot."""
    if name in RESERVED:
        return f"__{name}__"
    if not _WRITABLE.fullmatch(name):
        return None
    return _ESCAPED.sub(lambda found: _ESCAPES[found[0]], name)


def _type_of(schema: Mapping[str, Any], *, is_resource_root: bool = False) -> Type | None:
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    kind = schema.get("type")
    if kind == "array":
        return _list_type(schema)
    if kind == "object":
        return _object_type(schema, is_resource_root=is_resource_root)
    if kind == "string":
        return _STRING_FORMATS.get(schema.get("format", ""), STRING)
    return _SIMPLE.get(kind or "")


def _inner_type(schema: object) -> Type | None:
    if not isinstance(schema, Mapping):
        return None
    return _type_of(schema, is_resource_root=bool(schema.get("x-kubernetes-embedded-resource")))


def _list_type(schema: Mapping[str, Any]) -> Type | None:
    element = _inner_type(schema.get("items"))
    if element is None:
        return None
    list_type = schema.get("x-kubernetes-list-type")
    keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if list_type == "map" else ()
    return list_of(element, list_keys=keys, is_set=list_type == "set")


def _object_type(schema: Mapping[str, Any], *, is_resource_root: bool) -> Type | None:
    properties = schema.get("properties") or {}
    if is_resource_root:
        properties = {**properties, **_RESOURCE_FIELDS}
    elif isinstance(extra := schema.get("additionalProperties"), Mapping):
        value = _inner_type(extra)
        return map_of(STRING, value) if value else None
    fields, raw_names = {}, {}
    for raw_name, property_schema in properties.items():
        name, field_type = escaped(raw_name), _inner_type(property_schema)
        if name is not None and field_type is not None:
            fields[name] = field_type
            raw_names[name] = raw_name
            if raw_name in RESERVED:  # as a field the word may also be written as it is
                fields[raw_name] = field_type
                raw_names[raw_name] = raw_name
    raw_types = {raw_name: fields[name] for name, raw_name in raw_names.items()}
    return Type("object", fields=fields, raw_names=raw_names, raw_types=raw_types, is_plain=False)
