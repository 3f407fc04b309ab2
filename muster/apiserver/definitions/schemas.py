"""The schema of a definition's version as a tree of small objects, compiled once. Used by all that reads such objects.

`compile_schema` takes what `openAPIV3Schema` holds, which `structure` has found to be in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import re2  # type: ignore[import-untyped]

from muster.apiserver.definitions.formats import NUMBER_FORMATS, Format, format_of

Json = dict[str, Any]
NOTHING: Mapping[str, Schema] = {}
ROOT_FIELDS = ("apiVersion", "kind", "metadata")  # what every object has, whatever its schema says


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a value has to keep to, beyond its type; what is `None` is not limited."""

    minimum: float | None = None
    maximum: float | None = None
    is_above_minimum: bool = False  # the minimum itself is not allowed
    is_below_maximum: bool = False
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    search: Any = None  # the compiled pattern
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    required: tuple[str, ...] = ()


UNBOUND = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What is known of one value of an object."""

    types: tuple[str, ...] = ()  # empty: any
    format_name: str = ""
    format: Format | None = None
    is_nullable: bool = False
    is_int_or_string: bool = False
    is_preserving: bool = False  # fields that nothing is said of stay
    is_embedded: bool = False  # an object with a kind and metadata of its own
    list_type: str = ""
    map_keys: tuple[str, ...] = ()
    map_type: str = ""
    properties: Mapping[str, Schema] = field(default_factory=dict)
    items: Schema | None = None
    has_additional: bool = False
    additional: Schema | None = None  # of the values of a map
    default: Any = None
    bounds: Bounds = UNBOUND
    choices: tuple[Any, ...] = ()
    choice_texts: frozenset[bytes] = frozenset()
    all_of: tuple[Schema, ...] = ()
    any_of: tuple[Schema, ...] = ()
    one_of: tuple[Schema, ...] = ()
    not_this: Schema | None = None
    rules: tuple[Json, ...] = ()  # x-kubernetes-validations as they are given
    has_defaults: bool = False  # here or below
    defaulted: tuple[str, ...] = ()  # the properties that have one

    def below(self, name: str) -> Schema | None:
        """The schema of one field."""
        found = self.properties.get(name)
        return found if found is not None else self.additional


def compile_schema(given: Json) -> Schema:
    """The tree of a schema."""
    properties = {name: compile_schema(one) for name, one in (given.get("properties") or {}).items()}
    items = given.get("items")
    extra = given.get("additionalProperties")
    inner = compile_schema(items) if isinstance(items, dict) else None
    additional = compile_schema(extra) if isinstance(extra, dict) else None
    choices = tuple(given.get("enum") or ())
    name = given.get("format") or ""
    name = name if format_of(name) is not None or name in NUMBER_FORMATS else ""  # others say nothing
    is_int_or_string = bool(given.get("x-kubernetes-int-or-string"))
    inside = [*properties.values(), *(one for one in (inner, additional) if one is not None)]
    return Schema(
        types=("integer", "string") if is_int_or_string else (given["type"],) if given.get("type") else (),
        format_name=name,
        format=format_of(name),
        is_nullable=bool(given.get("nullable")),
        is_int_or_string=is_int_or_string,
        is_preserving=bool(given.get("x-kubernetes-preserve-unknown-fields")),
        is_embedded=bool(given.get("x-kubernetes-embedded-resource")),
        list_type=given.get("x-kubernetes-list-type") or "",
        map_keys=tuple(given.get("x-kubernetes-list-map-keys") or ()),
        map_type=given.get("x-kubernetes-map-type") or "",
        properties=properties,
        items=inner,
        has_additional=extra not in (None, False),
        additional=additional,
        default=given.get("default"),
        bounds=_bounds(given),
        choices=choices,
        choice_texts=frozenset(map(text_of, choices)),
        all_of=tuple(map(compile_schema, given.get("allOf") or ())),
        any_of=tuple(map(compile_schema, given.get("anyOf") or ())),
        one_of=tuple(map(compile_schema, given.get("oneOf") or ())),
        not_this=compile_schema(given["not"]) if isinstance(given.get("not"), dict) else None,
        rules=tuple(given.get("x-kubernetes-validations") or ()),
        has_defaults=given.get("default") is not None or any(one.has_defaults for one in inside),
        defaulted=tuple(name for name, one in properties.items() if one.default is not None),
    )


def _bounds(given: Json) -> Bounds:
    pattern = given.get("pattern") or ""
    return Bounds(
        minimum=given.get("minimum"),
        maximum=given.get("maximum"),
        is_above_minimum=bool(given.get("exclusiveMinimum")),
        is_below_maximum=bool(given.get("exclusiveMaximum")),
        multiple_of=given.get("multipleOf"),
        min_length=given.get("minLength"),
        max_length=given.get("maxLength"),
        pattern=pattern,
        search=compile_pattern(pattern).search if pattern else None,
        min_items=given.get("minItems"),
        max_items=given.get("maxItems"),
        min_properties=given.get("minProperties"),
        max_properties=given.get("maxProperties"),
        required=tuple(given.get("required") or ()),
    )


def compile_pattern(pattern: str) -> Any:
    """A pattern that takes time in proportion to the text, whatever it says; raises ValueError for one that is none."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except re2.error as problem:
        told = problem.args[0] if problem.args else ""
        raise ValueError(told.decode(errors="replace") if isinstance(told, bytes) else str(told)) from None


# A text that two values share when they are the very same: 1 is not 1.0.
exact_text = msgspec.json.Encoder(order="sorted").encode


def text_of(value: Any) -> bytes:
    """A text that two values share when they are the same to JSON: 1 is 1.0, but not true."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return exact_text(value)


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are the same to JSON; Python alone takes true for 1."""
    if isinstance(one, dict):
        if not isinstance(other, dict) or len(one) != len(other):
            return False
        return all(name in other and is_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return (
            isinstance(other, list)
            and len(one) == len(other)
            and all(is_same(left, right) for left, right in zip(one, other, strict=True))
        )
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)
