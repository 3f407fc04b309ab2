"""HTTPS to servers of users' own: one request and one answer of bounded size by a deadline.

Muster has no network of services: one that a configuration names is reached where a setting maps it to an address
here. Called by `webhooks.dispatch` for admission and by `definitions.conversion`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
import os
import ssl
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from muster.store.kinds import Object

SERVICES = "MUSTER_WEBHOOK_SERVICES"  # namespace/name=127.0.0.1:8443,…
MOST_BYTES = 8 * 1024 * 1024
_MOST_HEAD_BYTES = 64 * 1024
_KEPT = 32  # connections
_CONTEXTS = 64


class CallFailed(Exception):
    """Why a webhook gave no answer that can be used; `step` says what went wrong, in Kubernetes' words."""

    def __init__(self, problem: str, *, step: str = "failed to call webhook") -> None:
        super().__init__(f"{step}: {problem}")
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a webhook is, and whom to trust there."""

    url: str  # as messages name it
    host: str
    port: int
    path: str
    server_name: str  # that its certificate has to be for
    authority: str  # PEM; empty: the system's authorities


def endpoint_of(config: Object, services: Mapping[str, str]) -> Endpoint:
    """The server of a `clientConfig`; raises CallFailed where a service is not mapped to an address."""
    authority = _authority(config.get("caBundle") or "")
    if url := config.get("url"):
        parts = urlsplit(url)
        host = parts.hostname or ""
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return Endpoint(url, host, parts.port or 443, path, host, authority)
    service = config["service"]
    named = f"{service['namespace']}/{service['name']}"
    where = services.get(named, "")
    host, _, port = where.rpartition(":")
    if not where:
        raise CallFailed(f"there is no network of services: map {named} to an address of loopback with {SERVICES}")
    if not (port.isdigit() and _is_loopback(host)):
        problem = f"{SERVICES} maps {named} to {where}, which is not an address of loopback with a port"
        raise CallFailed(problem)
    path = service.get("path") or "/"
    server_name = f"{service['name']}.{service['namespace']}.svc"
    url = f"https://{server_name}:{service.get('port', 443)}{path}"
    return Endpoint(url, host.strip("[]"), int(port), path, server_name, authority)


def services_in_environment() -> dict[str, str]:
    """Which services are where, as the setting says."""
    pairs = (one.partition("=") for one in os.environ.get(SERVICES, "").split(",") if "=" in one)
    return {name.strip(): where.strip() for name, _, where in pairs}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _authority(bundle: str) -> str:
    try:
        return base64.b64decode(bundle, validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        raise CallFailed("the caBundle is no base64 of PEM") from None


@lru_cache(maxsize=_CONTEXTS)
def _context(authority: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority or None)


class Client:
    """Sends reviews. A connection serves one request at a time; some are kept to be used again."""

    def __init__(self, *, kept: int = _KEPT, most_bytes: int = MOST_BYTES) -> None:
        self._kept = kept
        self._most_bytes = most_bytes  # of an answer
        self._idle: OrderedDict[tuple[Endpoint, int], _Connection] = OrderedDict()

    async def post(self, endpoint: Endpoint, body: bytes, *, timeout_s: int) -> bytes:
        """The answer to a body of JSON; raises CallFailed whatever goes wrong, and when the time is over."""
        separator = "&" if "?" in endpoint.path else "?"
        path = f"{endpoint.path}{separator}timeout={timeout_s}s"
        told = f'Post "{endpoint.url}{"&" if "?" in endpoint.url else "?"}timeout={timeout_s}s"'
        try:
            async with asyncio.timeout(timeout_s):
                status, answer = await self._exchange(endpoint, path, body)
        except TimeoutError:
            raise CallFailed(f"{told}: context deadline exceeded") from None
        except ConnectionRefusedError:
            where = f"dial tcp {endpoint.host}:{endpoint.port}: connect: connection refused"
            raise CallFailed(f"{told}: {where}") from None
        except (OSError, EOFError, ValueError) as problem:
            raise CallFailed(f"{told}: {str(problem) or type(problem).__name__}") from None
        if status not in (200, 201, 202):
            raise CallFailed(_unhappy(status))
        return answer

    async def _exchange(self, endpoint: Endpoint, path: str, body: bytes) -> tuple[int, bytes]:
        kept = self._take(endpoint)
        if kept is not None:
            try:
                return await self._ask(kept, endpoint, path, body)
            except _Stale:
                pass  # the other side has closed it meanwhile: nothing was lost
        return await self._ask(await _connected(endpoint, self._most_bytes), endpoint, path, body)

    async def _ask(self, connection: _Connection, endpoint: Endpoint, path: str, body: bytes) -> tuple[int, bytes]:
        try:
            status, answer, is_kept = await connection.ask(endpoint, path, body)
        except BaseException:
            connection.abort()
            raise
        if is_kept:
            self._idle[endpoint, id(connection)] = connection
            if len(self._idle) > self._kept:
                self._idle.popitem(last=False)[1].abort()
        else:
            connection.abort()
        return status, answer

    def _take(self, endpoint: Endpoint) -> _Connection | None:
        found = next((key for key in reversed(self._idle) if key[0] == endpoint), None)
        return self._idle.pop(found) if found is not None else None

    async def close(self) -> None:
        """Hang up everywhere."""
        while self._idle:
            await self._idle.popitem()[1].close()


class _Stale(Exception):
    """A connection that was closed before a word of the answer came."""


async def _connected(endpoint: Endpoint, most_bytes: int) -> _Connection:
    context = _context(endpoint.authority)
    reader, writer = await asyncio.open_connection(
        endpoint.host,
        endpoint.port,
        ssl=context,
        server_hostname=endpoint.server_name,
        limit=_MOST_HEAD_BYTES,
    )
    return _Connection(reader, writer, most_bytes)


class _Connection:
    """HTTP/1.1 on one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most_bytes: int) -> None:
        self._reader = reader
        self._most_bytes = most_bytes
        self._writer = writer
        self._is_used = False

    async def ask(self, endpoint: Endpoint, path: str, body: bytes) -> tuple[int, bytes, bool]:
        """The status and the body of the answer, and whether the connection can be used again."""
        host = f"[{endpoint.server_name}]" if ":" in endpoint.server_name else endpoint.server_name
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {host}:{endpoint.port}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            self._writer.write(head.encode() + body)
            await self._writer.drain()
            top = await self._reader.readuntil(b"\r\n\r\n")
        except (ConnectionError, asyncio.IncompleteReadError) as problem:
            if self._is_used and not getattr(problem, "partial", b""):
                raise _Stale from None
            raise ConnectionError("EOF") from None
        except asyncio.LimitOverrunError:
            raise ValueError("the head of the answer is too long") from None
        self._is_used = True
        status, headers = _parsed(top)
        answer = await self._body(headers)
        return status, answer, "close" not in headers.get("connection", "").lower()

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return await self._chunks()
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 12):
            raise ValueError("the answer does not say how long it is")
        if int(length) > self._most_bytes:
            raise ValueError(f"the answer is longer than {self._most_bytes} bytes")
        return await self._reader.readexactly(int(length))

    async def _chunks(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            line = (await self._reader.readuntil(b"\r\n")).partition(b";")[0].strip()
            length = int(line, 16)
            size += length
            if length < 0 or size > self._most_bytes:
                raise ValueError(f"the answer is longer than {self._most_bytes} bytes")
            chunk = await self._reader.readexactly(length + 2)
            if not length:
                return b"".join(parts)
            parts.append(chunk[:-2])

    def abort(self) -> None:
        """Hang up without a word."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Hang up, and wait until that is done."""
        self.abort()
        with suppress(OSError):
            await self._writer.wait_closed()


def _parsed(top: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = top.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
        raise ValueError("the answer is no HTTP")
    pairs = (line.partition(":") for line in lines if line)
    return int(words[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


def _unhappy(status: int) -> str:
    """What Kubernetes' client says of an answer that is an error."""
    if status >= 500:
        return 'an error on the server ("unknown") has prevented the request from succeeding'
    if status == 404:
        return "the server could not find the requested resource"
    return f"the server responded with the status code {status} but did not return more information"
