"""Messages in protobuf's wire format, by tables of fields. Pure; used for the few messages of the kubelet's sockets.

A message is a dictionary. What a table does not know is passed over, as protobuf has it; what is cut off, or of another
type than the table says, raises `InvalidObject`. Tables do not contain themselves, so depth is bounded by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from muster.model.errors import InvalidObject

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_VARINT_BYTES = 10
MOST_BYTES = 16 * 1024 * 1024


class Kind(Enum):
    """What a field holds."""

    TEXT = "text"
    WHOLE = "whole"
    FLAG = "flag"
    MESSAGE = "message"
    TEXTS = "texts"  # several
    MESSAGES = "messages"  # several
    MAP = "map"  # texts by texts


@dataclass(frozen=True, slots=True)
class Field:
    """A field's number, what it holds, and its own table where that is a message."""

    number: int
    kind: Kind = Kind.TEXT
    of: Mapping[str, Field] | None = None


Table = Mapping[str, Field]
Values = dict[str, Any]
_PAIR: Table = {"key": Field(1), "value": Field(2)}
_EMPTY: Mapping[Kind, Any] = {Kind.TEXT: "", Kind.WHOLE: 0, Kind.FLAG: False}


def encoded(table: Table, values: Mapping[str, Any]) -> bytes:
    """A message as bytes; empty values are left out."""
    result = bytearray()
    for name, field in table.items():
        value = values.get(name)
        if not value:
            continue
        for wire, content in _parts(field, value):
            result += _varint(field.number << 3 | wire)
            if wire == _BYTES:
                result += _varint(len(content))
            result += content
    return bytes(result)


def _parts(field: Field, value: Any) -> list[tuple[int, bytes]]:
    match field.kind:
        case Kind.TEXT:
            return [(_BYTES, value.encode())]
        case Kind.WHOLE | Kind.FLAG:
            return [(_VARINT, _varint(int(value) & 2**64 - 1))]
        case Kind.TEXTS:
            return [(_BYTES, one.encode()) for one in value]
        case Kind.MESSAGE:
            return [(_BYTES, encoded(_table(field), value))]
        case Kind.MESSAGES:
            return [(_BYTES, encoded(_table(field), one)) for one in value]
        case Kind.MAP:
            return [(_BYTES, encoded(_PAIR, {"key": key, "value": text})) for key, text in sorted(value.items())]


def _table(field: Field) -> Table:
    assert field.of is not None, "a field that holds messages has their table"
    return field.of


def _varint(number: int) -> bytes:
    result = bytearray()
    while number > 0x7F:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    result.append(number)
    return bytes(result)


def decoded(table: Table, content: bytes) -> Values:
    """The message in some bytes, with empty values where nothing was sent."""
    if len(content) > MOST_BYTES:
        raise _broken(f"has {len(content)} bytes")
    by_number = {field.number: (name, field) for name, field in table.items()}
    values: Values = {name: _empty(field) for name, field in table.items()}
    place = 0
    while place < len(content):
        key, place = _read_varint(content, place)
        wire = key & 7
        value, place = _read_value(content, place, wire)
        if key >> 3 in by_number:
            name, field = by_number[key >> 3]
            _put(values, name, field, value)
    return values


def _empty(field: Field) -> Any:
    if field.kind in (Kind.TEXTS, Kind.MESSAGES):
        return []
    if field.kind is Kind.MAP:
        return {}
    return decoded(_table(field), b"") if field.kind is Kind.MESSAGE else _EMPTY[field.kind]


def _put(values: Values, name: str, field: Field, value: int | bytes) -> None:
    is_number = field.kind in (Kind.WHOLE, Kind.FLAG)
    if isinstance(value, int) != is_number:
        raise _broken(f"has a field {name} of another type")
    if isinstance(value, int):
        signed = value - 2**64 if value >= 2**63 else value
        values[name] = bool(value) if field.kind is Kind.FLAG else signed
        return
    match field.kind:
        case Kind.TEXT:
            values[name] = _text(value)
        case Kind.TEXTS:
            values[name].append(_text(value))
        case Kind.MESSAGE:
            values[name] = decoded(_table(field), value)
        case Kind.MESSAGES:
            values[name].append(decoded(_table(field), value))
        case Kind.MAP:
            pair = decoded(_PAIR, value)
            values[name][pair["key"]] = pair["value"]


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise _broken("has a text that is none") from None


def _read_value(content: bytes, place: int, wire: int) -> tuple[int | bytes, int]:
    if wire == _VARINT:
        return _read_varint(content, place)
    if wire == _BYTES:
        length, place = _read_varint(content, place)
    elif wire in (_FIXED64, _FIXED32):
        length = 8 if wire == _FIXED64 else 4
    else:
        raise _broken(f"has a field of the kind {wire}")
    if place + length > len(content):
        raise _broken("is cut off")
    return content[place : place + length], place + length


def _read_varint(content: bytes, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(_VARINT_BYTES):
        if place >= len(content):
            raise _broken("is cut off")
        byte = content[place]
        place += 1
        number |= (byte & 0x7F) << 7 * shift
        if byte < 0x80:
            return number & 2**64 - 1, place
    raise _broken("has a number without end")


def _broken(problem: str) -> InvalidObject:
    return InvalidObject("", f"the message {problem}", hint="send it again")
