"""Watches on their way to clients. A client that has gone, or does not read, is not waited for. Used by `asgi`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from muster.apiserver.answers import Stream
from muster.apiserver.requests import Message, Request
from muster.apiserver.statuses import too_many

Send = Callable[[Message], Awaitable[None]]
MOST = 10_000
STALLED_S = 30.0
_LOOK_S = 5.0


class _Sending:
    """One stream: who sends it, and since when it waits for the client to read."""

    __slots__ = ("since_s", "task")

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.since_s: float | None = None


class Streams:
    """All streams that are open."""

    def __init__(self) -> None:
        self._open: set[_Sending] = set()
        self._is_looking = False
        self._is_closing = False

    def check_room(self) -> None:
        """Refuse a stream beyond the limit."""
        if len(self._open) >= MOST:
            raise too_many("too many watches at once, please try again later")

    async def send(self, stream: Stream, request: Request, send: Send) -> None:
        """Send a stream until it ends, the client hangs up, or it does not read for too long."""
        task = asyncio.current_task()
        assert task is not None, "a request is answered in a task"
        sending = _Sending(task)
        self._open.add(sending)
        self._look_later()
        gone = asyncio.ensure_future(request.gone())

        def hang_up(_: asyncio.Future[None]) -> None:
            task.cancel()

        gone.add_done_callback(hang_up)
        try:
            await self._pump(stream, sending, send)
        except asyncio.CancelledError:
            # By one of the callers here; a client that is still there sees the stream end without its last chunk.
            if self._is_closing:
                await send({"type": "http.response.body", "body": b""})
        finally:
            self._open.discard(sending)
            gone.remove_done_callback(hang_up)
            gone.cancel()

    async def _pump(self, stream: Stream, sending: _Sending, send: Send) -> None:
        loop = asyncio.get_running_loop()
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private"), *stream.headers]
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            async for chunk in stream.chunks:
                sending.since_s = loop.time()
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                sending.since_s = None
            await send({"type": "http.response.body", "body": b""})
        finally:
            await stream.chunks.aclose()

    def close(self) -> None:
        """End all streams, as a server does that stops."""
        self._is_closing = True
        for sending in self._open:
            sending.task.cancel()

    def _look_later(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            asyncio.get_running_loop().call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        """End the streams whose clients do not read."""
        self._is_looking = False
        late_s = asyncio.get_running_loop().time() - STALLED_S
        for sending in self._open:
            if sending.since_s is not None and sending.since_s < late_s:
                sending.task.cancel()
        if self._open:
            self._look_later()
