"""What a loop waits for between two rounds: something to do, or a time that comes. Used by `loop` and `scheduler`."""

from __future__ import annotations

import asyncio

from muster.store.clock import Clock


class News:
    """A flag that one coroutine waits for, at most for some time; without a task of its own, which would cost more."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_set = False
        self._waiting: asyncio.Future[None] | None = None

    def set(self) -> None:
        """There is something to do."""
        self._is_set = True
        self._wake()

    def clear(self) -> None:
        """All of it is known."""
        self._is_set = False

    async def wait(self, most_s: float | None = None) -> None:
        """Until there is something to do, or the time is over."""
        if self._is_set:
            return
        self._waiting = asyncio.get_running_loop().create_future()
        timer = None if most_s is None else self._clock.timer(most_s)
        if timer is not None:
            timer.add_done_callback(self._ring)
        try:
            await self._waiting
        finally:
            self._waiting = None
            if timer is not None:
                timer.cancel()

    def _ring(self, timer: asyncio.Future[None]) -> None:
        if not timer.cancelled():
            self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
