"""Arguments written down that can be judged before anything runs: patterns, moments, durations. Called by the checker."""

from __future__ import annotations

from muster.apiserver.cel.library_strings import pattern
from muster.apiserver.cel.moments import parse_duration, parse_timestamp
from muster.apiserver.cel.problems import EvaluationProblem
from muster.apiserver.cel.syntax import Call, Literal

_JUDGES = {"matches": pattern, "duration": parse_duration, "timestamp": parse_timestamp}


def literal_problem(node: Call) -> str:
    """What is wrong with the last argument of a call, if that is a text and can be told now."""
    judge = _JUDGES.get(node.function)
    last = node.arguments[-1] if node.arguments else None
    if judge is None or not isinstance(last, Literal) or not isinstance(last.value, str):
        return ""
    try:
        judge(last.value)
    except EvaluationProblem:
        return f"invalid {node.function} argument"
    return ""
