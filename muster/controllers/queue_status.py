"""Keeps the status of queues and cohorts: counts what each workload adds to them, and writes those that have changed.

Owned by the scheduler, which says which workloads it has looked at; the cost is that of those workloads and of the
queues that they are in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from muster.controllers.cache import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES
from muster.controllers.view import View
from muster.dialects.kueue.names import cohort_name, own_cohort_name
from muster.dialects.kueue.write_queues import Counts, cluster_queue_status, local_queue_status
from muster.engine.fairness import share_of
from muster.engine.state import EngineState
from muster.model.errors import InvalidObject
from muster.model.resources import FlavorResource
from muster.model.workload import Workload
from muster.store.client import Client
from muster.store.errors import StoreError
from muster.store.kinds import Object
from muster.store.objects import Part
from muster.store.records import Key

log = logging.getLogger(__name__)
_RETRY_S = 1.0  # after which what could not be written is tried again


@dataclass(frozen=True, slots=True)
class _Part:
    """What one workload adds to its queues."""

    queues: tuple[Key, ...]
    is_pending: bool
    is_admitted: bool
    usage: Mapping[FlavorResource, int]


class QueueStatus:
    """The counts of all queues."""

    def __init__(self, view: View, client: Client) -> None:
        self._view = view
        self._client = client
        self._state: EngineState | None = None  # that was counted
        self._counts: dict[Key, Counts] = {}
        self._parts: dict[str, _Part] = {}
        self._changed: dict[Key, None] = {}
        self._written: dict[str, int] = {}  # the newest revision of own writes, by resource
        self.pace_s = 0.0  # at least, between two writes of one queue
        self._told_at: dict[Key, float] = {}

    def count(self, state: EngineState, workloads: Iterable[str]) -> None:
        """Count these workloads anew."""
        if state is not self._state:
            self._begin(state)
        for key in workloads:
            self._count(key, _part_of(state.workloads.get(key)))

    async def write(self, now: float) -> None:
        """Write the status of queues for which anything has changed."""
        state = self._state
        assert state is not None, "nothing is written before it is counted"
        for resource, revision in self._written.items():
            await self._view.reaches(resource, revision)
        changed = [key for key in self._changed if now >= self._due(key)]
        for key in changed:
            del self._changed[key]
            self._told_at[key] = now
        await asyncio.gather(*(self._write(state, key, now) for key in changed))

    def next_due(self) -> float | None:
        """When a queue that has changed may be written; `None` where none has."""
        return min((self._due(key) for key in self._changed), default=None)

    def _due(self, key: Key) -> float:
        return self._told_at.get(key, 0.0) + self.pace_s

    def _begin(self, state: EngineState) -> None:
        """The queues themselves have changed: all are looked at."""
        self._state = state
        self._counts.clear()
        self._parts.clear()
        self._told_at.clear()
        for resource in (CLUSTER_QUEUES, LOCAL_QUEUES, COHORTS):
            for obj in self._view.all(resource):
                metadata = obj["metadata"]
                self._changed[Key(resource, metadata.get("namespace") or "", metadata["name"])] = None
        for key in state.workloads:
            self._count(key, _part_of(state.workloads[key]))

    def _count(self, workload: str, part: _Part | None) -> None:
        before = self._parts.pop(workload, None)
        if part is not None:
            self._parts[workload] = part
        if part == before:
            return
        for one, sign in ((before, -1), (part, 1)):
            if one is not None:
                self._add(one, sign)

    def _add(self, part: _Part, sign: int) -> None:
        for key in part.queues:
            counts = self._counts.setdefault(key, Counts())
            self._changed[key] = None
            self._changed.update(dict.fromkeys(self._cohorts_of(key)))
            if part.is_pending:
                counts.pending += sign
                continue
            counts.reserving += sign
            counts.admitted += sign * part.is_admitted
            for amounts in (counts.reserved, counts.used) if part.is_admitted else (counts.reserved,):
                for cell, amount in part.usage.items():
                    amounts[cell] = amounts.get(cell, 0) + sign * amount

    def _cohorts_of(self, key: Key) -> Iterator[Key]:
        """The cohorts above a queue, where shares are fair: what the queue uses is used of theirs."""
        state = self._state
        node = state.tree.nodes.get(key.name) if state is not None and key.resource == CLUSTER_QUEUES else None
        if node is not None and state is not None and state.settings.fair_sharing is not None:
            yield from (Key(COHORTS, "", own_cohort_name(one.name)) for one in node.path[1:])

    async def _write(self, state: EngineState, key: Key, now: float) -> None:
        obj = self._view.get(key)
        if obj is None:
            return
        status = self._status(state, key, obj, now)
        if status == obj.get("status"):
            return
        try:
            kept = await self._client.update(key, {**obj, "status": status}, Part.STATUS)
            revision = int(kept["metadata"]["resourceVersion"])
            self._written[key.resource] = max(revision, self._written.get(key.resource, 0))
        except (StoreError, InvalidObject) as problem:
            log.debug("the status of %s was not written: %s", key, problem)
            self._changed[key] = None
            self._told_at[key] = now + _RETRY_S

    def _status(self, state: EngineState, key: Key, obj: Object, now: float) -> dict[str, object]:
        if key.resource == COHORTS:
            return {**(obj.get("status") or {}), **_share(state, cohort_name(key.name))}
        counts = self._counts.get(key, Counts())
        is_local = key.resource == LOCAL_QUEUES
        name = (obj.get("spec") or {}).get("clusterQueue", "") if is_local else key.name
        node = state.tree.nodes.get(name)
        if is_local:
            return local_queue_status(obj, node.queue if node is not None else None, counts, now)
        if node is None:
            return obj.get("status") or {}
        return {**cluster_queue_status(obj, node.queue, counts, now), **_share(state, name)}


def _share(state: EngineState, name: str) -> dict[str, object]:
    """How much more a queue or cohort uses than its own, where shares are fair."""
    node = state.tree.nodes.get(name)
    if node is None or state.settings.fair_sharing is None:
        return {}
    return {"fairSharing": {"weightedShare": share_of(node).shown}}


def _part_of(workload: Workload | None) -> _Part | None:
    if workload is None or workload.is_finished or (workload.is_pod and not workload.submit_queue):
        return None
    submit = Key(LOCAL_QUEUES, *workload.submit_queue.split("/", 1))
    admission = workload.admission
    queue = admission.queue if admission is not None else workload.queue
    queues = (Key(CLUSTER_QUEUES, "", queue), submit) if queue else (submit,)
    usage = admission.usage() if admission is not None else {}
    return _Part(queues, admission is None, workload.is_admitted, usage)
