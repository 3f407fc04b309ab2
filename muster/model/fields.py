"""Typed access to parsed objects that names the field when something is wrong. Used by every reader of manifests.

`null` means absent everywhere, as it does in Kubernetes. A reader asks for what it expects and gets a value of
that type or `InvalidObject` with the path, so no reader checks types by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from muster.model.errors import InvalidObject
from muster.model.quantity import InvalidQuantity, Quantity, parse_quantity

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
SHOWN_CHARACTERS = 60


def shown(value: object) -> str:
    """A short text of any value for an error message."""
    if isinstance(value, (Mapping, list)):
        return "an object" if isinstance(value, Mapping) else "a list"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return "a number of more than 77 digits"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


class Fields(Struct, frozen=True):
    """One object of a manifest and the path that leads to it."""

    values: Mapping[str, Any]
    path: str = ""

    @staticmethod
    def of(value: object, path: str = "") -> Fields:
        """The fields of a value that must be an object; `None` is an empty one."""
        if value is None:
            return Fields({}, path)
        # The plain question first: nearly all are plain, and asking for a Mapping takes ten times as long.
        if type(value) is not dict and not isinstance(value, Mapping):
            raise InvalidObject(path, f"is {shown(value)}", "give an object")
        return Fields(value, path)

    def at(self, name: str) -> str:
        """The path of one field."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def raw(self, name: str) -> Any:
        """The value as it stands, `None` when absent."""
        return self.values.get(name)

    def error(self, name: str, problem: str, hint: str = "") -> InvalidObject:
        return InvalidObject(self.at(name), problem, hint)

    def text(self, name: str, default: str = "") -> str:
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.error(name, f"is {shown(value)}", "give a string")
        return value

    def choice(self, name: str, choices: tuple[str, ...], default: str = "") -> str:
        """A string that must be one of the given ones; absent means the default."""
        value = self.text(name, default)
        if value != default and value not in choices:
            raise self.error(name, f"is {shown(value)}", "give one of " + ", ".join(choices))
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, f"is {shown(value)}", "give true or false")
        return value

    def integer(self, name: str, default: int = 0, *, least: int = -INT32_MAX - 1, most: int = INT32_MAX) -> int:
        value = self.values.get(name)
        if value is None:
            return default
        # Kubernetes decodes 3.0 into an integer field, and so do we.
        if isinstance(value, float) and value.is_integer() and abs(value) <= INT64_MAX:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(name, f"is {shown(value)}", "give a whole number")
        if not least <= value <= most:
            raise self.error(name, f"is {shown(value)}", f"give a number from {least} to {most}")
        return value

    def number(self, name: str, default: float = 0.0) -> float:
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(name, f"is {shown(value)}", "give a number")
        if isinstance(value, int) and value.bit_length() > 1000:
            raise self.error(name, f"is {shown(value)}", "give a smaller number")
        return float(value)

    def quantity(self, name: str) -> Quantity | None:
        """A Kubernetes quantity such as 500m, 2Gi or 3; `None` when absent."""
        return quantity_of(self.values.get(name), self.at(name))

    def child(self, name: str) -> Fields:
        """The object in a field; an absent one is empty."""
        value, path = self.values.get(name), f"{self.path}.{name}" if self.path else name
        # What nearly all are is made here: this is asked more often than anything else.
        return Fields(value, path) if type(value) is dict else Fields.of(value, path)

    def items(self, name: str) -> list[Any]:
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(name, f"is {shown(value)}", "give a list")
        return value

    def children(self, name: str) -> Iterator[Fields]:
        """The objects of a list, each with its index in the path; a null among them is an empty object."""
        if self.values.get(name) is None:
            return
        path = self.at(name)
        for index, item in enumerate(self.items(name)):
            yield Fields.of(item, f"{path}[{index}]")

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        values = self.items(name)
        for index, value in enumerate(values):
            if not isinstance(value, str):
                raise InvalidObject(f"{self.at(name)}[{index}]", f"is {shown(value)}", "give a string")
        return tuple(values)

    def text_map(self, name: str) -> dict[str, str]:
        """An object whose values are all strings, as labels are; a null value is an empty string."""
        value = self.values.get(name)
        return {} if value is None else text_map_of(value, self.at(name))

    def quantities(self, name: str) -> dict[str, Quantity]:
        """An object whose values are all quantities, as resource lists are; nulls are left out."""
        result: dict[str, Quantity] = {}
        if self.values.get(name) is None:
            return result
        child = self.child(name)
        for key, value in child.values.items():
            if not isinstance(key, str):
                raise InvalidObject(child.path, f"has the key {shown(key)}", "give a string as key")
            quantity = quantity_of(value, f"{child.path}[{key}]")
            if quantity is not None:
                result[key] = quantity
        return result


def text_map_of(value: object, path: str) -> dict[str, str]:
    """A value that must be an object of strings."""
    fields = Fields.of(value, path)
    result = {}
    for key, item in fields.values.items():
        if not isinstance(key, str):
            raise InvalidObject(path, f"has the key {shown(key)}", "give a string as key")
        if item is not None and not isinstance(item, str):
            raise InvalidObject(f"{path}[{key}]", f"is {shown(item)}", f'give a string, such as "{shown(item)}"')
        result[key] = item or ""
    return result


def quantity_of(value: object, path: str) -> Quantity | None:
    """A value that must be a quantity: text, or a plain number as YAML writes it."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise InvalidObject(path, f"is {shown(value)}", 'give a quantity such as "500m", "2Gi" or 3')
    if isinstance(value, int) and value.bit_length() > 4096:
        raise InvalidObject(path, f"is {shown(value)}", "give a smaller number")
    try:
        return parse_quantity(value if isinstance(value, str) else repr(value))
    except InvalidQuantity as problem:
        raise InvalidObject(
            path, f"is {shown(value)}: {problem}", 'give a quantity such as "500m", "2Gi" or 3'
        ) from None
