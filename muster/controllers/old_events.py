"""Forgets what was told: an Event that nothing was added to for an hour is deleted, as a Kubernetes server does it.

Started by `app` beside the server. Each pod leaves two or three of them behind, so that without this the memory of a
server would grow with every pod that it has ever had.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

from muster.controllers.events import EVENTS
from muster.store.aio import AsyncStore
from muster.store.clock import Clock
from muster.store.errors import StoreError
from muster.store.objects import Objects
from muster.store.port import Change, Transaction
from muster.store.records import Record, Scope

log = logging.getLogger(__name__)
KEPT_S = 3_600.0
LOOK_S = 300.0  # between two looks: so much longer may an event be there
REMOVED_AT_ONCE = 100  # by one write, so that others need not wait


class OldEvents:
    """The collector of events. Their revisions tell how old they are, so that none has to be read.

    A restart forgets which revision was when: what was there before it is kept for an hour from then.
    """

    def __init__(self, store: AsyncStore, objects: Objects, clock: Clock) -> None:
        self._store = store
        self._objects = objects
        self._clock = clock
        self._revisions: deque[tuple[float, int]] = deque()  # when which was the newest
        self._old = 0  # events up to here have had their time

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                await self.look()
            except StoreError as problem:
                log.warning("old events were not deleted, it is tried again: %s", problem)
            await self._clock.sleep(LOOK_S)

    async def look(self) -> None:
        """Delete the events that have had their time by now."""
        now_s = self._clock.monotonic_s()
        self._revisions.append((now_s, self._store.store.revision))
        while self._revisions[0][0] + KEPT_S <= now_s:
            self._old = self._revisions.popleft()[1]
        if not self._old:
            return
        old = [one for one in self._store.store.page(Scope(EVENTS)).records if one.revision <= self._old]
        for first in range(0, len(old), REMOVED_AT_ONCE):
            await self._store.write(self._removal(old[first : first + REMOVED_AT_ONCE]))

    def _removal(self, records: Sequence[Record]) -> Change[None]:
        def change(write: Transaction) -> None:
            for record in records:
                if write.get(record.key) == record:  # else it was told again, or is gone
                    self._objects.delete(record.key)(write)

        return change
