"""A store that is gone when the process is: for tests and the simulator. Same behaviour as `sqlite`, no threads.

A write is done when `submit` returns, so a run with the same clock and the same chance is the same run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from muster.store.base import BaseStore
from muster.store.batch import Batch
from muster.store.calls import call_each
from muster.store.clock import Clock
from muster.store.history import Limits
from muster.store.port import Change, Outcome, Result
from muster.store.state import State


class MemoryStore(BaseStore):
    """Objects in memory alone."""

    def __init__(self, clock: Clock, limits: Limits | None = None) -> None:
        super().__init__(State(limits or Limits()))
        self._clock = clock
        self._writing = threading.Lock()

    def submit(self, change: Change[Result], done: Callable[[Outcome[Result]], None]) -> None:
        """Do a write at once."""
        with self._writing:
            batch = Batch(self.state, self._clock.now_s())
            outcome = batch.run(change)
            published = self.state.publish(batch.events)
        call_each(published.wakes)
        call_each(batch.calls)
        done(outcome)

    def close(self) -> None:
        """There is nothing to let go of."""
