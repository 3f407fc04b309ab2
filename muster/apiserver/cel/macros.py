"""Calls that are no functions but bind names: has(), all(), map() and their like. Called by the parser."""

from __future__ import annotations

from muster.apiserver.cel.problems import SourceProblem
from muster.apiserver.cel.syntax import Loop, Name, Node, Select

# How many names a macro binds, by its name and how many arguments it has.
_ONE_NAME = {
    ("all", 2),
    ("exists", 2),
    ("exists_one", 2),
    ("map", 2),
    ("map", 3),
    ("filter", 2),
    ("sortBy", 2),
    ("optMap", 2),
    ("optFlatMap", 2),
}
_TWO_NAMES = {
    ("all", 3),
    ("exists", 3),
    ("exists_one", 3),
    ("existsOne", 3),
    ("transformList", 3),
    ("transformList", 4),
    ("transformMap", 3),
    ("transformMap", 4),
    ("transformMapEntry", 3),
    ("transformMapEntry", 4),
}
_OTHER_NAMES = {"existsOne": "exists_one"}
_ACCUMULATOR = "__result__"


def expanded(function: str, target: Node | None, arguments: list[Node], position: int) -> Node | None:
    """The node that a macro stands for, or None where the call is one of a function."""
    if target is None:
        return _has(arguments[0], position) if function == "has" and len(arguments) == 1 else None
    shape = (function, len(arguments))
    names: tuple[str, ...]
    if shape in _TWO_NAMES:
        names = (_name(arguments[0]), _name(arguments[1]))
        if names[0] == names[1]:
            raise SourceProblem(arguments[1].position, f"duplicate variable name: {names[1]}")
    elif shape in _ONE_NAME:
        names = (_name(arguments[0]),)
    else:
        return None
    rest = arguments[len(names) :]
    condition, body = rest if len(rest) == 2 else (None, rest[0])
    return Loop(position, _OTHER_NAMES.get(function, function), target, names, condition, body)


def _has(argument: Node, position: int) -> Node:
    if not isinstance(argument, Select) or argument.is_test:
        raise SourceProblem(argument.position, "invalid argument to has() macro")
    return Select(position, argument.operand, argument.field, is_test=True, is_optional=argument.is_optional)


def _name(argument: Node) -> str:
    if not isinstance(argument, Name):
        raise SourceProblem(argument.position, "argument must be a simple name")
    if argument.name == _ACCUMULATOR:
        raise SourceProblem(argument.position, "iteration variable overwrites accumulator variable")
    return argument.name
