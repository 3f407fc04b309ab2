"""A request as handlers see it: who asks, for what, with which options and which body. Made by `asgi` and `routes`."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from muster.apiserver import protobuf
from muster.apiserver.served import Served
from muster.apiserver.statuses import Problem, bad_request, invalid_options
from muster.model.documents import parse_body
from muster.model.errors import InvalidObject
from muster.store.kinds import Object
from muster.store.objects import By
from muster.store.records import Key, Scope

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]

MOST_BYTES = 3 * 1024 * 1024
MOST_DEPTH = 100
BODY_S = 60.0  # for a body to come
MOST_MANAGER_BYTES = 128
_MOST_PARAMETERS = 100
_MOST_DIGITS = 18  # that a number of 64 bits has in any case
_WARNED_CHARACTERS = 4 * 1024
_BAD_ESCAPE = re.compile("%(?![0-9a-fA-F]{2})")
_JSON, _YAML = "application/json", "application/yaml"
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class User(NamedTuple):
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()  # what else is known, such as the pod that a token is for


class Target(NamedTuple):
    """What a path names."""

    served: Served
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> Key:
        return Key(self.served.resource, self.namespace, self.name)

    @property
    def scope(self) -> Scope:
        return Scope(self.served.resource, self.namespace)


class Request:
    """One request. Its body is read when it is asked for."""

    __slots__ = (
        "_body",
        "_most_bytes",
        "_receive",
        "annotations",
        "api_version",
        "headers",
        "method",
        "object_name",
        "path",
        "query",
        "repeated",
        "user",
        "warnings",
    )

    def __init__(self, scope: Message, receive: Receive, user: User, *, most_bytes: int = MOST_BYTES) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.user = user
        self.query = _parse_query(scope["query_string"])
        self.warnings: list[str] = []  # sent along with the answer
        self.annotations: dict[str, str] = {}  # noted in the audit log
        self.repeated: tuple[str, ...] = ()  # what is to be said of keys that a YAML body has twice
        self.object_name = ""  # as the body has it, for what is wrong with that object
        self.api_version = ""  # of the objects that the path names
        self._receive = receive
        self._body: bytes | None = None
        self._most_bytes = most_bytes  # of the body

    def header(self, name: bytes) -> str:
        """A header's text, empty where there is none."""
        return self.headers.get(name, b"").decode("latin-1")

    def option(self, name: str) -> str:
        """A parameter's text; the first one counts."""
        values = self.query.get(name)
        return values[0] if values else ""

    def flag(self, name: str) -> bool:
        """Whether a parameter is given and does not say no."""
        return name in self.query and self.option(name).lower() not in ("false", "0")

    def number(self, name: str) -> int:
        """A parameter that is a whole number, 0 where there is none."""
        if name not in self.query:
            return 0
        text = self.option(name)
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()):
            raise bad_request(f'strconv.ParseInt: parsing "{text[:100]}": invalid syntax')
        if len(digits) > _MOST_DIGITS:
            raise bad_request(f'strconv.ParseInt: parsing "{text[:100]}": value out of range')
        return int(text)

    def writer(self, options_kind: str, target: Target | None = None) -> By:
        """Who writes, and whether for good; of a target also in which version and to which part."""
        asked = self.query.get("dryRun", [])
        if any(one != "All" for one in asked):
            shown = " ".join(f'"{one}"' for one in asked)
            raise invalid_options(options_kind, "dryRun", f'Unsupported value: [{shown}]: supported values: "All"')
        manager = _field_manager(self, options_kind)
        subresource = target.subresource if target is not None else ""
        return By(self.user.name, bool(asked), manager, self.api_version, subresource)

    def annotate(self, annotations: Iterable[tuple[str, str]]) -> None:
        """Have something noted in the audit log beside the request."""
        self.annotations.update(annotations)

    def warn(self, sentences: Iterable[str]) -> None:
        """Have sentences sent along with the answer: each once, and no more than a client would read."""
        room = _WARNED_CHARACTERS - sum(map(len, self.warnings))
        for one in dict.fromkeys(sentences):
            if one in self.warnings:
                continue
            room -= len(one)
            if room < 0:
                return
            self.warnings.append(one)

    @property
    def content_type(self) -> str:
        return self.header(b"content-type").partition(";")[0].strip().lower()

    async def body(self) -> bytes:
        """The whole body; refused as soon as it is too long. It can be asked for again."""
        if self._body is None:
            self._body = await self._read_body()
        return self._body

    async def _read_body(self) -> bytes:
        length = self.header(b"content-length")
        if length.isascii() and length.isdigit() and int(length[:20]) > self._most_bytes:
            raise too_large(self._most_bytes)
        try:
            async with asyncio.timeout(BODY_S):
                body = await self._whole_body()
        except TimeoutError:
            raise Problem(408, "Timeout", f"the body did not come within {BODY_S:.0f} seconds") from None
        encoding = self.header(b"content-encoding")
        return body if encoding in ("", "identity") else _unpacked(body, encoding, self._most_bytes)

    async def _whole_body(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise _gone()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._most_bytes:
                raise too_large(self._most_bytes)
            if not message.get("more_body"):
                return b"".join(parts)

    async def gone(self) -> None:
        """Returns when the client has hung up."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _field_manager(request: Request, options_kind: str) -> str:
    """The name under which the fields of a write are noted: what the client says, or the program that it is."""
    given = request.option("fieldManager")
    if not given:
        return _program(request.headers.get(b"user-agent", b""))
    if len(given.encode()) > MOST_MANAGER_BYTES:
        problem = f"Too long: may not be more than {MOST_MANAGER_BYTES} bytes"
        raise invalid_options(options_kind, "fieldManager", problem)
    if not given.isprintable():
        place, odd = next((place, one) for place, one in enumerate(given) if not one.isprintable())
        shown = "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in given)
        problem = f'Invalid value: "{shown}": invalid character U+{ord(odd):04X} (at position {place})'
        raise invalid_options(options_kind, "fieldManager", problem)
    return given


@lru_cache(maxsize=256)
def _program(user_agent: bytes) -> str:
    """The program that a client says it is, without its version."""
    name = user_agent.partition(b"/")[0].decode(errors="replace")
    printable = "".join(one for one in name if one.isprintable()).encode()[:MOST_MANAGER_BYTES]
    return printable.decode(errors="ignore") or "unknown"


def _gone() -> Problem:
    return bad_request("the client has gone before its request was complete")


def too_large(most_bytes: int = MOST_BYTES) -> Problem:
    return Problem(413, "RequestEntityTooLarge", f"Request entity too large: limit is {most_bytes}")


def _parse_query(text: bytes) -> dict[str, list[str]]:
    if not text:
        return {}
    found: dict[str, list[str]] = {}
    given = text.decode("latin-1").split("&", _MOST_PARAMETERS)
    if len(given) > _MOST_PARAMETERS:
        raise bad_request(f"the request has more than {_MOST_PARAMETERS} parameters")
    # What cannot be read is as good as not given, as it is to Kubernetes.
    readable = "&".join(one for one in given if ";" not in one and not _BAD_ESCAPE.search(one))
    for name, value in parse_qsl(readable, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return found


def _unpacked(body: bytes, encoding: str, most_bytes: int) -> bytes:
    if encoding != "gzip":
        raise Problem(415, "UnsupportedMediaType", f"the content encoding {encoding[:100]!r} is not known")
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(body, most_bytes + 1)
    except zlib.error as problem:
        raise bad_request(f"the body is no gzip: {problem}") from None
    if len(unpacked) > most_bytes:
        raise too_large(most_bytes)
    return unpacked


# Objects in bodies ---------------------------------------------------------------------------------------------------


def read_object(request: Request, body: bytes, kind: str) -> Object:
    """The object of a body in any of the forms that are taken."""
    content_type = request.content_type
    if content_type in (_JSON, ""):
        return {} if body.strip() == b"null" else read_json(body, kind)
    if content_type == protobuf.CONTENT_TYPE:
        try:
            return protobuf.decode(body)
        except InvalidObject as problem:
            raise bad_request(str(problem)) from None
    if content_type == _YAML:
        return _read_yaml(request, body, kind)
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        f"{_JSON}, {_YAML}, {protobuf.CONTENT_TYPE}"
    )
    raise Problem(415, "UnsupportedMediaType", message)


def read_json(body: bytes, kind: str) -> Object:
    """The object that a JSON text holds."""
    try:
        found = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise _unrecognized(kind, f"json parse error: {problem}") from None
    except RecursionError:
        raise _unrecognized(kind, f"nesting deeper than {MOST_DEPTH}") from None
    # Brackets beyond the limit may lie side by side; only then is it worth counting how deep they go.
    if body.count(b"{") + body.count(b"[") > MOST_DEPTH and depth_of(found) > MOST_DEPTH:
        raise _unrecognized(kind, f"nesting deeper than {MOST_DEPTH}")
    if b"\\u0000" in body or b"\\ud" in body or b"\\uD" in body:
        _check_texts(found, kind)
    return found


def _read_yaml(request: Request, body: bytes, kind: str) -> Object:
    try:
        found = parse_body(body, "the body")
    except InvalidObject as problem:
        raise _unrecognized(kind, str(problem)) from None
    if found.value is not None and not isinstance(found.value, dict):
        raise _unrecognized(kind, "the body is no object")
    request.repeated = found.repeated
    return found.value or {}


def _unrecognized(kind: str, problem: str) -> Problem:
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {problem}")


def depth_of(value: Any) -> int:
    """How many objects and lists lie within each other."""
    depth = 0
    level = [value]
    while level := [one for one in level if isinstance(one, (dict, list))]:
        depth += 1
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return depth


def _check_texts(found: Object, kind: str) -> None:
    """Escapes can write characters that no text may hold."""
    level: list[Any] = [found]
    while level:
        for one in level:
            if isinstance(one, str) and ("\0" in one or any("\ud800" <= c <= "\udfff" for c in one)):
                raise _unrecognized(kind, "a text holds NUL or half a character")
        level = [inner for one in level for inner in _inner(one)]


def _inner(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []
