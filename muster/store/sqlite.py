"""The store of the embedded server: every acknowledged write survives the process and the machine.

One thread writes. While it waits for the disk, further writes gather, and the next turn makes them durable together.
Only then are they visible, sent to watches and acknowledged. Built by `app`; `sqlite_file` knows the SQL.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from muster.store.base import BaseStore
from muster.store.batch import Batch
from muster.store.calls import call_each
from muster.store.clock import Clock
from muster.store.errors import Unavailable
from muster.store.history import Limits
from muster.store.port import Change, Outcome, Result
from muster.store.records import Action, Event, Key, Record
from muster.store.sqlite_file import STANDARD, Driver, StoreFile
from muster.store.sqlite_owner import Owner
from muster.store.state import Published, State

log = logging.getLogger(__name__)

_WRITES_A_TURN = 500
_ROWS_TO_FORGET = 1_000
_SMALL_FILE_BYTES = 16 * 2**20  # below this nobody minds holes

Waiting = tuple[Change[Any], Callable[[Outcome[Any]], None]]


class Committer:
    """Makes batches of writes durable, then visible, then acknowledges them. Not for two threads at once."""

    def __init__(self, file: StoreFile, clock: Clock, limits: Limits) -> None:
        self._file = file
        self._clock = clock
        self._is_in_doubt = False  # the last write failed, and may or may not be in the file
        self._shrunk_bytes = 0  # the size of the file when it was last written anew
        self._dead: list[int] = []  # revisions of rows that nobody can ask for any more
        try:
            self.state = self._load(limits)
        except file.driver.errors as problem:
            file.close()
            raise Unavailable(f"{file.path} cannot be read: {problem}; restore a backup") from problem

    def commit(self, waiting: list[Waiting]) -> None:
        """Do these writes, in this order, and answer each."""
        try:
            if self._is_in_doubt:
                self._settle_doubt()
            batch = Batch(self.state, self._clock.now_s())
            outcomes = [batch.run(change) for change, _ in waiting]
            if batch.events:
                self._is_in_doubt = True
                self._file.append(batch.events)
                self._is_in_doubt = False
        except self._file.driver.errors as problem:
            # Also those that were refused: what they were refused for may not have happened.
            refusal = Unavailable(f"the store cannot write: {problem}")
            call_each(partial(done, Outcome(error=refusal)) for _, done in waiting)
            return
        self._publish(batch.events)
        call_each(batch.calls)
        call_each(partial(done, outcome) for (_, done), outcome in zip(waiting, outcomes, strict=True))
        if len(self._dead) >= _ROWS_TO_FORGET:
            self._tidy()

    def close(self) -> None:
        self._file.close()

    def _load(self, limits: Limits) -> State:
        """The state as the file has it: plain objects up to where the history starts, then events."""
        newest = self._file.newest()
        start = max(self._file.about().compacted, newest - limits.events)
        found: dict[Key, Record] = {}
        records: list[Record] = []
        events: list[Event] = []
        for record, is_deleted, time_s in self._file.events():
            before = found.get(record.key)
            if record.revision > start:
                if not events:
                    records = list(found.values())
                events.append(_event(record, before, is_deleted, time_s))
            else:
                self._dead += [before.revision] if before is not None else []
                self._dead += [record.revision] if is_deleted else []
            if is_deleted:
                found.pop(record.key, None)
            else:
                found[record.key] = record
        state = State(limits, revision=start, records=records if events else found.values())
        self._note_dead(state.publish(events))
        return state

    def _settle_doubt(self) -> None:
        """Find out what became of a write that failed. It was not acknowledged, but it may be there all the same."""
        self._file.reopen()
        events: list[Event] = []
        changed: dict[Key, Record | None] = {}
        for record, is_deleted, time_s in self._file.events(since=self.state.revision):
            before = changed[record.key] if record.key in changed else self.state.peek(record.key)
            events.append(_event(record, before, is_deleted, time_s))
            changed[record.key] = None if is_deleted else record
        self._publish(events)
        self._is_in_doubt = False

    def _publish(self, events: list[Event]) -> None:
        published = self.state.publish(events)
        self._note_dead(published)
        call_each(published.wakes)

    def _note_dead(self, published: Published) -> None:
        for event in published.dropped:
            if event.before is not None:
                self._dead.append(event.before.revision)
            if event.action is Action.DELETED:
                self._dead.append(event.record.revision)

    def _tidy(self) -> None:
        """Delete what the history has dropped; write the file anew when it has become twice what is in it."""
        try:
            self._file.forget(self._dead, self.state.history.compacted)
            self._dead = []
            kept_bytes = self.state.live_bytes + self.state.history.size_bytes
            # What could not be made smaller the last time is not tried again until it has grown.
            if self._file.size_bytes() > max(_SMALL_FILE_BYTES, kept_bytes * 7 // 4, self._shrunk_bytes * 5 // 4):
                self._file.shrink()
                self._shrunk_bytes = self._file.size_bytes()
        except self._file.driver.errors:
            self._is_in_doubt = True  # nothing is lost; the next write starts afresh, and the next turn tries again


def _event(record: Record, before: Record | None, is_deleted: bool, time_s: float) -> Event:
    action = Action.DELETED if is_deleted else Action.ADDED if before is None else Action.MODIFIED
    return Event(action, record, before, time_s)


class SqliteStore(BaseStore):
    """Objects in memory and in a file of a folder that this process owns."""

    def __init__(self, folder: Path, clock: Clock, *, limits: Limits | None = None, driver: Driver = STANDARD) -> None:
        self._owner = Owner(folder)
        try:
            file = StoreFile(self._owner.path, driver)
            self._committer = Committer(file, clock, limits or Limits())
        except BaseException:
            self._owner.release()
            raise
        super().__init__(self._committer.state)
        self._closing = threading.Lock()
        self._is_closed = False
        self._refusal: Unavailable | None = None  # why no more writes are taken
        self._waiting: SimpleQueue[Waiting | None] = SimpleQueue()
        # A daemon: a process that ends without closing loses nothing that was acknowledged.
        self._writer = threading.Thread(target=self._write_on, name="store-writer", daemon=True)
        self._writer.start()

    def submit(self, change: Change[Result], done: Callable[[Outcome[Result]], None]) -> None:
        """Queue a write; `done` is called on the writer's thread."""
        with self._closing:
            refusal = self._refusal
            if refusal is None:
                self._waiting.put((change, done))
                return
        done(Outcome(error=refusal))

    def close(self) -> None:
        """Finish the writes that wait, and let go of the file."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            self._refusal = self._refusal or Unavailable("the store is closed")
            self._waiting.put(None)
        self._writer.join()
        self._committer.close()
        self._owner.release()

    def _write_on(self) -> None:
        while (waiting := self._gather()) is not None:
            try:
                self._committer.commit(waiting)
            except Exception as problem:
                # A fault in Muster itself: what is in memory can no longer be trusted, what is in the file can.
                log.exception("the store's writer stopped")
                self._stop(waiting, Unavailable(f"the store's writer stopped: {problem!r}; restart to go on"))
                return

    def _stop(self, waiting: list[Waiting], reason: Unavailable) -> None:
        """Refuse these writes and all that wait or will come."""
        with self._closing:
            self._refusal = reason
            while not self._waiting.empty():
                if (following := self._waiting.get()) is not None:
                    waiting.append(following)
        call_each(partial(done, Outcome(error=reason)) for _, done in waiting)

    def _gather(self) -> list[Waiting] | None:
        """All writes that wait now, at least one; `None` when the store closes."""
        first = self._waiting.get()
        if first is None:
            return None
        gathered = [first]
        while len(gathered) < _WRITES_A_TURN:
            try:
                following = self._waiting.get_nowait()
            except Empty:
                break
            if following is None:
                self._waiting.put(None)  # finish these, then end
                break
            gathered.append(following)
        return gathered
