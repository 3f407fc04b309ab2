"""A store for coroutines: writes and watches that can be awaited. Used by the API server and the controllers.

The store calls back on its own thread. What it says is collected, and the loop is woken once for all of it. Watches are
woken at a pace that leaves most of the time to everything else: the more of them there are, the more events each gets
at a time, which is what makes hundreds of them affordable. The first event after a pause is not delayed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from muster.store.port import Change, Outcome, Result, Store, Watch
from muster.store.readings import Readings
from muster.store.records import Scope, Taken

PACE_S = 0.005
SLOWEST_PACE_S = 0.05
_LEFT_TO_OTHERS = 4  # times as long as waking all has taken


class AsyncStore:
    """A store seen from one event loop. Reads need no awaiting: they are the store's own."""

    def __init__(self, store: Store, *, pace_s: float = PACE_S) -> None:
        self.store = store
        self.readings = Readings()
        self._least_pace_s = pace_s  # 0: at once, which runs that have to repeat need
        self.pace_s = pace_s
        self._loop = asyncio.get_running_loop()
        self._calls: deque[Callable[[], None]] = deque()
        self._is_woken = False
        self._with_news: list[AsyncWatch] = []
        self._woken_at_s = 0.0

    async def write(self, change: Change[Result]) -> Result:
        """Do a write; returns when it is durable."""
        answer: asyncio.Future[Outcome[Result]] = self._loop.create_future()

        def settle(outcome: Outcome[Result]) -> None:
            if not answer.done():  # else: whoever waited has been cancelled
                answer.set_result(outcome)

        self.store.submit(change, lambda outcome: self.post(lambda: settle(outcome)))
        return (await answer).get()

    def watch(self, scope: Scope, since: int) -> AsyncWatch:
        """Follow the events after a revision."""
        return AsyncWatch(self, scope, since)

    def post(self, call: Callable[[], None]) -> None:
        """Make a call on the loop's thread, soon. May be used from any thread."""
        self._calls.append(call)
        if not self._is_woken:
            self._is_woken = True
            self._loop.call_soon_threadsafe(self._make_calls)

    def _make_calls(self) -> None:
        # First the flag, then the calls: whoever posts after the last call was taken wakes the loop anew.
        self._is_woken = False
        while self._calls:
            self._calls.popleft()()

    def wake(self, watch: AsyncWatch) -> None:
        """Tell a watch that there is news, as soon as the pace allows."""
        self._with_news.append(watch)
        if len(self._with_news) > 1:
            return  # it will be told with the others
        wait_s = self._woken_at_s + self.pace_s - self._loop.time()
        if wait_s > 0:
            self._loop.call_later(wait_s, self._wake_all)
        else:
            self._loop.call_soon(self._wake_all)

    def _wake_all(self) -> None:
        self._woken_at_s = self._loop.time()
        start_s = time.monotonic()
        watches, self._with_news = self._with_news, []
        for watch in watches:
            watch.hear()
        if self._least_pace_s:
            # Called after those who were waiting have taken their news and sent it.
            self._loop.call_soon(self._set_pace, start_s)

    def _set_pace(self, start_s: float) -> None:
        wanted_s = (time.monotonic() - start_s) * _LEFT_TO_OTHERS
        self.pace_s = min(max(wanted_s, self._least_pace_s), SLOWEST_PACE_S)


class AsyncWatch:
    """A watch whose next events can be awaited, by one coroutine at a time."""

    def __init__(self, store: AsyncStore, scope: Scope, since: int) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._has_news = True  # there may be events between `since` and now
        self._is_interrupted = False
        self._is_told = False  # the loop knows already that there is news
        self._waiting: asyncio.Future[None] | None = None
        self._watch: Watch = store.store.watch(scope, since, self._tell)

    async def take(self, timeout_s: float | None = None) -> Taken:
        """The next events; after the timeout an empty answer, which says up to which revision there were none."""
        is_late = timeout_s is not None and timeout_s <= 0
        timer: asyncio.TimerHandle | None = None

        def give_up() -> None:
            nonlocal is_late
            is_late = True
            self.hear()

        try:
            while True:
                if self._has_news or is_late:
                    self._has_news = False
                    taken = self._watch.take()
                    if taken.events or is_late or self._is_interrupted:
                        self._is_interrupted = False
                        return taken
                if timer is None and timeout_s is not None:
                    timer = self._loop.call_later(timeout_s, give_up)
                self._waiting = self._loop.create_future()
                await self._waiting
        finally:
            self._waiting = None
            if timer is not None:
                timer.cancel()

    def hear(self) -> None:
        """There is news: on the loop's thread."""
        # First the flag, then the events: what comes after them is told anew.
        self._is_told = False
        self._has_news = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def interrupt(self) -> None:
        """Have `take` come back even without events, on the loop's thread: something else is to be looked at."""
        self._is_interrupted = True
        self.hear()

    def close(self) -> None:
        self._watch.close()

    def _tell(self) -> None:
        """There is news: on the store's thread."""
        if not self._is_told:
            self._is_told = True
            self._store.post(lambda: self._store.wake(self))
