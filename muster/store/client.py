"""The writes that controllers make, one object at a time: what any API server can do for them.

`Client` is what a controller sees. On the embedded server the writes go through the same admission as everybody's, on a
real cluster through its API; `PlainClient` writes by the rules of objects alone, for tests and for what stands below
the server.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from muster.store.aio import AsyncStore
from muster.store.binding import Binding, bound
from muster.store.kinds import Object
from muster.store.objects import PLAINLY, By, Objects, Part, Written, decode
from muster.store.records import Key
from muster.store.rules import Deletion


class Client(Protocol):
    """Writes that are durable when they return, and raise a `StoreError` when they were not made.

    Whoever gets an object must not change it.
    """

    async def create(self, resource: str, given: Object) -> Object:
        """Add an object; gives it as it is kept."""

    async def update(self, key: Key, given: Object, part: Part = Part.MAIN) -> Object:
        """Replace an object, or its status; refused when it has another revision than the one given."""

    async def delete(self, key: Key, deletion: Deletion = PLAINLY) -> Object:
        """Remove an object, or mark it; gives its last state."""

    async def bind(self, binding: Binding) -> int:
        """Put a pod on a node; gives the revision that it then has."""


class PlainClient:
    """Writes to a store of this process."""

    def __init__(
        self,
        store: AsyncStore,
        objects: Objects,
        user: str,
        *,
        complete: Callable[[str, Object], Object] | None = None,  # what new objects get from others, as everybody's do
    ) -> None:
        self._store = store
        self._complete = complete
        self._objects = objects
        self._by = By(user)

    async def create(self, resource: str, given: Object) -> Object:
        complete = self._complete
        completed = None if complete is None else lambda new, _: complete(resource, new)
        change = self._objects.create(resource, given, self._by, complete=completed)
        return self._kept(await self._store.write(change))

    async def update(self, key: Key, given: Object, part: Part = Part.MAIN) -> Object:
        change = self._objects.update(key, given, part=part, by=self._by)
        return self._kept(await self._store.write(change))

    async def delete(self, key: Key, deletion: Deletion = PLAINLY) -> Object:
        return self._kept(await self._store.write(self._objects.delete(key, deletion, by=self._by)))

    async def bind(self, binding: Binding) -> int:
        return await self._store.write(bound(self._objects, binding))

    def _kept(self, written: Written) -> Object:
        # What is gone is shown to its writer in another state than to everybody else.
        return decode(written.record) if written.is_gone else self._store.readings.of(written.record)
