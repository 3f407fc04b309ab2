"""The client of webhooks against servers that answer in odd ways, or not at all."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.apiserver.certificates import TlsFiles, prepare
from muster.apiserver.outgoing import CallFailed, Client, Endpoint, endpoint_of

OK = b"HTTP/1.1 200 OK\r\n"
HEAD = OK + b"Content-Length: 2\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return prepare(tmp_path_factory.mktemp("tls"), ["127.0.0.1"], time.time())


async def _asked(files: TlsFiles, says: Callable[[int], bytes], *, times: int, closes: bool) -> tuple[list[str], int]:
    """What several calls come to, and how many connections they took; a server says something by the call's number."""
    connections = calls = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections, calls
        connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length"))
                await reader.readexactly(length)
                calls += 1
                writer.write(says(calls))
                await writer.drain()
                if closes:
                    break
        except (OSError, EOFError):
            pass
        finally:
            writer.transport.abort()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    url = f"https://127.0.0.1:{port}/"
    endpoint = Endpoint(url, "127.0.0.1", port, "/", "127.0.0.1", Path(files.authority).read_text())
    client = Client()
    results = []
    for _ in range(times):
        try:
            results.append((await client.post(endpoint, b"{}", timeout_s=20)).decode())
        except CallFailed as problem:
            results.append(f"failed: {problem}")
    await client.close()
    server.close()
    await server.wait_closed()
    return results, connections


def test_a_connection_is_used_again(files: TlsFiles) -> None:
    results, connections = asyncio.run(_asked(files, lambda _: HEAD + b"\r\n{}", times=3, closes=False))
    assert (results, connections) == (["{}"] * 3, 1)


def test_a_connection_that_was_closed_meanwhile_is_made_anew(files: TlsFiles) -> None:
    results, connections = asyncio.run(_asked(files, lambda _: HEAD + b"\r\n{}", times=3, closes=True))
    assert (results, connections) == (["{}"] * 3, 3)


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param(CHUNKED + b"1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n", "{}", id="chunks"),
        pytest.param(HEAD + b"Connection: close\r\n\r\n{}", "{}", id="the last answer of a connection"),
        pytest.param(OK + b"\r\n{}", "does not say how long it is", id="no length"),
        pytest.param(OK + b"Content-Length: 99999999999\r\n\r\n", "longer than", id="too long"),
        pytest.param(OK + b"Content-Length: -1\r\n\r\n", "does not say", id="a negative length"),
        pytest.param(CHUNKED + b"-5\r\n", "longer than", id="a negative chunk"),
        pytest.param(CHUNKED + b"FFFFFFFF\r\n", "longer than", id="a huge chunk"),
        pytest.param(b"SSH-2.0-x\r\n\r\n", "no HTTP", id="another protocol"),
        pytest.param(b"x" * 200_000, "too long", id="a head without end"),
        pytest.param(b"", "EOF", id="nothing"),
        pytest.param(OK + b"Content-Length: 5\r\n\r\n{}", "2 bytes read", id="less than was said"),
        pytest.param(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n", "status code 302", id="elsewhere"),
    ],
)
def test_odd_answers(files: TlsFiles, said: bytes, want: str) -> None:
    (result,), _ = asyncio.run(_asked(files, lambda _: said, times=1, closes=True))
    assert want in result


def test_a_bundle_that_is_none_is_told() -> None:
    with pytest.raises(CallFailed, match="base64"):
        endpoint_of({"url": "https://x/", "caBundle": "?"}, {})
