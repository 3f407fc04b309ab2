"""Objects of built-in types as their types have them, and the fields that a type does not have.

`read` turns what a client sent into what Go would write for the same object: unknown fields, nulls and empty values
are gone, quantities and times have their canonical text. Called for every body, by the routes and by the kinds.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, NamedTuple

from muster.apiserver.facts import TYPES, Field, Shape
from muster.apiserver.statuses import Problem, bad_request
from muster.model.fields import INT32_MAX, INT64_MAX
from muster.model.quantity import InvalidQuantity, parse_quantity

MOST_DEPTH = 100
SCHEMA_SHAPES = frozenset({"schemaorarray", "schemaorbool", "schemaorstringarray"})
QUANTITY_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

Object = dict[str, Any]
Unknown = list[str]
Reader = Callable[[Any, str, Unknown], Any]  # of a value, with its path and the list for unknown fields


class Read(NamedTuple):
    """An object as its type has it, and the paths of the fields that its type does not have."""

    value: Object
    unknown: Unknown


class Mismatch(Exception):
    """A value of another type than its field; the message is Go's."""


def read(given: Object, type_name: str) -> Read:
    """The object as its type has it; raises Mismatch for a value of another type."""
    unknown: Unknown = []
    try:
        return Read(_read_object(type_name, given, "", unknown), unknown)
    except _Unplaced as problem:
        raise Mismatch(_mismatch(problem.value, problem.shape)) from None


def read_body(given: Object, type_name: str, *, known: Object | None = None) -> Read:
    """The same of a body, refused in the words of the server where a value is of another type.

    What is the same in an object that was read before is taken from there, as it is.
    """
    same = {name: value for name, value in (known or {}).items() if type(value) is dict and given.get(name) == value}
    try:
        if not same:
            return read(given, type_name)
        found = read({name: value for name, value in given.items() if name not in same}, type_name)
        order = dict.fromkeys((*(name for name in given if name in same or name in found.value), *found.value))
        return Read({name: same.get(name, found.value.get(name)) for name in order}, found.unknown)
    except Mismatch as problem:
        raise bad_request(f"{_cannot_be_handled(given, type_name)}: {problem}") from None


def unknown_fields(given: Object, type_name: str) -> list[str]:
    """The paths of the fields that the type does not have."""
    return read_body(given, type_name).unknown


def strict_refusal(given: Object, type_name: str, problems: list[str]) -> Problem:
    """The refusal of a body with unknown or repeated fields where the client wants none."""
    return bad_request(f"{_cannot_be_handled(given, type_name)}: strict decoding error: {', '.join(problems)}")


def strict_problems(body: bytes, unknown: Unknown) -> list[str]:
    """What is odd about a JSON body, in the words of warnings: repeated fields first, then unknown ones."""
    repeated = [f'duplicate field "{path}"' for path in duplicate_fields(body) if path not in unknown]
    return repeated + unknown_problems(unknown)


def unknown_problems(unknown: Unknown) -> list[str]:
    """The same of the fields that a type does not have."""
    return [f'unknown field "{path}"' for path in unknown]


def _cannot_be_handled(given: Object, type_name: str) -> str:
    name = type_name.rpartition(".")[2]
    version = str(given.get("apiVersion") or "")
    return f'{name} in version "{version.rpartition("/")[2]}" cannot be handled as a {name}'


# Types ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Step:
    """How one field is read."""

    plain: type | None  # a value of this Python type is taken as it is
    read: Reader
    drops_empty: bool  # where Go would not write it to JSON
    struct: str  # what Go calls the type that has the field


@cache
def _steps(type_name: str) -> dict[str, _Step]:
    found = TYPES[type_name]
    return {name: _step(field, type_name) for name, field in found.fields.items()}


def _step(field: Field, type_name: str) -> _Step:
    kind = field.shape.kind
    has_empty = field.omits_zero or (kind not in ("object", "quantity", "raw") and not field.keeps_empty)
    has_empty = has_empty or kind == "list"  # an empty one comes back as null
    return _Step(
        plain={"string": str, "bool": bool}.get(kind),
        read=_reader(field.shape),
        drops_empty=has_empty and not field.is_pointer,
        struct=type_name.rpartition(".")[2],
    )


@cache
def _always(type_name: str) -> tuple[tuple[str, Field], ...]:
    """The fields that Go writes even where nothing is said of them: those it has by value, and some empty ones."""
    return tuple(
        (name, field)
        for name, field in TYPES[type_name].fields.items()
        if not field.is_pointer
        and not field.omits_zero
        and (field.shape.kind in ("object", "quantity") or (field.keeps_empty and field.shape.kind in _EMPTY))
    )


