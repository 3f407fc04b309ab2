"""The values of expressions while they run, and how JSON becomes one. Used by the evaluator and the libraries.

bool, int, float, str, bytes, None, list and dict are Python's own. The rest is here: unsigned numbers, moments and
durations to the nanosecond, optionals, types, and views that read JSON by its schema only where it is looked at.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from muster.apiserver.cel.moments import Duration, Timestamp, parse_date, parse_duration, parse_timestamp
from muster.apiserver.cel.problems import EvaluationProblem
from muster.apiserver.cel.types import DATE, Type

INT_LEAST, INT_MOST, UINT_MOST = -(2**63), 2**63 - 1, 2**64 - 1


class Uint(int):
    """An unsigned number of 64 bits."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent."""

    has_value: bool
    value: Any = None


NONE = Optional(False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value, by its name."""

    name: str


class Opaque:
    """A value that only functions look into; its class says which type it is by `type_name`."""

    __slots__ = ()
    type_name: ClassVar[str] = ""


@dataclass(frozen=True, slots=True, eq=False)
class ListView:
    """A JSON list whose elements are read by their type when they are asked for."""

    raw: list[Any]
    type: Type

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, index: int) -> Any:
        return converted(self.raw[index], self.type.parameters[0])

    def __iter__(self) -> Iterator[Any]:
        element = self.type.parameters[0]
        return (converted(one, element) for one in self.raw)


@dataclass(frozen=True, slots=True, eq=False)
class MapView:
    """A JSON object that is a map: its values are read by their type when they are asked for."""

    raw: dict[str, Any]
    type: Type

    def __len__(self) -> int:
        return len(self.raw)

    def __contains__(self, key: object) -> bool:
        return key in self.raw

    def __getitem__(self, key: str) -> Any:
        return converted(self.raw[key], self.type.parameters[1])

    def __iter__(self) -> Iterator[str]:
        return iter(self.raw)


@dataclass(frozen=True, slots=True, eq=False)
class ObjectView:
    """A JSON object with fields of their own types; a null is as good as an absent field."""

    raw: dict[str, Any]
    type: Type

    def __len__(self) -> int:
        return len(self.raw)

    def __contains__(self, name: object) -> bool:
        raw_name = self.type.raw_names.get(name) if isinstance(name, str) else None
        return raw_name is not None and self.raw.get(raw_name) is not None

    def __getitem__(self, name: str) -> Any:
        value = self.raw[self.type.raw_names[name]]
        if value is None:
            raise KeyError(name)
        return converted(value, self.type.fields[name])

    def __iter__(self) -> Iterator[str]:
        # A reserved word has two names; the first is the escaped one.
        found: dict[str, str] = {}
        for name, raw_name in self.type.raw_names.items():
            if raw_name in self.raw:
                found.setdefault(raw_name, name)
        return iter(found.values())


LISTS = (list, ListView)
MAPS = (dict, MapView, ObjectView)


def converted(raw: Any, wanted: Type) -> Any:
    """The JSON value as a value of that type."""
    if wanted.is_plain:
        return raw
    if wanted.kind == "optional_type":
        return NONE if raw is None else Optional(True, converted(raw, wanted.element))
    if raw is None:
        return None
    match wanted.kind:
        case "object":
            if isinstance(raw, dict):
                return ObjectView(raw, wanted)
            raise EvaluationProblem("invalid data, expected a map for the provided schema with type=object")
        case "list":
            if isinstance(raw, list):
                return ListView(raw, wanted)
            raise EvaluationProblem("invalid data, expected an array for the provided schema with type=array")
        case "map":
            if isinstance(raw, dict):
                return MapView(raw, wanted)
            raise EvaluationProblem("invalid data, expected a map for the provided schema with type=object")
        case "double":
            return _double(raw)
    if not isinstance(raw, str):
        raise EvaluationProblem(f"invalid data, expected string, got {kind_of(raw)}")
    if wanted.kind == "timestamp":
        return parse_date(raw) if wanted is DATE else parse_timestamp(raw, "Invalid date-time formatted string")
    return parse_duration(raw, "Invalid duration") if wanted.kind == "duration" else _bytes(raw)


def _double(raw: Any) -> float:
    if not isinstance(raw, int | float) or isinstance(raw, bool):
        raise EvaluationProblem(f"invalid data, expected float, got {kind_of(raw)}")
    try:
        return float(raw)
    except OverflowError:
        raise EvaluationProblem("invalid data, expected float, got a number out of range") from None


def _bytes(raw: str) -> bytes:
    try:
        return base64.b64decode(raw, validate=True)
    except (binascii.Error, ValueError):
        raise EvaluationProblem("Invalid byte formatted string") from None


def plain(value: Any) -> Any:
    """What callers get: a view gives the JSON that it looks at."""
    return value.raw if isinstance(value, ListView | MapView | ObjectView) else value


_KINDS: dict[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
    list: "list",
    ListView: "list",
    dict: "map",
    MapView: "map",
    ObjectView: "map",
    Timestamp: "timestamp",
    Duration: "duration",
    Optional: "optional_type",
    TypeValue: "type",
}
_TYPE_NAMES = {
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}


def kind_of(value: Any) -> str:
    """The kind of the type that a value has now."""
    known = _KINDS.get(type(value))
    if known is not None:
        return known
    assert isinstance(value, Opaque), f"{type(value)} is no value of an expression"
    return value.type_name


def type_value(value: Any) -> TypeValue:
    """What type() answers."""
    kind = kind_of(value)
    return TypeValue(_TYPE_NAMES.get(kind, kind))


def type_value_of(named: Type) -> TypeValue:
    """The value of a type's name in an expression."""
    return TypeValue(_TYPE_NAMES.get(named.kind, named.kind))


def is_of(value: Any, wanted: Type) -> bool:
    """Whether a value may be given where that type is wanted, as far as the value itself tells."""
    kind = wanted.kind
    if kind in ("dyn", "variable"):
        return True
    if kind == "object":
        return isinstance(value, MAPS)
    return kind_of(value) == kind
