"""From checked nodes to Python functions that compute them. Called by `compile_expression`, once for an expression.

Each node becomes one function of a frame: a list with the budget first and the variables after it. What an expression
takes without its loops is known beforehand and charged at once; each turn of a loop is charged with what its body
takes, and functions whose work grows with their arguments charge for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from muster.apiserver.cel.comparing import equal
from muster.apiserver.cel.literals import check_pattern, known_value
from muster.apiserver.cel.loops import LOOPS, LoopParts
from muster.apiserver.cel.problems import EvaluationProblem, no_such_overload
from muster.apiserver.cel.signatures import Overload
from muster.apiserver.cel.syntax import Call, ListOf, Literal, Loop, MapOf, Name, Node, Select, children
from muster.apiserver.cel.types import TYPE_NAMES
from muster.apiserver.cel.values import (
    MAPS,
    NONE,
    ObjectView,
    Optional,
    converted,
    is_of,
    kind_of,
    type_value_of,
)

Frame = list[Any]  # the budget, then the variables
Run = Callable[[Frame], Any]

LIST_STEPS, MAP_STEPS = 10, 30  # what making one is charged
_KEYS = frozenset({"bool", "int", "uint", "string"})


def weight_of(node: Node) -> int:
    """The steps that a node takes without the turns of its loops."""
    below = [node.source] if isinstance(node, Loop) else children(node)
    own = {ListOf: LIST_STEPS, MapOf: MAP_STEPS, Literal: 0}.get(type(node), 1)
    return own + sum(map(weight_of, below))


class Builder:
    """Makes the functions of one expression and counts the places that its frame needs."""

    def __init__(self, variables: Mapping[str, int]) -> None:
        self._scopes: list[Mapping[str, int]] = [variables]
        self.places = 1 + len(variables)

    def run_of(self, node: Node) -> Run:
        """The function that computes a node."""
        match node:
            case Literal():
                return _constant(node.value)
            case Name():
                return self._name(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListOf():
                return _list(list(map(self.run_of, node.elements)), node.optional)
            case MapOf():
                return _map([(self.run_of(key), self.run_of(value)) for key, value in node.entries], node.optional)
            case Loop():
                return self._loop(node)
        raise AssertionError(f"{node} is no expression")

    def _place(self, name: str) -> int | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _name(self, node: Name) -> Run:
        place = self._place(node.name)
        if place is None:
            return _constant(type_value_of(TYPE_NAMES[node.name]))
        return lambda frame: frame[place]

    def _select(self, node: Select) -> Run:
        if node.type.kind == "type" and (named := _type_named(node)) is not None and self._place(named[1]) is None:
            return _constant(type_value_of(TYPE_NAMES[named[0]]))
        operand, name = self.run_of(node.operand), node.field
        if node.is_test:
            return lambda frame: _has_field(operand(frame), name)
        if node.is_optional:
            return lambda frame: _optional_field(operand(frame), name)
        if node.operand.type.kind == "object":
            return _object_field(operand, node)
        return lambda frame: _field(operand(frame), name)

    def _call(self, node: Call) -> Run:
        if (known := known_value(node)) is not None:
            return _constant(known[0])
        check_pattern(node)
        arguments = list(map(self.run_of, node.arguments))
        special = _SPECIAL.get(node.function)
        if special is not None:
            return special(arguments)
        return _overloaded(node, arguments)

    def _loop(self, node: Loop) -> Run:
        source = self.run_of(node.source)
        places = tuple(range(self.places, self.places + len(node.names)))
        self.places += len(node.names)
        self._scopes.append(dict(zip(node.names, places, strict=True)))
        condition = self.run_of(node.condition) if node.condition is not None else None
        body = self.run_of(node.body)
        self._scopes.pop()
        steps = 1 + weight_of(node.body) + (weight_of(node.condition) if node.condition is not None else 0)
        parts = LoopParts(source=source, places=places, condition=condition, body=body, steps=steps)
        return LOOPS[node.kind](parts)


def _type_named(node: Node) -> tuple[str, str] | None:
    """The name of a type written with dots, and its first part."""
    parts: list[str] = []
    while isinstance(node, Select):
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Name):
        return None
    written = ".".join([node.name, *reversed(parts)])
    return (written, node.name) if written in TYPE_NAMES else None


def _constant(value: Any) -> Run:
    return lambda _: value


# Fields ---------------------------------------------------------------------------------------------------------------


def _object_field(operand: Run, node: Select) -> Run:
    name = node.field
    wanted = node.operand.type.fields[name]
    raw_name = node.operand.type.raw_names[name]

    def run(frame: Frame) -> Any:
        value = operand(frame)
        if type(value) is not ObjectView:
            return _field(value, name)
        raw = value.raw.get(raw_name)
        if raw is None:
            raise EvaluationProblem(f"no such key: {name}")
        return raw if wanted.is_plain else converted(raw, wanted)

    return run


def _field(value: Any, name: str) -> Any:
    if isinstance(value, MAPS):
        if name not in value:
            raise EvaluationProblem(f"no such key: {name}")
        return value[name]
    if isinstance(value, Optional):
        return _optional_field(value, name)
    raise EvaluationProblem(f"no such key: {name}")


def _has_field(value: Any, name: str) -> bool:
    if isinstance(value, Optional):
        return value.has_value and _has_field(value.value, name)
    if not isinstance(value, MAPS):
        raise no_such_overload()
    return name in value


def _optional_field(value: Any, name: str) -> Optional:
    if isinstance(value, Optional):
        return _optional_field(value.value, name) if value.has_value else NONE
    return Optional(True, value[name]) if _has_field(value, name) else NONE


# Aggregates -----------------------------------------------------------------------------------------------------------


def _list(elements: list[Run], optional: frozenset[int]) -> Run:
    if not optional:
        return lambda frame: [run(frame) for run in elements]

    def run(frame: Frame) -> list[Any]:
        found = []
        for at, element in enumerate(elements):
            value = element(frame)
            if at not in optional:
                found.append(value)
            elif _present(value):
                found.append(value.value)
        return found

    return run


def _map(entries: list[tuple[Run, Run]], optional: frozenset[int]) -> Run:
    def run(frame: Frame) -> dict[Any, Any]:
        found = {}
        for at, (key_run, value_run) in enumerate(entries):
            key, value = key_run(frame), value_run(frame)
            if kind_of(key) not in _KEYS:
                raise EvaluationProblem("unsupported key type")
            if at not in optional:
                found[key] = value
            elif _present(value):
                found[key] = value.value
        return found

    return run


def _present(value: Any) -> bool:
    if not isinstance(value, Optional):
        raise EvaluationProblem("cannot initialize optional entry from non-optional value")
    return value.has_value


# Calls ----------------------------------------------------------------------------------------------------------------


def _overloaded(node: Call, arguments: list[Run]) -> Run:
    """The first overload that the values fit, which is the only one where their types are known."""
    overloads = node.overloads
    if len(overloads) == 1 and not overloads[0].needs_budget and overloads[0].cost is None:
        if len(arguments) == 1:
            return _of_one(overloads[0], arguments[0])
        if len(arguments) == 2:
            return _of_two(overloads[0], arguments[0], arguments[1])

    def run(frame: Frame) -> Any:
        values = [argument(frame) for argument in arguments]
        for one in overloads:
            if all(map(is_of, values, one.parameters)):
                if one.needs_budget:
                    return one.compute(frame[0], *values)
                if one.cost is not None:
                    frame[0].charge(one.cost(*values))
                return one.compute(*values)
        raise no_such_overload()

    return run


def _of_one(chosen: Overload, argument: Run) -> Run:
    compute, wanted = chosen.compute, chosen.parameters[0]

    def run(frame: Frame) -> Any:
        value = argument(frame)
        if not is_of(value, wanted):
            raise no_such_overload()
        return compute(value)

    return run


def _of_two(chosen: Overload, first: Run, second: Run) -> Run:
    compute, (wanted_first, wanted_second) = chosen.compute, chosen.parameters

    def run(frame: Frame) -> Any:
        one, other = first(frame), second(frame)
        if not is_of(one, wanted_first) or not is_of(other, wanted_second):
            raise no_such_overload()
        return compute(one, other)

    return run


def _decided_by(deciding: bool) -> Callable[[list[Run]], Run]:
    """`||` and `&&`: the deciding value wins, wherever it stands and whatever goes wrong beside it."""

    def build(arguments: list[Run]) -> Run:
        def run(frame: Frame) -> Any:
            problem: EvaluationProblem | None = None
            for argument in arguments:
                try:
                    value = argument(frame)
                except EvaluationProblem as found:
                    problem = problem or found
                    continue
                if value is deciding:
                    return deciding
                if not isinstance(value, bool):
                    problem = problem or no_such_overload()
            if problem is not None:
                raise problem
            return not deciding

        return run

    return build


def _conditional(arguments: list[Run]) -> Run:
    condition, first, second = arguments

    def run(frame: Frame) -> Any:
        value = condition(frame)
        if value is True:
            return first(frame)
        if value is False:
            return second(frame)
        raise no_such_overload()

    return run


def _equality(arguments: list[Run]) -> Run:
    first, second = arguments
    return lambda frame: equal(frame[0], first(frame), second(frame))


def _inequality(arguments: list[Run]) -> Run:
    first, second = arguments
    return lambda frame: not equal(frame[0], first(frame), second(frame))


def _or_value(arguments: list[Run]) -> Run:
    first, second = arguments

    def run(frame: Frame) -> Any:
        value = first(frame)
        if not isinstance(value, Optional):
            raise no_such_overload()
        return value.value if value.has_value else second(frame)

    return run


def _or_optional(arguments: list[Run]) -> Run:
    first, second = arguments

    def run(frame: Frame) -> Any:
        value = first(frame)
        if not isinstance(value, Optional):
            raise no_such_overload()
        return value if value.has_value else second(frame)

    return run


_SPECIAL: dict[str, Callable[[list[Run]], Run]] = {
    "_||_": _decided_by(True),
    "_&&_": _decided_by(False),
    "_?_:_": _conditional,
    "_==_": _equality,
    "_!=_": _inequality,
    "orValue": _or_value,
    "or": _or_optional,
}
