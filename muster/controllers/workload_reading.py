"""Workloads as their objects say, each read once for every change. Used by the cache."""

from __future__ import annotations

import logging

from muster.dialects.kueue.read_workloads import WorkloadReader
from muster.dialects.kueue.slots_text import with_slots
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.workload import Slot, Workload
from muster.store.kinds import Object
from muster.store.records import Key

log = logging.getLogger(__name__)


class KnownWorkloads:
    """What was read; most changes are of the pods of a workload, so it is mostly read already."""

    def __init__(self) -> None:
        self._reader: WorkloadReader | None = None
        self._read: dict[
            Key, tuple[int, int, Workload | None]
        ] = {}  # by workload: a revision, its generation, what it is

    def begin(self, reader: WorkloadReader) -> None:
        """Read all of them anew, in another way."""
        self._reader = reader
        self._read.clear()

    def forget(self, key: Key) -> None:
        """Have one read anew, or never again."""
        self._read.pop(key, None)

    def get(self, key: Key, obj: Object, revision: int) -> Workload | None:
        """A workload as it is at a revision; `None` where it cannot be read."""
        known, before, workload = self._read.get(key, (-1, 0, None))
        if revision != known:
            metadata = obj["metadata"]
            generation = int(metadata.get("generation") or 0)
            is_like = workload is not None and workload.uid == metadata["uid"] and 0 < generation == before
            workload = self._taken_from(obj, workload if is_like else None)
            self._read[key] = (revision, generation, workload)
        return workload

    def _taken_from(self, obj: Object, like: Workload | None) -> Workload | None:
        assert self._reader is not None, "the state is built before anything is read"
        fields = Fields(obj)
        try:
            workload = self._reader.read(fields, like)
        except InvalidObject as problem:
            log.warning("Workload %s is left out: %s", obj["metadata"].get("name"), problem)
            return None
        try:
            return with_slots(workload, fields)
        except InvalidObject as problem:
            log.warning("the slots of Workload %s are not known, its pods count one by one: %s", workload.key, problem)
            return workload


def slots_of(workload: Workload | None) -> dict[str, tuple[Slot, ...]]:
    """The slots that the pods of a workload may be bound to, by pod set."""
    if workload is None or workload.admission is None or workload.is_finished:
        return {}
    return {given.name: given.slots for given in workload.admission.pod_sets}


def is_unplaced(workload: Workload | None) -> bool:
    """Whether the pods of a workload look for nodes one by one: others have admitted it, without saying where."""
    return workload is not None and workload.is_admitted and not workload.is_evicted and not workload.slot_count
