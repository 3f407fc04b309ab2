"""A client whose writes are a leader's: none is sent without the lease, none outlasts it. Used by whoever runs an elector.

Writes wait here for their turn and not on their way: the time that they may be under way begins when they are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from muster.controllers.leadership import Elector
from muster.store.binding import Binding
from muster.store.client import Client
from muster.store.kinds import Object
from muster.store.objects import PLAINLY, Part
from muster.store.records import Key
from muster.store.rules import Deletion

AT_ONCE = 64  # writes under way
Result = TypeVar("Result")


class LeaderClient:
    """The writes of a leader's work."""

    def __init__(self, client: Client, elector: Elector, *, at_once: int = AT_ONCE) -> None:
        self._client = client
        self._elector = elector
        self._turns = asyncio.Semaphore(at_once)

    async def create(self, resource: str, given: Object) -> Object:
        return await self._made(lambda: self._client.create(resource, given))

    async def update(self, key: Key, given: Object, part: Part = Part.MAIN) -> Object:
        return await self._made(lambda: self._client.update(key, given, part))

    async def delete(self, key: Key, deletion: Deletion = PLAINLY) -> Object:
        return await self._made(lambda: self._client.delete(key, deletion))

    async def bind(self, binding: Binding) -> int:
        return await self._made(lambda: self._client.bind(binding))

    async def _made(self, request: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        async with self._turns:
            return await self._elector.write(request)
