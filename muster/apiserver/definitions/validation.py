"""What is wrong with an object of a custom kind, in Kubernetes' words. Called by `kinds` for each write.

Nothing is said about a part that was there before and has not changed: an object does not become unwritable because its
definition was made stricter. Each value is looked at once for each schema that speaks of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from muster.apiserver.definitions.schemas import ROOT_FIELDS, Schema, exact_text, is_same, text_of
from muster.apiserver.kinds.problems import required, too_long, too_many
from muster.model.errors import InvalidObject, quoted

NOWHERE = "<nil>"  # what Kubernetes gives as the field of a problem that it has no path for
ABSENT: Any = object()  # there was nothing, or nothing that corresponds
INT32, INT64 = 2**31, 2**63
_TYPE_INVALID = "FieldValueTypeInvalid"


class Found(NamedTuple):
    """What is wrong with a value, and how much of the schema spoke of it."""

    problems: list[InvalidObject]
    matched: int


def problems_of(new: Any, schema: Schema, before: Any = ABSENT) -> list[InvalidObject]:
    """All that is wrong with the values of an object, but for its metadata."""
    found = _check(new, schema, "", before, is_root=True).problems
    repeated = list(_list_problems(new, schema, ""))
    if repeated and (before is ABSENT or not any(_list_problems(before, schema, ""))):
        found = [*found, *repeated]
    return list({(one.path, one.problem): one for one in found}.values())  # two schemas may say the same


def check_value(value: Any, schema: Schema) -> list[InvalidObject]:
    """What is wrong with one value, such as a default."""
    return _check(value, schema, "", ABSENT).problems


def _check(value: Any, schema: Schema, path: str, before: Any, *, is_root: bool = False) -> Found:
    if before is not ABSENT and is_unchanged(value, before, schema):
        return Found([], 1)
    if value is None:
        return Found([*_type_problems(value, schema, path), *_choice_problems(value, schema, path)], 1)
    found: list[InvalidObject] = _type_problems(value, schema, path)
    matched = 1
    if schema.choices:
        found += _choice_problems(value, schema, path)
    if isinstance(value, str):
        found += _text_problems(value, schema, path)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        found += _number_problems(value, schema, path)
    elif isinstance(value, list):
        inner = _check_items(value, schema, path, before)
        found += inner.problems
        matched += inner.matched
    elif isinstance(value, dict):
        inner = _check_fields(value, schema, path, before, is_root=is_root)
        found += inner.problems
        matched += inner.matched
    if schema.all_of or schema.any_of or schema.one_of or schema.not_this is not None:
        found += _junctor_problems(value, schema, path, is_root=is_root)
    return Found(found, matched)


def is_unchanged(value: Any, before: Any, schema: Schema) -> bool:
    """Whether a value is what it was; what cannot be followed from one state to the next counts as changed."""
    return is_same(value, before) and _is_traceable(value, schema)


def _is_traceable(value: Any, schema: Schema) -> bool:
    """Whether all fields are known to the schema, and all items of lists with keys have theirs."""
    if isinstance(value, dict):
        inside = ((one, schema.properties.get(name) or schema.additional) for name, one in value.items())
        return all(inner is not None and _is_traceable(one, inner) for one, inner in inside)
    if isinstance(value, list) and schema.items is not None and schema.list_type == "map":
        if not all(_has_keys(one, schema) and _is_traceable(one, schema.items) for one in value):
            return False
        first: dict[bytes, Any] = {}  # of two items with the same keys, both were the first
        return all(is_same(one, first.setdefault(key_of(one, schema), one)) for one in value)
    return True


def _has_keys(item: Any, schema: Schema) -> bool:
    if not isinstance(item, dict):
        return False
    return all(name in item and not isinstance(item[name], (dict, list)) for name in schema.map_keys)


# One value -----------------------------------------------------------------------------------------------------------


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _type_problems(value: Any, schema: Schema, path: str) -> list[InvalidObject]:
    if not schema.types or (value is None and schema.is_nullable):
        return []
    actual = _type_of(value)
    is_alike = actual in schema.types or (actual == "integer" and "number" in schema.types)
    is_alike = is_alike or (actual == "number" and "integer" in schema.types and value.is_integer())
    if schema.format_name and not schema.is_int_or_string:
        if schema.types == ("string",) and actual in ("string", "array"):
            # Kubernetes asks only the format of these, and formats say nothing about lists.
            is_right = actual == "array" or schema.format is None or schema.format(value)
            return [] if is_right else [_wrong_type(path, value, schema.format_name, value)]
        if not is_alike and actual not in ("string", "array"):
            form = {"integer": "int64", "number": "float64"}.get(actual, "")
            return [_wrong_type(path, form, schema.format_name, form)]
    return [] if is_alike else [_wrong_type(path, actual, ",".join(schema.types), actual)]


def _wrong_type(path: str, shown: Any, wanted: str, actual: str) -> InvalidObject:
    problem = f"Invalid value: {quoted(shown)}: {_in_body(path)} must be of type {wanted}: {quoted(actual)}"
    return InvalidObject(path, problem, cause=_TYPE_INVALID)


def _in_body(path: str) -> str:
    return f"{path} in body"


def _choice_problems(value: Any, schema: Schema, path: str) -> list[InvalidObject]:
    if not schema.choices or text_of(value) in schema.choice_texts:
        return []
    if isinstance(value, float) and math.isfinite(value) and exact_text(int(value)) in schema.choice_texts:
        return []  # Kubernetes compares a number with whole ones by what is whole of it
    texts = [one if isinstance(one, str) else json.dumps(one, separators=(",", ":")) for one in schema.choices]
    known = ", ".join(json.dumps(one, ensure_ascii=False) for one in texts)
    return [InvalidObject(path, f"Unsupported value: {quoted(value)}: supported values: {known}")]


def _text_problems(value: str, schema: Schema, path: str) -> Iterator[InvalidObject]:
    """The first thing that is wrong with a text."""
    bounds = schema.bounds
    if bounds.max_length is not None and len(value) > bounds.max_length:
        yield too_long(path, bounds.max_length)
    elif bounds.min_length is not None and len(value) < bounds.min_length:
        yield invalid(path, value, f"{_in_body(path)} should be at least {bounds.min_length} chars long")
    elif bounds.search is not None and not bounds.search(value):
        yield invalid(path, value, f"{_in_body(path)} should match '{bounds.pattern}'")


def _number_problems(value: float, schema: Schema, path: str) -> Iterator[InvalidObject]:
    bounds = schema.bounds
    if not _is_in_range(value, schema):
        yield nowhere(f"Checked value must be of type {_type_words(schema)} in {path}")
    if bounds.multiple_of is not None:
        yield from _bound_problems(bounds.multiple_of, "MultipleOf", schema, path)
        yield from _multiple_problems(value, bounds.multiple_of, path)
    if bounds.minimum is not None:
        yield from _bound_problems(bounds.minimum, "Minimum boundary", schema, path)
        minimum = _as(value, bounds.minimum, schema)
        if value < minimum or (bounds.is_above_minimum and value == minimum):
            words = "greater than" if bounds.is_above_minimum else "greater than or equal to"
            yield invalid(path, value, f"{_in_body(path)} should be {words} {number_text(minimum)}")
    if bounds.maximum is not None:
        yield from _bound_problems(bounds.maximum, "Maximum boundary", schema, path)
        maximum = _as(value, bounds.maximum, schema)
        if value > maximum or (bounds.is_below_maximum and value == maximum):
            words = "less than" if bounds.is_below_maximum else "less than or equal to"
            yield invalid(path, value, f"{_in_body(path)} should be {words} {number_text(maximum)}")


def _as(value: float, bound: float, schema: Schema) -> float:
    """A bound as Kubernetes compares it: whole numbers with what is whole of it, where it is of the schema's type."""
    return int(bound) if isinstance(value, int) and _is_in_range(bound, schema) else bound


