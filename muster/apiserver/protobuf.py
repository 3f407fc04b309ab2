"""Kubernetes' protobuf form of built-in objects, read into the JSON form and written from it. Called by the routes.

A body is `k8s\\0` and a message that holds the object's kind and its bytes. The tables of `facts` say which number is
which field. What comes out is what Go would write as JSON for the same object, less its nulls for absent lists.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from muster.apiserver.facts import SCHEMA, TYPES, Field, Shape, type_of
from muster.model.errors import InvalidObject

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"
MOST_BYTES = 3 << 20  # of a body; as much as Kubernetes takes
MOST_DEPTH = 100  # objects within objects; schemas of custom resources nest deepest, and not half as deep

Json = dict[str, Any]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIRES = {"varint": _VARINT, "fixed64": _FIXED64, "bytes": _BYTES}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN = frozenset({"string", "bytes", "bool", "int32", "int64", "float64", "list"})


def decode(body: bytes, *, most_bytes: int = MOST_BYTES) -> Json:
    """The object that a protobuf body holds, in its JSON form."""
    if len(body) > most_bytes:
        raise InvalidObject("", f"the body has {len(body)} bytes", hint=f"send {most_bytes} or fewer")
    return _envelope(memoryview(body), depth=0)


def encode(item: Json) -> bytes:
    """The protobuf body of an object; fields that its type does not have are left out."""
    api_version, kind = item.get("apiVersion", ""), item.get("kind", "")
    type_name = _type_name(api_version, kind)
    type_meta = _entry(1, api_version.encode()) + _entry(2, kind.encode())
    return MAGIC + _entry(1, type_meta) + _entry(2, _object_bytes(type_name, item))


def _type_name(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    type_name = type_of(group, version, kind)
    if not type_name:
        problem = f"{kind or 'no kind'} of {api_version or 'no version'} has no protobuf form"
        raise InvalidObject("kind", problem, hint="send it as JSON")
    return type_name


def _broken(problem: str) -> InvalidObject:
    return InvalidObject("", f"the protobuf body {problem}", hint="send it again, or as JSON")


# What a type looks like on the wire ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Step:
    """A field as the wire has it."""

    field: Field
    item: Shape  # of one value; a list or a map has one for each of its own
    wire: int
    drops_empty: bool  # where Go would not write it to JSON
    is_inlined: bool = False
    is_list: bool = False
    is_map: bool = False


@cache
def _steps(type_name: str) -> dict[int, _Step]:
    """The fields of a type by their number, in the order of the wire."""
    found = TYPES[type_name]
    steps = [_step(field) for field in found.own.values() if field.number]
    steps += [_step(field, is_inlined=True) for field in found.inlined]
    return {step.field.number: step for step in sorted(steps, key=lambda step: step.field.number)}


def _step(field: Field, *, is_inlined: bool = False) -> _Step:
    is_list = field.shape.kind == "list" and not field.shape.is_boxed
    is_map = field.shape.kind == "map"
    item = field.shape.item if is_list or is_map else field.shape
    has_empty = field.omits_zero or (item.kind in _PLAIN and not field.keeps_empty)
    return _Step(
        field,
        item,
        _BYTES if is_map else _WIRES[item.wire],
        drops_empty=has_empty and not field.is_pointer,
        is_inlined=is_inlined,
        is_list=is_list,
        is_map=is_map,
    )


# Reading -------------------------------------------------------------------------------------------------------------


def _envelope(data: memoryview, depth: int) -> Json:
    """An object with its kind in front of it."""
    if bytes(data[: len(MAGIC)]) != MAGIC:
        raise _broken("does not begin with k8s and a zero byte")
    unknown = data[len(MAGIC) :]
    type_meta = _last(unknown, 1)
    api_version, kind = _string(_last(type_meta, 1)), _string(_last(type_meta, 2))
    return {"apiVersion": api_version, "kind": kind, **_object(_type_name(api_version, kind), _last(unknown, 2), depth)}


def _object(type_name: str, data: Any, depth: int) -> Json:
    """The message of a type; fields that the tables do not know are passed over, as Go does."""
    if depth > MOST_DEPTH:
        raise _broken(f"has more than {MOST_DEPTH} objects within each other")
    steps = _steps(type_name)
    found: Json = {}
    for number, wire, raw in _parts(data):
        step = steps.get(number)
        if step is None:
            continue
        name = step.field.name
        if step.is_map and wire == _BYTES:
            key, value = _map_entry(step.item, raw, depth)
            found.setdefault(name, {})[key] = value
        elif step.is_list and wire == step.wire:
            found.setdefault(name, []).append(_value(step.item, raw, depth))
        elif step.is_list and wire == _BYTES and step.wire == _VARINT:
            found.setdefault(name, []).extend(_value(step.item, one, depth) for one in _packed(raw))
        elif wire != step.wire:
            raise _broken(f"has a value of another wire type for {name} of {type_name}")
        elif step.is_inlined:
            found.update(_object(step.item.type_name, raw, depth + 1))
        elif (value := _value(step.item, raw, depth)) or not step.drops_empty:
            found[name] = value
    return found


def _value(shape: Shape, raw: Any, depth: int) -> Any:
    """One value: `raw` is a number where the wire has a varint, and a view of bytes otherwise."""
    if shape.kind == "object":
        return _object(shape.type_name, raw, depth + 1)
    if shape.kind == "list":
        return [_value(shape.item, one, depth) for one in _all(raw, 1, _WIRES[shape.item.wire])]
    if shape.kind == "raw":
        return _raw(raw, depth)
    if shape.kind in _SCHEMA_CHOICES:
        return _SCHEMA_CHOICES[shape.kind](raw, depth)
    return _READ[shape.kind](raw)


def _map_entry(item: Shape, data: memoryview, depth: int) -> tuple[str, Any]:
    empty = 0 if item.wire == "varint" else b""  # the wire may leave it out
    assert item.wire != "fixed64", "no map holds floats"
    return _string(_last(data, 1)), _value(item, _last(data, 2, _WIRES[item.wire], empty), depth)


def _parts(data: Any) -> Iterator[tuple[int, int, Any]]:
    """The number, wire type and content of each field of a message."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise _broken("has a field without a number")
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, wire, value
            continue
        if wire == _BYTES:
            size, position = _varint(data, position)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise _broken(f"has the unknown wire type {wire}")
        if size > end - position:
            raise _broken("is cut short")
        yield number, wire, data[position : position + size]
        position += size


