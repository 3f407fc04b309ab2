"""Runs a controller: one key at a time for each object, several objects at once, failures tried again.

A controller sees its own writes: a key is not looked at again before the view knows all that was written under it. So
no controller has to remember what it expects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from muster.controllers.feed import Changes
from muster.controllers.news import News
from muster.controllers.queue import KeyQueue
from muster.controllers.view import Seen, View
from muster.model.errors import InvalidObject
from muster.store.binding import Binding
from muster.store.client import Client
from muster.store.clock import Clock
from muster.store.errors import Conflict, NotFound, StoreError
from muster.store.kinds import Object
from muster.store.objects import PLAINLY, Part
from muster.store.records import Key
from muster.store.rules import Deletion

log = logging.getLogger(__name__)
AT_ONCE = 16  # keys that one controller works on; their writes become durable together


class Turn:
    """One look at one key: what is known, what time it is, and the writes that follow from it."""

    def __init__(self, key: Key, view: View, client: Client, now_s: float, monotonic_s: float = 0.0) -> None:
        self.key = key
        self.view = view
        self.now_s = now_s
        self.monotonic_s = monotonic_s  # for how long something has been so, whoever sets the machine's clock
        self.again_s: float | None = None  # look again after so many seconds, if nothing happens before
        self.written: dict[str, int] = {}  # the newest revision of own writes, by resource
        self.client = client  # for writes that nobody waits to see

    def look_again(self, after_s: float) -> None:
        """Have the key looked at again, whatever happens; the soonest time counts."""
        self.again_s = after_s if self.again_s is None else min(self.again_s, after_s)

    async def create(self, resource: str, given: Object) -> Object:
        """Add an object."""
        return self._note(resource, await self.client.create(resource, given))

    async def update(self, key: Key, given: Object) -> Object:
        """Replace an object in the state it was seen in."""
        return self._note(key.resource, await self.client.update(key, given))

    async def update_status(self, key: Key, given: Object) -> Object:
        """Replace the status of an object in the state it was seen in."""
        return self._note(key.resource, await self.client.update(key, given, Part.STATUS))

    async def delete(self, key: Key, deletion: Deletion = PLAINLY) -> Object | None:
        """Remove an object, or mark it; gives its last state, and `None` if it was gone already."""
        try:
            return self._note(key.resource, await self.client.delete(key, deletion))
        except NotFound:
            return None

    async def bind(self, binding: Binding) -> None:
        """Put a pod on a node."""
        self._note_revision(binding.key.resource, await self.client.bind(binding))

    def _note(self, resource: str, kept: Object) -> Object:
        self._note_revision(resource, int(kept["metadata"]["resourceVersion"]))
        return kept

    def _note_revision(self, resource: str, revision: int) -> None:
        self.written[resource] = max(revision, self.written.get(resource, 0))


class Controller(Protocol):
    """Brings the objects of one kind to where they should be."""

    name: str

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        """The objects that a change concerns."""

    async def reconcile(self, turn: Turn) -> None:
        """Do the next steps for one object. What it raises is tried again."""


class Loop:
    """One controller at work."""

    def __init__(self, controller: Controller, feed: Changes, client: Client, clock: Clock) -> None:
        self._controller = controller
        self._view = feed.view
        self._client = client
        self._clock = clock
        self._queue = KeyQueue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._news = News(clock)
        feed.listen(self._hear)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do but wait."""
        return self._queue.is_idle

    def look_at(self, key: Key) -> None:
        """Have a key looked at for a reason that is in no object, such as a process that has ended."""
        self._queue.add(key)
        self._news.set()

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                self._begin_all()
                await self._wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _hear(self, seen: Seen) -> None:
        for key in self._controller.keys(seen, self._view):
            self._queue.add(key)
            self._news.set()

    def _begin_all(self) -> None:
        while len(self._tasks) < AT_ONCE and (key := self._queue.take(self._clock.monotonic_s())) is not None:
            task = asyncio.create_task(self._work(key))
            self._tasks.add(task)
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._news.set()

    async def _wait(self) -> None:
        """Until something happens, or a key has become due."""
        due_s = self._queue.next_due_s()
        has_room = len(self._tasks) < AT_ONCE
        await self._news.wait(due_s - self._clock.monotonic_s() if has_room and due_s is not None else None)
        self._news.clear()

    async def _work(self, key: Key) -> None:
        turn = Turn(key, self._view, self._client, self._clock.now_s(), self._clock.monotonic_s())
        is_done = await self._is_reconciled(turn)
        for resource, revision in turn.written.items():
            await self._view.reaches(resource, revision)
        now_s = self._clock.monotonic_s()
        if not is_done:
            wait_s = self._queue.failed(key, now_s)
            log.debug("%s %s: tried again in %.3g s", self._controller.name, key, wait_s)
            return
        self._queue.done(key)
        if turn.again_s is not None:
            self._queue.add_later(key, now_s + turn.again_s)

    async def _is_reconciled(self, turn: Turn) -> bool:
        try:
            await self._controller.reconcile(turn)
        except (Conflict, NotFound) as problem:
            log.debug("%s %s: others have written meanwhile: %s", self._controller.name, turn.key, problem)
        except (StoreError, InvalidObject) as problem:
            log.warning("%s %s: %s", self._controller.name, turn.key, problem)
        except Exception:
            # A fault of Muster's own in one object must not stop the work on all others.
            log.exception("%s %s: a fault in Muster itself", self._controller.name, turn.key)
        else:
            return True
        return False
