"""Manifest text into plain values: YAML and JSON, at a bounded cost. Called by whoever takes text from a user.

Values come out as Kubernetes' own reader gives them: YAML 1.1 words and octals are resolved, dates and times of day
stay text, keys become strings. What that reader would quietly let through and a person did not mean (a key given
twice, an anchor inside itself, a tag from another program) is refused with its line and column.

The cost is bounded before anything is built: by the size of the text, by the nesting seen in the stream of events,
and by what the aliases would expand to.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from muster.model.errors import InvalidObject
from muster.model.json_text import begins_as_json, json_values
from muster.model.text_places import place_of, refuse, repeated_key
from muster.model.yaml_errors import explain_yaml
from muster.model.yaml_scalars import NotANumber, key_text, plain_scalar

HAS_C_PARSER = bool(getattr(yaml, "__with_libyaml__", False))
MOST_BYTES = 3 * 1024 * 1024
MOST_BYTES_WITHOUT_C = 256 * 1024  # The pure parser is some forty times slower.
MOST_DEPTH = 100
MOST_EXPANSIONS = 100  # aliases, those inside what an alias stands for included
MOST_EXPANDED = 1024 * 1024  # characters that the aliases of one text stand for
MOST_TAG_DIRECTIVES = 16  # The parser compares each with all before it.

_TAGS = "tag:yaml.org,2002:"
_OPEN = object()  # an anchor whose value is still being read
_TAG_DIRECTIVE = re.compile(r"^%TAG", re.MULTILINE)
_BAD_ESCAPE = re.compile(r"\\u(?:[dD][89a-fA-F]|0000)|\\x00|\\U0000(?:[dD][89a-fA-F]|0000)|\\0")


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a manifest, and where it was written."""

    value: dict[str, Any]
    source: str
    line: int


def parse_documents(text: str | bytes, source: str) -> list[Document]:
    """The objects of a manifest, in order; empty documents are dropped and Lists stand for their items."""
    documents: list[Document] = []
    for value, line in _values(_checked(text, source), source):
        if value is None:
            continue
        if not isinstance(value, dict):
            raise refuse(source, line, 1, f"is {_kind_of(value)}", "give an object, with apiVersion and kind")
        documents.extend(Document(item, source, line) for item in _flattened(value, f"{source}, line {line}"))
    return documents


def parse_value(text: str | bytes, source: str) -> Any:
    """The one value of any shape that a text holds, such as a setting inside a ConfigMap; nothing is `None`."""
    values = list(_values(_checked(text, source), source))
    if len(values) > 1:
        raise refuse(source, values[1][1], 1, "is a second document", "give one document")
    return values[0][0] if values else None


@dataclass(frozen=True, slots=True)
class Body:
    """A value as an API server reads it, and the keys that were given twice, of which the last counts."""

    value: Any
    repeated: tuple[str, ...] = ()  # a sentence for each, with its line


def parse_body(text: str | bytes, source: str) -> Body:
    """The first document of a YAML text with its keys in order, as Kubernetes' server reads a body."""
    builder = _Builder(_checked(text, source), source, is_body=True)
    values = _guarded(lambda: list(islice(builder.documents(), 1)), builder.text, source)
    _check_escapes(builder.text, values, source)
    return Body(values[0][0] if values else None, tuple(builder.repeated))


class PlainText(str):
    """A scalar as it was written, without quotes: a reader that expects a number or nothing may take it for that."""

    __slots__ = ()


def parse_texts(text: str | bytes, source: str) -> Any:
    """The first document of a YAML text with every scalar as it was written; what was not quoted is `PlainText`."""
    builder = _Builder(_checked(text, source), source, is_verbatim=True)
    values = _guarded(lambda: list(islice(builder.documents(), 1)), builder.text, source)
    _check_escapes(builder.text, values, source)
    return values[0][0] if values else None


