"""A client's WebSocket, as commands and forwarded ports use it. Made by `connecting`."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable

from muster.apiserver.requests import Message, Receive

Send = Callable[[Message], Awaitable[None]]
IDLE_S = 4 * 3600.0  # as long as a node of Kubernetes lets one lie idle
NORMAL, POLICY = 1000, 1008


class Gone(Exception):
    """The client does not listen any more."""


class Socket:
    """Messages to and from one client. Whoever reads slowly is waited for, both ways."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._loop = asyncio.get_running_loop()
        self.used_s = self._loop.time()

    async def accept(self, protocol: str) -> None:
        """Begin."""
        await self._receive()  # that the client wants to connect
        await self._out({"type": "websocket.accept", "subprotocol": protocol})

    async def read(self) -> bytes | None:
        """The next message; `None` when the client has gone."""
        message = await self._receive()
        self.used_s = self._loop.time()
        if message["type"] == "websocket.disconnect":
            return None
        data: bytes | None = message.get("bytes")
        return data if data is not None else message["text"].encode()

    async def write(self, data: bytes) -> None:
        """Send a message."""
        await self._out({"type": "websocket.send", "bytes": data})
        self.used_s = self._loop.time()

    async def write_text(self, text: str) -> None:
        """Send a message that is text."""
        await self._out({"type": "websocket.send", "text": text})
        self.used_s = self._loop.time()

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """End in order."""
        await self._out({"type": "websocket.close", "code": code, "reason": reason[:100]})

    async def _out(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError:
            raise Gone from None

    async def while_used(self) -> None:
        """Returns when nothing has gone either way for too long."""
        while (left_s := self.used_s + IDLE_S - self._loop.time()) > 0:
            await asyncio.sleep(left_s)


class Channels:
    """Several streams in one socket: the first byte of a message, or the first digit of a text, says which."""

    def __init__(self, socket: Socket, *, is_text: bool) -> None:
        self._socket = socket
        self._is_text = is_text

    async def read(self) -> tuple[int, bytes] | None:
        """The next piece and its stream; `None` when the client has gone."""
        message = await self._socket.read()
        if message is None:
            return None
        if not message:
            return -1, b""
        if not self._is_text:
            return message[0], message[1:]
        try:
            return message[0] - ord("0"), base64.b64decode(message[1:])
        except binascii.Error:
            return -1, b""

    async def write(self, channel: int, data: bytes) -> None:
        """Send a piece of a stream."""
        if self._is_text:
            await self._socket.write_text(f"{channel}{base64.b64encode(data).decode()}")
        else:
            await self._socket.write(bytes((channel,)) + data)
