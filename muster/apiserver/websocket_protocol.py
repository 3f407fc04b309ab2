"""WebSockets on the server's connections, within limits. Made by `server` when the first client asks for one.

It is imported as late as that: few servers ever need it, and all are to start fast.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.datastructures import Headers
from websockets.frames import Frame
from websockets.http11 import Request

from muster.apiserver.certificates import CERTIFIED, Certified
from muster.apiserver.pod_streams.connecting import GONE

MOST_PARTS = 1_024  # of one message
_LAST_BYTES_S = 10.0
_TOO_BIG = 1009
_PROTOCOLS = b"sec-websocket-protocol"


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket that says when it is lost, also while nobody reads from it."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._gone = asyncio.Event()
        self._offered: list[str] = []
        self._certified: Certified | None = None

    def begin(self, path: bytes, headers: list[tuple[bytes, bytes]], certified: Certified | None) -> None:
        """Take over from HTTP, which has read the head already.

        The library would refuse the head of a long command, and protocols with a slash in their name.
        """
        self._certified = certified
        self.conn.receive_data(b"GET / HTTP/1.1\r\n\r\n")
        self.conn.events_received()
        given = Headers()
        for name, value in headers:
            if name == _PROTOCOLS:
                self._offered += [one.strip() for one in value.decode("latin-1").split(",")]
            else:
                given[name.decode("latin-1")] = value.decode("latin-1")
        self.handle_connect(Request(path.decode("ascii"), given))

    async def run_asgi(self) -> None:
        self.scope["subprotocols"] = self._offered
        extensions: dict[Any, Any] = self.scope["extensions"]
        extensions[GONE] = self._gone
        if self._certified is not None:
            self.scope[CERTIFIED] = self._certified  # type: ignore[literal-required, unused-ignore]
        await super().run_asgi()
        # A client that does not read would keep the last bytes, and with them the connection.
        self.loop.call_later(_LAST_BYTES_S, self.transport.abort)

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # it was refused: otherwise that would be logged as a fault

    def is_late(self, now_s: float) -> bool:  # noqa: ARG002
        """Never: whoever looks at a terminal may take as long as they like, and who is gone is found by pings."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._gone.set()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) >= MOST_PARTS:
            self.conn.send_close(_TOO_BIG)
            self.handle_parser_exception()
            return
        super().handle_cont(event)