def _bound_problems(bound: float, word: str, schema: Schema, path: str) -> Iterator[InvalidObject]:
    """A bound that no value of the type can have is told at each value."""
    if not _is_in_range(bound, schema):
        yield nowhere(f"{word} value must be of type {_type_words(schema)} in {path}")


def _type_words(schema: Schema) -> str:
    kind = ",".join(schema.types) or "number"
    return f"{kind} with format {schema.format_name}" if schema.format_name else f"{kind} (default format)"


def invalid(path: str, value: Any, detail: str) -> InvalidObject:
    """A wrong value, written as Kubernetes writes it."""
    return InvalidObject(path, f"Invalid value: {shown_value(value)}: {detail}")


def shown_value(value: Any) -> str:
    """A value in a message: numbers as Go has them, the rest as JSON without blanks, cut where it is long."""
    if isinstance(value, float):
        return number_text(value)
    return _compact(value) if isinstance(value, (dict, list)) else quoted(value)


def number_text(value: float) -> str:
    """A number with the fewest digits, and an exponent where it is large or small."""
    if isinstance(value, int) or not math.isfinite(value):
        return str(value)
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return repr(value).removesuffix(".0")
    precision = next(one for one in range(18) if float(f"{value:.{one}e}") == value)
    return f"{value:.{precision}e}"


