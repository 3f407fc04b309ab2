"""A client that costs little: one request after another on a connection, and watches line by line.

Used by the benchmarks of the server and by its proofs over HTTP.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

GONE = (OSError, EOFError)  # how a connection ends whose server is killed
JSON = "application/json"
_BUFFER_BYTES = 2**26


class Connection:
    """One connection of a client that sends one request after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader = reader
        self._writer = writer
        self._token = token

    async def request(self, method: str, path: str, body: bytes = b"", kind: str = JSON) -> tuple[int, bytes]:
        """Send a request and read the answer; the kind is the media type of the body."""
        await self.send(method, path, body, kind)
        status, length = await self._head()
        if length is not None:
            return status, await self._reader.readexactly(length)
        return status, b"".join([chunk async for chunk in self._chunks()])

    async def lines(self, path: str) -> AsyncIterator[bytes]:
        """The lines of a watch as they come; a refusal is one line."""
        await self.send("GET", path)
        _, length = await self._head()
        if length is not None:
            yield await self._reader.readexactly(length)
            return
        rest = b""
        async for chunk in self._chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield line

    async def send(self, method: str, path: str, body: bytes = b"", kind: str = JSON) -> None:
        """Send a request and leave the answer for later."""
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._token}\r\n"
        head += f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        await self._writer.drain()

    async def _head(self) -> tuple[int, int | None]:
        """The status, and how long the answer is where that is known."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        _, found, rest = head.partition(b"content-length: ")
        return int(head[9:12]), int(rest.partition(b"\r\n")[0]) if found else None

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)

    def close(self) -> None:
        """Hang up at once: nothing is left to be done by a loop that may end now."""
        self._writer.transport.abort()


@cache
def trusting(ca_file: Path) -> ssl.SSLContext:
    """How to know a server by its authority."""
    return ssl.create_default_context(cafile=ca_file)


async def connect(url: str, token: str, ca_file: Path, *, buffer_bytes: int = _BUFFER_BYTES) -> Connection:
    """A connection that reads ahead at most so much."""
    place = urlsplit(url)
    made = await asyncio.open_connection(place.hostname, place.port, ssl=trusting(ca_file), limit=buffer_bytes)
    return Connection(*made, token)
