"""Answers, and the forms that objects take in them: JSON as it is stored, tables, metadata alone. Used by handlers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from muster.apiserver.requests import Request
from muster.apiserver.served import Served
from muster.apiserver.statuses import Problem, about, bad_request
from muster.store.clock import Clock
from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.records import Key, Record

if TYPE_CHECKING:
    from muster.apiserver.table_cells import Shown

Headers = tuple[tuple[bytes, bytes], ...]
JSON_TYPE = b"application/json"
TEXT_TYPE = b"text/plain; charset=utf-8"
SENT_AT_ONCE = 256 * 1024
_MOST_ACCEPTED = 4_096  # characters
encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Joined:
    """A long text that is put together as it is sent: of a list of all pods there is no copy but what is on its way."""

    head: bytes
    items: list[bytes]
    tail: bytes

    def __len__(self) -> int:
        return len(self.head) + sum(map(len, self.items)) + max(0, len(self.items) - 1) + len(self.tail)

    def chunks(self) -> Iterator[bytes]:
        """The text in pieces of about the same size."""
        chunk, size = [self.head], 0
        for number, item in enumerate(self.items):
            if size > SENT_AT_ONCE:
                yield b"".join(chunk)
                chunk, size = [], 0
            chunk += (b",", item) if number else (item,)
            size += len(item)
        yield b"".join([*chunk, self.tail])


@dataclass(slots=True)
class Answer:
    """A whole answer."""

    status: int
    body: bytes | Joined
    content_type: bytes = JSON_TYPE
    headers: Headers = ()


@dataclass(slots=True)
class Stream:
    """An answer that goes on until it ends: each item is sent as it comes."""

    chunks: AsyncGenerator[bytes, None]
    headers: Headers = field(default=())
    content_type: bytes = JSON_TYPE


class Form(Enum):
    """How objects are shown."""

    PLAIN = "plain"
    TABLE = "table"
    METADATA = "metadata"


def json_answer(value: object, status: int = 200) -> Answer:
    return Answer(status, encode(value))


def text_answer(text: str, status: int = 200) -> Answer:
    return Answer(status, text.encode(), TEXT_TYPE)


def success(key: Key, uid: str) -> Answer:
    """What is left to say about an object that is gone."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return json_answer({**status, "details": {**about(key), "uid": uid}})


def warning_headers(warnings: Iterable[str]) -> Iterator[tuple[bytes, bytes]]:
    """Warnings as an answer's headers; what could end a header or its quotes is taken out."""
    for text in warnings:
        plain = "".join(one if one.isprintable() else " " for one in text)
        quoted = plain.replace("\\", "\\\\").replace('"', '\\"')
        yield b"warning", f'299 - "{quoted}"'.encode("ascii", "backslashreplace")


# What the client wants -----------------------------------------------------------------------------------------------


def form_of(request: Request) -> Form:
    """The form that the client would like best of those there are."""
    return _accepted(request.header(b"accept")[:_MOST_ACCEPTED])


@lru_cache(maxsize=256)
def _accepted(header: str) -> Form:
    for choice in header.split(",") if header else ("*/*",):
        media, *parameters = (part.strip() for part in choice.split(";"))
        if media not in ("application/json", "application/*", "*/*"):
            continue
        given = dict(part.split("=", 1) for part in parameters if "=" in part)
        wanted, group = given.get("as", ""), given.get("g", "")
        if not wanted:
            return Form.PLAIN
        if group == "meta.k8s.io" and given.get("v") == "v1":
            if wanted == "Table":
                return Form.TABLE
            if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
                return Form.METADATA
    message = "only the following media types are accepted: application/json"
    raise Problem(406, "NotAcceptable", message, details={})


# Objects in those forms ----------------------------------------------------------------------------------------------


class _Headed(msgspec.Struct):
    metadata: msgspec.Raw


_decode_head = msgspec.json.Decoder(_Headed).decode
_METADATA = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":%b}'


def shown_object(record: Record, served: Served) -> Object:
    """The object of a record in the version that is served."""
    if served.custom is not None:
        return served.custom.show(record)
    found = decode(record)
    return found if served.is_stored_version else served.kept.convert(found, served.api_version)


def shown_bytes(record: Record, served: Served) -> bytes:
    """The same as JSON; nothing is decoded where the stored version is served."""
    is_as_stored = served.is_stored_version if served.custom is None else served.custom.is_as_stored(record)
    return record.value if is_as_stored else encode(shown_object(record, served))


async def prepare(records: Iterable[Record], served: Served) -> None:
    """Have ready what it takes to show some records, where somebody else has to be asked for it."""
    if served.custom is not None:
        await served.custom.prepare(records)


def metadata_bytes(record: Record) -> bytes:
    """An object's metadata alone."""
    return _METADATA % bytes(_decode_head(record.value).metadata)


def one_answer(api_clock: Clock, request: Request, served: Served, record: Record, status: int = 200) -> Answer:
    """One object in the form that the client asked for."""
    match form_of(request):
        case Form.PLAIN:
            return Answer(status, shown_bytes(record, served))
        case Form.METADATA:
            return Answer(status, metadata_bytes(record))
    tabler = tabler_of(request, served, api_clock)
    return json_answer(tabler.table([record], {"resourceVersion": str(record.revision)}), status)


def list_body(items: Iterable[bytes], kind: str, api_version: str, metadata: Object) -> Joined:
    """A list of objects, as its JSON."""
    head = b'{"kind":%b,"apiVersion":%b,"metadata":%b,"items":[' % (encode(kind), encode(api_version), encode(metadata))
    return Joined(head, list(items), b"]}\n")


@dataclass(frozen=True, slots=True)
class Tabler:
    """Makes the tables of one request."""

    served: Served
    include: str  # what a row carries of its object
    clock: Clock

    def table(self, records: Iterable[Record], metadata: Object) -> Object:
        """The table of some objects."""
        from muster.apiserver.tables import Include, table_of  # A server that only machines talk to never needs it.

        return table_of(
            _columns(self.served),
            [shown_object(record, self.served) for record in records],
            now_s=self.clock.now_s(),
            include=Include(self.include),
            metadata=metadata,
        )


def columns_of(served: Served) -> bytes:
    """The columns of a kind's tables as JSON, under their name."""
    from muster.apiserver.tables import definitions

    return b'"columnDefinitions":' + encode(definitions(_columns(served)))


def _columns(served: Served) -> tuple[Shown, ...]:
    from muster.apiserver.tables import columns_of

    kind = served.kind
    return columns_of((kind.group, kind.version, kind.kind)) if served.custom is None else served.custom.columns


def tabler_of(request: Request, served: Served, clock: Clock) -> Tabler:
    """How a request wants its tables."""
    include = request.option("includeObject") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise bad_request(f"unrecognized includeObject value: {include[:100]!r}")
    return Tabler(served, include, clock)
