"""A connection to the API of a cluster: requests that end in time, a bounded number at once, and streams of events.

Used by `kube_client` for writes and by `kube_watch` for lists and watches. What the server answers instead of what was
asked for becomes the errors that every store has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import aiohttp
import msgspec

from muster.model.errors import InvalidObject, InvalidObjects
from muster.store.clock import Clock
from muster.store.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    Refused,
    StoreError,
    Unavailable,
)
from muster.store.kube_config import Access
from muster.store.records import Key

IN_FLIGHT = 24  # requests at once: more than the server works on at a time only wait there instead of here
TIMEOUT_S = 30.0
_IDLE_S = 150.0  # a watch that is silent for longer has lost its server: bookmarks come once a minute
_RETRY_S = 1.0  # after a refusal that does not say how long to wait
_RETRY_MOST_S = 30.0
_WANTED_VERSIONS = {"kueue.x-k8s.io": "v1beta2"}  # where not the server's own preference counts
_UNAUTHORIZED, _TOO_MANY = 401, 429
_MESSAGE_HALF = 300  # characters of a message that are kept at either end
_JSON = "application/json"


class Place(NamedTuple):
    """Where the API has the objects of a resource."""

    prefix: str  # /api/v1, /apis/batch/v1
    plural: str
    kind: str
    is_namespaced: bool

    @property
    def api_version(self) -> str:
        return self.prefix.removeprefix("/apis/").removeprefix("/api/")

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of all objects, of those of a namespace, of one, or of a part of it."""
        within = f"/namespaces/{namespace}" if self.is_namespaced and namespace else ""
        rest = "".join(f"/{one}" for one in (name, subresource) if one)
        return f"{self.prefix}{within}/{self.plural}{rest}"


class Answer(NamedTuple):
    """What the server has answered."""

    status: int
    body: bytes

    @property
    def is_good(self) -> bool:
        return self.status < 300


Sent = tuple[Answer, float | None]  # an answer, and after how long to send it again if it was not looked at
Send = Callable[[], Coroutine[Any, Any, Sent]]
Guard = Callable[[Send], Coroutine[Any, Any, Sent]]


async def at_once(send: Send) -> Sent:
    """Send a request that nobody has anything against."""
    return await send()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much is asked of the server at once, and for how long."""

    in_flight: int = IN_FLIGHT
    timeout_s: float = TIMEOUT_S  # after which a request has ended, whatever came of it
    write_s: float | None = None  # after which the server gives up a write; None: it decides that itself
    answer_bytes: int | None = None  # of an answer, or of a line of one that goes on, at most; None: any number


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


class _Version(msgspec.Struct, frozen=True):
    version: str = ""


class _Group(msgspec.Struct):
    versions: list[_Version] = []
    preferredVersion: _Version = _Version()  # noqa: N815


class _Cause(msgspec.Struct):
    field: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    name: str = ""
    group: str = ""
    kind: str = ""
    causes: list[_Cause] | None = None
    retryAfterSeconds: int = 0  # noqa: N815


class Status(msgspec.Struct):
    """Why the server has not done what was asked for."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


_read_status = msgspec.json.Decoder(Status).decode
_read_group = msgspec.json.Decoder(_Group).decode
_read_resources = msgspec.json.Decoder(_Resources).decode


