"""A one-line notation for objects of many plain fields, so that the shape of a pod fits on two pages.

    fields("name! image args[] tty:bool port:int=80 labels{}", probe=PROBE)

is an object with a required text, a text, a list of texts, a flag, a number that is 80 when absent, an object of
texts, and a part described elsewhere. A part is named in the line only to make it required ("spec!").
"""

from __future__ import annotations

from typing import Any

from muster.model.shapes import (
    Amount,
    Flag,
    IntOrText,
    ListOf,
    MapOf,
    Schema,
    Struct,
    Text,
    Whole,
)

TEXTS = ListOf(item=Text(), is_atomic=True)
POD_QUANTITIES = MapOf(item=Amount(is_free=True))
_TYPES: dict[str, Schema] = {
    "": Text(),
    "bool": Flag(),
    "int": Whole(),
    "long": Whole(is_long=True),
    "quantity": Amount(is_free=True),
    "port": IntOrText(),
}
_FLAGS = {"true": True, "false": False}


def fields(line: str, *, is_atomic: bool = False, **parts: Schema) -> Struct:
    """The object that a line of the notation describes."""
    shapes: dict[str, Schema] = {}
    required: list[str] = []
    defaults: dict[str, Any] = {}
    for word in line.split():
        declared, has_default, default = word.partition("=")
        name, _, type_name = declared.rstrip("!").partition(":")
        is_list, is_map = name.endswith("[]"), name.endswith("{}")
        name = name[:-2] if is_list or is_map else name
        if declared.endswith("!"):
            required.append(name)
        if has_default:
            defaults[name] = _FLAGS.get(default, default)
        if is_list:
            shapes[name] = TEXTS
        elif is_map:
            shapes[name] = MapOf(item=Text())
        else:
            shapes[name] = _TYPES[type_name]
    return Struct(fields={**shapes, **parts}, required=tuple(sorted(required)), defaults=defaults, is_atomic=is_atomic)


def listed(item: Schema, *keys: str) -> ListOf:
    """A list of objects; with keys it is one that tells them apart, else it is replaced as a whole."""
    return ListOf(item=item, keys=keys, is_atomic=not keys)
