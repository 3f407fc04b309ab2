"""An event loop that never waits: it runs what is ready and comes back when nothing is. Used by `world`.

Time and the network are the simulation's own, so there is nothing that a loop could wait for: the same work in the same
order each time, as fast as it goes.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

ROUNDS_MOST = 100_000  # of one instant; work that goes on longer than that goes on for ever

Result = TypeVar("Result")
Given = TypeVarTuple("Given")


class StillLoop(asyncio.SelectorEventLoop):
    """The loop of one simulation."""

    def __init__(self) -> None:
        self._nothing = _Nothing(self.stop)
        super().__init__(self._nothing)
        self.set_exception_handler(_told)

    def call_soon_threadsafe(
        self, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None
    ) -> asyncio.Handle:
        """There are no other threads, so nobody has to be woken."""
        return self.call_soon(callback, *args, context=context)

    def run_ready(self) -> None:
        """Run until nothing is ready any more."""
        self._nothing.rounds = 0
        self.run_forever()

    def run_now(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run work that waits for nobody, and all that follows from it."""
        task = self.create_task(work)
        self.run_ready()
        assert task.done(), "it waits for something that does not come by itself"
        return task.result()


def _told(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Work that was cut off with its process is no news; anything else is told as usual."""
    if not isinstance(context.get("exception"), asyncio.CancelledError):
        loop.default_exception_handler(context)


class _Nothing(selectors.BaseSelector):
    """No files; when the loop would wait for one it is told to stop."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self.rounds = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.rounds += 1
        assert self.rounds < ROUNDS_MOST, "work goes on and on without any time passing"
        if timeout is None or timeout > 0:
            self._stop()
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        raise KeyError(fileobj)
