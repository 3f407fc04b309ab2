"""An event loop that never waits: it runs what is ready and comes back when nothing is. Used by `world`.

Time and the network are the simulation's own, so there is nothing that a loop could wait for: the same work in the same
order each time, as fast as it goes.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any, TypeVar, TypeVarTuple

_FAREWELLS = 3  # times that work is told to end
CALLS_MOST = 1_000_000  # of one instant; work that goes on longer than that goes on for ever

Result = TypeVar("Result")
Given = TypeVarTuple("Given")


class StillLoop(asyncio.SelectorEventLoop):
    """The loop of one simulation."""

    def __init__(self) -> None:
        super().__init__(_Nothing())
        self.set_exception_handler(_told)
        self._due: deque[_Call] = deque()  # in the order they came up

    def call_soon(
        self, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None
    ) -> asyncio.Handle:
        """The same as any loop's without what is for debugging: there are thousands of these in a simulated minute."""
        handle = _Call(callback, args, self, context)
        self._due.append(handle)
        return handle

    # There are no other threads, so nobody has to be woken.
    call_soon_threadsafe = call_soon

    def run_ready(self) -> None:
        """Run until nothing is ready any more."""
        due, left = self._due, CALLS_MOST
        with _running(self):
            while due:
                due.popleft()._run()
                left -= 1
                assert left, "work goes on and on without any time passing"

    def close(self) -> None:
        """End all work, also what goes on for a while after it was told to, and be gone."""
        for _ in range(_FAREWELLS):
            for task in asyncio.all_tasks(self):
                task.cancel()
            self.run_ready()
        super().close()

    def run_now(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run work that waits for nobody, and all that follows from it."""
        task = self.create_task(work)
        self.run_ready()
        assert task.done(), "it waits for something that does not come by itself"
        return task.result()


class _Call(asyncio.Handle):
    """A call that is due, without what others have for debugging."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: StillLoop, context: Context | None
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._repr = self._source_traceback = None

    def _run(self) -> None:
        if not self._cancelled:
            try:
                self._context.run(self._callback, *self._args)
            except (Exception, asyncio.CancelledError) as problem:
                self._loop.call_exception_handler({"message": "a call has failed", "exception": problem})


@contextmanager
def _running(loop: StillLoop) -> Iterator[None]:
    """While this loop is the one that runs."""
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(None)


def _told(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Work that was cut off with its process is no news; anything else is told as usual."""
    if not isinstance(context.get("exception"), asyncio.CancelledError):
        loop.default_exception_handler(context)


class _Nothing(selectors.BaseSelector):
    """No files: a loop has to have a selector, and nobody asks this one."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:  # noqa: ARG002
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        raise KeyError(fileobj)
