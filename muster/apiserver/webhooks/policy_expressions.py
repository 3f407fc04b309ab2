"""What the expressions of one policy say of one write: its conditions, variables, validations, annotations. Pure.

Called by `policies` for each binding and each of its parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from muster.apiserver.cel import BOOL, OBJECT_STEPS, STRING, Budget, CelProblem, Type, compile_expression
from muster.apiserver.kinds.policies import expression_variables
from muster.store.kinds import Object

_MESSAGE_CHARACTERS = 1_024
_ANNOTATION_CHARACTERS = 10 * 1_024
_OWN = re.compile(r"\bvariables\s*\.\s*([_a-zA-Z][_a-zA-Z0-9]*)", re.ASCII)


class Failure(NamedTuple):
    """Why a policy does not allow a write."""

    message: str
    reason: str = "Invalid"
    place: int = 0  # of the validation among them
    is_of_policy: bool = False  # wherever it is bound


@dataclass(slots=True)
class Outcome:
    """What a policy says of a write."""

    failures: list[Failure] = field(default_factory=list)  # of its validations
    errors: list[str] = field(default_factory=list)  # of expressions that have no value
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit log
    misset: Failure | None = None  # it could not be evaluated at all: refused whatever its binding does


class _Expressions:
    """The expressions of a policy over the values of one write."""

    def __init__(self, spec: Object, values: Object) -> None:
        self._spec = spec
        self._values = {**values, "variables": {}}
        self._budget = Budget(OBJECT_STEPS)
        self._known: list[str] = []
        self._broken: dict[str, str] = {}  # variables that have no value, and why

    def value(self, text: str, result: Type | None) -> Any:
        """The value of an expression; raises CelProblem where it has none."""
        for name in _OWN.findall(text) if self._broken else ():
            if name in self._broken:
                raise CelProblem(f'composited variable "{name}" fails to evaluate: {self._broken[name]}')
        program = compile_expression(text, expression_variables(self._spec, self._known), result)
        return program.evaluate(self._values, self._budget)

    def define_variables(self) -> None:
        """Work out the variables of the policy; one that has no value matters only to those who read it."""
        for one in self._spec.get("variables") or ():
            try:
                self._values["variables"][one["name"]] = self.value(one["expression"], None)
            except CelProblem as problem:
                self._broken[one["name"]] = problem.message
            self._known.append(one["name"])


def evaluate(spec: Object, values: Object) -> Outcome | None:
    """What a policy says, given the values of its variables; None where its conditions leave the write out."""
    expressions, outcome = _Expressions(spec, values), Outcome()
    for one in spec.get("matchConditions") or ():
        try:
            if expressions.value(one["expression"], BOOL) is not True:
                return None
        except CelProblem as problem:
            outcome.errors.append(_no_value(one["expression"], problem))
    if outcome.errors:
        return outcome
    expressions.define_variables()
    for index, one in enumerate(spec.get("validations") or ()):
        try:
            if expressions.value(one["expression"], BOOL) is not True:
                outcome.failures.append(_failure(one, index, expressions))
        except CelProblem as problem:
            outcome.errors.append(_no_value(one["expression"], problem))
    for key, text in _annotations(spec, expressions, outcome):
        outcome.annotations[key] = text
    return outcome


def _no_value(expression: str, problem: CelProblem) -> str:
    return f"expression '{expression}' resulted in error: {problem.message}"


def _failure(validation: Object, index: int, expressions: _Expressions) -> Failure:
    expression = validation["expression"]
    message = (validation.get("message") or "").strip() or f"failed expression: {expression.strip()}"
    if text := validation.get("messageExpression"):
        try:
            made = str(expressions.value(text, STRING)).strip()
        except CelProblem:
            made = ""  # what is wrong with the write is more important than how to say it
        if made and "\n" not in made and len(made) <= _MESSAGE_CHARACTERS:
            message = made
    return Failure(message, validation.get("reason") or "Invalid", index)


def _annotations(spec: Object, expressions: _Expressions, outcome: Outcome) -> Iterator[tuple[str, str]]:
    for one in spec.get("auditAnnotations") or ():
        try:
            text = expressions.value(one["valueExpression"], None)
        except CelProblem as problem:
            outcome.errors.append(_no_value(one["valueExpression"], problem))
            continue
        if isinstance(text, str) and text.strip():
            yield one["key"], text.strip()[:_ANNOTATION_CHARACTERS]
