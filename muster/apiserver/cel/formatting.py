"""`'%s and %d'.format([...])`. Called by the library of strings.

The clauses are %s %d %f %e %b %x %X %o and %%, with a precision for %f and %e.
"""

from __future__ import annotations

import math
import re
from typing import Any

from muster.apiserver.cel.budget import Budget
from muster.apiserver.cel.comparing import CHARACTERS_A_STEP
from muster.apiserver.cel.problems import EvaluationProblem
from muster.apiserver.cel.values import TypeValue, kind_of

PRECISION_MOST = 100
DEFAULT_PRECISION = 6
EXPONENT_FROM = 6
_CLAUSE = re.compile(r"%(?:%|(?:\.([0-9]*))?(.)?)", re.DOTALL)
_ESCAPES = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SPECIAL_DOUBLES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def double_text(value: float) -> str:
    """The shortest text for a double, with an exponent below 1e-4 and from 1e6 on, as Go writes it."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    shortest = (f"{value:.{precision}e}" for precision in range(17))
    mantissa, _, exponent = next(one for one in shortest if float(one) == value).partition("e")
    power = int(exponent)
    if not -4 <= power < EXPONENT_FROM:
        return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    decimals = max(0, len(mantissa.lstrip("-").replace(".", "")) - 1 - power)
    return f"{value:.{decimals}f}"


def text_of_bytes(value: bytes) -> str:
    """Bytes that are UTF-8 as a text."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationProblem("invalid UTF-8 in bytes, cannot convert to string") from None


def formatted(budget: Budget, text: str, values: Any) -> str:
    """The text with its clauses replaced by the values in turn."""
    budget.charge(len(text) // CHARACTERS_A_STEP)
    remaining = iter(enumerate(values))
    count = len(values)

    def replaced(clause: re.Match[str]) -> str:
        if clause[0] == "%%":
            return "%"
        index, value = next(remaining, (count, None))
        if index >= count:
            raise EvaluationProblem(f"index {index} out of range")
        written = _written(budget, clause, value)
        budget.charge(1 + len(written) // CHARACTERS_A_STEP)
        return written

    return _CLAUSE.sub(replaced, text)


def _written(budget: Budget, clause: re.Match[str], value: Any) -> str:
    letter = clause[2]
    if letter is None:
        raise EvaluationProblem("unexpected end of string")
    if problem := clause_problem(letter, kind_of(value)):
        raise EvaluationProblem(problem)
    if clause[1] is None:
        precision = DEFAULT_PRECISION
    elif not clause[1] or len(clause[1]) > len(str(PRECISION_MOST)) or int(clause[1]) > PRECISION_MOST:
        raise EvaluationProblem("could not parse formatting clause: error while parsing precision")
    else:
        precision = int(clause[1])
    return _text(budget, value) if letter == "s" else _number_text(letter, value, precision)


# What a clause may be used on, in words and as kinds of values.
_TEXTS = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
_FITTING = {
    "s": (
        "string",
        _TEXTS,
        frozenset(
            ["string", "bool", "bytes", "int", "uint", "double", "map", "list", "type", "duration", "timestamp", "null"]
        ),
    ),
    "d": ("decimal", "integers", frozenset({"int", "uint"})),
    "f": ("fixed-point", "doubles", frozenset({"double", "string"})),
    "e": ("scientific", "doubles", frozenset({"double", "string"})),
    "b": ("binary", "integers and bools", frozenset({"int", "uint", "bool"})),
    "o": ("octal", "integers", frozenset({"int", "uint"})),
    "x": ("hex", "integers, byte buffers, and strings", frozenset({"int", "uint", "string", "bytes"})),
    "X": ("hex", "integers, byte buffers, and strings", frozenset({"int", "uint", "string", "bytes"})),
}


def clauses(text: str) -> list[str]:
    """The letters of the clauses that take a value, in turn."""
    return [found[2] or "" for found in _CLAUSE.finditer(text) if found[0] != "%%"]


def clause_problem(letter: str, kind: str) -> str:
    """Why a value of that kind cannot be written by the clause, or nothing."""
    if letter not in _FITTING:
        return f'could not parse formatting clause: unrecognized formatting clause "{letter}"'
    name, fitting, kinds = _FITTING[letter]
    if kind in kinds or kind in ("dyn", "!error!"):
        return ""
    return f"error during formatting: {name} clause can only be used on {fitting}, was given {kind}"


def _text(budget: Budget, value: Any) -> str:
    match kind_of(value):
        case "list" | "map":
            return _literal(budget, value)
        case "null":
            return "null"
        case "bool":
            return "true" if value else "false"
        case "bytes":
            return text_of_bytes(value)
        case "double":
            return double_text(value)
        case "type":
            assert isinstance(value, TypeValue), "the kind says so"
            return value.name
    return str(value)


def _literal(budget: Budget, value: Any) -> str:
    """A value inside of a list or a map, as it would be written in an expression."""
    budget.charge(1)
    kind = kind_of(value)
    match kind:
        case "list":
            return "[" + ", ".join(_literal(budget, one) for one in value) + "]"
        case "map":
            keys = sorted(value, key=lambda key: _text(budget, key))
            return "{" + ", ".join(f"{_literal(budget, key)}:{_literal(budget, value[key])}" for key in keys) + "}"
        case "string":
            budget.charge(len(value) // CHARACTERS_A_STEP)
            return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", quoted(value))
        case "bytes":
            return "b" + quoted(text_of_bytes(value))
        case "double":
            return f"{value:.6f}" if math.isfinite(value) else f'"{_text(budget, value)}"'
        case "timestamp" | "duration":
            return f'{kind}("{value}")'
    return _text(budget, value)


def quoted(text: str) -> str:
    """The text in double quotes, with escapes where an expression needs them."""
    return '"' + text.translate(_ESCAPES) + '"'


def _number_text(letter: str, value: Any, precision: int) -> str:
    match letter:
        case "d":
            return str(int(value))
        case "b" | "o":
            return f"{int(value):{letter}}"
        case "x" | "X":
            plain = f"{value:x}" if isinstance(value, int) else _bytes(value).hex()
            return plain.upper() if letter == "X" else plain
    number = _double(value)
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else ("∞" if number > 0 else "-∞")
    return f"{number:,.{precision}f}" if letter == "f" else _scientific(number)


def _scientific(number: float) -> str:
    """With a power of ten as Kubernetes writes it, and always with six decimals."""
    mantissa, _, exponent = f"{number:.{DEFAULT_PRECISION}e}".partition("e")
    return f"{mantissa}×10{exponent.removeprefix('+').translate(_RAISED)}"


def _bytes(value: str | bytes) -> bytes:
    return value.encode(errors="replace") if isinstance(value, str) else value


def _double(value: Any) -> float:
    if not isinstance(value, str):
        return float(value)
    if value not in _SPECIAL_DOUBLES:
        raise EvaluationProblem(clause_problem("f", "a string that is none"))
    return _SPECIAL_DOUBLES[value]
