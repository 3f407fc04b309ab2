"""The little of SPDY/3.1 that a forwarded port needs, without a socket: bytes in, events out. Used by `forwarding`.

kubectl wraps SPDY into a WebSocket, so that several connections share it. Its library keeps no windows of flow control.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

MOST_DATA_BYTES = 1024 * 1024
MOST_CONTROL_BYTES = 64 * 1024
MOST_HEADER_BYTES = 64 * 1024  # once unpacked
_VERSION = 0x8003
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 1
PROTOCOL_ERROR, REFUSED = 1, 3  # why a stream is reset
_NUMBER = 0x7FFFFFFF

# What both sides agree to have sent already, before any header: words with their length, then a text.
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status"
)
_MORE_WORDS = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack("!I", len(one)) + one.encode() for one in (*_WORDS.split(" "), *_MORE_WORDS)) + _TEXT.encode()
)


class BadFrame(Exception):
    """What the other side sent is no SPDY, or too much of it."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The other side has begun a stream."""

    stream: int
    headers: dict[str, str]
    is_last: bool


@dataclass(frozen=True, slots=True)
class Data:
    """A piece of a stream."""

    stream: int
    data: bytes
    is_last: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """The other side wants no more of a stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class Ping:
    """To be answered with the same number."""

    number: int


@dataclass(frozen=True, slots=True)
class GoAway:
    """The other side begins no more streams."""


Event = Opened | Data | Reset | Ping | GoAway


class Reader:
    """Makes events of what comes in. After `BadFrame` nothing more can be read."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._unpacker = zlib.decompressobj(zdict=DICTIONARY)

    def receive(self, data: bytes) -> Iterator[Event]:
        """The events that are complete by now."""
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= 8:
                first, second = struct.unpack_from("!II", self._buffer, start)
                length = second & 0xFFFFFF
                is_control = bool(first >> 31)
                if length > (MOST_CONTROL_BYTES if is_control else MOST_DATA_BYTES):
                    raise BadFrame(f"a frame of {length} bytes is too long")
                if len(self._buffer) - start < 8 + length:
                    return
                payload = bytes(memoryview(self._buffer)[start + 8 : start + 8 + length])
                start += 8 + length
                is_last = bool((second >> 24) & _FIN)
                if not is_control:
                    yield Data(first & _NUMBER, payload, is_last)
                elif (event := self._control(first, payload, is_last=is_last)) is not None:
                    yield event
        finally:
            del self._buffer[:start]

    def _control(self, first: int, payload: bytes, *, is_last: bool) -> Event | None:
        if first >> 16 != _VERSION:
            raise BadFrame(f"version {first >> 16 & 0x7FFF} is not spoken here")
        kind = first & 0xFFFF
        try:
            if kind == _SYN_STREAM:
                (stream,) = struct.unpack_from("!I", payload)
                return Opened(stream & _NUMBER, self._headers(payload[10:]), is_last)
            if kind == _RST_STREAM:
                return Reset(struct.unpack("!II", payload)[0] & _NUMBER)
            if kind == _PING:
                return Ping(struct.unpack("!I", payload)[0])
        except struct.error:
            raise BadFrame(f"a frame of kind {kind} has the wrong length") from None
        return GoAway() if kind == _GOAWAY else None  # settings and the like change nothing here

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            block = self._unpacker.decompress(packed, MOST_HEADER_BYTES + 1)
        except zlib.error:
            raise BadFrame("headers cannot be unpacked") from None
        if len(block) > MOST_HEADER_BYTES:
            raise BadFrame("headers are too long")
        (count,) = struct.unpack_from("!I", block)
        headers, at = {}, 4
        for _ in range(count):
            name, at = _text(block, at)
            headers[name], at = _text(block, at)
        return headers


def _text(block: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("!I", block, at)
    if at + 4 + length > len(block):
        raise BadFrame("a header is longer than its block")
    return block[at + 4 : at + 4 + length].decode("latin-1"), at + 4 + length


class Writer:
    """Makes the frames that go out."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(zdict=DICTIONARY)

    def reply(self, stream: int) -> bytes:
        """Take a stream that was begun."""
        block = self._packer.compress(struct.pack("!I", 0)) + self._packer.flush(zlib.Z_SYNC_FLUSH)
        return _control(_SYN_REPLY, struct.pack("!I", stream) + block)


def data(stream: int, piece: bytes = b"", *, is_last: bool = False) -> bytes:
    """A piece of a stream."""
    return struct.pack("!II", stream, (_FIN << 24 if is_last else 0) | len(piece)) + piece


def reset(stream: int, why: int) -> bytes:
    """Want no more of a stream."""
    return _control(_RST_STREAM, struct.pack("!II", stream, why))


def pong(number: int) -> bytes:
    """Answer a ping."""
    return _control(_PING, struct.pack("!I", number))


def _control(kind: int, payload: bytes) -> bytes:
    return struct.pack("!HHI", _VERSION, kind, len(payload)) + payload
