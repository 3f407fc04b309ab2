"""Connections that do not stay for nothing: heads end somewhere, requests come and answers are read in time.

Neither uvicorn nor its parser minds any of that. Used by `server`.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from muster.apiserver.certificates import CERTIFIED, Certified, certified

MOST_HEAD_BYTES = 1024 * 1024  # as much as Go's server takes
REQUEST_S = 75.0  # for a request to come whole: longer than a handler waits for a body, so that it can say so
STALLED_S = 30.0  # for a client to read what was written
MOST = 20_000  # twice as many as there may be watches
_UPGRADED = (b"/exec", b"/attach", b"/portforward")
_KEPT_FILES = 256  # of those that a process may open, for all that is no connection
_WANTED_FILES = MOST + _KEPT_FILES


def most_connections() -> int:
    """How many connections there may be, after the process was allowed to open as many files as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, _WANTED_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return MOST if soft == resource.RLIM_INFINITY else max(1, min(MOST, soft - _KEPT_FILES))


class Connection(HttpToolsProtocol):
    """One connection, and since when it waits for its client."""

    most = MOST  # of all connections; set once by `server`
    request_since_s: float | None = None  # for the rest of a request, or for the first one
    reading_since_s: float | None = None  # to read
    _head_bytes = 0
    _is_in_head = True
    _certified: Certified | None = None  # whom its client's certificate is for

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.request_since_s = self.loop.time()
        if len(self.connections) > self.most:
            transport.abort()
            return
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        self._certified = certified(certificate) if certificate else None

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.request_since_s is None:
            self.request_since_s = self.loop.time()
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self.send_400_response("The head of the request is too long.")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._is_in_head = True
        super().on_message_begin()
        if self._certified is not None:
            self.scope[CERTIFIED] = self._certified  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        self._is_in_head, self._head_bytes = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_head = True
        self.request_since_s = None
        super().on_message_complete()

    def _should_upgrade(self) -> bool:
        """Only connections with pods are WebSockets; to all others the header means nothing."""
        path = self.url.partition(b"?")[0]
        is_meant = self.scope["method"] == "GET" and path.endswith(_UPGRADED) and self.url.isascii()
        return is_meant and super()._should_upgrade()

    def _unsupported_upgrade_warning(self) -> None:
        """The client is told, by an answer; nobody else needs to be."""

    def handle_websocket_upgrade(self) -> None:
        self.connections.discard(self)
        protocol = websocket_protocol()(config=self.config, server_state=self.server_state, app_state=self.app_state)
        protocol.connection_made(self.transport)
        self.transport.set_protocol(protocol)
        protocol.begin(self.url, self.headers, self._certified)

    def pause_writing(self) -> None:
        self.reading_since_s = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.reading_since_s = None
        super().resume_writing()

    def is_late(self, now_s: float) -> bool:
        """Whether its client has taken too long."""
        request_s, reading_s = self.request_since_s, self.reading_since_s
        is_sending_late = request_s is not None and request_s < now_s - REQUEST_S
        return is_sending_late or (reading_s is not None and reading_s < now_s - STALLED_S)


def websocket_protocol() -> Any:
    """What takes a connection over that becomes a WebSocket; imported late, since few servers ever need it."""
    from muster.apiserver.websocket_protocol import WebSocketProtocol

    return WebSocketProtocol


def hang_up_on_late(connections: Iterable[Any], now_s: float) -> None:
    """End the connections whose clients are not worth waiting for."""
    for one in [one for one in connections if one.is_late(now_s)]:
        one.transport.abort()
