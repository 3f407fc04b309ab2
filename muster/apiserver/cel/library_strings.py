"""Functions of strings, and regular expressions in linear time. Collected by `functions`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import re2  # type: ignore[import-untyped]

from muster.apiserver.cel.budget import Budget
from muster.apiserver.cel.comparing import CHARACTERS_A_STEP, text_steps
from muster.apiserver.cel.formatting import formatted, quoted
from muster.apiserver.cel.problems import EvaluationProblem, no_such_overload
from muster.apiserver.cel.signatures import charging, overload

PATTERN_CHARACTERS_A_STEP = 4
STATES_A_STEP = 8  # that every ten characters are tried against
FOUND_STEPS = 12  # for each match
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
# What Go calls space.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


# Regular expressions --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def pattern(text: str) -> Any:
    """The compiled pattern; a problem where it is none, or too large."""
    try:
        return re2.compile(text, _OPTIONS)
    except (re2.error, UnicodeEncodeError) as problem:
        reason = problem.args[0].decode() if problem.args and isinstance(problem.args[0], bytes) else str(problem)
        raise EvaluationProblem(f"error parsing regexp: {reason}") from None


def _charged_pattern(budget: Budget, text: str, wanted: str) -> Any:
    """The compiled pattern, with the search of the text charged: by the length of both, and by the pattern's states.

    A short pattern may have many: (a?){500} has a thousand, and each character may be tried against all of them.
    """
    walked = 1 + len(text) // CHARACTERS_A_STEP
    budget.charge(walked * (1 + len(wanted) // PATTERN_CHARACTERS_A_STEP))
    found = pattern(wanted)
    budget.charge(walked * (found.programsize // STATES_A_STEP))
    return found


def _readable(text: str) -> str:
    """The text without halves of characters, which regular expressions cannot go through."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _matches(budget: Budget, text: str, wanted: str) -> bool:
    return _charged_pattern(budget, text, wanted).search(_readable(text)) is not None


def _find(budget: Budget, text: str, wanted: str) -> str:
    found = _charged_pattern(budget, text, wanted).search(_readable(text))
    return found[0] if found else ""


def _find_all(budget: Budget, text: str, wanted: str, most: int = -1) -> list[str]:
    found: list[str] = []
    compiled = _charged_pattern(budget, text, wanted)
    end = -1
    for one in compiled.finditer(_readable(text)):
        if len(found) == most:
            break
        if one.start() == one.end() == end:  # nothing, right behind what was found: Go does not count that
            continue
        budget.charge(FOUND_STEPS)
        end = one.end()
        found.append(one[0])
    return found


# Positions ------------------------------------------------------------------------------------------------------------


def _out_of_range(index: int) -> EvaluationProblem:
    return EvaluationProblem(f"index out of range: {index}")


def _character(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _index_of(text: str, wanted: str, start: int = 0) -> int:
    if not wanted:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.find(wanted, start)


def _last_index_of(text: str, wanted: str) -> int:
    return text.rfind(wanted)


def _last_index_before(text: str, wanted: str, start: int) -> int:
    if not wanted:
        return start
    if start < 0:
        raise _out_of_range(start)
    return -1 if start >= len(text) else text.rfind(wanted, 0, start + len(wanted))


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise EvaluationProblem(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if index is not None and not 0 <= index <= len(text):
            raise _out_of_range(index)
    return text[start:end]


# Parts ----------------------------------------------------------------------------------------------------------------


def _replaced(budget: Budget, text: str, old: str, new: str, most: int = -1) -> str:
    count = text.count(old) if most < 0 else min(most, text.count(old))
    budget.charge((2 * len(text) + count * len(new)) // CHARACTERS_A_STEP)
    return text.replace(old, new, count)


def _split(budget: Budget, text: str, separator: str, most: int = -1) -> list[str]:
    budget.charge(2 * len(text) // CHARACTERS_A_STEP)
    if most == 0:
        return []
    if not separator:
        cut = len(text) if most < 0 else min(len(text), most) - 1
        return [*text[: max(cut, 0)], *([text[cut:]] if text[cut:] else [])]
    return text.split(separator, most - 1 if most > 0 else -1)


def _joined(budget: Budget, parts: Sequence[Any], separator: str = "") -> str:
    texts = list(parts)
    if not all(isinstance(one, str) for one in texts):
        raise no_such_overload()
    budget.charge(len(texts) + (sum(map(len, texts)) + len(texts) * len(separator)) // CHARACTERS_A_STEP)
    return separator.join(texts)


def _first_steps(text: str, *_: Any) -> int:
    return text_steps(text)


def _search_steps(text: str, wanted: str, *_: int) -> int:
    """Python searches in linear time at worst times a small factor."""
    return text_steps(text, wanted)


OVERLOADS = [
    overload("string.contains(string) -> bool", lambda text, wanted: wanted in text, _search_steps),
    overload("string.startsWith(string) -> bool", str.startswith, _search_steps),
    overload("string.endsWith(string) -> bool", str.endswith, _search_steps),
    charging("string.matches(string) -> bool", _matches),
    charging("matches(string, string) -> bool", _matches),
    charging("string.find(string) -> string", _find),
    charging("string.findAll(string) -> list(string)", _find_all),
    charging("string.findAll(string, int) -> list(string)", _find_all),
    overload("string.charAt(int) -> string", _character),
    overload("string.indexOf(string) -> int", _index_of, _search_steps),
    overload("string.indexOf(string, int) -> int", _index_of, _search_steps),
    overload("string.lastIndexOf(string) -> int", _last_index_of, _search_steps),
    overload("string.lastIndexOf(string, int) -> int", _last_index_before, _search_steps),
    overload("string.lowerAscii() -> string", lambda text: text.translate(_LOWER), text_steps),
    overload("string.upperAscii() -> string", lambda text: text.translate(_UPPER), text_steps),
    charging("string.replace(string, string) -> string", _replaced),
    charging("string.replace(string, string, int) -> string", _replaced),
    charging("string.split(string) -> list(string)", _split),
    charging("string.split(string, int) -> list(string)", _split),
    overload("string.substring(int) -> string", _substring, _first_steps),
    overload("string.substring(int, int) -> string", _substring, _first_steps),
    overload("string.trim() -> string", lambda text: text.strip(_SPACE), text_steps),
    charging("list(string).join() -> string", _joined),
    charging("list(string).join(string) -> string", _joined),
    overload("strings:quote(string) -> string", quoted, text_steps),
    charging("string.format(list(dyn)) -> string", formatted),
]
