"""`'%s and %d'.format([...])`. Called by the library of strings.

The clauses are %s %d %f %e %b %x %X %o and %%, with a precision for %f and %e.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from muster.apiserver.cel.budget import Budget
from muster.apiserver.cel.comparing import CHARACTERS_A_STEP
from muster.apiserver.cel.problems import EvaluationProblem
from muster.apiserver.cel.values import TypeValue, kind_of

PRECISION_MOST = 100
DEFAULT_PRECISION = 6
EXPONENT_FROM = 21
_CLAUSE = re.compile(r"%(?:%|(?:\.([0-9]*))?(.)?)", re.DOTALL)
_SPECIAL_DOUBLES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def double_text(value: float) -> str:
    """The shortest text for a double, with an exponent below 1e-4 and from 1e21 on, as Go writes it."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    shortest = (f"{value:.{precision}e}" for precision in range(17))
    mantissa, _, exponent = next(one for one in shortest if float(one) == value).partition("e")
    power = int(exponent)
    if not -4 <= power < EXPONENT_FROM:
        return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    decimals = max(0, len(mantissa.lstrip("-").replace(".", "")) - 1 - power)
    return f"{value:.{decimals}f}"


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
    if letter not in _CLAUSES:
        raise EvaluationProblem(f'could not parse formatting clause: unrecognized formatting clause "{letter}"')
    if clause[1] is None:
        precision = DEFAULT_PRECISION
    elif not clause[1] or len(clause[1]) > len(str(PRECISION_MOST)) or int(clause[1]) > PRECISION_MOST:
        raise EvaluationProblem("could not parse formatting clause: error while parsing precision")
    else:
        precision = int(clause[1])
    return _CLAUSES[letter](budget, value, precision)


def _misfit(clause: str, value: Any, fitting: str) -> EvaluationProblem:
    return EvaluationProblem(
        f"error during formatting: {clause} clause can only be used on {fitting}, was given {kind_of(value)}"
    )


def _text(budget: Budget, value: Any, precision: int) -> str:
    match kind_of(value):
        case "list" | "map":
            return _literal(budget, value)
        case "string":
            return str(value)
        case "null":
            return "null"
        case "bool":
            return "true" if value else "false"
        case "bytes":
            return bytes(value).decode(errors="replace")
        case "double":
            return double_text(value)
        case "type":
            assert isinstance(value, TypeValue), "the kind says so"
            return value.name
        case "int" | "uint" | "timestamp" | "duration":
            return str(value)
    raise _misfit("string", value, "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps")


def _literal(budget: Budget, value: Any) -> str:
    """A value inside of a list or a map, as it would be written in an expression."""
    budget.charge(1)
    kind = kind_of(value)
    match kind:
        case "list":
            return "[" + ", ".join(_literal(budget, one) for one in value) + "]"
        case "map":
            keys = sorted(value, key=lambda key: _text(budget, key, 0))
            return "{" + ", ".join(f"{_literal(budget, key)}: {_literal(budget, value[key])}" for key in keys) + "}"
        case "string":
            budget.charge(len(value) // CHARACTERS_A_STEP)
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'
        case "bytes":
            return 'b"' + bytes(value).decode(errors="replace") + '"'
        case "double":
            return f"{value:.6f}" if math.isfinite(value) else f'"{_text(budget, value, 0)}"'
        case "timestamp" | "duration":
            return f'{kind}("{value}")'
        case "type":
            return f"type({value.name})"
    return _text(budget, value, 0)


def _decimal(budget: Budget, value: Any, precision: int) -> str:
    if kind_of(value) not in ("int", "uint"):
        raise _misfit("decimal", value, "integers")
    return str(int(value))


def _double(value: Any, clause: str) -> float:
    if kind_of(value) == "string" and value in _SPECIAL_DOUBLES:
        return _SPECIAL_DOUBLES[value]
    if kind_of(value) != "double":
        raise _misfit(clause, value, "doubles")
    return float(value)


def _fixed(budget: Budget, value: Any, precision: int) -> str:
    number = _double(value, "fixed-point")
    return f"{number:.{precision}f}" if math.isfinite(number) else _infinite(number)


def _scientific(budget: Budget, value: Any, precision: int) -> str:
    number = _double(value, "scientific")
    return f"{number:.{precision}e}" if math.isfinite(number) else _infinite(number)


def _infinite(number: float) -> str:
    return "NaN" if math.isnan(number) else ("∞" if number > 0 else "-∞")


def _binary(budget: Budget, value: Any, precision: int) -> str:
    if kind_of(value) not in ("int", "uint", "bool"):
        raise _misfit("binary", value, "integers and bools")
    return f"{int(value):b}"


def _octal(budget: Budget, value: Any, precision: int) -> str:
    if kind_of(value) not in ("int", "uint"):
        raise _misfit("octal", value, "integers")
    return f"{int(value):o}"


def _hexadecimal(budget: Budget, value: Any, precision: int) -> str:
    match kind_of(value):
        case "int" | "uint":
            return f"{int(value):x}"
        case "string":
            return str(value).encode(errors="replace").hex()
        case "bytes":
            return bytes(value).hex()
    raise _misfit("hex", value, "integers, byte buffers, and strings")


def _upper_hexadecimal(budget: Budget, value: Any, precision: int) -> str:
    return _hexadecimal(budget, value, precision).upper()


_CLAUSES: dict[str, Callable[[Budget, Any, int], str]] = {
    "s": _text,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "o": _octal,
    "x": _hexadecimal,
    "X": _upper_hexadecimal,
}