_EMPTY: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "quantity": "0", "intorstring": 0}


@cache
def _reader(shape: Shape) -> Reader:
    match shape.kind:
        case "object":
            return lambda value, path, unknown: _read_object(shape.type_name, value, path, unknown)
        case "list":
            return _list_reader(_reader(shape.item), shape)
        case "map":
            return _map_reader(_reader(shape.item), shape)
        case "raw":
            return lambda value, _path, _unknown: value
        case kind if kind in SCHEMA_SHAPES:
            return lambda value, _path, _unknown: value
        case kind:
            scalar = _SCALARS[kind]
            return lambda value, _path, _unknown: scalar(value)


def _read_object(type_name: str, value: Any, path: str, unknown: Unknown) -> Object:
    if type(value) is not dict:
        raise _Unplaced(value, Shape("object", type_name))
    if path.count(".") > MOST_DEPTH:
        raise Mismatch(f"is deeper than {MOST_DEPTH} objects")
    steps = _steps(type_name)
    result: Object = {}
    for name, one in value.items():
        step = steps.get(name)
        if step is None:
            unknown.append(f"{path}.{name}" if path else str(name))
        elif one is None:
            continue
        elif step.plain is type(one):
            if one or not step.drops_empty:
                result[name] = one
        else:
            where = f"{path}.{name}" if path else name
            try:
                read = step.read(one, where, unknown)
            except _Unplaced as problem:
                raise Mismatch(problem.told(step.struct, where)) from None
            if read or not step.drops_empty:
                result[name] = read
    for name, field in _always(type_name):
        if name not in result:
            result[name] = empty(field.shape)
    return result


def empty(shape: Shape) -> Any:
    """What Go writes for a value that it has and nobody gave."""
    if shape.kind == "object":
        return _read_object(shape.type_name, {}, "", [])
    return _EMPTY[shape.kind]


def _list_reader(item: Reader, shape: Shape) -> Reader:
    inner = shape.item

    def read_list(value: Any, path: str, unknown: Unknown) -> Any:
        if type(value) is not list:
            raise _Unplaced(value, shape)
        if inner.kind == "string" and all(type(one) is str for one in value):
            return value
        result = []
        for index, one in enumerate(value):
            result.append(_zero(inner) if one is None else item(one, f"{path}[{index}]", unknown))
        return result

    return read_list


def _map_reader(item: Reader, shape: Shape) -> Reader:
    inner = shape.item

    def read_map(value: Any, path: str, unknown: Unknown) -> Any:
        if type(value) is not dict:
            raise _Unplaced(value, shape)
        if inner.kind == "string" and all(type(one) is str for one in value.values()):
            return value
        return {
            name: _zero(inner) if one is None else item(one, f"{path}.{name}", unknown) for name, one in value.items()
        }

    return read_map


def _zero(shape: Shape) -> Any:
    """What Go makes of a null within a list or a map."""
    if shape.kind in ("list", "map", "raw", "time", "microtime"):
        return None
    return "" if shape.kind == "bytes" else empty(shape)


# Scalars -------------------------------------------------------------------------------------------------------------


class _Unplaced(Exception):
    """A value of another type, before anybody has said where it is."""

    def __init__(self, value: Any, shape: Shape) -> None:
        super().__init__()
        self.value = value
        self.shape = shape

    def told(self, struct: str, path: str) -> str:
        """Go's sentence; its paths have no indices, and end at a map that holds the value."""
        place = re.sub(r"\[\d+\]", "", path)
        return _mismatch(self.value, self.shape, f"struct field {struct}.{place}")


def _mismatch(value: Any, shape: Shape, place: str = "value") -> str:
    """Go's sentence about a value of another type."""
    return f"json: cannot unmarshal {_json_type(value, shape)} into Go {place} of type {go_type(shape)}"


def _json_type(value: Any, shape: Shape) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        # Only a number that the type cannot hold is shown.
        return f"number {json.dumps(value)}" if shape.kind in ("int32", "int64") else "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


_GO_TYPES = {"bytes": "[]uint8", "intorstring": "int32", "quantity": "resource.Quantity", "time": "v1.Time"}


def go_type(shape: Shape) -> str:
    """What Go calls a shape."""
    match shape.kind:
        case "list":
            return f"[]{go_type(shape.item)}"
        case "map":
            return "v1.ResourceList" if shape.item.kind == "quantity" else f"map[string]{go_type(shape.item)}"
        case "object":
            package, _, name = shape.type_name.rpartition(".")
            return f"{package.rpartition('.')[2]}.{name}"
        case kind:
            return _GO_TYPES.get(kind, kind)


