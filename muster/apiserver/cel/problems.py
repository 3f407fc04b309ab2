"""What may be wrong with an expression, when it is compiled and when it is run. Raised by every file of this package.

Texts follow those of Kubernetes where it has one, since users search for them.
"""

from __future__ import annotations

from collections.abc import Iterable

SHOWN_COLUMNS = 400  # of a source line in a message: an expression may be one line of a hundred thousand characters
SHOWN_PROBLEMS = 20


class CelProblem(Exception):
    """An expression that does not compile, or one that came to no value; the message says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class EvaluationProblem(CelProblem):
    """An operation without a value: `||` and `&&` may still come to one, since their other side decides."""


class CostExceeded(CelProblem):
    """The steps granted are used up; nothing may catch this but the caller."""

    def __init__(self, *, is_budget_spent: bool) -> None:
        super().__init__(
            "validation failed due to running out of cost budget, no further validation rules will be run"
            if is_budget_spent
            else "operation cancelled: actual cost limit exceeded"
        )
        self.is_budget_spent = is_budget_spent  # the object's whole budget, not only this rule's share


class SourceProblem(Exception):
    """One mistake at one place of the source. Never leaves this package: `refusal` makes a `CelProblem` of it."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position
        self.message = message


def no_such_overload() -> EvaluationProblem:
    """What is said where values have types that the function is not made for."""
    return EvaluationProblem("no such overload")


def refusal(source: str, problems: Iterable[SourceProblem]) -> CelProblem:
    """All mistakes of an expression as one problem, each with its line and an arrow below the place."""
    found = list(problems)
    shown = [_pointed_out(source, one) for one in found[:SHOWN_PROBLEMS]]
    if len(found) > SHOWN_PROBLEMS:
        shown.append(f"{len(found) - SHOWN_PROBLEMS} more errors were truncated")
    return CelProblem("compilation failed: " + "\n".join(shown))


def _pointed_out(source: str, problem: SourceProblem) -> str:
    before = source[: problem.position]
    line_number = before.count("\n") + 1
    column = len(before) - (before.rfind("\n") + 1)
    head = f"ERROR: <input>:{line_number}:{column + 1}: {problem.message}"
    lines = source.split("\n")
    if column > SHOWN_COLUMNS or line_number > len(lines):
        return head
    return f"{head}\n | {lines[line_number - 1][:SHOWN_COLUMNS]}\n | {'.' * column}^"
