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

from muster.apiserver.asgi import App
from muster.apiserver.certificates import TlsFiles
from muster.apiserver.connections import Connection, hang_up_on_late, most_connections, websocket_protocol

_KEEP_ALIVE_S = 120  # clients keep connections for 90
_LAST_ANSWERS_S = 5
_BACKLOG = 1_024
_LOOK_TICKS = 50  # of a tenth of a second: how often connections are looked at
MOST_MESSAGE_BYTES = 1024 * 1024  # in a WebSocket; kubectl sends 32 KiB
_PING_S = 30.0
_STOPPING = (signal.SIGINT, signal.SIGTERM)


class CannotListen(Exception):
    """Why the server does not start: for whoever started it."""


def listen(host: str, port: int, *, is_authenticated: bool) -> socket.socket:
    """The socket to serve on."""
    if not is_authenticated and not _is_loopback(host):
        raise CannotListen(f"{host} is not this machine alone, and nobody would be asked who they are: use 127.0.0.1")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, so that every event loop knows it and sends the parts of an answer at once.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
    # A client need not show a certificate, but one that is shown has to be good.
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(files.authority)
    return context


class ImpatientServer(uvicorn.Server):
    """A server that says when it is ready, and does not wait for clients that dawdle."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        if counter % _LOOK_TICKS == 0:
            hang_up_on_late(self.server_state.connections, asyncio.get_running_loop().time())
        return await super().on_tick(counter)


class _Server(ImpatientServer):
    """A server whose watches end with it, and that ends in order."""

    def __init__(self, config: uvicorn.Config, app: App, on_ready: Callable[[], None]) -> None:
        super().__init__(config, on_ready)
        self._app = app

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


# What WebSockets are like, that connections with pods are.
_SOCKET_SETTINGS: dict[str, Any] = {
    "ws": websocket_protocol,
    "ws_max_size": MOST_MESSAGE_BYTES,
    "ws_per_message_deflate": False,
    "ws_ping_interval": _PING_S,
    # Whoever is slow to read what it was sent does not answer either, and is waited for.
    "ws_ping_timeout": None,
}


def http_settings() -> dict[str, Any]:
    """How every server of Muster's speaks HTTP."""
    Connection.most = most_connections()
    return {
        "http": Connection,
        "lifespan": "off",
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "date_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": _KEEP_ALIVE_S,
        "timeout_graceful_shutdown": _LAST_ANSWERS_S,
    }


async def serve(app: App, listening: socket.socket, tls: ssl.SSLContext | None, on_ready: Callable[[], None]) -> None:
    """Answer requests until SIGINT or SIGTERM; a second one ends at once."""
    config = uvicorn.Config(app, **http_settings(), **_SOCKET_SETTINGS)
    config.load()
    config.ssl = tls
    await _Server(config, app, on_ready).serve(sockets=[listening])


def run(main: Callable[[], Any]) -> None:
    """Run a coroutine on the loop that is fast with many connections."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
