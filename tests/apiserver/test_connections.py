"""Clients that dawdle: connections that say nothing, heads and bodies that do not end, answers that nobody reads."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from muster.apiserver import connections
from muster.apiserver.connections import MOST, REQUEST_S, STALLED_S, Connection, hang_up_on_late, most_connections

Message = dict[str, Any]
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = b"x" * 2**20


async def application(scope: Message, receive: Callable[[], Awaitable[Message]], send: Any) -> None:
    """Reads the body, and answers with as much as the path asks for."""
    while (message := await receive())["type"] == "http.request" and message["more_body"]:
        pass
    if message["type"] == "http.disconnect":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(64 if scope["path"] == "/large" else 0):
        await send({"type": "http.response.body", "body": LARGE, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


class Served:
    """A server, and one connection to it."""

    def __init__(self, state: ServerState, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.state, self.reader, self.writer = state, reader, writer

    async def say(self, *parts: bytes) -> None:
        """Send some bytes, and wait until the server has them."""
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()
            for _ in range(10):
                await asyncio.sleep(0)

    async def is_left_after(self, seconds: float) -> bool:
        """Whether the server has hung up when so much time has gone by."""
        hang_up_on_late(self.state.connections, asyncio.get_running_loop().time() + seconds)
        for _ in range(10):
            await asyncio.sleep(0)
        return not self.state.connections


@asynccontextmanager
async def served(**settings: Any) -> AsyncIterator[Served]:
    state = ServerState()
    config = uvicorn.Config(application, http=Connection, ws="none", lifespan="off", log_config=None, **settings)
    config.load()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(config, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), limit=2**16)
    await asyncio.sleep(0)
    try:
        yield Served(state, reader, writer)
    finally:
        writer.transport.abort()
        for one in list(state.connections):
            one.transport.abort()
        server.close()
        await server.wait_closed()
        await asyncio.gather(*state.tasks, return_exceptions=True)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([], id="nothing"),
        pytest.param([b"GE"], id="half a head"),
        pytest.param([GET[:-2], b"X-One: 1\r\n", b"X-Two: 2\r\n"], id="a head that goes on"),
        pytest.param([GET, b"\r\n", b"\r\n"], id="empty lines after an answer"),
        pytest.param([GET, GET[:10]], id="half of a second head"),
        pytest.param([b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"], id="no body"),
        pytest.param([b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", b"1", b"2"], id="half a body"),
    ],
)
def test_a_request_that_does_not_come_is_not_waited_for(parts):
    async def story() -> None:
        async with served() as one:
            await one.say(*parts)
            assert not await one.is_left_after(REQUEST_S - 1)
            assert await one.is_left_after(REQUEST_S + 1)

    asyncio.run(story())


def test_who_has_asked_and_been_answered_may_stay_for_a_while():
    """How long is for the keep-alive timeout to say."""

    async def story() -> None:
        async with served(timeout_keep_alive=1_000) as one:
            await one.say(GET)
            assert (await one.reader.readline()).startswith(b"HTTP/1.1 200")
            assert not await one.is_left_after(10 * REQUEST_S)

    asyncio.run(story())


def test_who_has_been_answered_and_says_nothing_more_is_hung_up_on():
    async def story() -> None:
        async with served(timeout_keep_alive=0) as one:
            await one.say(GET)
            assert (await one.reader.read()).startswith(b"HTTP/1.1 200"), "and then it ends"

    asyncio.run(story())


def test_an_answer_that_nobody_reads_is_not_kept():
    async def story() -> None:
        async with served() as one:
            await one.say(GET.replace(b" / ", b" /large "))
            while not any(connection.reading_since_s for connection in one.state.connections):
                await asyncio.sleep(0)
            assert not await one.is_left_after(STALLED_S - 1)
            assert await one.is_left_after(STALLED_S + 1)

    asyncio.run(story())


def test_who_reads_gets_all():
    async def story() -> None:
        async with served() as one:
            await one.say(GET.replace(b" / ", b" /large "))
            size = 0
            while size < 64 * len(LARGE):
                size += len(await one.reader.read(2**20))
            assert not await one.is_left_after(STALLED_S + 1)

    asyncio.run(story())


def test_too_many_connections_are_hung_up_on(monkeypatch):
    monkeypatch.setattr(Connection, "most", 0)

    async def story() -> None:
        async with served() as one:
            assert await one.reader.read() == b""

    asyncio.run(story())


def test_a_head_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(connections, "MOST_HEAD_BYTES", 1_000)

    async def story() -> None:
        async with served() as one:
            await one.say(GET[:-2], *[b"X-Long: " + b"x" * 100 + b"\r\n"] * 10)
            assert (await one.reader.read()).startswith(b"HTTP/1.1 400")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "most"),
    [
        pytest.param(1_024, 4_096, 4_096, 3_840, id="as many as may be"),
        pytest.param(1_024, 10**6, 20_256, MOST, id="as many as are needed"),
        pytest.param(1_024, resource.RLIM_INFINITY, 20_256, MOST, id="no limit for the system"),
        pytest.param(50_000, 50_000, None, MOST, id="enough already"),
        pytest.param(resource.RLIM_INFINITY, resource.RLIM_INFINITY, None, MOST, id="no limit"),
        pytest.param(100, 100, None, 1, id="hardly any"),
    ],
)
def test_files_leave_room_for_connections(monkeypatch, soft, hard, raised, most):
    asked = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: asked.append(limits))
    assert most_connections() == most
    assert asked == ([(raised, hard)] if raised else [])
