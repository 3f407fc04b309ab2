"""A small language for the shape of objects, and what follows from a shape: problems, defaults, unknown fields.

The kinds of the dialects are written down in it (their `kinds`), and so is the configuration file. Every function
here recurses over the schema, whose depth is fixed in code, and never over what a user wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from typing import Any, TypeAlias

from muster.model.durations import duration_ns
from muster.model.errors import InvalidObject
from muster.model.fields import INT32_MAX, INT64_MAX, SHOWN_CHARACTERS, Fields, quantity_of, shown
from muster.model.plain import copied
from muster.model.quantity import ZERO, parse_quantity
from muster.model.texts import Form, nearest

LARGEST_AMOUNT = parse_quantity(str(INT64_MAX))
_TIME_CHARACTERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A string: how long, of which form, or one of a few."""

    least: int = 0
    most: int | None = None
    form: Form | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole number within the bounds of its width, or tighter ones."""

    least: int | None = None
    most: int | None = None
    is_long: bool = False  # 64 bits instead of 32
    is_unsized: bool = False  # a definition states no width; 64 bits are what it can hold


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""


@dataclass(frozen=True, slots=True)
class Number:
    """Any finite number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A quantity. In our own kinds it is never negative nor above 64 bits; in a pod it may be what it is."""

    is_free: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time as RFC 3339 writes it."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time as Go writes it."""


@dataclass(frozen=True, slots=True)
class IntOrText:
    """A port, by number or by name, and the like."""


