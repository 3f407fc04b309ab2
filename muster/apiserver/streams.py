"""Watches and logs on their way to clients, as many as there is room for. Used by `asgi`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from muster.apiserver.answers import Stream
from muster.apiserver.requests import Message, Request
from muster.apiserver.statuses import too_many

Send = Callable[[Message], Awaitable[None]]
MOST = 10_000
MOST_A_USER = 5_000  # so that no one user keeps all others out


class Streams:
    """All streams that are open."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[None]] = set()
        self._by_user: Counter[str] = Counter()
        self._is_closing = False

    def check_room(self, user: str) -> None:
        """Refuse a stream beyond the limits."""
        if len(self._open) >= MOST:
            raise too_many("too many watches at once, please try again later")
        if self._by_user[user] >= MOST_A_USER:
            raise too_many(f"{user} has too many watches at once, please try again later")

    async def send(self, stream: Stream, request: Request, send: Send) -> None:
        """Send a stream until it ends or the client hangs up."""
        task = asyncio.current_task()
        assert task is not None, "a request is answered in a task"
        self._open.add(task)
        self._by_user[request.user.name] += 1
        gone = asyncio.ensure_future(request.gone())

        def hang_up(_: asyncio.Future[None]) -> None:
            task.cancel()

        gone.add_done_callback(hang_up)
        try:
            await _pump(stream, send)
        except asyncio.CancelledError:
            # By `hang_up` or `close`; a client that is still there sees the stream end without its last chunk.
            if self._is_closing:
                await send({"type": "http.response.body", "body": b""})
        finally:
            self._open.discard(task)
            self._by_user[request.user.name] -= 1
            if not self._by_user[request.user.name]:
                del self._by_user[request.user.name]
            gone.remove_done_callback(hang_up)
            gone.cancel()

    def close(self) -> None:
        """End all streams, as a server does that stops."""
        self._is_closing = True
        for task in self._open:
            task.cancel()


async def _pump(stream: Stream, send: Send) -> None:
    headers = [(b"content-type", stream.content_type), (b"cache-control", b"no-cache, private"), *stream.headers]
    try:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for chunk in stream.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        await stream.chunks.aclose()
