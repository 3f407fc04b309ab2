"""Schemas and objects by chance, each from its number alone. Used to compare with a real server."""

from __future__ import annotations

import random
from typing import Any

Json = dict[str, Any]
NAMES = ("a", "b", "c", "d", "e")
TEXTS = ("", "a", "ab", "abc", "aaaa", "x1", "é", "2026-01-01T00:00:00Z", "10.0.0.1", "5", "null")
NUMBERS = (0, 1, 2, 3, 5, 7, -1, 10, 100, 2**31, 2**53, 0.5, 1.5, 2.0, -0.25, 1e10)
PATTERNS = ("^a", "b$", "^[a-z]*$", "^.{2,3}$", "[0-9]+")
FORMATS = ("date-time", "date", "ipv4", "uuid", "int32", "int64", "byte", "email", "hostname", "uri", "strange")


def schema_of(number: int) -> Json:
    """The schema of an object with a spec by chance."""
    dice = random.Random(number)
    return {"type": "object", "properties": {"spec": _object(dice, 3), "extra": _field(dice, 1)}}


def object_of(schema: Json, seed: str) -> Json:
    """An object that often keeps to a schema, and often does not."""
    dice = random.Random(seed)
    fields = schema["properties"]
    made = {name: _value(dice, fields[name]) for name in fields if dice.random() < 0.9}
    return made | ({"unknown": 1} if dice.random() < 0.1 else {})


def _field(dice: random.Random, depth: int) -> Json:
    kinds = ["string", "integer", "number", "boolean", "either"]
    if depth:
        kinds += ["object", "object", "map", "list", "set", "keyed", "any"]
    made: Json = getattr(_Fields, dice.choice(kinds))(dice, depth)
    if dice.random() < 0.15:
        made["nullable"] = True
    return made


class _Fields:
    """One field of each kind."""

    @staticmethod
    def string(dice: random.Random, _depth: int) -> Json:
        made: Json = {"type": "string"}
        if dice.random() < 0.3:
            made["maxLength"] = dice.randrange(1, 5)
        if dice.random() < 0.2:
            made["minLength"] = dice.randrange(3)
        if dice.random() < 0.2:
            made["pattern"] = dice.choice(PATTERNS)
        if dice.random() < 0.15:
            made["enum"] = dice.sample(TEXTS, 3)
        if dice.random() < 0.2:
            made["format"] = dice.choice(FORMATS)
        if made.keys() == {"type"} and dice.random() < 0.5:
            made["default"] = dice.choice(TEXTS)
        return _beside(dice, made, [{"minLength": 2}, {"pattern": "a"}, {"maxLength": 3}, {"enum": ["ab", "x1"]}])

    @staticmethod
    def integer(dice: random.Random, _depth: int) -> Json:
        made: Json = {"type": "integer"}
        if dice.random() < 0.3:
            made |= {"minimum": dice.randrange(3), "exclusiveMinimum": dice.random() < 0.5}
        if dice.random() < 0.3:
            made |= {"maximum": dice.randrange(3, 9), "exclusiveMaximum": dice.random() < 0.5}
        if dice.random() < 0.2:
            made["multipleOf"] = dice.choice([2, 3])
        if dice.random() < 0.3:
            made["format"] = dice.choice(["int32", "int64"])
        if made.keys() <= {"type", "format"} and dice.random() < 0.5:
            made["default"] = dice.randrange(9)
        return _beside(dice, made, [{"minimum": 2}, {"maximum": 5}, {"multipleOf": 2}, {"enum": [1, 2, 3]}])

    @staticmethod
    def number(dice: random.Random, _depth: int) -> Json:
        made: Json = {"type": "number"}
        if dice.random() < 0.3:
            made["minimum"] = dice.choice([0, 0.5, 1])
        if dice.random() < 0.3:
            made["maximum"] = dice.choice([2.5, 7, 10])
        return made

    @staticmethod
    def boolean(dice: random.Random, _depth: int) -> Json:
        return {"type": "boolean"} | ({"default": True} if dice.random() < 0.3 else {})

    @staticmethod
    def either(_dice: random.Random, _depth: int) -> Json:
        return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}

    @staticmethod
    def object(dice: random.Random, depth: int) -> Json:
        return _object(dice, depth - 1)

    @staticmethod
    def map(dice: random.Random, depth: int) -> Json:
        made: Json = {"type": "object", "additionalProperties": _field(dice, depth - 1)}
        if dice.random() < 0.3:
            made["maxProperties"] = dice.randrange(1, 4)
        if dice.random() < 0.2:
            made["minProperties"] = dice.randrange(1, 3)
        return made

    @staticmethod
    def list(dice: random.Random, depth: int) -> Json:
        made: Json = {"type": "array", "items": _field(dice, depth - 1)}
        if dice.random() < 0.3:
            made["maxItems"] = dice.randrange(1, 4)
        if dice.random() < 0.2:
            made["minItems"] = dice.randrange(1, 3)
        return made

    @staticmethod
    def set(dice: random.Random, _depth: int) -> Json:
        items = dice.choice([{"type": "string"}, {"type": "integer"}, {"type": "number"}])
        return {"type": "array", "x-kubernetes-list-type": "set", "items": items}

    @staticmethod
    def keyed(dice: random.Random, depth: int) -> Json:
        items = _object(dice, depth - 1)
        items.pop("x-kubernetes-preserve-unknown-fields", None)
        items.pop("nullable", None)
        items["properties"]["a"] = {"type": dice.choice(["string", "integer"])}
        items["required"] = ["a"]
        return {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a"],
            "items": items,
        }

    @staticmethod
    def any(dice: random.Random, _depth: int) -> Json:
        return {"x-kubernetes-preserve-unknown-fields": True} | ({"type": "object"} if dice.random() < 0.5 else {})


