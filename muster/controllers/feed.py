"""Brings changes from a store to a view, and tells whoever listens. One for all controllers of a process.

It lists first and follows then; when it was too slow for the history it lists anew, and what was missed comes as one
change per object.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from muster.controllers.view import Seen, View
from muster.store.aio import AsyncStore, AsyncWatch
from muster.store.clock import Clock
from muster.store.errors import Expired, Unavailable
from muster.store.records import Scope

log = logging.getLogger(__name__)
_PAUSE_S = 1.0  # after the store could not be read

Listener = Callable[[Seen], None]


class Changes:
    """A view, and those who are told of its changes: what controllers know of a feed."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Have every change told, from the first list on."""
        self._listeners.append(listener)

    def _tell(self, changes: Iterable[Seen]) -> None:
        for seen in changes:
            for listener in self._listeners:
                listener(seen)


class Feed(Changes):
    """What keeps a view up to date with a store of this process."""

    def __init__(self, store: AsyncStore, view: View, clock: Clock, *, resources: Iterable[str]) -> None:
        super().__init__(view)
        self._store = store
        self._clock = clock
        self._resources = dict.fromkeys(sorted(resources))  # in order, so that runs can repeat

    async def run(self) -> None:
        """Follow the store until cancelled."""
        while True:
            watch: AsyncWatch | None = None
            try:
                watch = self._start()
                while True:
                    await self._take(watch)
            except Expired:
                log.info("the feed was slower than the history, it lists anew")
            except Unavailable as problem:
                log.warning("the feed waits for the store: %s", problem)
                await self._clock.sleep(_PAUSE_S)
            finally:
                if watch is not None:
                    watch.close()

    def _start(self) -> AsyncWatch:
        store = self._store.store
        revision = store.revision
        watch = self._store.watch(Scope(), revision)
        for resource in self._resources:
            self._tell(self.view.learn_all(resource, store.page(Scope(resource), at=revision).records, revision))
        return watch

    async def _take(self, watch: AsyncWatch) -> None:
        taken = await watch.take()
        for event in taken.events:
            if event.record.key.resource in self._resources:
                seen = self.view.learn(event)
                if seen is not None:
                    self._tell([seen])
        self.view.knows(self._resources, taken.revision)


async def run_together(*works: Coroutine[Any, Any, None]) -> None:
    """Run a feed and those who live on it until cancelled, or until one of them fails."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
