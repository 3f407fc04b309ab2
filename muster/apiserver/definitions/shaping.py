"""Objects brought into the form of their schema: unknown fields pruned, nulls dropped, defaults filled in.

Called for every body of a custom kind, and for stored objects that are older than the schema. All change what they get.
"""

from __future__ import annotations

from typing import Any

from muster.apiserver.definitions.schemas import ROOT_FIELDS, Schema
from muster.apiserver.facts import META
from muster.apiserver.field_checks import Mismatch, read

Json = dict[str, Any]
_MOST_DIGITS = 2**63
_OBJECT_META = META + "ObjectMeta"


def settle_numbers(value: Any) -> None:
    """Write whole numbers as such, in which form they come back from Kubernetes' store."""
    held = value.items() if isinstance(value, dict) else enumerate(value)
    for place, one in held:
        if isinstance(one, (dict, list)):
            settle_numbers(one)
        elif isinstance(one, float) and one.is_integer() and abs(one) < _MOST_DIGITS:
            value[place] = int(one)


def shape(given: Json, schema: Schema) -> list[str]:
    """Prune and default a whole object but for its metadata; gives the paths of the fields that it lost."""
    unknown: list[str] = []
    _prune_fields(given, schema, "", unknown, is_root=True)
    fill(given, schema)
    return unknown


def prune(value: Any, schema: Schema) -> list[str]:
    """Take the unknown fields out of a value; gives their paths."""
    unknown: list[str] = []
    _prune(value, schema, "", unknown)
    return unknown


def fill(given: Json, schema: Schema) -> None:
    """Set defaults in an object, and take out nulls that stand for nothing."""
    if schema.has_defaults:
        _default(given, schema, is_root=True)
    _drop_nulls(given, schema, is_root=True)


def read_metadata(given: Json) -> list[str]:
    """Bring the metadata of an object into its type; gives the unknown fields. Raises Mismatch."""
    metadata = given.get("metadata")
    if metadata is None:
        given.pop("metadata", None)
        return []
    if not isinstance(metadata, dict):
        word = {str: "string", bool: "bool", list: "array"}.get(type(metadata), "number")
        raise Mismatch(f"json: cannot unmarshal {word} into Go value of type v1.ObjectMeta")
    found = read(metadata, _OBJECT_META)
    given["metadata"] = found.value
    return [f"metadata.{path}" for path in found.unknown]


# Pruning -------------------------------------------------------------------------------------------------------------


def _prune(value: Any, schema: Schema | None, path: str, unknown: list[str]) -> None:
    if isinstance(value, dict):
        if schema is None:
            unknown += [_joined(path, name) for name in value]
            value.clear()
        else:
            _prune_fields(value, schema, path, unknown, is_root=False)
    elif isinstance(value, list):
        items = schema.items if schema is not None else None
        is_kept = schema is not None and schema.is_preserving and items is None
        for index, one in enumerate(() if is_kept else value):
            _prune(one, items, f"{path}[{index}]", unknown)


def _prune_fields(value: Json, schema: Schema, path: str, unknown: list[str], *, is_root: bool) -> None:
    has_kind = is_root or schema.is_embedded
    lost = []
    for name, one in value.items():
        if has_kind and name in ROOT_FIELDS:
            if name == "metadata" and not is_root:
                _prune_metadata(value, _joined(path, name), unknown)
            continue
        inner = schema.properties.get(name)
        if inner is None and not schema.has_additional:
            if not schema.is_preserving:
                lost.append(name)
            continue
        if isinstance(one, (dict, list)):
            _prune(one, inner or schema.additional, _joined(path, name), unknown)
    for name in lost:
        unknown.append(_joined(path, name))
        del value[name]


def _prune_metadata(holder: Json, path: str, unknown: list[str]) -> None:
    """The metadata of an object within another; what is no metadata at all is for the validation to say."""
    try:
        found = read(holder["metadata"], _OBJECT_META)
    except Mismatch:
        return
    holder["metadata"] = found.value
    unknown += [f"{path}.{one}" for one in found.unknown]


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# Defaults ------------------------------------------------------------------------------------------------------------


def _default(value: Any, schema: Schema, *, is_root: bool = False) -> None:
    if isinstance(value, dict):
        for name in schema.defaulted:
            inner = schema.properties[name]
            if is_root and name in ROOT_FIELDS:
                continue
            if name not in value or (value[name] is None and not inner.is_nullable):
                value[name] = copied(inner.default)
        for name, one in value.items():
            found = schema.below(name)
            if found is None or not found.has_defaults:
                continue
            if one is None and not found.is_nullable:
                one = value[name] = copied(found.default)
            _default(one, found)
    elif isinstance(value, list) and (items := schema.items) is not None and items.has_defaults:
        for index, one in enumerate(value):
            if one is None and not items.is_nullable:
                one = value[index] = copied(items.default)
            _default(one, items)


def _drop_nulls(value: Any, schema: Schema, *, is_root: bool = False) -> None:
    """Take out nulls where none may be: they mean that nothing was said."""
    if isinstance(value, dict):
        lost = []
        for name, one in value.items():
            if is_root and name in ROOT_FIELDS:
                continue
            found = schema.below(name)
            if found is None:
                continue
            if one is None:
                if not found.is_nullable:
                    lost.append(name)
            elif isinstance(one, (dict, list)):
                _drop_nulls(one, found)
        for name in lost:
            del value[name]
    elif isinstance(value, list) and schema.items is not None:
        for one in value:
            _drop_nulls(one, schema.items)


def copied(value: Any) -> Any:
    """A copy of a JSON value of its own."""
    if isinstance(value, dict):
        return {name: copied(one) for name, one in value.items()}
    return [copied(one) for one in value] if isinstance(value, list) else value