class Kube:
    """A connection to one cluster; to be closed."""

    def __init__(
        self,
        access: Access,
        clock: Clock,
        *,
        limits: Limits | None = None,
        guard: Guard = at_once,
        selectors: Mapping[str, str] | None = None,
    ) -> None:
        self._access = access
        self.selectors = selectors or {}  # the labels of what is followed, by resource; of others all is
        self._clock = clock
        self._limits = limits or Limits()
        self._guard = guard  # whom writes have to pass when they are sent
        self._room = asyncio.Semaphore(self._limits.in_flight)
        self._session: aiohttp.ClientSession | None = None
        self._places: dict[str, dict[str, Place]] = {}  # by group, by plural
        self.requests = 0  # that were sent, for whoever measures

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Give up all connections."""
        if self._session is not None:
            await self._session.close()

    # Requests --------------------------------------------------------------------------------------------------------

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = _JSON,
    ) -> Answer:
        """Send a request and wait for its answer; what the server has no time for is sent again when it says so.

        Raises `Unavailable` where there is no answer in time. Whether the request was carried out is not known then.
        """
        guard = at_once if method == "GET" else self._guard
        if method != "GET" and self._limits.write_s is not None:
            query = {**(query or {}), "timeout": f"{int(self._limits.write_s * 1000)}ms"}

        def send() -> Coroutine[Any, Any, Sent]:
            return self._sent(method, path, query, body, content_type=content_type)

        try:
            async with asyncio.timeout(self._limits.timeout_s):
                while True:
                    async with self._room:
                        answer, wait_s = await guard(send)
                    if wait_s is None:
                        return answer
                    await self._clock.sleep(wait_s)
        except TimeoutError:
            raise Unavailable(f"{method} {path}: no answer within {self._limits.timeout_s:g} s") from None

    async def _sent(
        self, method: str, path: str, query: Mapping[str, str] | None, body: bytes | None, *, content_type: str
    ) -> Sent:
        """Send a request once."""
        for is_refused in (False, True):
            headers = {**await self._headers(is_refused=is_refused), "Content-Type": content_type}
            self.requests += 1
            try:
                async with self._connected().request(
                    method,
                    path,
                    params=query,
                    data=body,
                    headers=headers,
                    proxy=self._access.proxy,
                    server_hostname=self._access.server_name,
                    allow_redirects=False,  # no API server sends anybody elsewhere
                ) as response:
                    answer = Answer(response.status, await self._whole(response))
                    asked_s = response.headers.get("Retry-After", "")
            except (aiohttp.ClientError, OSError) as problem:
                raise Unavailable(f"{method} {path}: {_told(problem)}") from None
            if answer.status != _UNAUTHORIZED:
                break
        if answer.status == _TOO_MANY:
            return answer, min(float(asked_s) if asked_s.isdigit() else _RETRY_S, _RETRY_MOST_S)
        return answer, None

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str]) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """The lines of an answer that goes on, as many at a time as have come."""
        headers = await self._headers()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._limits.timeout_s, sock_read=_IDLE_S)
        self.requests += 1
        try:
            async with self._connected().get(
                path,
                params=query,
                headers=headers,
                timeout=timeout,
                proxy=self._access.proxy,
                server_hostname=self._access.server_name,
                allow_redirects=False,
            ) as response:
                if response.status >= 300:
                    raise problem_of(Key(path, "", ""), Answer(response.status, await self._whole(response)))
                yield _lines(response.content, self._limits.answer_bytes)
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            raise Unavailable(f"GET {path}: {_told(problem)}") from None

    async def _whole(self, response: aiohttp.ClientResponse) -> bytes:
        """The body of an answer, unless it is longer than anybody should send."""
        most = self._limits.answer_bytes
        if most is None:
            return await response.read()
        parts, size = [], 0
        async for part in response.content.iter_any():
            size += len(part)
            if size > most:
                raise Unavailable(f"the answer to {response.url.path} is longer than {most} bytes")
            parts.append(part)
        return b"".join(parts)

    async def _headers(self, *, is_refused: bool = False) -> dict[str, str]:
        try:
            who = await self._access.credentials.headers(is_refused=is_refused)
        except InvalidObject as problem:
            raise Unavailable(f"there are no credentials: {problem}") from None
        # Packing costs both sides more time than the network saves.
        return {"Accept": _JSON, "Accept-Encoding": "identity", "User-Agent": "muster", **who}

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, ssl=self._access.tls if self._access.tls is not None else True)
            timeout = aiohttp.ClientTimeout(total=None)
            self._session = aiohttp.ClientSession(self._access.url, connector=connector, timeout=timeout)
        return self._session

    # Discovery -------------------------------------------------------------------------------------------------------

    async def where(self, resource: str) -> Place | None:
        """Where the API has a resource such as `jobs.batch`; `None` where it has no such resource now."""
        plural, _, group = resource.partition(".")
        known = self._places.get(group, {})
        if plural not in known:
            known = self._places[group] = await self._discovered(group)
        return known.get(plural)

    def forget(self, resource: str) -> None:
        """Have it asked anew where a resource is: the server no longer has it there."""
        self._places.pop(resource.partition(".")[2], None)

    async def _discovered(self, group: str) -> dict[str, Place]:
        prefix = "/api/v1"
        if group:
            answer = await self._found(f"/apis/{group}")
            if answer is None:
                return {}
            told = _read_group(answer.body)
            wanted = _WANTED_VERSIONS.get(group)
            versions = {one.version for one in told.versions}
            prefix = f"/apis/{group}/{wanted if wanted in versions else told.preferredVersion.version}"
        answer = await self._found(prefix)
        if answer is None:
            return {}
        found = _read_resources(answer.body).resources
        return {one.name: Place(prefix, one.name, one.kind, one.namespaced) for one in found if "/" not in one.name}

    async def _found(self, path: str) -> Answer | None:
        answer = await self.ask("GET", path)
        if answer.status == 404:
            return None
        if not answer.is_good:
            raise problem_of(Key(path, "", ""), answer)
        return answer


async def _lines(content: aiohttp.StreamReader, most: int | None) -> AsyncIterator[list[bytes]]:
    rest = b""
    async for chunk in content.iter_any():
        lines = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
        rest = lines.pop()
        if most is not None and len(rest) > most:
            raise Unavailable(f"a line of a watch is longer than {most} bytes")
        if lines:
            yield lines


def _told(problem: Exception) -> str:
    return str(problem) or type(problem).__name__


# Errors --------------------------------------------------------------------------------------------------------------


def problem_of(key: Key, answer: Answer) -> StoreError | InvalidObject:
    """What an answer other than a good one means to whoever has asked."""
    try:
        status = _read_status(answer.body)
    except msgspec.DecodeError:
        status = Status(message=answer.body[:200].decode(errors="replace"))
    return problem_of_status(key, status, answer.status)


def problem_of_status(key: Key, status: Status, code: int) -> StoreError | InvalidObject:
    """The same of a status that has been read already."""
    message, details = status.message or f"the server answered {code}", status.details or _Details()
    match code:
        case 404 if details.kind == "namespaces":
            return NotFound(Key("namespaces", "", details.name))
        case 404:
            return NotFound(key)
        case 409 if status.reason == "AlreadyExists":
            return AlreadyExists(key, is_deleting="object is being deleted" in message)
        case 409:
            return Conflict(key, message)
        case 410:
            return Expired(0, 0)
        case 400 | 422:
            return _invalid(message, details)
        case 403 if any("being terminated" in one for one in (message, *(c.message for c in details.causes or ()))):
            return Refused(key, message)
        case 403:
            return Forbidden(key, message)
    return Unavailable(f"{key}: {message}")


def _invalid(message: str, details: _Details) -> InvalidObject:
    causes = tuple(InvalidObject(one.field, _shortened(one.message)) for one in details.causes or ())
    if len(causes) > 1:
        return InvalidObjects(causes)
    return causes[0] if causes else InvalidObject("", _shortened(message))


def _shortened(message: str) -> str:
    """A message without the middle of the object that it quotes."""
    return message if len(message) <= 2 * _MESSAGE_HALF else f"{message[:_MESSAGE_HALF]} … {message[-_MESSAGE_HALF:]}"
