"""Expressions compiled, and run within a budget. The way into this package, offered by its `__init__`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from muster.apiserver.cel.budget import Budget
from muster.apiserver.cel.checker import check
from muster.apiserver.cel.evaluator import Builder, weight_of
from muster.apiserver.cel.parser import parse
from muster.apiserver.cel.problems import CelProblem, EvaluationProblem, SourceProblem, refusal
from muster.apiserver.cel.syntax import Name, Node, children
from muster.apiserver.cel.types import BOOL, DYN, NULL, STRING, Type
from muster.apiserver.cel.values import converted, plain

PROGRAMS_KEPT = 1024
STRING_OR_NULL = Type("either", (STRING, NULL))  # of a result that may be either


class Program:
    """An expression that was checked, ready to run any number of times."""

    def __init__(self, node: Node, variables: Mapping[str, Type]) -> None:
        names = _names_in(node)
        used = [(name, wanted) for name, wanted in variables.items() if name in names]
        builder = Builder({name: place for place, (name, _) in enumerate(used, start=1)})
        self.type = node.type
        self._run = builder.run_of(node)
        self._variables = used
        self._spare = [None] * (builder.places - 1 - len(used))  # for the variables of loops
        self._steps = weight_of(node)

    @property
    def names(self) -> frozenset[str]:
        """The variables that the expression reads; a rule that reads oldSelf is for changes only."""
        return frozenset(name for name, _ in self._variables)

    def evaluate(self, variables: Mapping[str, Any], budget: Budget) -> Any:
        """The value for these variables, given as JSON; a problem where there is none or the steps do not suffice."""
        budget.begin_rule()
        budget.charge(self._steps)
        try:
            given = [converted(variables[name], wanted) for name, wanted in self._variables]
            return plain(self._run([budget, *given, *self._spare]))
        except KeyError as missing:
            if missing.args[0] in variables:
                raise
            raise EvaluationProblem(f"no such attribute(s): {missing.args[0]}") from None
        except RecursionError:
            raise EvaluationProblem("the value is nested too deep") from None


def compile_expression(
    text: str, variables: Mapping[str, Type], result: Type | None = BOOL, *, is_strict: bool = False
) -> Program:
    """The program of an expression over variables of these types; a problem names the place of each mistake.

    Where the result is strict, its type has to be known to be the one that is wanted.
    """
    program = _compiled(text, tuple(sorted(variables.items(), key=lambda item: item[0])))
    if result is not None:
        _check_result(program.type, result, is_strict=is_strict)
    return program


def _check_result(found: Type, wanted: Type, *, is_strict: bool) -> None:
    if is_strict:
        if found.kind not in (one.kind for one in wanted.parameters or (wanted,)):
            told = f"one of [{' '.join(map(str, wanted.parameters))}]" if wanted.parameters else str(wanted)
            raise CelProblem(f"must evaluate to {told} but got {found}")
    elif found.kind not in (wanted.kind, DYN.kind):
        raise CelProblem(f"{'cel expression ' if wanted is BOOL else ''}must evaluate to a {wanted}")


@lru_cache(maxsize=PROGRAMS_KEPT)
def _compiled(text: str, variables: tuple[tuple[str, Type], ...]) -> Program:
    known = dict(variables)
    try:
        node = parse(text)
        problems = check(node, known)
    except SourceProblem as problem:
        problems = [problem]
    if problems:
        raise refusal(text, problems)
    return Program(node, known)


def _names_in(node: Node) -> set[str]:
    """All names that an expression mentions, those of its own loops too."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Name):
            found.add(one.name)
        waiting.extend(children(one))
    return found
