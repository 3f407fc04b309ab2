"""Keeps what is served in step with the definitions in the store, whoever wrote them. Started by `app`.

`settle` looks at all definitions and does what is left to do: it gives them their names and conditions, puts their
kinds into the catalog, and deletes the objects of those that go. It can be called at any time, and again.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

from muster.apiserver.definitions.checks import CLEANUP, DEFINITIONS
from muster.apiserver.definitions.kinds import Definition, definition_of, served_of, version_order
from muster.apiserver.definitions.names import has_its_names, is_established, next_status
from muster.apiserver.served import Catalog, Served
from muster.store.aio import AsyncStore
from muster.store.clock import Clock
from muster.store.errors import Expired, StoreError
from muster.store.objects import Objects, decode
from muster.store.port import Change, Transaction
from muster.store.records import Key, Record, Scope
from muster.store.rules import without_finalizer

Json = dict[str, Any]
log = logging.getLogger(__name__)
_OBJECTS_A_STEP = 100
_LOOKS_S = 0.2  # how often those who wait for objects to go look again
_PAUSE_S = 1.0  # after the store could not write


@dataclass(slots=True)
class _InForce:
    """A definition as it was last put into the catalog."""

    version: tuple[str, int, str]  # changes whenever something else is to be served
    definition: Definition
    served: list[Served] = field(default_factory=list)


class Definitions:
    """All definitions of one store, and what the catalog serves of them."""

    def __init__(self, store: AsyncStore, objects: Objects, catalog: Catalog, clock: Clock) -> None:
        self._store = store
        self._objects = objects
        self._catalog = catalog
        self._clock = clock
        self._in_force: dict[str, _InForce] = {}
        self._read: dict[str, tuple[int, Json]] = {}  # by name, with the revision
        self._lock = asyncio.Lock()

    async def run(self) -> None:
        """Follow the definitions until cancelled."""
        while True:
            watch = self._store.watch(Scope(DEFINITIONS), self._store.store.revision)
            try:
                while True:
                    await self.settle()
                    await watch.take(_LOOKS_S if self._is_waiting() else None)
            except Expired:
                log.info("definitions were followed too slowly, all of them are looked at anew")
            except StoreError as problem:
                log.warning("definitions wait for the store: %s", problem)
                await self._clock.sleep(_PAUSE_S)
            finally:
                watch.close()

    def _is_waiting(self) -> bool:
        """Whether a definition on its way out waits for objects that others hold."""
        return any(one.definition.is_terminating for one in self._in_force.values())

    async def settle(self) -> None:
        """Do all that is to be done now."""
        async with self._lock:
            while await self._step():
                pass

    async def _step(self) -> bool:
        """One look at all definitions; gives whether something was written that asks for another."""
        known = self._definitions()
        self._serve(known)
        await self._mark_new()
        has_more = False
        for name, given in known.items():
            has_more = await self._write_status(name, given, known) or has_more
            if given["metadata"].get("deletionTimestamp") is not None:
                has_more = await self._store.write(self._emptied(name, given)) or has_more
        return has_more

    def _definitions(self) -> dict[str, Json]:
        records = self._store.store.page(Scope(DEFINITIONS)).records
        self._read = {record.key.name: self._decoded(record) for record in records}
        return {name: given for name, (_, given) in self._read.items()}

    def _decoded(self, record: Record) -> tuple[int, Json]:
        known = self._read.get(record.key.name)
        return known if known is not None and known[0] == record.revision else (record.revision, decode(record))

    # What is served --------------------------------------------------------------------------------------------------

    def _serve(self, known: dict[str, Json]) -> None:
        """Put the kinds of all definitions that have their names into the catalog; what has not changed stays."""
        in_force: dict[str, _InForce] = {}
        for name, given in known.items():
            status = next_status(given, _others(given, known), 0.0)
            if not (is_established(given) or has_its_names(status)):
                continue
            if self._catalog.is_own(given["spec"]["group"], given["spec"]["names"]["plural"]):
                continue
            made = self._made(name, {**given, "status": status})
            if made is not None:
                in_force[name] = made
        before = [one for name in sorted(self._in_force) for one in self._in_force[name].served]
        self._in_force = in_force
        served = [one for name in sorted(in_force) for one in in_force[name].served]
        if len(served) != len(before) or any(one is not other for one, other in zip(served, before, strict=True)):
            self._catalog.serve(sorted(served, key=_order))

    def _made(self, name: str, given: Json) -> _InForce | None:
        metadata = given["metadata"]
        version = (metadata["uid"], metadata.get("generation") or 0, str(given["status"]["acceptedNames"]))
        before = self._in_force.get(name)
        is_terminating = metadata.get("deletionTimestamp") is not None
        if before is not None and (before.version == version or is_terminating):
            before.definition.is_terminating = is_terminating
            return before
        try:
            definition = definition_of(given)
            return _InForce(version, definition, served_of(given, definition))
        except Exception:
            # A definition that was checked when it was written; one that cannot be used must not stop all others.
            log.exception("the definition %s cannot be served", name)
            return None

    async def _mark_new(self) -> None:
        """Find out from which revision on objects are written by the rules that are now in force.

        Writes are done in the order they are asked for: those that come after this one all know the new rules.
        """
        new = [one.definition for one in self._in_force.values() if one.definition.since == 2**63]
        if new:
            revision = await self._store.write(lambda write: write.next_revision)
            for definition in new:
                definition.since = revision

    # What is written -------------------------------------------------------------------------------------------------

    async def _write_status(self, name: str, given: Json, known: dict[str, Json]) -> bool:
        status = next_status(given, _others(given, known), self._clock.now_s())
        if status == (given.get("status") or {}):
            return False
        key, revision = Key(DEFINITIONS, "", name), given["metadata"]["resourceVersion"]

        def change(write: Transaction) -> None:
            record = write.get(key)
            if record is not None and str(record.revision) == revision:
                # Not by the rules for updates: a definition that was taken stays, whatever the rules are now.
                self._objects.settle(write, key, {**decode(record), "status": status})

        await self._store.write(change)
        return True

    def _emptied(self, name: str, given: Json) -> Change[bool]:
        """One step: delete some objects of a definition that goes, or let it go; gives whether there is more to do."""
        key = Key(DEFINITIONS, "", name)
        keeps_objects = self._catalog.is_own(given["spec"]["group"], given["spec"]["names"]["plural"])

        def change(write: Transaction) -> bool:
            record = write.get(key)
            if record is None:
                return False
            definition = decode(record)
            if CLEANUP not in (definition["metadata"].get("finalizers") or ()):
                return False
            found = [] if keeps_objects or name not in self._objects.kinds else write.page(Scope(name), 0)
            if not found:
                self._objects.settle(write, key, without_finalizer(definition, CLEANUP))
                return True
            waiting = [one.key for one in found if b'"deletionTimestamp"' not in one.value]
            for one in waiting[:_OBJECTS_A_STEP]:
                self._objects.delete(one)(write)
            return bool(waiting)

        return change


def _others(given: Json, known: dict[str, Json]) -> list[Json]:
    group = given["spec"]["group"]
    return [one for one in known.values() if one is not given and one["spec"]["group"] == group]


def _order(served: Served) -> tuple[str, tuple[int, int, int, str], str]:
    return served.kind.group, version_order(served.kind.version), served.kind.plural
