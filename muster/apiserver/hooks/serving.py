"""Runs the webhooks, and pages beside them, on sockets; a certificate can be changed meanwhile. Called by `app`."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from muster.apiserver.requests import Message, Receive
from muster.apiserver.sending import Send
from muster.apiserver.server import ImpatientServer, http_settings
from muster.store.clock import Clock

FILES = ("tls.crt", "tls.key")  # as cert-manager and Kubernetes' own Secrets call them
FILES_LOOKED_AT_S = 10.0
Application = Callable[[Message, Receive, Send], Coroutine[Any, Any, None]]
log = logging.getLogger(__name__)


class ServedCertificate:
    """What new connections are shown; those there are keep what they have."""

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.set_alpn_protocols(["http/1.1"])
        self._shown: tuple[bytes, bytes] | None = None
        self.is_there = asyncio.Event()

    def ask_clients(self, authorities: str) -> None:
        """Have clients that show a certificate show one that these authorities vouch for."""
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self.context.load_verify_locations(cadata=authorities)

    def show(self, certificate: bytes, key: bytes) -> bool:
        """Show a certificate from now on; says whether it is another than before. Raises `ssl.SSLError`."""
        if (certificate, key) == self._shown:
            return False
        with _in_memory(certificate) as chain, _in_memory(key) as secret:
            # Tried apart, so that one that cannot be used does not take the place of one that can.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(chain, secret)
            self.context.load_cert_chain(chain, secret)
        self._shown = (certificate, key)
        self.is_there.set()
        return True


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """A file that is on no disk: a key must not be left behind, and there may be no place to write to."""
    handle = os.memfd_create("certificate")
    try:
        os.write(handle, content)
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


async def follow_files(folder: Path, served: ServedCertificate, clock: Clock) -> None:
    """Show the certificate that somebody else keeps in a folder, and each that takes its place."""
    while True:
        try:
            certificate, key = ((folder / name).read_bytes() for name in FILES)
            if served.show(certificate, key):
                log.info("the webhooks show the certificate in %s", folder)
        except (OSError, ssl.SSLError) as problem:
            log.warning("the certificate in %s cannot be used: %s", folder, problem)
        await clock.sleep(FILES_LOOKED_AT_S)


class _Server(ImpatientServer):
    """A server within a process that does other things, too: signals are not its business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_beside(
    app: Application,
    listening: socket.socket,
    served: ServedCertificate | None,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests until cancelled, once there is a certificate to show; what was begun by then is answered."""
    if served is not None:
        await served.is_there.wait()
    config = uvicorn.Config(app, ws="none", **http_settings())
    config.load()
    config.ssl = served.context if served is not None else None
    server = _Server(config, on_ready)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await asyncio.shield(running)
    finally:
        server.should_exit = True
        await running
