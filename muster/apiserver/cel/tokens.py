"""From the text of an expression to its tokens. Called by the parser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from muster.apiserver.cel.problems import SourceProblem
from muster.apiserver.cel.values import Uint

INT64_MOST, UINT64_MOST = 2**63 - 1, 2**64 - 1
DIGITS_MOST = 400  # a number with more is no number; turning them into one takes longer the more there are

_TOKEN = re.compile(
    r"""
      (?P<blank>(?:\s|//[^\n]*)++)
    | (?P<string>(?:[rR][bB]?|[bB][rR]?)?(?:\"{3}|'{3}|\"|'))
    | (?P<double>(?:[0-9]++\.[0-9]++(?:[eE][+-]?[0-9]++)?+|[0-9]++[eE][+-]?[0-9]++|\.[0-9]++(?:[eE][+-]?[0-9]++)?+))
    | (?P<int>(?:0x[0-9a-fA-F]++|[0-9]++)[uU]?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*+)
    | (?P<sign>&&|\|\||[=!<>]=|[-+*/%!<>?:.,()\[\]{}])
    """,
    re.VERBOSE,
)
_SIMPLE_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"} | {
    one: one for one in "\\'\"`?"
}
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.S
)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the source; `kind` is its text for operators and words with a meaning, else what it is."""

    kind: str
    position: int
    text: str
    value: Any = None


def tokens_of(source: str) -> list[Token]:
    """All tokens, with one of kind "end" after the last."""
    found: list[Token] = []
    position = 0
    while position < len(source):
        matched = _TOKEN.match(source, position)
        if matched is None:
            raise SourceProblem(position, f"Syntax error: token recognition error at: '{source[position]}'")
        kind, text = matched.lastgroup, matched[0]
        end = matched.end()
        if kind == "string":
            token, end = _string(source, position, text)
            found.append(token)
        elif kind in ("int", "double"):
            found.append(_number(kind, position, text))
        elif kind == "name":
            found.append(Token(text if text in ("true", "false", "null", "in") else "name", position, text))
        elif kind == "sign":
            found.append(Token(text, position, text))
        position = end
    found.append(Token("end", len(source), "<EOF>"))
    return found


def _number(kind: str, position: int, text: str) -> Token:
    if len(text) > DIGITS_MOST:
        raise SourceProblem(position, f"invalid {kind} literal")
    if kind == "double":
        value = float(text)
        if value == float("inf"):
            raise SourceProblem(position, "invalid double literal")
        return Token("literal", position, text, value)
    is_unsigned = text[-1] in "uU"
    digits = text.rstrip("uU")
    number = int(digits, 16) if digits.startswith("0x") else int(digits)
    if is_unsigned:
        if number > UINT64_MOST:
            raise SourceProblem(position, "invalid uint literal")
        return Token("literal", position, text, Uint(number))
    # The parser takes one more where a minus stands before it.
    return Token("int", position, text, number)


def _string(source: str, position: int, opening: str) -> tuple[Token, int]:
    quote = opening.lstrip("rRbB")
    prefix = opening[: -len(quote)].lower()
    start = position + len(opening)
    end = _closing(source, start, quote, is_raw="r" in prefix)
    if end < 0:
        raise SourceProblem(position, f"Syntax error: token recognition error at: '{source[position : position + 20]}'")
    inside = source[start:end]
    text = source[position : end + len(quote)]
    is_bytes = "b" in prefix
    value: str | bytes = inside
    if is_bytes:
        value = inside.encode() if "r" in prefix else _unescaped_bytes(inside, start)
    elif "r" not in prefix:
        value = _unescaped(inside, start)
    return Token("literal", position, text, value), end + len(quote)


def _closing(source: str, start: int, quote: str, *, is_raw: bool) -> int:
    """Where the closing quote is, or -1."""
    position = start
    stops = (
        re.compile(rf"{quote}|\n" if len(quote) == 1 else quote)
        if is_raw
        else re.compile(rf"\\|{quote}|\n" if len(quote) == 1 else rf"\\|{quote}")
    )
    while found := stops.search(source, position):
        if found[0] == quote:
            return found.start()
        if found[0] == "\n":
            return -1
        position = found.end() + 1
    return -1


def _unescaped(inside: str, start: int) -> str:
    return _ESCAPE.sub(lambda found: _character(found, start), inside)


def _unescaped_bytes(inside: str, start: int) -> bytes:
    """Escapes by number are one byte each, the rest is UTF-8."""
    pieces, position = [], 0
    for found in _ESCAPE.finditer(inside):
        pieces.append(inside[position : found.start()].encode())
        code = found[1] or found[2]
        if code:
            pieces.append(bytes([int(code, 16)]))
        elif found[5]:
            pieces.append(bytes([int(found[5], 8)]))
        elif found[3] or found[4]:
            raise SourceProblem(start + found.start(), "unable to unescape string")
        else:
            pieces.append(_character(found, start).encode())
        position = found.end()
    pieces.append(inside[position:].encode())
    return b"".join(pieces)


def _character(found: re.Match[str], start: int) -> str:
    hexadecimal = found[1] or found[2] or found[3] or found[4]
    if hexadecimal or found[5]:
        code = int(hexadecimal, 16) if hexadecimal else int(found[5], 8)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise SourceProblem(start + found.start(), "invalid unicode code point")
        return chr(code)
    if found[6] not in _SIMPLE_ESCAPES:
        raise SourceProblem(start + found.start(), "unable to unescape string")
    return _SIMPLE_ESCAPES[found[6]]
