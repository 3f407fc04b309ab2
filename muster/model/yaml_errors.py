"""What a YAML parser's complaint means to the person who wrote the text. Called by `documents`.

The parser says which token it could not use. A person needs to know what was expected there: at which column the
line should start, which quote or bracket is still open.
"""

from __future__ import annotations

import yaml
from yaml.reader import ReaderError

from muster.model.errors import InvalidObject
from muster.model.text_places import place_of, refuse

SHOWN_CHARACTERS = 40


def explain_yaml(problem: yaml.YAMLError, text: str, source: str) -> InvalidObject:
    """A parser's error as where, what and what to write."""
    if isinstance(problem, ReaderError):
        return _bad_character(problem, text, source)
    mark = getattr(problem, "problem_mark", None) or getattr(problem, "context_mark", None)
    said = str(getattr(problem, "problem", None) or problem)
    if mark is None:
        return InvalidObject(source, f"is not YAML: {said}")
    lines = text.split("\n")
    opened = getattr(problem, "context_mark", None)
    hint = _expected(said, lines, (mark.line, mark.column), (opened.line, opened.column) if opened else None)
    return refuse(source, mark.line + 1, mark.column + 1, f"is not YAML: {said}", hint)


def _bad_character(problem: ReaderError, text: str, source: str) -> InvalidObject:
    code = problem.character if isinstance(problem.character, int) else 0
    position = max(text.find(chr(code)), 0) if 0 <= code < 0x110000 else 0
    line, column = place_of(text, position)
    hint = "take it out, or escape it in double quotes"
    return refuse(source, line, column, f"holds the control character U+{code:04X}", hint)


def _expected(said: str, lines: list[str], at: tuple[int, int], opened: tuple[int, int] | None) -> str:
    """What should have stood at the place where the parser gave up."""
    line, column = at
    if "cannot start any token" in said:
        return _bad_start(lines, line, column)
    if "mapping values are not allowed" in said:
        return _misplaced_pair(lines, line, column)
    if opened is None:
        return "expected the next document, after a line ---" if "document start" in said else "check the lines above"
    where = f"line {opened[0] + 1}, column {opened[1] + 1}"
    if "expected key" in said or "expected <block end>" in said or "'-' indicator" in said:
        what = "`- `" if "'-'" in said else "a key"
        model = f"as in line {opened[0] + 1} ({_shown(lines, opened[0])})"
        return f"expected {what} at column {opened[1] + 1}, {model}, or this line as deep as the one above"
    if "end of stream" in said:
        return f"expected the closing quote of the text that starts at {where}"
    if "expected ':'" in said:
        return f"expected ': ' and a value after {_shown(lines, opened[0])} in line {opened[0] + 1}"
    if "',' or" in said:
        bracket = "]" if "]" in said else "}"
        return f"expected a comma or {bracket}, which closes the bracket at {where}"
    if "escape" in said:
        return "write \\\\ for a backslash, or use single quotes"
    return f"expected the end of what starts at {where}"


def _bad_start(lines: list[str], line: int, column: int) -> str:
    character = _at(lines, line)[column : column + 1]
    if character == "\t":
        return "expected spaces: YAML is not indented with tabs"
    return f"expected a value: put text that starts with {character} in quotes"


def _misplaced_pair(lines: list[str], line: int, column: int) -> str:
    """`key:` where the line above had already begun a value: nearly always an indentation too deep."""
    content = _at(lines, line)
    key = content[:column].strip()
    indent = len(content) - len(content.lstrip(" "))
    above = next((number for number in range(line - 1, -1, -1) if _has_content(lines[number])), None)
    if ": " in content[:column] or above is None:
        return f"expected one key on this line: put the value of {_cut(content.strip())} in quotes"
    opener = _at(lines, above)
    start = len(opener) - len(opener.lstrip(" -"))
    if start == indent:
        return f"expected a value: line {above + 1} ({_shown(lines, above)}) needs ': ' after its key"
    below = f"below {_shown(lines, above)} of line {above + 1}"
    return f"expected {_cut(key)} at column {start + 1}, {below}; it is at column {indent + 1}"


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _at(lines: list[str], line: int) -> str:
    return lines[line] if 0 <= line < len(lines) else ""


def _shown(lines: list[str], line: int) -> str:
    return _cut(_at(lines, line).strip(" -\r"))


def _cut(text: str) -> str:
    return repr(text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…")