@dataclass(frozen=True, slots=True)
class Anything:
    """A value that is kept as it is and never looked into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOf:
    """A list; `keys` name the fields that tell its objects apart, `is_set` forbids equal items."""

    item: Schema
    least: int = 0
    most: int | None = None
    keys: tuple[str, ...] = ()
    is_set: bool = False
    is_atomic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MapOf:
    """An object with free keys and values of one shape."""

    item: Schema
    most: int | None = None
    is_atomic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    """An object with known fields."""

    fields: Mapping[str, Schema]
    required: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    is_open: bool = False  # other fields are somebody else's business
    is_atomic: bool = False


Schema: TypeAlias = (
    Text | Whole | Flag | Number | Amount | Moment | Duration | IntOrText | Anything | ListOf | MapOf | Struct
)


def shape_problems(schema: Schema, value: Any, path: str) -> Iterator[InvalidObject]:
    """Everything about the value that its schema does not allow; unknown fields are left to `unknown_fields`."""
    match schema:
        case Struct():
            yield from _struct_problems(schema, value, path)
        case ListOf():
            yield from _list_problems(schema, value, path)
        case MapOf():
            yield from _map_problems(schema, value, path)
        case Anything():
            return
        case _:
            if (problem := _leaf_problem(schema, value, path)) is not None:
                yield problem


def _struct_problems(schema: Struct, value: Any, path: str) -> Iterator[InvalidObject]:
    if value is not None and not isinstance(value, Mapping):
        yield InvalidObject(path, f"is {shown(value)}", "give an object")
        return
    fields = Fields.of(value, path)
    for name in schema.required:
        if not fields.has(name):
            yield fields.error(name, "is missing", "give it a value")
    for name, node in schema.fields.items():
        if (item := fields.values.get(name)) is None:
            continue
        if isinstance(node, (Struct, ListOf, MapOf)):
            yield from shape_problems(node, item, fields.at(name))
        elif not isinstance(node, Anything) and (problem := _leaf_problem(node, item, fields.at(name))) is not None:
            yield problem


def _list_problems(schema: ListOf, value: Any, path: str) -> Iterator[InvalidObject]:
    if not isinstance(value, list):
        yield InvalidObject(path, f"is {shown(value)}", "give a list")
        return
    if len(value) < schema.least:
        yield InvalidObject(path, f"has {len(value)} items", f"give at least {schema.least}")
    if schema.most is not None and len(value) > schema.most:
        # Looking into the items of a list that is too long would only cost time.
        yield InvalidObject(path, f"has {len(value)} items", f"give at most {schema.most}")
        return
    for index, item in enumerate(value):
        yield from shape_problems(schema.item, item, f"{path}[{index}]")
    yield from _repeated_items(schema, value, path)


def _repeated_items(schema: ListOf, value: list[Any], path: str) -> Iterator[InvalidObject]:
    if not schema.is_set and not schema.keys:
        return
    seen: set[tuple[object, ...]] = set()
    for index, item in enumerate(value):
        parts = [item] if schema.is_set else [_part(item, name) for name in schema.keys]
        if not all(isinstance(part, (str, int)) for part in parts):
            continue
        if tuple(parts) in seen:
            where = f"{path}[{index}]" + (f".{schema.keys[0]}" if schema.keys else "")
            yield InvalidObject(where, f"repeats {', '.join(map(shown, parts))}", "each may be there once")
        seen.add(tuple(parts))


def _part(item: Any, name: str) -> Any:
    return item.get(name, "") if isinstance(item, Mapping) else None


def _map_problems(schema: MapOf, value: Any, path: str) -> Iterator[InvalidObject]:
    if not isinstance(value, Mapping):
        yield InvalidObject(path, f"is {shown(value)}", "give an object")
        return
    if schema.most is not None and len(value) > schema.most:
        yield InvalidObject(path, f"has {len(value)} entries", f"give at most {schema.most}")
        return
    for key, item in value.items():
        if not isinstance(key, str):
            yield InvalidObject(path, f"has the key {shown(key)}", "give a string as key")
        elif item is not None:
            yield from shape_problems(schema.item, item, f"{path}[{key}]")


def _leaf_problem(schema: Schema, value: Any, path: str) -> InvalidObject | None:
    """The problem of a value that has no parts."""
    if type(schema) is Text and type(value) is str:
        return _text_problem(schema, value, path)  # most are that, and need no more to be asked
    fields = Fields({"": value}, path)
    try:
        match schema:
            case Text():
                return _text_problem(schema, fields.text(""), path) if value is not None else _null(path, "a string")
            case Whole():
                return _whole_problem(schema, value, path)
            case Flag():
                fields.flag("")
            case Number():
                fields.number("")
                if isinstance(value, float) and not isfinite(value):
                    return InvalidObject(path, f"is {value}", "give a finite number")
            case Amount():
                return _amount_problem(schema, value, path)
            case Moment():
                return _moment_problem(value, path)
            case Duration():
                duration_ns(value, path)
            case IntOrText():
                if isinstance(value, bool) or not isinstance(value, (int, str)):
                    return InvalidObject(path, f"is {shown(value)}", "give a whole number or a string")
    except InvalidObject as problem:
        return InvalidObject(path, problem.problem, problem.hint)
    return None


def _null(path: str, wanted: str) -> InvalidObject:
    return InvalidObject(path, "is null", f"give {wanted}")


def _text_problem(schema: Text, text: str, path: str) -> InvalidObject | None:
    if schema.choices:
        if text in schema.choices:
            return None
        close = nearest(text, schema.choices)
        named = ", ".join(choice or '""' for choice in schema.choices)
        return InvalidObject(path, f"is {shown(text)}", f"did you mean {close}?" if close else f"give one of {named}")
    if schema.most is not None and len(text) > schema.most:
        return InvalidObject(path, f"has {len(text)} characters", f"give at most {schema.most}")
    if len(text) < schema.least:
        return InvalidObject(path, "is empty", f"give at least {schema.least} character")
    if schema.form is not None and not schema.form.holds(text):
        return InvalidObject(path, f"is {shown(text)}", f"give {schema.form.called}")
    return None


def _whole_problem(schema: Whole, value: Any, path: str) -> InvalidObject | None:
    width = INT64_MAX if schema.is_long or schema.is_unsized else INT32_MAX
    least = -width - 1 if schema.least is None else schema.least
    most = width if schema.most is None else schema.most
    if value is None:
        return _null(path, "a whole number")
    try:
        Fields({"": value}, path).integer("", least=least, most=most)
    except InvalidObject as problem:
        return InvalidObject(path, problem.problem, problem.hint)
    return None


def _amount_problem(schema: Amount, value: Any, path: str) -> InvalidObject | None:
    if value is None:
        return _null(path, 'a quantity such as "500m", "2Gi" or 3')
    if isinstance(value, float) and not schema.is_free and not value.is_integer():
        return InvalidObject(path, f"is the number {value}", f'give it as text: "{value}"')
    quantity = quantity_of(value, path)
    if quantity is None or schema.is_free:
        return None
    if quantity < ZERO:
        return InvalidObject(path, f"is {shown(value)}", "give 0 or more")
    if quantity > LARGEST_AMOUNT:
        return InvalidObject(path, f"is {shown(value)}", f"give at most {INT64_MAX}")
    return None


def _moment_problem(value: Any, path: str) -> InvalidObject | None:
    hint = "give a time such as 2030-01-31T12:00:00Z"
    if isinstance(value, str) and is_moment(value):
        return None
    return InvalidObject(path, f"is {shown(value)}", hint)


def is_moment(text: str) -> bool:
    """Whether a text is a time as RFC 3339 writes it: a date, a T, a time and a zone."""
    if len(text) > _TIME_CHARACTERS or len(text) < 20 or not text.isascii() or text[10] not in "Tt":
        return False
    if text[4] != "-" or text[7] != "-" or text[13] != ":" or text[16] != ":" or text[10:].count(",") > 0:
        return False
    zone = text[19:].lstrip(".0123456789") if text[19] == "." else text[19:]
    fraction = text[19 : len(text) - len(zone)]
    if fraction == "." or not (zone in ("Z", "z") or (len(zone) == 6 and zone[0] in "+-" and zone[3] == ":")):
        return False
    try:
        datetime.fromisoformat(text[:19].upper() + ("+00:00" if zone in ("Z", "z") else zone))
    except ValueError:
        return False
    return True


def unknown_fields(schema: Schema, value: Any, path: str) -> Iterator[InvalidObject]:
    """Every field that the schema does not have, with the known name that comes nearest."""
    match schema:
        case Struct() if isinstance(value, Mapping):
            for name, item in value.items():
                if name in schema.fields:
                    yield from unknown_fields(schema.fields[name], item, f"{path}.{name}" if path else name)
                elif not schema.is_open:
                    yield _unknown(name, schema, path)
        case ListOf() if isinstance(value, list):
            for index, item in enumerate(value):
                yield from unknown_fields(schema.item, item, f"{path}[{index}]")
        case MapOf() if isinstance(value, Mapping):
            for key, item in value.items():
                yield from unknown_fields(schema.item, item, f"{path}[{shown(key)}]")
        case _:
            return


def _unknown(name: object, schema: Struct, path: str) -> InvalidObject:
    close = nearest(name, schema.fields) if isinstance(name, str) else ""
    hint = f"did you mean {close}?" if close else "take it out"
    shown_name = name if isinstance(name, str) and len(name) <= SHOWN_CHARACTERS else shown(name)
    return InvalidObject(f"{path}.{shown_name}" if path else shown_name, "is not a known field", hint)


def with_defaults(schema: Schema, value: Any) -> Any:
    """A copy in which every absent field with a default has it; values of the wrong type are left as they are."""
    match schema:
        case Struct() if isinstance(value, Mapping):
            filled = {name: item for name, item in value.items() if item is not None}
            for name, default in schema.defaults.items():
                if name not in filled:
                    filled[name] = default
            return {
                name: with_defaults(schema.fields[name], item) if name in schema.fields else copied(item)
                for name, item in filled.items()
            }
        case ListOf() if isinstance(value, list):
            return [with_defaults(schema.item, item) for item in value]
        case MapOf() if isinstance(value, Mapping):
            return {key: with_defaults(schema.item, item) for key, item in value.items() if item is not None}
        case _:
            return copied(value)


def pruned(schema: Schema, value: Any) -> Any:
    """A copy without the fields that the schema does not have, as an API server stores it."""
    match schema:
        case Struct() if isinstance(value, Mapping):
            return {
                name: pruned(schema.fields[name], item) if name in schema.fields else copied(item)
                for name, item in value.items()
                if name in schema.fields or schema.is_open
            }
        case ListOf() if isinstance(value, list):
            return [pruned(schema.item, item) for item in value]
        case MapOf() if isinstance(value, Mapping):
            return {key: pruned(schema.item, item) for key, item in value.items()}
        case _:
            return copied(value)
