"""Runs the application on a socket until it is told to stop. Called by `app`.

Everything is refused that would let strangers in: without authentication only loopback is served.
"""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from muster.apiserver.asgi import App
from muster.apiserver.certificates import TlsFiles

_KEEP_ALIVE_S = 120  # clients keep connections for 90
_LAST_ANSWERS_S = 5
_BACKLOG = 1_024
MOST_HEAD_BYTES = 1024 * 1024  # as much as Go's server takes
_STOPPING = (signal.SIGINT, signal.SIGTERM)


class CannotListen(Exception):
    """Why the server does not start: for whoever started it."""


def listen(host: str, port: int, *, is_authenticated: bool) -> socket.socket:
    """The socket to serve on."""
    if not is_authenticated and not _is_loopback(host):
        raise CannotListen(f"{host} is not this machine alone, and nobody would be asked who they are: use 127.0.0.1")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as problem:
        listening.close()
        raise CannotListen(f"{host}:{port} cannot be listened on: {problem.strerror}") from None
    return listening


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def tls_of(files: TlsFiles) -> ssl.SSLContext:
    """How connections are made secret."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(files.certificate, files.key)
    return context


class _Protocol(HttpToolsProtocol):
    """HTTP whose heads end somewhere: neither uvicorn nor its parser minds how long they are."""

    _head_bytes = 0
    _is_in_head = True

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD_BYTES:
                self.send_400_response("The head of the request is too long.")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._is_in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_head, self._head_bytes = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_head = True
        super().on_message_complete()


class _Server(uvicorn.Server):
    """A server whose watches end with it, and that says when it is ready."""

    def __init__(self, config: uvicorn.Config, app: App, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._app = app
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End in order when asked to for the first time, and as any process does when asked again."""
        loop = asyncio.get_running_loop()
        for sign in _STOPPING:
            loop.add_signal_handler(sign, self._stop)
        yield

    def _stop(self) -> None:
        self.should_exit = True
        for sign in _STOPPING:
            asyncio.get_running_loop().remove_signal_handler(sign)
            signal.signal(sign, signal.SIG_DFL)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.streams.close()
        await super().shutdown(sockets)


async def serve(app: App, listening: socket.socket, tls: ssl.SSLContext | None, on_ready: Callable[[], None]) -> None:
    """Answer requests until SIGINT or SIGTERM; a second one ends at once."""
    settings: dict[str, Any] = {
        "http": _Protocol,
        "ws": "none",
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "date_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": _KEEP_ALIVE_S,
        "timeout_graceful_shutdown": _LAST_ANSWERS_S,
    }
    config = uvicorn.Config(app, **settings)
    config.load()
    config.ssl = tls
    await _Server(config, app, on_ready).serve(sockets=[listening])


def run(main: Callable[[], Any]) -> None:
    """Run a coroutine on the loop that is fast with many connections."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