def _all(data: Any, number: int, wire: int = _BYTES) -> list[Any]:
    """The contents of one field of a message."""
    return [raw for one, its_wire, raw in _parts(data) if one == number and its_wire == wire]


def _last(data: Any, number: int, wire: int = _BYTES, missing: Any = b"") -> Any:
    """The content of one field of a message; the last one counts."""
    return (_all(data, number, wire) or [missing])[-1]


def _varint(data: Any, position: int) -> tuple[int, int]:
    """The number that begins here, and where the next thing begins."""
    if position < len(data) and data[position] < 0x80:
        return data[position], position + 1  # most numbers are one byte
    value = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                break
            return value, position
        shift += 7
        if shift > 63:
            break
    raise _broken("has a number that does not end")


def _packed(data: memoryview) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        yield value


# Reading scalars -----------------------------------------------------------------------------------------------------


def _string(raw: Any) -> str:
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError:
        raise _broken("has a text that is not UTF-8") from None


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _float(raw: Any) -> float | int:
    value: float = struct.unpack("<d", raw)[0]
    if not math.isfinite(value):
        raise _broken("has a number that JSON cannot hold")
    # Go writes a whole number without a point.
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else value


def _quantity(raw: Any) -> str:
    return _string(_last(raw, 1)) or "0"


def _time(raw: Any, timespec: str) -> str | None:
    """A moment as text; Kubernetes drops the fraction of all but its finer times."""
    if not len(raw):
        return None
    seconds = _signed(_last(raw, 1, _VARINT, 0), 64)
    microseconds = _signed(_last(raw, 2, _VARINT, 0), 32) // 1000 if timespec == "microseconds" else 0
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=microseconds)
    except OverflowError:
        raise _broken("has a time outside of the years 1 to 9999") from None
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def _int_or_string(raw: Any) -> int | str:
    is_text = _last(raw, 1, _VARINT, 0)
    return _string(_last(raw, 3)) if is_text else _signed(_last(raw, 2, _VARINT, 0), 32)


_READ: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "bytes": lambda raw: base64.b64encode(raw).decode(),
    "float64": _float,
    "int32": lambda raw: _signed(raw, 32),
    "int64": lambda raw: _signed(raw, 64),
    "intorstring": _int_or_string,
    "microtime": lambda raw: _time(raw, "microseconds"),
    "quantity": _quantity,
    "string": _string,
    "time": lambda raw: _time(raw, "seconds"),
}


# Reading what is JSON or protobuf within -----------------------------------------------------------------------------


def _raw(data: Any, depth: int) -> Any:
    """An object of any kind: bytes of JSON as a rule, of protobuf again where an object holds another."""
    content = _last(data, 1)
    if bytes(content[: len(MAGIC)]) == MAGIC:
        return _envelope(content, depth + 1)
    if not len(content):
        return None
    try:
        return json.loads(bytes(content))
    except (ValueError, RecursionError):
        raise _broken("holds an object that is no JSON") from None


