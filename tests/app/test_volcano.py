"""Keys that ssh reads, and questions to pods that listen, answer badly, or say nothing."""

from __future__ import annotations

import asyncio

import pytest
from cryptography.hazmat.primitives import serialization

from muster.app.volcano import ask, make_keys
from muster.dialects.volcano.flow import Check


def test_keys_belong_together_and_are_read_by_ssh() -> None:
    keys = asyncio.run(make_keys())
    assert keys.private.startswith("-----BEGIN RSA PRIVATE KEY-----")
    private = serialization.load_pem_private_key(keys.private.encode(), None)
    public = serialization.load_ssh_public_key(keys.public.encode())
    assert private.public_key().public_numbers() == public.public_numbers()


@pytest.mark.parametrize(
    ("answer", "check", "want"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", {"path": "/"}, True),
        (b"HTTP/1.1 302 Found\r\n\r\n", {"path": "/"}, True),
        (b"HTTP/1.1 503 No\r\n\r\n", {"path": "/"}, False),
        (b"SSH-2.0-x\r\n", {"path": "/"}, False),
        (b"x" * 5000, {"path": "/"}, False),
        (b"", {"path": "/"}, False),
        (b"", {}, True),
        (b"HTTP/1.1 200 OK\r\n\r\n", {"path": "/ HTTP/1.1\r\nA: b"}, False),
        (b"HTTP/1.1 200 OK\r\n\r\n", {"path": "/", "header": ("a", "b")}, True),
    ],
)
def test_what_a_pod_answers(answer, check, want) -> None:
    async def talk() -> bool:
        async def serve(_reader, writer) -> None:
            writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            return await ask(Check("127.0.0.1", server.sockets[0].getsockname()[1], **check))

    assert asyncio.run(talk()) is want


def test_a_pod_that_is_not_there_does_not_answer() -> None:
    async def talk() -> bool:
        server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        return await ask(Check("127.0.0.1", port))

    assert asyncio.run(talk()) is False
    assert asyncio.run(ask(Check("no address", 1))) is False
