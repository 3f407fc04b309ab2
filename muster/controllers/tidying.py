"""Deletes what changes leave behind: what an owner has owned, what was in a namespace, volumes nobody uses.

Started by `app` beside the server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.controllers.following import Following
from muster.controllers.namespaces import emptied, namespace_after
from muster.controllers.volumes_in_use import held_after, held_at_start, released
from muster.store.aio import AsyncStore
from muster.store.clock import Clock
from muster.store.garbage import collect, first_steps, steps_after
from muster.store.objects import NAMESPACES, Objects
from muster.store.port import Change, Store
from muster.store.records import Event, Key, Scope


class Tidying(Following):
    """The collector of a store."""

    def __init__(self, store: AsyncStore, objects: Objects, clock: Clock) -> None:
        super().__init__(store, clock, (_Owned(objects), _Namespaces(objects), _Held(objects)))


class _Owned:
    """What objects own, by the owner's uid."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def first(self, store: Store) -> Iterable[str]:
        return first_steps(store, self._objects.kinds)

    def after(self, event: Event) -> Iterable[str]:
        return steps_after(event)

    def change(self, uid: str) -> Change[bool]:
        return collect(self._objects, uid)


class _Namespaces:
    """What is in namespaces that are being deleted, by the namespace's name."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def first(self, store: Store) -> Iterator[str]:
        return (record.key.name for record in store.page(Scope(NAMESPACES)).records)

    def after(self, event: Event) -> Iterable[str]:
        name = namespace_after(event)
        return (name,) if name else ()

    def change(self, name: str) -> Change[bool]:
        return emptied(self._objects, name)


class _Held:
    """Claims and volumes that somebody may use."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def first(self, store: Store) -> Iterator[Key]:
        return held_at_start(store)

    def after(self, event: Event) -> Iterator[Key]:
        return held_after(event)

    def change(self, key: Key) -> Change[bool]:
        return released(self._objects, key)
