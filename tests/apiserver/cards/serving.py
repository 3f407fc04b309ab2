"""The extender on loopback with TLS and a token, and a client that asks it. Used by its tests."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
import time
from pathlib import Path
from typing import Any

from muster.apiserver.cards.callers import Callers, digest
from muster.apiserver.hooks.authorities import renewed
from muster.apiserver.hooks.serving import ServedCertificate, serve_beside
from muster.apiserver.server import listen

TOKEN = "a-token-that-nobody-guesses"
CALLERS = Callers(token_digest=digest(TOKEN.encode()))


class Served:
    """A server in a thread of its own; `app` can be another for each question."""

    def __init__(self, authorities: str = "") -> None:
        self.app: Any = None
        self.identity = renewed(None, ("127.0.0.1",), time.time())
        self.port = 0
        self._authorities = authorities  # who vouches for clients
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._stop: Any = None

    async def _serve(self) -> None:
        served = ServedCertificate()
        served.show(self.identity.certificate, self.identity.key)
        if self._authorities:
            served.ask_clients(self._authorities)
        listening = listen("127.0.0.1", 0, is_authenticated=True)
        self.port = listening.getsockname()[1]
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.call_soon_threadsafe(stop.set)

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            await self.app(scope, receive, send)

        serving = asyncio.create_task(serve_beside(answer, listening, served, self._ready.set))
        await stop.wait()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        listening.close()

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._ready.wait(60)
        self._connection = self.connection()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._stop()
        self._thread.join(60)

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.identity.authorities.decode())

    def connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.trusting(), timeout=60)

    def post(self, path: str, body: Any, token: str = TOKEN) -> tuple[int, Any]:
        """The status and the answer."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._connection.request("POST", path, content, headers)
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())

    def status_with(self, certificate: Path, path: str, body: Any) -> int:
        """The status of an answer to somebody who shows a certificate and sends no token."""
        context = self.trusting()
        context.load_cert_chain(certificate)
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=60)
        try:
            connection.request("POST", path, json.dumps(body).encode())
            return connection.getresponse().status
        finally:
            connection.close()