def _schemas(data: Any, number: int, depth: int) -> list[Any]:
    return [_object(SCHEMA, raw, depth + 1) for raw in _all(data, number)]


def _schema_or_array(data: Any, depth: int) -> Any:
    return _schemas(data, 2, depth) or (_schemas(data, 1, depth) or [None])[-1]


def _schema_or_bool(data: Any, depth: int) -> Any:
    return (_schemas(data, 2, depth) or [bool(_last(data, 1, _VARINT, 0))])[-1]


def _schema_or_strings(data: Any, depth: int) -> Any:
    return [_string(raw) for raw in _all(data, 2)] or (_schemas(data, 1, depth) or [None])[-1]


_SCHEMA_CHOICES: dict[str, Callable[[Any, int], Any]] = {
    "schemaorarray": _schema_or_array,
    "schemaorbool": _schema_or_bool,
    "schemaorstringarray": _schema_or_strings,
}


# Writing -------------------------------------------------------------------------------------------------------------


def _number(value: int) -> bytes:
    """A varint; a negative number takes all of its 64 bits."""
    value &= (1 << 64) - 1
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _entry(number: int, content: bytes) -> bytes:
    return _number(number << 3 | _BYTES) + _number(len(content)) + content


def _varint_entry(number: int, value: int) -> bytes:
    return _number(number << 3 | _VARINT) + _number(value)


def _object_bytes(type_name: str, item: Json) -> bytes:
    """The message of an object, its fields in the order of the wire."""
    written = []
    for number, step in _steps(type_name).items():
        if step.is_inlined:
            written.append(_entry(number, _object_bytes(step.item.type_name, item)))
        elif (value := item.get(step.field.name)) is not None:
            written.append(_field_bytes(number, step, value))
    return b"".join(written)


def _field_bytes(number: int, step: _Step, value: Any) -> bytes:
    if step.is_list:
        return b"".join(_value_bytes(number, step.item, one) for one in value)
    if step.is_map:
        pairs = [_entry(1, key.encode()) + _value_bytes(2, step.item, value[key]) for key in sorted(value)]
        return b"".join(_entry(number, pair) for pair in pairs)
    return _value_bytes(number, step.item, value)


def _value_bytes(number: int, shape: Shape, value: Any) -> bytes:
    """One value with its number in front."""
    if shape.wire == "varint":
        return _varint_entry(number, int(value))
    if shape.wire == "fixed64":
        return _number(number << 3 | _FIXED64) + struct.pack("<d", value)
    if shape.kind == "object":
        return _entry(number, _object_bytes(shape.type_name, value))
    if shape.kind == "list":
        return _entry(number, b"".join(_value_bytes(1, shape.item, one) for one in value))
    return _entry(number, _WRITE[shape.kind](value))


def _time_bytes(value: str | None) -> bytes:
    if value is None:
        return b""
    since = datetime.fromisoformat(value) - _EPOCH
    seconds, nanoseconds = since.days * 86_400 + since.seconds, since.microseconds * 1000
    return _varint_entry(1, seconds) + _varint_entry(2, nanoseconds)


def _int_or_string_bytes(value: int | str) -> bytes:
    if isinstance(value, str):
        return _varint_entry(1, 1) + _entry(3, value.encode())
    return _varint_entry(1, 0) + _varint_entry(2, value)


def _schema_bytes(number: int, schema: Json) -> bytes:
    return _entry(number, _object_bytes(SCHEMA, schema))


def _schema_or_array_bytes(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(_schema_bytes(2, one) for one in value)
    return _schema_bytes(1, value)


def _schema_or_bool_bytes(value: Any) -> bytes:
    if isinstance(value, bool):
        return _varint_entry(1, value)
    return _varint_entry(1, 1) + _schema_bytes(2, value)


def _schema_or_strings_bytes(value: Any) -> bytes:
    if isinstance(value, list):
        return b"".join(_entry(2, one.encode()) for one in value)
    return _schema_bytes(1, value)


_WRITE: dict[str, Callable[[Any], bytes]] = {
    "bytes": base64.b64decode,
    "intorstring": _int_or_string_bytes,
    "microtime": _time_bytes,
    "quantity": lambda value: _entry(1, str(value).encode()),
    "raw": lambda value: _entry(1, json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()),
    "schemaorarray": _schema_or_array_bytes,
    "schemaorbool": _schema_or_bool_bytes,
    "schemaorstringarray": _schema_or_strings_bytes,
    "string": str.encode,
    "time": _time_bytes,
}
