"""Label and field selectors of requests, and whether a record is selected. Used by lists, watches and collections.

Most records are judged without being decoded: a text that has to be there is looked for first, and of the rest only the
labels or a few fields are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from muster.apiserver.served import Served
from muster.apiserver.statuses import bad_request
from muster.model.labels import (
    Operator,
    Requirement,
    Selector,
    label_key_problem,
    label_value_problem,
)
from muster.store.records import Record

MOST_CHARACTERS = 16 * 1024
_SYMBOLS = "()=!<>,"
_OPERATORS = {"=": Operator.IN, "==": Operator.IN, "!=": Operator.NOT_IN, "in": Operator.IN, "notin": Operator.NOT_IN}
_ORDERS = {">": Operator.GREATER, "<": Operator.LESS}
_REMEMBERED = 512
_EVERYWHERE = ("metadata.name", "metadata.namespace")  # fields that all kinds are selected by

# Fields that are not where their name says, and what an absent one counts as.
_PLACES = {
    "source": "source.component",
    "status.successful": "status.succeeded",
    "reportingController": "reportingComponent",
    "status.podIPs": "status.podIP",
}
_ABSENT = {
    "spec.hostNetwork": "false",
    "spec.unschedulable": "false",
    "status.replicas": "0",
    "status.successful": "0",
}


class _Labelled(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Headed(msgspec.Struct):
    metadata: _Labelled


_decode_labels = msgspec.json.Decoder(_Headed).decode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One condition on one field."""

    name: str
    value: str
    is_equal: bool

    def matches(self, record: Record, fields: Callable[[Record], dict[str, Any]]) -> bool:
        if self.name == "metadata.name":
            found = record.key.name
        elif self.name == "metadata.namespace":
            found = record.key.namespace
        else:
            found = _text_at(fields(record), self.name)
        return (found == self.value) is self.is_equal


class Selection:
    """Which records of a resource are meant."""

    def __init__(self, labels: Selector, fields: tuple[FieldTerm, ...], served: Served | None = None) -> None:
        self._labels = labels if labels.requirements else None
        self._terms = fields
        self._custom = served.custom if served is not None else None
        # Fields of a kind with a definition may be numbers, or be there only by default.
        self._needed = tuple(_needed_texts(labels, fields if self._custom is None else ()))
        self._known: dict[int, bool] = {}  # by revision: watches ask of each record twice, as it came and as it went
        self.is_everything = self._labels is None and not fields

    def matches(self, record: Record) -> bool:
        """Whether the record is selected."""
        if self.is_everything:
            return True
        known = self._known.get(record.revision)
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[record.revision] = self._judge(record)
        return known

    def _judge(self, record: Record) -> bool:
        if any(text not in record.value for text in self._needed):
            return False
        if self._labels is not None:
            found = _decode_labels(record.value).metadata.labels or {}
            if not self._labels.matches(found):
                return False
        look = self._custom.fields_of if self._custom is not None else _fields_of
        return all(term.matches(record, look) for term in self._terms)


def _fields_of(record: Record) -> dict[str, Any]:
    return _decode(record.value)


def _needed_texts(labels: Selector, fields: Iterable[FieldTerm]) -> Iterator[bytes]:
    """Texts that a selected object's JSON has in any case."""
    for requirement in labels.requirements:
        if requirement.operator is Operator.IN and len(requirement.values) == 1:
            (value,) = requirement.values
            yield msgspec.json.encode(requirement.key) + b":" + msgspec.json.encode(value)
    for term in fields:
        if term.is_equal and term.value and not term.name.startswith("metadata.") and term.name not in _ABSENT:
            yield msgspec.json.encode(term.value)