def nowhere(message: str) -> InvalidObject:
    """A problem without a place of its own."""
    return InvalidObject(NOWHERE, f'Invalid value: "": {message}')


def _is_in_range(value: float, schema: Schema) -> bool:
    if schema.types == ("integer",):
        if not _is_whole(value):
            return False
        match schema.format_name:
            case "int32":
                return -INT32 <= value < INT32
            case "uint32":
                return 0 <= value < 2 * INT32
            case "uint64":
                return 0 <= value < 2 * INT64
        return -INT64 <= value < INT64
    return schema.format_name not in ("float", "float32") or abs(value) <= 3.4028235e38


def _is_whole(value: float) -> bool:
    return isinstance(value, int) or value.is_integer()


def _multiple_problems(value: float, factor: float, path: str) -> Iterator[InvalidObject]:
    if isinstance(value, int):
        factor = int(factor)  # as Kubernetes divides whole numbers: by what is whole of the factor
    if factor <= 0:
        yield invalid(path, value, f"factor MultipleOf declared for {path} must be positive: {number_text(factor)}")
        return
    is_multiple = value % factor == 0 if isinstance(value, int) else _divides(value, factor)
    if not is_multiple:
        yield invalid(path, value, f"{_in_body(path)} should be a multiple of {number_text(factor)}")


def _divides(value: float, factor: float) -> bool:
    quotient = value / factor if factor >= 1 else 1 / factor * value
    nearest = round(quotient) if math.isfinite(quotient) else math.nan
    return abs(quotient - nearest) < 1e-9 * max(1.0, abs(quotient))


# What holds others ---------------------------------------------------------------------------------------------------


def _check_items(value: list[Any], schema: Schema, path: str, before: Any) -> Found:
    bounds = schema.bounds
    found: list[InvalidObject] = []
    if bounds.max_items is not None and len(value) > bounds.max_items:
        found.append(too_many(path, len(value), bounds.max_items))
    if bounds.min_items is not None and len(value) < bounds.min_items:
        found.append(invalid(path, len(value), f"{_in_body(path)} should have at least {bounds.min_items} items"))
    matched = 0
    if schema.items is not None:
        earlier = Earlier(schema, before)
        for index, one in enumerate(value):
            inner = _check(one, schema.items, f"{path}[{index}]", earlier.of(one))
            found += inner.problems
            matched += inner.matched
    return Found(found, matched)


class Earlier:
    """The items of a list as they were, for those of a list whose items have keys."""

    def __init__(self, schema: Schema, before: Any) -> None:
        self._schema = schema
        self._items: dict[bytes, Any] = {}
        if schema.list_type == "map" and isinstance(before, list):
            for one in before:
                if _has_keys(one, schema):
                    self._items.setdefault(key_of(one, schema), one)

    def of(self, item: Any) -> Any:
        """What the item was before."""
        is_known = bool(self._items) and _has_keys(item, self._schema)
        return self._items.get(key_of(item, self._schema), ABSENT) if is_known else ABSENT


def key_of(item: dict[str, Any], schema: Schema) -> bytes:
    """What tells an item of a list from the others."""
    return text_of([item.get(name) for name in schema.map_keys])


def _check_fields(value: dict[str, Any], schema: Schema, path: str, before: Any, *, is_root: bool) -> Found:
    bounds = schema.bounds
    found: list[InvalidObject] = []
    if bounds.min_properties is not None and len(value) < bounds.min_properties:
        why = f"{_in_body(path)} should have at least {bounds.min_properties} properties"
        found.append(invalid(path, len(value), why))
    if bounds.max_properties is not None and len(value) > bounds.max_properties:
        found.append(too_many(path, len(value), bounds.max_properties))
    found += [required(_at(path, name)) for name in bounds.required if name not in value]
    matched = 0
    had = before if isinstance(before, dict) and schema.map_type != "atomic" else {}
    for name, one in value.items():
        inner = schema.properties.get(name) or schema.additional
        if inner is None or (is_root and name == "metadata"):
            continue
        checked = _check(one, inner, _at(path, name), had.get(name, ABSENT))
        found += checked.problems
        matched += checked.matched
    return Found(found, matched)


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# Several schemas for one value ---------------------------------------------------------------------------------------