def _object(dice: random.Random, depth: int) -> Json:
    names = dice.sample(NAMES, dice.randrange(1, 5))
    made: Json = {"type": "object", "properties": {name: _field(dice, depth) for name in names}}
    if dice.random() < 0.3:
        made["required"] = dice.sample(names, 1)
    if dice.random() < 0.15:
        made["x-kubernetes-preserve-unknown-fields"] = True
    return _beside(dice, made, [{"required": [one]} for one in NAMES] + [{"minProperties": 2}, {"maxProperties": 2}])


def _beside(dice: random.Random, made: Json, choices: list[Json]) -> Json:
    """Perhaps some schemas beside the first; never where a default would have to keep to them too."""
    if dice.random() < 0.15 and "default" not in made:
        word = dice.choice(["allOf", "anyOf", "oneOf", "not"])
        made[word] = dice.choice(choices) if word == "not" else dice.sample(choices, 2)
    return made


def _value(dice: random.Random, schema: Json) -> Any:
    if dice.random() < 0.07:
        return dice.choice([None, "text", 5, True, 1.5, [], {}, [1], {"a": 1}, ["a", "a"]])
    if schema.get("enum") and dice.random() < 0.7:
        return dice.choice(schema["enum"])
    match schema.get("type"):
        case "string":
            return dice.choice(TEXTS)
        case "integer":
            return dice.choice([one for one in NUMBERS if isinstance(one, int) or dice.random() < 0.2])
        case "number":
            return dice.choice(NUMBERS)
        case "boolean":
            return dice.random() < 0.5
        case "array":
            return [_value(dice, schema["items"]) for _ in range(dice.randrange(5))]
        case "object":
            return _fields(dice, schema)
    return dice.choice([1, "a", {"a": {"b": None}}, [1, {"c": 2}], None, 2.5])


def _fields(dice: random.Random, schema: Json) -> Json:
    if extra := schema.get("additionalProperties"):
        return {name: _value(dice, extra) for name in dice.sample(NAMES, dice.randrange(4))}
    fields = schema.get("properties") or {}
    made = {name: _value(dice, one) for name, one in fields.items() if dice.random() < 0.7}
    return made | ({dice.choice(["f", "g"]): {"h": 1}} if dice.random() < 0.15 else {})