def _text_at(given: Any, name: str) -> str:
    value = given
    for part in _stored_name(name).split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return _ABSENT.get(name, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _stored_name(name: str) -> str:
    """Where the stored object has the field: events are kept in their older form."""
    if name.startswith("regarding."):
        return f"involvedObject.{name.removeprefix('regarding.')}"
    return _PLACES.get(name, name)


EVERYTHING = Selection(Selector(), ())


# Reading -------------------------------------------------------------------------------------------------------------


def read_selection(labels: str, fields: str, served: Served) -> Selection:
    """The selection that a request asks for."""
    if not labels and not fields:
        return EVERYTHING
    if max(len(labels), len(fields)) > MOST_CHARACTERS:
        raise bad_request(f"a selector is longer than {MOST_CHARACTERS} characters")
    return Selection(read_labels(labels), tuple(read_fields(fields, served)), served)


def read_fields(text: str, served: Served) -> Iterator[FieldTerm]:
    """The conditions of a field selector such as `spec.nodeName=n1,status.phase!=Failed`."""
    for term in _split_terms(text):
        if not term:
            continue
        name, operator, value = _split_term(term)
        if not operator:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        if not name and not value:
            continue
        if name not in (served.kind.field_selectors or _EVERYWHERE):
            raise bad_request(_unknown_field(name, served))
        yield FieldTerm(name, _unescaped(value, text), operator != "!=")


def _unknown_field(name: str, served: Served) -> str:
    if set(served.kind.field_selectors) - set(_EVERYWHERE):
        return f"field label not supported: {name}"
    known = ", ".join(f'"{one}"' for one in _EVERYWHERE)
    return f'"{name}" is not a known field selector: only {known}'


def _split_terms(text: str) -> list[str]:
    """The parts between commas that no backslash stands before."""
    terms = [""]
    is_escaped = False
    for character in text:
        if character == "," and not is_escaped:
            terms.append("")
            continue
        terms[-1] += character
        is_escaped = character == "\\" and not is_escaped
    return terms


def _split_term(term: str) -> tuple[str, str, str]:
    for place, character in enumerate(term):
        if character == "\\":
            break  # names have none, so this is a value without an operator before it
        for operator in ("!=", "==", "="):
            if term.startswith(operator, place):
                return term[:place], operator, term[place + len(operator) :]
    return term, "", ""


def _unescaped(value: str, text: str) -> str:
    result = ""
    is_escaped = False
    for character in value:
        if is_escaped:
            if character not in "\\,=":
                raise bad_request(f"invalid selector: '{text}'; invalid escape sequence: \\{character}")
            result += character
            is_escaped = False
        elif character == "\\":
            is_escaped = True
        elif character == "=":
            raise bad_request(f"invalid field selector: unescaped character in value: {ord('=')}")
        else:
            result += character
    if is_escaped:
        raise bad_request(f"invalid selector: '{text}'; it ends with a backslash")
    return result


class _Token(NamedTuple):
    text: str
    is_word: bool


def read_labels(text: str) -> Selector:
    """A label selector such as `app=a,tier in (x,y),!old`."""
    reader = _LabelReader(_tokens(text))
    requirements = []
    while not reader.is_done():
        requirements.append(reader.requirement())
        if not reader.is_done():
            reader.expect(",")
            if reader.is_done():
                raise bad_request("found '', expected: identifier after ','")
    return Selector(tuple(requirements))


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    word = ""
    place = 0
    while place < len(text):
        character = text[place]
        if character in _SYMBOLS or character.isspace():
            if word:
                found.append(_Token(word, True))
                word = ""
            if not character.isspace():
                symbol = text[place : place + 2] if text[place : place + 2] in ("==", "!=") else character
                found.append(_Token(symbol, False))
                place += len(symbol) - 1
        else:
            word += character
        place += 1
    return [*found, _Token(word, True)] if word else found


class _LabelReader:
    """Takes requirements off a list of tokens."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._place = 0

    def is_done(self) -> bool:
        return self._place == len(self._tokens)

    def _peek(self) -> _Token:
        return _Token("", False) if self.is_done() else self._tokens[self._place]

    def _take(self) -> _Token:
        token = self._peek()
        self._place = min(self._place + 1, len(self._tokens))
        return token

    def expect(self, symbol: str) -> None:
        token = self._take()
        if token.is_word or token.text != symbol:
            raise bad_request(f"unable to parse requirement: found '{token.text}' expected: '{symbol}'")

    def _word(self) -> str:
        token = self._take()
        if not token.is_word:
            raise bad_request(f"unable to parse requirement: found '{token.text}', expected: identifier")
        return token.text

    def requirement(self) -> Requirement:
        """The next requirement."""
        if not self._peek().is_word and self._peek().text == "!":
            self._take()
            return Requirement(_checked_key(self._word()), Operator.DOES_NOT_EXIST)
        key = _checked_key(self._word())
        token = self._peek()
        if not token.text or token == _Token(",", False):
            return Requirement(key, Operator.EXISTS)
        self._take()
        if token.text in ("in", "notin"):
            return Requirement(key, _OPERATORS[token.text], frozenset(self._values()))
        if not token.is_word and token.text in _OPERATORS:
            return Requirement(key, _OPERATORS[token.text], frozenset([self._value()]))
        if not token.is_word and token.text in _ORDERS:
            return Requirement(key, _ORDERS[token.text], bound=_whole(self._value()))
        raise bad_request(f"unable to parse requirement: found '{token.text}', expected: in, notin, =, ==, !=, gt, lt")

    def _value(self) -> str:
        if not self._peek().is_word:
            return ""
        return _checked_value(self._take().text)

    def _values(self) -> Iterator[str]:
        self.expect("(")
        while True:
            yield self._value()
            token = self._take()
            if token == _Token(")", False):
                return
            if token != _Token(",", False):
                raise bad_request(f"unable to parse requirement: found '{token.text}', expected: ',' or ')'")


def _checked_key(key: str) -> str:
    if problem := label_key_problem(key):
        raise bad_request(f"unable to parse requirement: the key '{key[:100]}' {problem}")
    return key


def _checked_value(value: str) -> str:
    if problem := label_value_problem(value):
        raise bad_request(f"unable to parse requirement: the value '{value[:100]}' {problem}")
    return value


def _whole(text: str) -> int:
    digits = text.removeprefix("-")
    # A label's value is short, so that this number is small.
    if not (digits.isascii() and digits.isdigit()):
        raise bad_request(f"unable to parse requirement: '{text}' is no whole number")
    return int(text)
