"""Arguments written down that can be judged before anything runs. Called by the checker and the evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.apiserver.cel.formatting import clause_problem, clauses
from muster.apiserver.cel.library_strings import pattern
from muster.apiserver.cel.moments import parse_duration, parse_timestamp
from muster.apiserver.cel.problems import CelProblem, EvaluationProblem, SourceProblem
from muster.apiserver.cel.syntax import Call, ListOf, Literal, Node

_JUDGES: dict[str, Callable[[str], object]] = {
    "matches": pattern,
    "duration": parse_duration,
    "timestamp": parse_timestamp,
}
_CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"})
_SEARCHES = frozenset({"find", "findAll"})


def literal_problem(node: Call) -> SourceProblem | None:
    """What is wrong with a pattern, a moment, a duration or the clauses of a format that is written down."""
    if node.function == "format":
        return _format_problem(node)
    judge = _JUDGES.get(node.function)
    last = node.arguments[-1] if node.arguments else None
    if judge is None or not isinstance(last, Literal) or not isinstance(last.value, str | int):
        return None
    try:
        if isinstance(last.value, str):
            judge(last.value)
        elif node.function == "duration":
            return SourceProblem(last.position, "invalid duration argument")
    except EvaluationProblem:
        return SourceProblem(last.position, f"invalid {node.function} argument")
    return None


def _format_problem(node: Call) -> SourceProblem | None:
    text, values = node.arguments
    if not isinstance(text, Literal) or not isinstance(values, ListOf) or values.optional:
        return None
    for index, letter in enumerate(clauses(text.value)):
        if index >= len(values.elements):
            return SourceProblem(node.position, f"index {index} out of range")
        value = values.elements[index]
        if problem := clause_problem(letter, value.type.kind):
            return SourceProblem(value.position, problem)
    return None


def known_value(node: Node) -> tuple[Any] | None:
    """The value of a conversion of a literal, which needs to be computed but once."""
    if not isinstance(node, Call) or node.is_method or node.function not in _CONVERSIONS:
        return None
    [argument] = node.arguments
    if not isinstance(argument, Literal) or len(node.overloads) != 1:
        return None
    try:
        return (node.overloads[0].compute(argument.value),)
    except EvaluationProblem as problem:
        raise CelProblem(f"program instantiation failed: {problem.message}") from None


def check_pattern(node: Call) -> None:
    """Refuse a search for a pattern that is written down and is none."""
    wanted = node.arguments[1] if node.function in _SEARCHES else None
    if isinstance(wanted, Literal) and isinstance(wanted.value, str):
        try:
            pattern(wanted.value)
        except EvaluationProblem as problem:
            raise CelProblem(f"program instantiation failed: {problem.message}") from None
