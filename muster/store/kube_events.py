"""Events on a real cluster: told beside the work, at a bounded rate, and of each object only the newest. Made by `app`.

An event costs the server as much as any other write, and nobody's decision waits for it. What comes faster than it may
be told is told once for each object, and the oldest is dropped where even that is too much.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from muster.model.errors import InvalidObject
from muster.store.binding import Binding
from muster.store.client import Client
from muster.store.clock import Clock
from muster.store.errors import StoreError
from muster.store.kinds import Object
from muster.store.objects import PLAINLY, Part
from muster.store.records import Key
from muster.store.rules import Deletion

EVENTS = "events"
PER_S = 20.0
_WAITING_MOST = 2_048
_LINGER_S = 0.1  # what is said of an object within this time is said once


class TellingClient:
    """A client whose events are told beside its other writes."""

    def __init__(self, client: Client, clock: Clock, *, per_s: float = PER_S) -> None:
        self._client = client
        self._clock = clock
        self._pause_s = 1.0 / per_s if per_s else 0.0  # zero a second: events are left out
        self._is_telling = per_s > 0
        self._waiting: OrderedDict[str, Object] = OrderedDict()  # by the uid of what they are about
        self._has_some = asyncio.Event()

    async def create(self, resource: str, given: Object) -> Object:
        return self._put(given) if resource == EVENTS else await self._client.create(resource, given)

    async def update(self, key: Key, given: Object, part: Part = Part.MAIN) -> Object:
        return self._put(given) if key.resource == EVENTS else await self._client.update(key, given, part)

    async def delete(self, key: Key, deletion: Deletion = PLAINLY) -> Object:
        return await self._client.delete(key, deletion)

    async def bind(self, binding: Binding) -> int:
        return await self._client.bind(binding)

    @property
    def waiting(self) -> int:
        """How many events are still to be told."""
        return len(self._waiting)

    def _put(self, event: Object) -> Object:
        if self._is_telling:
            self._waiting.pop(_about(event), None)
            self._waiting[_about(event)] = event
            if len(self._waiting) > _WAITING_MOST:
                self._waiting.popitem(last=False)
            self._has_some.set()
        return event

    async def run(self) -> None:
        """Tell what there is to tell, until cancelled."""
        while True:
            await self._has_some.wait()
            await self._clock.sleep(_LINGER_S)
            while self._waiting:
                _, event = self._waiting.popitem(last=False)
                await self._tell(event)
                await self._clock.sleep(self._pause_s)
            self._has_some.clear()

    async def _tell(self, event: Object) -> None:
        try:
            if event["count"] == 1:
                await self._client.create(EVENTS, event)
            else:
                key = Key(EVENTS, event["metadata"]["namespace"], event["metadata"]["name"])
                await self._client.update(key, event)
        except (StoreError, InvalidObject):
            return  # telling is never worth a failed turn


def _about(event: Object) -> str:
    return str(event["involvedObject"].get("uid"))