def _junctor_problems(value: Any, schema: Schema, path: str, *, is_root: bool) -> Iterator[InvalidObject]:
    def look(one: Schema) -> Found:
        return _check(value, one, path, ABSENT, is_root=is_root)

    if schema.any_of:
        yield from _any_problems([*map(look, schema.any_of)], path)
    if schema.one_of:
        yield from _one_problems([*map(look, schema.one_of)], path)
    if schema.all_of:
        every = [*map(look, schema.all_of)]
        yield from (problem for one in every for problem in one.problems)
        failed = sum(bool(one.problems) for one in every)
        if failed:
            end = ". None validated" if failed == len(every) else ""
            yield nowhere(f'"{path}" must validate all the schemas (allOf){end}')
    if schema.not_this is not None and not look(schema.not_this).problems:
        yield nowhere(f'"{path}" must not validate the schema (not)')


def _any_problems(found: list[Found], path: str) -> Iterator[InvalidObject]:
    if all(one.problems for one in found):
        yield nowhere(f'"{path}" must validate at least one schema (anyOf)')
        yield from max(found, key=lambda one: one.matched).problems


def _one_problems(found: list[Found], path: str) -> Iterator[InvalidObject]:
    valid = sum(not one.problems for one in found)
    if valid == 1:
        return
    words = f"Found {valid} valid alternatives" if valid else "Found none valid"
    yield nowhere(f'"{path}" must validate one and only one schema (oneOf). {words}')
    if not valid:
        yield from max(found, key=lambda one: one.matched).problems


# Lists whose items differ --------------------------------------------------------------------------------------------


def _list_problems(value: Any, schema: Schema, path: str) -> Iterator[InvalidObject]:
    if isinstance(value, dict):
        for name, one in value.items():
            inner = schema.properties.get(name) or schema.additional
            if inner is not None and isinstance(one, (dict, list)):
                where = _at(path, name) if name in schema.properties else f"{path}[{name}]"
                yield from _list_problems(one, inner, where)
    elif isinstance(value, list) and schema.items is not None:
        yield from _repeated(value, schema, path)
        for index, one in enumerate(value):
            if isinstance(one, (dict, list)):
                yield from _list_problems(one, schema.items, f"{path}[{index}]")


def _repeated(value: list[Any], schema: Schema, path: str) -> Iterator[InvalidObject]:
    """Items that are there twice in a list where each is there once; each of them is told once."""
    if schema.list_type not in ("set", "map"):
        return
    seen: dict[bytes, bool] = {}
    shown: Any
    if schema.list_type == "map":
        other = next((at for at, one in enumerate(value) if one is not None and not isinstance(one, dict)), None)
        if other is not None:
            yield invalid(f"{path}[{other}]", value[other], "must be an object for an array of list-type map")
            return
    for index, one in enumerate(value):
        if schema.list_type == "map":
            held = one or {}
            shown = {name: held[name] for name in schema.map_keys if name in held}
            key = key_of(held, schema)
        else:
            shown, key = one, exact_text(one)
        if seen.get(key) is False:
            where = f"{path}[{index}]"
            yield InvalidObject(where, f"Duplicate value: {shown_value(shown)}")
        seen[key] = key in seen


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)[:400]


# Objects within objects ----------------------------------------------------------------------------------------------


def embedded_of(value: Any, schema: Schema, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects in a value that have a kind and metadata of their own."""
    if isinstance(value, dict):
        if schema.is_embedded:
            yield path, value
        for name, one in value.items():
            if not path and name in ROOT_FIELDS:
                continue
            inner = schema.properties.get(name) or schema.additional
            if inner is not None and isinstance(one, (dict, list)):
                where = _at(path, name) if name in schema.properties else f"{path}[{name}]"
                yield from embedded_of(one, inner, where)
    elif isinstance(value, list) and schema.items is not None:
        for index, one in enumerate(value):
            yield from embedded_of(one, schema.items, f"{path}[{index}]")
