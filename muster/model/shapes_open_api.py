"""Our shapes as OpenAPI v3, the language of custom resource definitions; `definitions` makes whole ones out of it."""

from __future__ import annotations

from typing import Any

from muster.model.plain import copied
from muster.model.shapes import (
    Amount,
    Flag,
    IntOrText,
    ListOf,
    MapOf,
    Moment,
    Number,
    Schema,
    Struct,
    Text,
    Whole,
)

_EITHER = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_DIGITS = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
_QUANTITY_PATTERN = rf"^(\+|-)?{_DIGITS}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_DIGITS}))?$"


def open_api_of(schema: Schema) -> dict[str, Any]:
    """The schema as a definition states it; rules between fields are not part of it."""
    match schema:
        case Struct():
            return _struct(schema)
        case ListOf():
            return _list(schema)
        case MapOf():
            stated: dict[str, Any] = {"type": "object", "additionalProperties": open_api_of(schema.item)}
            if schema.most is not None:
                stated["maxProperties"] = schema.most
            return stated | ({"x-kubernetes-map-type": "atomic"} if schema.is_atomic else {})
        case Text():
            return _text(schema)
        case Whole():
            bounds = {"minimum": schema.least, "maximum": schema.most}
            stated = {"type": "integer"}
            if not schema.is_unsized:
                stated["format"] = "int64" if schema.is_long else "int32"
            return stated | {name: bound for name, bound in bounds.items() if bound is not None}
        case Flag():
            return {"type": "boolean"}
        case Number():
            return {"type": "number"}
        case Amount():
            return {**copied(_EITHER), "pattern": _QUANTITY_PATTERN}
        case Moment():
            return {"type": "string", "format": "date-time"}
        case IntOrText():
            return dict(copied(_EITHER))
        case _:
            return {"type": "object"}


def _struct(schema: Struct) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, part in schema.fields.items():
        properties[name] = open_api_of(part)
        if name in schema.defaults:
            properties[name]["default"] = copied(schema.defaults[name])
    stated: dict[str, Any] = {"type": "object", "properties": properties}
    if schema.required:
        stated["required"] = sorted(schema.required)
    if schema.is_atomic:
        stated["x-kubernetes-map-type"] = "atomic"
    return stated


def _list(schema: ListOf) -> dict[str, Any]:
    stated: dict[str, Any] = {"type": "array", "items": open_api_of(schema.item)}
    if schema.least:
        stated["minItems"] = schema.least
    if schema.most is not None:
        stated["maxItems"] = schema.most
    if schema.keys:
        stated |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(schema.keys)}
    elif schema.is_set or schema.is_atomic:
        stated["x-kubernetes-list-type"] = "set" if schema.is_set else "atomic"
    return stated


def _text(schema: Text) -> dict[str, Any]:
    stated: dict[str, Any] = {"type": "string"}
    if schema.choices:
        stated["enum"] = list(schema.choices)
    if schema.least:
        stated["minLength"] = schema.least
    if schema.most is not None:
        stated["maxLength"] = schema.most
    if schema.form is not None:
        stated["pattern"] = schema.form.pattern
    return stated
