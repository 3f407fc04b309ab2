"""Objects for the tests of protobuf: written ones with the bytes Go makes of them, and full ones from the tables."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

from muster.apiserver.facts import TYPES, Field, Shape, type_of

SAMPLES = Path(__file__).parent / "protobuf_samples.jsonl"
SCALARS = {
    "bool": True,
    "bytes": "AAECgP8=",
    "float64": 2.5,
    "int32": -7,
    "int64": -(1 << 53) - 1,
    "intorstring": "25%",
    "microtime": "2024-02-29T01:02:03.000004Z",
    "quantity": "1500m",
    "raw": {"a": [1, {"b": "c"}]},
    "schemaorarray": [{"type": "string"}],
    "schemaorbool": {"type": "integer"},
    "schemaorstringarray": ["a", "b"],
    "time": "1969-07-20T20:17:40Z",
}

Json = dict[str, Any]


def written() -> list[tuple[Json, bytes]]:
    """The objects of protobuf_objects.yaml as Go writes them: JSON, and a body of protobuf."""
    rows = [json.loads(line) for line in SAMPLES.read_text().splitlines()]
    return [(row["object"], b64decode(row["protobuf"])) for row in rows]


def full(group_version: str, kind: str) -> Json:
    """An object of this kind with something in every field, as deep as types do not hold themselves."""
    group, _, version = group_version.rpartition("/")
    content = _object(type_of(group, version, kind), ())
    return {"apiVersion": group_version, "kind": kind, **content}


def without_nulls(value: Any) -> Any:
    """The same without fields that are null: Go writes some of them for what is not there."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def _object(type_name: str, within: tuple[str, ...]) -> Json:
    fields = [field for field in TYPES[type_name].fields.values() if field.number]
    return {
        field.name: _value(field, field.shape, (*within, type_name))
        for field in fields
        if _held(field.shape).type_name not in within
    }


def _held(shape: Shape) -> Shape:
    return _held(shape.of) if shape.of else shape


def _value(field: Field, shape: Shape, within: tuple[str, ...]) -> Any:
    match shape.kind:
        case "list":
            return [_value(field, shape.item, within)]
        case "map":
            return {"key": _value(field, shape.item, within)}
        case "object":
            return _object(shape.type_name, within)
        case "string":
            return field.enum[0] if field.enum else f"{field.name} ü"
        case kind:
            return SCALARS[kind]
