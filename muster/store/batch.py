"""Writes that become durable together: each sees what the ones before it have done. Used by every store's writer."""

from __future__ import annotations

from collections.abc import Callable

from muster.store.errors import NotFound
from muster.store.port import Change, Outcome, Result
from muster.store.records import ALL, Action, Event, Key, Record, Scope
from muster.store.state import State


class Batch:
    """The changes of several writes, on top of a state that does not show them yet."""

    def __init__(self, state: State, now_s: float) -> None:
        self.state = state
        self.now_s = now_s
        self.events: list[Event] = []
        self.calls: list[Callable[[], None]] = []  # to be made once all is durable
        self.staged: dict[Key, Record | None] = {}
        self.by_resource: dict[str, dict[Key, Record | None]] = {}  # the same: most questions are about one resource

    def run(self, change: Change[Result]) -> Outcome[Result]:
        """Do one write: all of it, or nothing when it raises or says so."""
        write = BatchWrite(self)
        try:
            result = change(write)
        except Exception as problem:
            # Whatever a write raises is the answer to its own writer alone.
            return Outcome(error=problem)
        write.keep()
        return Outcome(result)


class BatchWrite:
    """One write of a batch: the transaction that its function works on."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._changed: dict[Key, Record | None] = {}
        self._events: list[Event] = []
        self._calls: list[Callable[[], None]] = []
        self._is_discarded = False

    @property
    def next_revision(self) -> int:
        return self._batch.state.revision + len(self._batch.events) + len(self._events) + 1

    @property
    def now_s(self) -> float:
        return self._batch.now_s

    def get(self, key: Key) -> Record | None:
        for layer in (self._changed, self._batch.staged):
            if key in layer:
                return layer[key]
        return self._batch.state.peek(key)

    def find(self, uid: str) -> Record | None:
        """The object with this uid."""
        unpublished = self._unpublished()
        for record in unpublished.values():
            if record is not None and record.uid == uid:
                return record
        found = self._batch.state.find(uid)
        return found if found is not None and found.key not in unpublished else None

    def dependents(self, uid: str) -> list[Key]:
        """The objects that name this uid as an owner, in order."""
        unpublished = self._unpublished()
        keys = {key for key in self._batch.state.dependents(uid) if key not in unpublished}
        keys.update(key for key, record in unpublished.items() if record is not None and uid in record.owners)
        return sorted(keys)

    def page(self, scope: Scope, limit: int) -> list[Record]:
        """The first objects of a resource or of one namespace of it."""
        unpublished = {
            key.path: record
            for layer in (self._batch.by_resource.get(scope.resource, {}), self._changed)
            for key, record in layer.items()
            if key.resource == scope.resource and scope.namespace in (ALL, key.namespace)
        }
        table = self._batch.state.table(scope.resource)
        return table.page(scope.namespace, limit=limit, past=unpublished)[0]

    def put(self, key: Key, *, uid: str, value: bytes, owners: tuple[str, ...] = ()) -> Record:
        """Create or replace an object."""
        # A text that cannot be stored has to fail here: later it would fail all the writes of the batch.
        "".join((*key, uid, *owners)).encode()
        before = self.get(key)
        assert before is None or before.uid == uid, f"{key} keeps its uid: remove it before another takes its name"
        revision = self.next_revision
        record = Record(key, uid, revision, before.created if before is not None else revision, value, owners)
        self._note(Action.MODIFIED if before is not None else Action.ADDED, record, before)
        return record

    def remove(self, key: Key, value: bytes) -> Record:
        """Delete an object; `value` is its last state, under the revision of the deletion."""
        before = self.get(key)
        if before is None:
            raise NotFound(key)
        record = Record(key, before.uid, self.next_revision, before.created, value, before.owners)
        self._note(Action.DELETED, record, before)
        return record

    @property
    def is_discarded(self) -> bool:
        return self._is_discarded

    def discard(self) -> None:
        """Keep nothing of this write; its result is still returned."""
        self._is_discarded = True

    def on_commit(self, call: Callable[[], None]) -> None:
        """Call this once the write is durable."""
        self._calls.append(call)

    def keep(self) -> None:
        """Hand the changes to the batch, unless they are to be discarded."""
        if self._is_discarded:
            return
        self._batch.staged.update(self._changed)
        for key, record in self._changed.items():
            self._batch.by_resource.setdefault(key.resource, {})[key] = record
        self._batch.events.extend(self._events)
        self._batch.calls.extend(self._calls)

    def _note(self, action: Action, record: Record, before: Record | None) -> None:
        self._changed[record.key] = None if action is Action.DELETED else record
        self._events.append(Event(action, record, before, self._batch.now_s))

    def _unpublished(self) -> dict[Key, Record | None]:
        return {**self._batch.staged, **self._changed}
