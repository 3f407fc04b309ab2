"""What all stores have in common: reads from the state in memory, and a write that waits. Extended by each store."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

from muster.store.port import Change, Outcome, Result
from muster.store.records import Key, Page, Record, Scope
from muster.store.state import HistoryWatch, State


class BaseStore(ABC):
    """A store whose objects are all in memory, wherever else they are."""

    def __init__(self, state: State) -> None:
        self.state = state

    @property
    def revision(self) -> int:
        return self.state.revision

    @property
    def compacted(self) -> int:
        return self.state.history.compacted

    def get(self, key: Key) -> Record:
        """The object as it is now; raises NotFound."""
        return self.state.get(key)

    def page(self, scope: Scope, *, limit: int = 0, at: int = 0, after: str = "") -> Page:
        """The objects in scope, now or as of an earlier revision, after a path of that list."""
        return self.state.page(scope, limit=limit, at=at, after=after)

    def watch(self, scope: Scope, since: int, wake: Callable[[], None]) -> HistoryWatch:
        """Follow the events after a revision."""
        return self.state.watch(scope, since, wake)

    def strays(self) -> list[Key]:
        """The objects that name an owner which does not exist."""
        return self.state.strays()

    @abstractmethod
    def submit(self, change: Change[Result], done: Callable[[Outcome[Result]], None]) -> None:
        """Queue a write; `done` is called once it is durable or has failed."""

    def write(self, change: Change[Result]) -> Result:
        """Do a write and wait until it is durable."""
        ended = threading.Event()
        outcomes: list[Outcome[Result]] = []

        def done(outcome: Outcome[Result]) -> None:
            outcomes.append(outcome)
            ended.set()

        self.submit(change, done)
        ended.wait()
        return outcomes[0].get()
