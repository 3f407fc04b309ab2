"""A loop that follows all changes and lets its parts do what follows from them, one write at a time. Started by `app`.

A part says what to look at after an event, mostly by key, and gives the write for it. It keeps nothing that a restart
would lose: what has to be done is read from the objects each time.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from muster.store.aio import AsyncStore, AsyncWatch
from muster.store.clock import Clock
from muster.store.errors import Expired, StoreError, Unavailable
from muster.store.port import Change, Store
from muster.store.records import Event, Scope

log = logging.getLogger(__name__)
_PAUSE_S = 1.0  # after the store could not write


Subject = TypeVar("Subject", bound=Hashable)


class Part(Protocol[Subject]):
    """What a controller knows and does."""

    def first(self, store: Store) -> Iterable[Subject]:
        """What to look at when the loop starts."""

    def after(self, event: Event) -> Iterable[Subject]:
        """What to look at after an event."""

    def change(self, subject: Subject, /) -> Change[bool | None]:
        """The write that puts it right; true where a further one is needed."""


class Following:
    """The loop of some parts."""

    def __init__(self, store: AsyncStore, clock: Clock, parts: Sequence[Part[Any]]) -> None:
        self._store = store
        self._clock = clock
        self._parts = parts
        self._due: dict[tuple[int, Hashable], None] = {}  # in the order they came up

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            watch = self._store.watch(Scope(), self._store.store.revision)
            try:
                self.look_at_everything()
                await self._follow(watch)
            except Expired:
                log.info("a controller was slower than the history, it looks at everything anew")
            except Unavailable as problem:
                log.warning("a controller waits for the store: %s", problem)
                await self._clock.sleep(_PAUSE_S)
            finally:
                watch.close()

    async def _follow(self, watch: AsyncWatch) -> None:
        while True:
            while await self.step():
                pass
            for event in (await watch.take()).events:
                self.note(event)

    def look_at_everything(self) -> None:
        """Remember all that there may be to do."""
        for number, part in enumerate(self._parts):
            self._due.update(dict.fromkeys((number, one) for one in part.first(self._store.store)))

    def note(self, event: Event) -> None:
        """Remember what an event may ask for."""
        for number, part in enumerate(self._parts):
            for subject in part.after(event):
                self._due[number, subject] = None

    async def step(self) -> bool:
        """Do one write; gives whether there may be more to do."""
        if not self._due:
            return False
        number, subject = next(iter(self._due))
        if not await self._has_more(self._parts[number].change(subject), subject):
            self._due.pop((number, subject), None)
        return True

    async def _has_more(self, change: Change[bool | None], subject: Hashable) -> bool:
        try:
            return bool(await self._store.write(change))
        except Unavailable:
            raise
        except StoreError as problem:
            log.info("%s was not settled: %s", subject, problem)  # somebody else was faster, and that is an event
        except Exception:
            # A fault of Muster's own in one object must not keep all others from being settled.
            log.exception("%s could not be settled", subject)
        return False
