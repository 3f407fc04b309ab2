"""What is wrong with the schema of a definition: it has to say of each field what it is. Called by `checks`.

Paths are those of Kubernetes: `properties[spec].items.type` below the place where the schema is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.apiserver.definitions.rules import rule_problems
from muster.apiserver.definitions.schemas import compile_pattern, compile_schema
from muster.apiserver.definitions.shaping import copied, prune
from muster.apiserver.definitions.validation import NOWHERE, check_value, embedded_of
from muster.apiserver.kinds.problems import Problems, forbidden, invalid, not_supported, required
from muster.model.errors import InvalidObject

Json = dict[str, Any]
TYPES = ("array", "boolean", "integer", "number", "object", "string")
_SCALARS = ("boolean", "integer", "number", "string")
_KINDS = ("allOf", "anyOf", "oneOf")
_LIST_TYPES = ("atomic", "set", "map")
_NOT_SUPPORTED = ("additionalItems", "patternProperties", "definitions", "dependencies", "$ref", "id")
# What a schema beside another must not say, and what it has to be instead.
_NOT_NESTED = {
    "description": "must be empty to be structural",
    "type": "must be empty to be structural",
    "title": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "additionalProperties": "must be undefined to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def schema_problems(schema: Json, path: str) -> list[InvalidObject]:
    """All that is wrong with a whole schema."""
    if _has_word(schema, "$schema"):
        return [invalid(path, "", "OpenAPIV3Schema 'schema' is not supported")]
    found = [*_root_problems(schema, path), *_node_problems(schema, path, level="root")]
    if found:
        return found
    whole = {**schema, "x-kubernetes-embedded-resource": True}
    return [*_default_problems(whole, path), *rule_problems(schema, path)]


def _has_word(schema: Json, word: str) -> bool:
    return bool(schema.get(word)) or any(_has_word(one, word) for one in schemas_in(schema))


def schemas_in(schema: Json) -> Iterator[Json]:
    """The schemas right below one."""
    for word in ("items", "additionalProperties", "additionalItems", "not"):
        if isinstance(schema.get(word), dict):
            yield schema[word]
    for word in _KINDS:
        yield from schema.get(word) or ()
    yield from (schema.get("properties") or {}).values()


def _root_problems(schema: Json, path: str) -> Problems:
    if not schema.get("type"):
        yield required(f"{path}.type", "must not be empty at the root")
    elif schema["type"] != "object":
        yield invalid(f"{path}.type", schema["type"], "must be object at the root")
    if schema.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")


def _node_problems(schema: Json, path: str, *, level: str) -> Problems:
    yield from _word_problems(schema, path)
    yield from _type_problems(schema, path, level=level)
    yield from _list_problems(schema, path)
    yield from _map_problems(schema, path)
    if level == "root" or schema.get("x-kubernetes-embedded-resource"):
        yield from _identity_problems(schema, path, level=level)
    for word in _KINDS:
        for index, one in enumerate(schema.get(word) or ()):
            yield from _nested_problems(one, f"{path}.{word}[{index}]", allowed=_allowed_types(schema, word, index))
    if isinstance(schema.get("not"), dict):
        yield from _nested_problems(schema["not"], f"{path}.not", allowed=())
    for name, one in (schema.get("properties") or {}).items():
        yield from _node_problems(one, f"{path}.properties[{name}]", level="field")
    if isinstance(schema.get("items"), dict):
        yield from _node_problems(schema["items"], f"{path}.items", level="item")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _node_problems(schema["additionalProperties"], f"{path}.additionalProperties", level="field")


def _word_problems(schema: Json, path: str) -> Problems:
    """Words that Kubernetes does not take, or not in this way."""
    for word in _NOT_SUPPORTED:
        if schema.get(word) not in (None, "", {}, []):
            yield forbidden(f"{path}.{word}", f"{word} is not supported")
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", why)
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("additionalProperties") not in (None, False) and schema.get("properties"):
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    if pattern := schema.get("pattern"):
        try:
            compile_pattern(pattern)
        except ValueError as problem:
            yield invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {problem}")
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        if not (rule.get("rule") or "").strip():
            yield required(f"{path}.x-kubernetes-validations[{index}].rule", "rule is not specified")


def _type_problems(schema: Json, path: str, *, level: str) -> Problems:
    kind = schema.get("type")
    is_int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    preserves = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if kind and kind not in TYPES:
        yield not_supported(f"{path}.type", kind, TYPES)
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if kind == "array" and schema.get("items") is None:
        yield required(f"{path}.items", "must be specified")
    if is_int_or_string and preserves:
        why = "must be false if x-kubernetes-int-or-string is true"
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", True, why)
    if schema.get("x-kubernetes-embedded-resource"):
        yield from _embedded_problems(schema, path)
    elif not kind and not is_int_or_string and not preserves and not schema.get("$ref") and level != "root":
        where = "array items" if level == "item" else "object fields"
        yield required(f"{path}.type", f"must not be empty for specified {where}")


def _embedded_problems(schema: Json, path: str) -> Problems:
    why = "must be object if x-kubernetes-embedded-resource is true"
    if not schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties"):
        reason = "x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        yield required(f"{path}.properties", f"must not be empty if {reason}")
    if not schema.get("type"):
        yield required(f"{path}.type", why)
    elif schema["type"] != "object":
        yield invalid(f"{path}.type", schema["type"], why)


def _identity_problems(schema: Json, path: str, *, level: str) -> Problems:
    """What every object has by itself cannot be described as something else."""
    fields = schema.get("properties") or {}
    for name in ("apiVersion", "kind"):
        if name in fields and fields[name].get("type") != "string":
            yield invalid(f"{path}.properties[{name}].type", fields[name].get("type") or "", "must be string")
    metadata = fields.get("metadata")
    if metadata is None:
        return
    if metadata.get("type") != "object":
        yield invalid(f"{path}.properties[metadata].type", metadata.get("type") or "", "must be object")
    elif level == "root" and not _is_plain_metadata(metadata):
        why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden(f"{path}.properties[metadata]", why)


def _is_plain_metadata(metadata: Json) -> bool:
    return set(metadata) <= {"type", "properties", "description"} and set(metadata.get("properties") or ()) <= {
        "name",
        "generateName",
    }


def _list_problems(schema: Json, path: str) -> Problems:
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    given = schema.get("items")
    items: Json = given if isinstance(given, dict) else {}
    if list_type is not None:
        if list_type not in _LIST_TYPES:
            known = ", ".join(f'"{one}"' for one in _LIST_TYPES)
            problem = f'Unsupported value: "{list_type}": supported values: {known}'
            yield InvalidObject(f"{path}.x-kubernetes-list-type", problem)
        if schema.get("type") != "array":
            why = "must be array if x-kubernetes-list-type is specified"
            yield invalid(f"{path}.type", schema.get("type") or "", why)
    if list_type in ("set", "map") and items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    if list_type == "set":
        yield from _set_problems(items, path)
    if list_type == "map":
        yield from _keyed_problems(items, keys, path)
    elif keys and list_type is None:
        yield required(f"{path}.x-kubernetes-list-type", "must be map if x-kubernetes-list-map-keys is non-empty")
    elif keys:
        why = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield invalid(f"{path}.x-kubernetes-list-type", list_type, why)


def _set_problems(items: Json, path: str) -> Problems:
    why = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid(f"{path}.items.x-kubernetes-map-type", items.get("x-kubernetes-map-type"), why)
    if items.get("type") == "array" and items.get("x-kubernetes-list-type") not in (None, "atomic"):
        yield invalid(f"{path}.items.x-kubernetes-list-type", items["x-kubernetes-list-type"], why)


def _keyed_problems(items: Json, keys: list[str], path: str) -> Problems:
    if not keys:
        yield required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    if items and items.get("type") != "object":
        why = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type") or "", why)
        return
    fields = items.get("properties") or {}
    if not set(keys) <= set(fields):
        yield invalid(f"{path}.x-kubernetes-list-map-keys", keys, "entries must all be names of item properties")
    if len(set(keys)) < len(keys):
        yield invalid(f"{path}.x-kubernetes-list-map-keys", keys, "must not contain duplicate entries")
    for name in dict.fromkeys(keys):
        if name in fields:
            is_needed = name in (items.get("required") or ())
            yield from _key_problems(fields[name], f"{path}.items.properties[{name}]", is_needed=is_needed)


def _key_problems(field: Json, path: str, *, is_needed: bool) -> Problems:
    if field.get("type") not in _SCALARS:
        why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.type", field.get("type") or "", why)
    start = "this property is in x-kubernetes-list-map-keys, so it"
    if not is_needed and field.get("default") is None:
        yield required(f"{path}.default", f"{start} must have a default or be a required property")
    if field.get("nullable"):
        yield forbidden(f"{path}.nullable", f"{start} cannot be nullable")


def _map_problems(schema: Json, path: str) -> Problems:
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is None:
        return
    if map_type not in ("atomic", "granular"):
        yield not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))
    if schema.get("type") != "object":
        why = "must be object if x-kubernetes-map-type is specified"
        yield invalid(f"{path}.type", schema.get("type") or "", why)


# Schemas beside others -----------------------------------------------------------------------------------------------


def _allowed_types(schema: Json, word: str, index: int) -> tuple[str, ...]:
    """The types that a schema beside another may name: both together where a value is a number or a text."""
    if word == "anyOf" and schema["anyOf"] == _INT_OR_STRING and not schema.get("type"):
        return ("integer", "string")
    if not schema.get("x-kubernetes-int-or-string"):
        return ()
    is_first = word == "allOf" and index == 0 and (schema["allOf"][0].get("anyOf") == _INT_OR_STRING)
    return ("below",) if is_first else ()


def _nested_problems(schema: Json, path: str, *, allowed: tuple[str, ...]) -> Problems:
    for word, why in _NOT_NESTED.items():
        if schema.get(word) in (None, "", False, [], {}):
            continue
        if word != "type" or schema[word] not in allowed:
            yield forbidden(f"{path}.{word}", why)
    yield from _word_problems({name: one for name, one in schema.items() if name not in _NOT_NESTED}, path)
    inner = ("integer", "string") if allowed == ("below",) else ()
    for where, one in _nested_in(schema, path):
        yield from _nested_problems(one, where, allowed=inner)


def _nested_in(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    for word in _KINDS:
        for index, one in enumerate(schema.get(word) or ()):
            yield f"{path}.{word}[{index}]", one
    if isinstance(schema.get("not"), dict):
        yield f"{path}.not", schema["not"]
    if isinstance(schema.get("items"), dict):
        yield f"{path}.items", schema["items"]
    for name, one in (schema.get("properties") or {}).items():
        yield f"{path}.properties[{name}]", one


# Defaults ------------------------------------------------------------------------------------------------------------


def _default_problems(schema: Json, path: str) -> Problems:
    """Defaults that objects could not have themselves; only asked of a schema that is in order otherwise."""
    if schema.get("default") is not None:
        yield from _one_default(schema, f"{path}.default")
    for name, one in (schema.get("properties") or {}).items():
        yield from _default_problems(one, f"{path}.properties[{name}]")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from _default_problems(schema[word], f"{path}.{word}")


def _one_default(schema: Json, path: str) -> Problems:
    compiled = compile_schema(schema)
    value = copied(schema["default"])
    if prune(value, compiled):
        yield invalid(path, schema["default"], "must not have unknown fields")
        return
    for one in check_value(value, compiled):
        where = path if one.path in ("", NOWHERE) else f"{path}.{one.path}"
        yield InvalidObject(where, one.problem, one.hint, cause=one.cause)
    for place, inner in embedded_of(value, compiled):
        where = f"{path}.{place}" if place else path
        yield from (required(f"{where}.{name}") for name in ("apiVersion", "kind") if not inner.get(name))
