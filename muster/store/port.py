"""The port Store: how everything above reads and writes objects. Implemented by `memory` and `sqlite`.

Reads are answered from memory and never wait. A write is a function of the current state, so preconditions are plain
code inside it; all that it changes takes effect together, and is durable before anybody sees it or is told.
`aio` gives the same to coroutines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from muster.store.records import Key, Page, Record, Scope, Taken

Result = TypeVar("Result")


class Transaction(Protocol):
    """What a write works on: the state that all earlier writes have left, and its own changes."""

    @property
    def next_revision(self) -> int:
        """The revision that the next `put` or `remove` gets; the text of the object has to hold it."""

    @property
    def now_s(self) -> float:
        """The time of this write."""

    def get(self, key: Key) -> Record | None: ...

    def find(self, uid: str) -> Record | None:
        """The object with this uid."""

    def dependents(self, uid: str) -> list[Key]:
        """The objects that name this uid as an owner, in order."""

    def page(self, scope: Scope, limit: int) -> list[Record]:
        """The first objects of a resource or of one namespace of it."""

    def put(self, key: Key, *, uid: str, value: bytes, owners: tuple[str, ...] = ()) -> Record: ...

    def remove(self, key: Key, value: bytes) -> Record:
        """Delete an object; `value` is its last state, under the revision of the deletion."""

    @property
    def is_discarded(self) -> bool:
        """Whether nothing of this write is kept, as far as is known by now."""

    def discard(self) -> None:
        """Keep nothing of this write, as a dry run asks; its result is still returned."""

    def on_commit(self, call: Callable[[], None]) -> None:
        """Call this once the write is durable."""


Change = Callable[[Transaction], Result]


class Outcome(Generic[Result]):
    """How a write ended: with its result, or with an error."""

    __slots__ = ("_result", "error")

    def __init__(self, result: Result | None = None, error: Exception | None = None) -> None:
        self._result = result
        self.error = error

    def get(self) -> Result:
        """The result of the write, or its error raised."""
        if self.error is not None:
            raise self.error
        return self._result  # type: ignore[return-value]  # without an error there is a result


class Watch(Protocol):
    """A place in the history that moves forward as its events are taken. It holds no events of its own."""

    def take(self) -> Taken:
        """All events since the last call; raises Expired when the history has gone past this watch."""

    def close(self) -> None: ...


class Store(Protocol):
    """Objects, one revision counter over all of them, and their recent history."""

    @property
    def revision(self) -> int:
        """The revision of the newest write that is visible."""

    @property
    def compacted(self) -> int:
        """The newest revision that a watch can no longer be asked about: it may start from here, not before."""

    def get(self, key: Key) -> Record:
        """The object as it is now; raises NotFound."""

    def page(self, scope: Scope, *, limit: int = 0, at: int = 0, after: str = "") -> Page:
        """The objects in scope, now or as of an earlier revision, after a path of that list."""

    def watch(self, scope: Scope, since: int, wake: Callable[[], None]) -> Watch:
        """Follow the events after a revision; `wake` is called, on any thread, when there may be new ones."""

    def strays(self) -> list[Key]:
        """The objects that name an owner which does not exist, for the garbage collector's first look."""

    def submit(self, change: Change[Result], done: Callable[[Outcome[Result]], None]) -> None:
        """Queue a write; `done` is called, on any thread, once it is durable or has failed."""

    def write(self, change: Change[Result]) -> Result:
        """Do a write and wait until it is durable."""

    def close(self) -> None: ...
