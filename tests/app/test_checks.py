"""Asking a server over HTTP: what it answers, and what is no answer. The server is a socket of this machine."""

from __future__ import annotations

import asyncio

import pytest

from muster.app.checks import ANSWER_MOST, post
from muster.controllers.checks.http import NoAnswer

SENT = b"{}"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def asked(said: bytes | None, timeout_s: float = 60.0) -> tuple[int, bytes]:
    """Ask a server that says just that, or nothing at all, to whatever it is asked."""

    async def talk() -> tuple[int, bytes]:
        heard: list[bytes] = []
        ended = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append(await reader.readuntil(b"\r\n\r\n"))
            # All of it: what is left unread when a connection is closed has the answer thrown away.
            await reader.readexactly(len(SENT))
            if said is None:
                await ended.wait()
            else:
                writer.write(said)
                writer.write_eof()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            answer = await post(f"http://127.0.0.1:{port}/check", SENT, {"Muster-Signature": "t=1,v1=a"}, timeout_s)
            assert b"POST /check HTTP/1.1" in heard[0] and b"Muster-Signature: t=1,v1=a" in heard[0]
            return answer
        finally:
            ended.set()
            server.close()

    return asyncio.run(talk())


def test_an_answer():
    assert asked(OK) == (200, b"{}")


def test_a_redirect_is_not_followed():
    assert asked(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n") == (302, b"")


LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n" + b"x" * (ANSWER_MOST + 10)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"nonsense\r\n\r\n", id="no HTTP"),
        pytest.param(b"", id="nothing"),
        pytest.param(LONG, id="too much"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", id="half of it"),
    ],
)
def test_no_answer(said):
    with pytest.raises(NoAnswer):
        asked(said)


def test_a_server_that_says_nothing_is_given_up_in_time():
    with pytest.raises(NoAnswer, match="does not answer within"):
        asked(None, 0.2)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://[::1", "nothing"])
def test_an_address_where_nobody_is(url):
    with pytest.raises(NoAnswer):
        asyncio.run(post(url, b"", {}, 20.0))
