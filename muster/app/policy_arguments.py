"""A policy's arguments: read from a configuration file into its own dataclass. Called by `muster/app/policies.py`.

A field can be given when it is a whole number, a number, a truth value, a text, a list of texts or an object of
numbers. `Bounds` in its metadata may limit it and give it a second name. Everything that is wrong is named at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from math import inf, isfinite
from typing import Any, get_type_hints

from muster.app.plugins import known_hint
from muster.engine.policy import AnyPolicy, Bounds
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import INT64_MAX, Fields, shown

Reader = Callable[[Fields, str, Bounds], Any]


def arguments_problem(policy: AnyPolicy) -> str:
    """What is wrong with a policy's dataclass of arguments; empty when it can be used."""
    kind: Any = policy.arguments  # whatever a user's file gives
    if not isinstance(kind, type) or not is_dataclass(kind) or not getattr(kind, "__dataclass_params__").frozen:  # noqa: B009
        return "its arguments are no frozen dataclass"
    bare = [one.name for one in fields(kind) if one.default is MISSING and one.default_factory is MISSING]
    if bare:
        return f"its arguments have no default for {', '.join(bare)}"
    try:
        get_type_hints(kind)
    except NameError as problem:
        return f"the types of its arguments cannot be told: {problem}"
    return ""


def read_arguments(policy: AnyPolicy, given: Fields) -> Any:
    """The policy's arguments with what is given in place of the defaults; raises `InvalidObjects`."""
    offered = {one.name: bounds_of(one) for one in fields(policy.arguments)}
    names = {alias: name for name, bounds in offered.items() for alias in (name, bounds.alias) if alias}
    hints = get_type_hints(policy.arguments)
    values: dict[str, Any] = {}
    problems: list[InvalidObject] = []
    prefixes = {bounds.prefix: name for name, bounds in offered.items() if bounds.prefix}
    parts: dict[str, dict[str, Any]] = {}
    for alias in given.values:
        prefix = next((one for one in prefixes if str(alias).startswith(one) and alias not in names), "")
        if prefix:
            parts.setdefault(prefixes[prefix], {})[alias.removeprefix(prefix)] = given.values[alias]
            continue
        try:
            if alias not in names:
                raise given.error(str(alias), f"is no argument of {policy.name}", known_hint(alias, offered))
            if names[alias] in values:
                raise given.error(alias, "is given under two names", f"give {names[alias]} alone")
            if given.has(alias):  # null is absent, as everywhere
                values[names[alias]] = _value(given, alias, hints[names[alias]], offered[names[alias]])
        except InvalidObject as problem:
            problems.append(problem)
    for name, part in parts.items():
        try:
            more = _value(Fields({name: part}, given.path), name, hints[name], offered[name])
            values[name] = {**values.get(name, {}), **more}
        except InvalidObject as problem:
            problems.append(problem)
    if problems:
        raise InvalidObjects(tuple(problems))
    try:
        return policy.arguments(**values)
    except Exception as problem:  # what the dataclass itself checks, such as one field against another
        raise InvalidObject(given.path, f"cannot be used: {problem}", "change one of them") from None


def bounds_of(one: Field[Any]) -> Bounds:
    """The bounds of a field; none where its metadata has none."""
    bounds = one.metadata.get("bounds", Bounds())
    assert isinstance(bounds, Bounds), f"the bounds of {one.name} are of another kind"
    return bounds


def _value(given: Fields, alias: str, hint: Any, bounds: Bounds) -> Any:
    read = READERS.get(hint)
    if read is None:
        raise given.error(alias, "cannot be given in a file", "take it out")
    return read(given, alias, bounds)


def _whole(given: Fields, name: str, bounds: Bounds) -> int:
    value = given.integer(name, least=-INT64_MAX - 1, most=INT64_MAX)
    _check_range(given, name, value, bounds)
    return value


def _number(given: Fields, name: str, bounds: Bounds) -> float:
    value = given.number(name)
    if not isfinite(value):
        raise given.error(name, f"is {value}", "give a finite number")
    _check_range(given, name, value, bounds)
    return value


def _check_range(given: Fields, name: str, value: float, bounds: Bounds) -> None:
    least = -inf if bounds.least is None else bounds.least
    most = inf if bounds.most is None else bounds.most
    if least <= value <= most:
        return
    if most == inf:
        hint = f"give {least} or more"
    elif least == -inf:
        hint = f"give {most} or less"
    else:
        hint = f"give a number from {least} to {most}"
    raise given.error(name, f"is {shown(value)}", hint)


def _text(given: Fields, name: str, bounds: Bounds) -> str:
    value = given.text(name)
    if bounds.choices and value not in bounds.choices:
        raise given.error(name, f"is {shown(value)}", known_hint(value, bounds.choices))
    return value


def _flag(given: Fields, name: str, _bounds: Bounds) -> bool:
    return given.flag(name)


def _texts(given: Fields, name: str, _bounds: Bounds) -> tuple[str, ...]:
    return given.texts(name)


def _each(read: Reader) -> Reader:
    """Reads an object whose values are all alike."""

    def read_each(given: Fields, name: str, bounds: Bounds) -> dict[str, Any]:
        inner = given.child(name)
        for key in inner.values:
            if not isinstance(key, str):
                raise InvalidObject(inner.path, f"has the key {shown(key)}", "give a string as key")
        return {key: read(inner, key, bounds) for key in inner.values}

    return read_each


def _object(given: Fields, name: str, _bounds: Bounds) -> Mapping[str, Any]:
    """An object that the policy itself looks into."""
    return given.child(name).values


READERS: Mapping[Any, Reader] = {
    int: _whole,
    float: _number,
    bool: _flag,
    str: _text,
    tuple[str, ...]: _texts,
    Mapping[str, int]: _each(_whole),
    Mapping[str, float]: _each(_number),
    Mapping[str, str]: _each(_text),
    Mapping[str, Any]: _object,
    tuple[Any, ...]: lambda given, name, _bounds: tuple(given.items(name)),
}