def _string(value: Any) -> str:
    if type(value) is not str:
        raise _Unplaced(value, Shape("string"))
    return value


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise _Unplaced(value, Shape("bool"))
    return value


def _int32(value: Any) -> int:
    if type(value) is not int or not -INT32_MAX - 1 <= value <= INT32_MAX:
        raise _Unplaced(value, Shape("int32"))
    return value


def _int64(value: Any) -> int:
    if type(value) is not int or not -INT64_MAX - 1 <= value <= INT64_MAX:
        raise _Unplaced(value, Shape("int64"))
    return value


def _float64(value: Any) -> float:
    if type(value) not in (int, float):
        raise _Unplaced(value, Shape("float64"))
    return value  # type: ignore[no-any-return]  # just checked


def _int_or_string(value: Any) -> int | str:
    return value if type(value) is str else _int32(value)


def _bytes(value: Any) -> str:
    if type(value) is not str:
        raise _Unplaced(value, Shape("bytes"))
    try:
        base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        wrong = re.search(r"[^A-Za-z0-9+/]", value.rstrip("="))
        raise Mismatch(f"illegal base64 data at input byte {wrong.start() if wrong else len(value)}") from None
    return value


def _quantity(value: Any) -> str:
    if type(value) not in (str, int, float):
        raise Mismatch(QUANTITY_RULE)
    return _canonical(value if type(value) is str else json.dumps(value))


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    try:
        return parse_quantity(text).canonical()
    except InvalidQuantity:
        raise Mismatch(QUANTITY_RULE) from None


_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def _moment(value: Any, layout: str) -> datetime:
    if type(value) is not str:
        raise Mismatch(_mismatch(value, Shape("string")))
    found = _MOMENT.fullmatch(value)
    try:
        if found:
            fraction = ((found[3] or ".0") + "000000")[:7]
            return datetime.fromisoformat(f"{found[1]}T{found[2]}{fraction}{found[4]}").astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise Mismatch(f'parsing time {json.dumps(value)} as "{layout}": cannot parse {json.dumps(value)} as "2006"')


def _time(value: Any) -> str:
    return _known_time(value) if type(value) is str and len(value) <= _USUAL_TIME else _time_text(value)


def _time_text(value: Any) -> str:
    moment = _moment(value, "2006-01-02T15:04:05Z07:00")
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment.year >= 1000 else f"{moment.isoformat()[:19]}Z"


_USUAL_TIME = len("2006-01-02T15:04:05Z")
_known_time = lru_cache(maxsize=4096)(_time_text)  # most times of an object are those that it had before


def _micro_time(value: Any) -> str:
    moment = _moment(value, "2006-01-02T15:04:05.000000Z07:00")
    return moment.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


_SCALARS: dict[str, Callable[[Any], Any]] = {
    "string": _string,
    "bool": _boolean,
    "int32": _int32,
    "int64": _int64,
    "float64": _float64,
    "intorstring": _int_or_string,
    "bytes": _bytes,
    "quantity": _quantity,
    "time": _time,
    "microtime": _micro_time,
}


# Fields given twice --------------------------------------------------------------------------------------------------


class _Pairs(list[tuple[str, Any]]):
    """The fields of a JSON object in their order, the repeated ones too."""


def has_duplicates(body: bytes) -> bool:
    """Whether any object of a JSON text has a field twice; the usual answer, no, is quick."""
    is_repeated = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal is_repeated
        if len(pairs) > 1 and len({name for name, _ in pairs}) < len(pairs):
            is_repeated = True

    json.loads(body, object_pairs_hook=look)
    return is_repeated


def duplicate_fields(body: bytes) -> list[str]:
    """The paths of the fields that a JSON text has twice, in their order."""
    if not has_duplicates(body):
        return []
    found: dict[str, None] = {}
    _look_for_duplicates(json.loads(body, object_pairs_hook=_Pairs), "", found)
    return list(found)


def _look_for_duplicates(value: Any, path: str, found: dict[str, None]) -> None:
    if isinstance(value, _Pairs):
        seen = set()
        for name, one in value:
            where = f"{path}.{name}" if path else name
            if name in seen:
                found[where] = None
            seen.add(name)
            _look_for_duplicates(one, where, found)
    elif isinstance(value, list):
        for index, one in enumerate(value):
            _look_for_duplicates(one, f"{path}[{index}]", found)
