"""Follows all changes and deletes what they leave behind: what an owner has owned, what was in a namespace, volumes.

Started by `app` beside the server. It keeps no state that a restart would lose.
"""

from __future__ import annotations

import logging

from muster.controllers.namespaces import emptied, namespace_after
from muster.controllers.volumes_in_use import held_after, held_at_start, released
from muster.store.aio import AsyncStore, AsyncWatch
from muster.store.clock import Clock
from muster.store.errors import Expired, StoreError, Unavailable
from muster.store.garbage import collect, first_steps, steps_after
from muster.store.objects import NAMESPACES, Objects
from muster.store.port import Change
from muster.store.records import Event, Key, Scope

log = logging.getLogger(__name__)
_PAUSE_S = 1.0  # after the store could not write


class Tidying:
    """The collector of a store."""

    def __init__(self, store: AsyncStore, objects: Objects, clock: Clock) -> None:
        self._store = store
        self._objects = objects
        self._clock = clock
        self._uids: dict[str, None] = {}  # objects to look at, in the order they came up
        self._namespaces: dict[str, None] = {}
        self._held: dict[Key, None] = {}  # claims and volumes

    async def run(self) -> None:
        """Tidy until cancelled."""
        while True:
            watch = self._store.watch(Scope(), self._store.store.revision)
            try:
                self._look_at_everything()
                await self._follow(watch)
            except Expired:
                log.info("the collector was slower than the history, it looks at everything anew")
            except Unavailable as problem:
                log.warning("the collector waits for the store: %s", problem)
                await self._clock.sleep(_PAUSE_S)
            finally:
                watch.close()

    async def _follow(self, watch: AsyncWatch) -> None:
        while True:
            while await self.step():
                pass
            for event in (await watch.take()).events:
                self.note(event)

    def note(self, event: Event) -> None:
        """Remember what an event may have left behind."""
        self._uids.update(dict.fromkeys(steps_after(event)))
        if name := namespace_after(event):
            self._namespaces[name] = None
        self._held.update(dict.fromkeys(held_after(event)))

    async def step(self) -> bool:
        """Do one write; gives whether there may be more to do."""
        if self._uids:
            uid = next(iter(self._uids))
            if not await self._has_more(collect(self._objects, uid)):
                del self._uids[uid]
            return True
        if self._namespaces:
            name = next(iter(self._namespaces))
            if not await self._has_more(emptied(self._objects, name)):
                del self._namespaces[name]
            return True
        if self._held:
            key = next(iter(self._held))
            await self._has_more(released(self._objects, key))
            del self._held[key]
            return True
        return False

    async def _has_more(self, change: Change[bool]) -> bool:
        try:
            return await self._store.write(change)
        except StoreError:
            raise
        except Exception:
            # A fault of Muster's own in one object must not keep all others from being tidied.
            log.exception("an object could not be tidied")
            return False

    def _look_at_everything(self) -> None:
        store = self._store.store
        self._uids = dict.fromkeys(first_steps(store, self._objects.kinds))
        self._namespaces = {record.key.name: None for record in store.page(Scope(NAMESPACES)).records}
        self._held = dict.fromkeys(held_at_start(store))