def _flattened(value: dict[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """The object itself, or the items of a List, and of Lists within it."""
    if value.get("kind") != "List" or value.get("apiVersion", "v1") != "v1":
        yield value
        return
    items = value.get("items")
    if items is not None and not isinstance(items, list):
        raise InvalidObject(f"{where}: items", f"is {_kind_of(items)}", "give a list of objects")
    for index, item in enumerate(items or []):
        path = f"{where}: items[{index}]"
        if not isinstance(item, dict):
            raise InvalidObject(path, f"is {_kind_of(item)}", "give an object, with apiVersion and kind")
        yield from _flattened(item, path)


def _kind_of(value: object) -> str:
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return "text" if isinstance(value, str) else "a number"


def _checked(text: str | bytes, source: str) -> str:
    """The text as characters that are safe to parse, or the reason why not."""
    _check_size(len(text), source)
    decoded = _decoded(text, source) if isinstance(text, bytes) else text
    try:
        _check_size(len(decoded.encode("utf-8")), source)
    except UnicodeEncodeError as problem:
        raise _bad_character(decoded, problem.start, source) from None
    if "\0" in decoded:
        raise _bad_character(decoded, decoded.index("\0"), source)
    return decoded.removeprefix("\ufeff")


def _decoded(raw: bytes, source: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        column = problem.start - raw.rfind(b"\n", 0, problem.start)
        byte = raw[problem.start]
        raise refuse(source, line, column, f"the byte 0x{byte:02x} is not UTF-8", "save the text as UTF-8") from None


def _check_size(size: int, source: str) -> None:
    if size > MOST_BYTES:
        raise InvalidObject(source, f"is longer than {MOST_BYTES} bytes", "split it into several files")


def _bad_character(text: str, position: int, source: str) -> InvalidObject:
    line, column = place_of(text, position)
    name = "a NUL" if text[position] == "\0" else f"the lone surrogate U+{ord(text[position]):04X}"
    return refuse(source, line, column, f"holds {name}", "take it out; text cannot hold it")


def _values(text: str, source: str) -> list[tuple[Any, int]]:
    """The documents of a text with the line each starts on: JSON where it is JSON, else YAML."""
    values: list[tuple[Any, int]] | None = None
    json_problem: InvalidObject | None = None
    if begins_as_json(text, MOST_DEPTH):
        try:
            values = json_values(text, source)
        except json.JSONDecodeError as problem:
            # A flow mapping is YAML that begins as JSON does, so the YAML reader has a try too.
            found = "the end" if problem.pos >= len(text) else repr(text[problem.pos])
            hint = problem.msg[0].lower() + problem.msg[1:]
            json_problem = refuse(source, problem.lineno, problem.colno, f"is not JSON: found {found}", hint)
    if values is None:
        try:
            values = _yaml_values(text, source)
        except InvalidObject:
            if json_problem is not None and source.endswith(".json"):
                raise json_problem from None
            raise
    _check_escapes(text, values, source)
    return values


def _check_escapes(text: str, values: list[tuple[Any, int]], source: str) -> None:
    if _BAD_ESCAPE.search(text):
        for value, line in values:
            _check_texts(value, line, source)


def _check_texts(value: object, line: int, source: str) -> None:
    """Escapes can write what the text itself may not hold."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_texts(key, line, source)
            _check_texts(item, line, source)
    elif isinstance(value, list):
        for item in value:
            _check_texts(item, line, source)
    elif isinstance(value, str):
        bad = next((place for place, char in enumerate(value) if char == "\0" or "\ud800" <= char <= "\udfff"), None)
        if bad is not None:
            problem = _bad_character(value, bad, source)
            raise refuse(source, line, 1, f"the document that starts here {problem.problem}", problem.hint)


# YAML


def _yaml_values(text: str, source: str) -> list[tuple[Any, int]]:
    return _guarded(lambda: list(_Builder(text, source).documents()), text, source)


def _guarded(build: Callable[[], list[tuple[Any, int]]], text: str, source: str) -> list[tuple[Any, int]]:
    """What is built of a text, or why it cannot be."""
    if not HAS_C_PARSER and len(text) > MOST_BYTES_WITHOUT_C:
        problem = f"is YAML longer than {MOST_BYTES_WITHOUT_C} bytes, and PyYAML has no libyaml here"
        raise InvalidObject(source, problem, "install PyYAML with libyaml, or give JSON")
    if len(_TAG_DIRECTIVE.findall(text)) > MOST_TAG_DIRECTIVES:
        raise InvalidObject(source, f"has more than {MOST_TAG_DIRECTIVES} %TAG directives", "take them out")
    try:
        return build()
    except yaml.YAMLError as problem:
        raise explain_yaml(problem, text, source) from None
    except (ValueError, OverflowError) as problem:
        # The parsers pass on what decoding an escape or a version number raised.
        raise InvalidObject(source, f"is not YAML: {problem}", "look for an escape such as \\U or %") from None


@dataclass(slots=True)
class _Anchor:
    """What an alias stands for, and what writing it out costs."""

    value: Any
    size: int
    expansions: int


class _Builder:
    """Builds values from parser events. The counters run over the whole text, the anchors over one document."""

    def __init__(self, text: str, source: str, *, is_body: bool = False, is_verbatim: bool = False) -> None:
        self.text = text
        self.is_body = is_body  # a key given twice is then told, not refused
        self.is_verbatim = is_verbatim  # scalars stay text
        self.repeated: list[str] = []
        loader = yaml.CSafeLoader(text) if HAS_C_PARSER else yaml.SafeLoader(text)
        self.next: Callable[[], Any] = loader.get_event
        self.source = source
        self.anchors: dict[str, _Anchor] = {}
        self.size = 0
        self.expanded = 0
        self.expansions = 0

    def documents(self) -> Iterator[tuple[Any, int]]:
        self.next()  # the start of the stream
        while type(event := self.next()) is not StreamEndEvent:
            assert type(event) is DocumentStartEvent, f"a document starts with {event}"
            self.anchors = {}
            root = self.next()
            yield self.value(root, 1), root.start_mark.line + 1
            end = self.next()
            assert type(end) is DocumentEndEvent, f"a document ends with {end}"

    def refuse(self, event: Any, problem: str, hint: str) -> InvalidObject:
        mark = event.start_mark
        return refuse(self.source, mark.line + 1, mark.column + 1, problem, hint)

    def value(self, event: Any, depth: int) -> Any:
        """The value that begins with this event; its children come from the events that follow."""
        kind = type(event)
        if kind is ScalarEvent and event.anchor is None:
            self.size += len(event.value) + 1
            return self.scalar(event)
        if kind is AliasEvent:
            return self.alias(event, depth)
        size, expansions = self.size, self.expansions
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchor(_OPEN, 0, 0)
        result: Any
        if kind is ScalarEvent:
            self.size += len(event.value) + 1
            result = self.scalar(event)
        elif depth > MOST_DEPTH:
            raise self.refuse(event, f"is nested deeper than {MOST_DEPTH} levels", "objects need fewer than 30")
        elif kind is MappingStartEvent:
            self.size += 1
            self.check_tag(event, "map")
            result = self.mapping(depth)
        else:
            assert kind is SequenceStartEvent, f"a value starts with {event}"
            self.size += 1
            self.check_tag(event, "seq")
            result = []
            while type(item := self.next()) is not SequenceEndEvent:
                result.append(self.value(item, depth + 1))
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchor(result, self.size - size, self.expansions - expansions)
        return result

    def mapping(self, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: set[str] = set()
        while type(event := self.next()) is not MappingEndEvent:
            if type(event) is ScalarEvent and event.value == "<<" and _is_merge(event):
                self.merge(result, merged, event, depth)
                continue
            key = self.key(event, depth)
            if key in result:
                if key not in merged:
                    self.repeat(event, key)
                merged.discard(key)
            result[key] = self.value(self.next(), depth + 1)
        return dict(sorted(result.items())) if self.is_body else result

    def repeat(self, event: Any, key: str) -> None:
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if not self.is_body:
            raise repeated_key(self.source, line, column, key)
        is_text = type(event) is not ScalarEvent or isinstance(self.scalar(event), str)
        shown = json.dumps(key, ensure_ascii=False) if is_text else key
        self.repeated.append(f"line {line}: key {shown} already set in map")

    def key(self, event: Any, depth: int) -> str:
        if type(event) not in (ScalarEvent, AliasEvent):
            hint = "give text as key; fill in {{ templates }} first"
            raise self.refuse(event, "is a key that is a list or an object", hint)
        value = self.value(event, depth)
        if isinstance(value, str):
            return value
        text = key_text(value)
        if text is None:
            raise self.refuse(event, f"is a key that is {_kind_of(value)}", "put the key in quotes")
        return text

    def merge(self, result: dict[str, Any], merged: set[str], event: Any, depth: int) -> None:
        """`<<` as Kubernetes reads it: it takes effect where it stands, and of several the first wins."""
        value = self.value(self.next(), depth + 1)
        several = value if isinstance(value, list) else [value]
        for item in reversed(several):
            if not isinstance(item, dict):
                raise self.refuse(event, "<< merges what is not an object", "give an object or a list of objects")
            merged.update(key for key in item if key not in result)
            result.update(item)

    def alias(self, event: Any, depth: int) -> Any:
        anchor = self.anchors.get(event.anchor)
        if anchor is None:
            name = event.anchor[:60]
            raise self.refuse(event, f"*{name} names no anchor before it", f"write &{name} at the value meant")
        if anchor.value is _OPEN:
            raise self.refuse(event, f"*{event.anchor[:60]} stands inside itself", "write the value out")
        self.expansions += 1 + anchor.expansions
        self.expanded += anchor.size
        self.size += anchor.size
        if self.expansions > MOST_EXPANSIONS:
            raise self.refuse(event, f"aliases expand more than {MOST_EXPANSIONS} times", "write the values out")
        if self.expanded > MOST_EXPANDED:
            raise self.refuse(event, f"aliases stand for more than {MOST_EXPANDED} characters", "write the values out")
        return self.copy(anchor.value, event, depth)

    def copy(self, value: Any, event: Any, depth: int) -> Any:
        """Each alias gets a value of its own, so that changing one does not change the others."""
        if isinstance(value, (dict, list)) and depth > MOST_DEPTH:
            raise self.refuse(event, f"is nested deeper than {MOST_DEPTH} levels", "objects need fewer than 30")
        if isinstance(value, dict):
            return {key: self.copy(item, event, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.copy(item, event, depth + 1) for item in value]
        return value

    def check_tag(self, event: Any, wanted: str) -> None:
        if event.tag not in (None, "!", _TAGS + wanted):
            raise self.refuse(event, f"has the tag {_shown_tag(event.tag)}", "take the tag out")

    def scalar(self, event: Any) -> Any:
        try:
            if event.implicit[0]:
                return PlainText(event.value) if self.is_verbatim else plain_scalar(event.value)
            if event.tag is None or event.tag == "!":
                return event.value
            return _tagged(event)
        except NotANumber as problem:
            raise self.refuse(event, str(problem), "give a finite number, or put it in quotes") from None
        except _WrongTag as problem:
            raise self.refuse(event, str(problem), "take the tag out") from None


class _WrongTag(Exception):
    """A tag that does not belong to its value, or to no value we know."""


def _is_merge(event: Any) -> bool:
    return bool(event.implicit[0]) or event.tag == _TAGS + "merge"


def _shown_tag(tag: str) -> str:
    return ("!!" + tag.removeprefix(_TAGS) if tag.startswith(_TAGS) else tag)[:80]


_TYPES_OF_TAGS: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "null": (type(None),),
}


def _tagged(event: Any) -> Any:
    """A scalar with an explicit tag of YAML's own."""
    name = event.tag.removeprefix(_TAGS) if event.tag.startswith(_TAGS) else ""
    if name in ("str", "timestamp", "merge"):
        return event.value
    if name == "binary":
        try:
            text = base64.b64decode("".join(event.value.split()), validate=True).decode("utf-8")
        except (binascii.Error, ValueError):
            text = "\0"
        if "\0" in text:
            raise _WrongTag("is tagged !!binary and is not base64 of text")
        return text
    if name not in _TYPES_OF_TAGS:
        raise _WrongTag(f"has the tag {_shown_tag(event.tag)}")
    value = plain_scalar(event.value)
    if not isinstance(value, _TYPES_OF_TAGS[name]) or (isinstance(value, bool) and name != "bool"):
        raise _WrongTag(f"is tagged !!{name} and is not one")
    if name != "float" or not isinstance(value, int):
        return value
    try:
        return float(value)
    except OverflowError:
        raise NotANumber("is too large for a float") from None
