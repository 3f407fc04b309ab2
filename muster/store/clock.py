"""The port Clock: what time it is, and waiting. The real one for servers, a virtual one for tests and the simulator."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from typing import Protocol


class Clock(Protocol):
    """Time as the rest of the program sees it."""

    def now_s(self) -> float:
        """Seconds since 1970; may jump when somebody sets the machine's clock."""

    def monotonic_s(self) -> float:
        """Seconds since some moment; never goes back. For deadlines."""

    async def sleep(self, seconds: float) -> None: ...

    def timer(self, seconds: float) -> asyncio.Future[None]:
        """A future that is done after so long; whoever does not need it any more cancels it."""


class RealClock:
    """The machine's own clocks."""

    def now_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def timer(self, seconds: float) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        rung: asyncio.Future[None] = loop.create_future()
        handle = loop.call_later(seconds, lambda: None if rung.done() else rung.set_result(None))
        rung.add_done_callback(lambda _: handle.cancel())
        return rung


class VirtualClock:
    """A clock that stands still until it is told to advance."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._start_s = start_s
        self._passed_s = 0.0  # all is counted from the start: small steps are lost in seconds since 1970
        self._order = itertools.count()  # who went to sleep first wakes first
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now_s(self) -> float:
        return self._start_s + self._passed_s

    def monotonic_s(self) -> float:
        return self._passed_s

    async def sleep(self, seconds: float) -> None:
        """Wait until somebody has advanced the clock that far."""
        await self.timer(seconds)

    def timer(self, seconds: float) -> asyncio.Future[None]:
        """A future that is done when somebody has advanced the clock that far."""
        rung: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._passed_s + max(0.0, seconds), next(self._order), rung))
        return rung

    def next_due_s(self) -> float | None:
        """When the next sleeper wakes, by the monotonic clock; `None` when nobody sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)  # cancelled while asleep
        return self._sleepers[0][0] if self._sleepers else None

    def set_by(self, seconds: float) -> None:
        """Set the clock ahead or back as somebody may do with a machine's; no time passes by it."""
        self._start_s += seconds

    def advance(self, seconds: float) -> None:
        """Let time pass and wake whom it has become time for, in order."""
        assert seconds >= 0, f"time does not go back by {-seconds} s"
        self.advance_to(self._passed_s + seconds)

    def advance_to(self, until_s: float) -> None:
        """Let time pass up to a moment of the monotonic clock."""
        while (due_s := self.next_due_s()) is not None and due_s <= until_s:
            self._passed_s = max(self._passed_s, due_s)
            heapq.heappop(self._sleepers)[2].set_result(None)
        self._passed_s = max(self._passed_s, until_s)
