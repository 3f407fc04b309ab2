"""What is between the store and each process of a world: events that come late, in bursts, twice or not at all, and
writes that fail, get no answer, wait on the way, or are the last thing that a process does. Driven by `storm`.

A link is a store like any other, so the processes are none the wiser. Left alone it passes everything on at once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Any, NamedTuple

from muster.store.errors import Expired, Unavailable
from muster.store.objects import Written
from muster.store.port import Change, Outcome, Result, Store, Transaction, Watch
from muster.store.records import Event, Key, Page, Record, Scope, Taken

_TOLD_AGAIN = 6  # events that a link can repeat


class Fate(Enum):
    """What becomes of a write."""

    MADE = "made"
    REFUSED = "refused"  # the store never hears of it
    UNANSWERED = "unanswered"  # it is made, and the writer hears of a failure
    HELD = "held"  # it is under way until the network lets it go on
    DIES_BEFORE = "dies before"  # the process ends when it is about to be made
    DIES_AFTER = "dies after"


_OFTEN = ((Fate.HELD, 0.15), (Fate.REFUSED, 0.04), (Fate.UNANSWERED, 0.04))


class Landed(NamedTuple):
    """A write that was made."""

    process: str
    began: int  # the revision up to which the process knew everything when it wrote
    what: str  # the resource that it was about
    revisions: range  # of the changes that it has made


class Held(NamedTuple):
    """A write that is under way."""

    link: Link
    go: Callable[[], object]


class Network:
    """The links of all processes, and what chance does to them while there is a storm."""

    def __init__(self, store: Store, chance: Random) -> None:
        self.store = store
        self.links: dict[str, Link] = {}
        self.held: list[Held] = []
        self.landed: list[Landed] = []  # since somebody last cleared it
        self.points: Counter[str] = Counter()  # where processes have died, by name
        self.is_calm = True
        self.death_rate = 0.0  # of writes
        self._chance = chance

    def connect(self, name: str) -> Link:
        """A link for a process that starts now."""
        self.links[name] = Link(self, name)
        return self.links[name]

    def fate(self) -> Fate:
        """What becomes of the next write."""
        if self.is_calm:
            return Fate.MADE
        drawn = self._chance.random()
        if drawn < self.death_rate:
            return self._chance.choice((Fate.DIES_BEFORE, Fate.DIES_AFTER))
        drawn -= self.death_rate
        for fate, share in _OFTEN:
            if drawn < share:
                return fate
            drawn -= share
        return Fate.MADE

    def late(self) -> list[Link]:
        """The links that hold events back."""
        return [link for link in self.links.values() if link.is_late]

    def calm(self) -> None:
        """End the storm: everything that is under way arrives, and from now on at once."""
        self.is_calm = True
        while self.held:
            self.held.pop(0).go()
        for link in self.links.values():
            link.deliver()


class Link:
    """The store as one process sees it."""

    def __init__(self, network: Network, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.known = network.store.revision  # all up to here has been told
        self._network = network
        self._inner = network.store
        self._watches: list[LateWatch] = []

    # Reading ---------------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        return self._inner.revision

    @property
    def compacted(self) -> int:
        return self._inner.compacted

    def get(self, key: Key) -> Record:
        return self._inner.get(key)

    def page(self, scope: Scope, *, limit: int = 0, at: int = 0, after: str = "") -> Page:
        return self._inner.page(scope, limit=limit, at=at, after=after)

    def strays(self) -> list[Key]:
        return self._inner.strays()

    def close(self) -> None:
        """The store itself stays open."""

    # Following -------------------------------------------------------------------------------------------------------

    def watch(self, scope: Scope, since: int, wake: Callable[[], None]) -> LateWatch:
        """Follow the events after a revision, as far as they are let through."""
        made = LateWatch(self, self._inner, scope, since=since, wake=wake)
        self._watches = [one for one in self._watches if not one.is_closed] + [made]
        self.known = since
        return made

    @property
    def is_calm(self) -> bool:
        return self._network.is_calm

    @property
    def is_late(self) -> bool:
        """Whether there are events that it does not pass on yet."""
        return any(watch.is_late for watch in self._watches)

    def deliver(self, most: int = 1 << 30, *, again: int = 0, chance: Random | None = None) -> None:
        """Let events through, some of the last few once more before them, in another order where that is allowed."""
        for watch in self._watches:
            watch.let_through(most, again=again, chance=chance)

    def cut(self) -> None:
        """Break the connection for so long that the history has gone on."""
        for watch in self._watches:
            watch.cut()

    # Writing ---------------------------------------------------------------------------------------------------------

    def submit(self, change: Change[Result], done: Callable[[Outcome[Result]], None]) -> None:
        """Queue a write, and see what becomes of it."""
        if self.is_dead:
            return
        fate, began = self._network.fate(), self.known
        if fate is Fate.REFUSED:
            done(Outcome(error=Unavailable("the request was lost")))
        elif fate is Fate.HELD:
            self._network.held.append(Held(self, lambda: self._make(change, done, began)))
        elif fate is Fate.DIES_BEFORE:
            self._die("before", self._make_nothing(change))
        elif fate is Fate.DIES_AFTER:
            self._die("after", self._make(change, lambda _: None, began))
        elif fate is Fate.UNANSWERED:
            self._make(change, lambda _: done(Outcome(error=Unavailable("the answer was lost"))), began)
        else:
            self._make(change, done, began)

    def write(self, change: Change[Result]) -> Result:
        """Do a write at once."""
        return self._inner.write(change)

    def _make(self, change: Change[Result], done: Callable[[Outcome[Result]], None], began: int) -> str:
        first = self._inner.revision + 1
        what: list[str] = []

        def ended(outcome: Outcome[Result]) -> None:
            if outcome.error is None:
                what.append(_about(outcome.get()))
                revisions = range(first, self._inner.revision + 1)
                self._network.landed.append(Landed(self.name, began, what[0], revisions))
            done(outcome)

        self._inner.submit(change, ended)
        return what[0] if what else ""

    def _make_nothing(self, change: Change[Any]) -> str:
        """What a write would have been about."""
        what: list[str] = []

        def tried(write: Transaction) -> None:
            what.append(_about(change(write)))
            write.discard()

        self._inner.submit(tried, lambda _: None)
        return what[0] if what else ""

    def _die(self, when: str, what: str) -> None:
        self.is_dead = True
        self._network.points[f"{self.name} {when} {what or 'a write that fails'}"] += 1


class LateWatch:
    """A watch whose events wait until the network lets them through."""

    def __init__(self, link: Link, store: Store, scope: Scope, *, since: int, wake: Callable[[], None]) -> None:
        self.is_closed = False
        self._link = link
        self._wake = wake
        self._waiting: deque[Event] = deque()
        self._told: deque[Event] = deque(maxlen=_TOLD_AGAIN)
        self._ready: list[Event] = []
        self._is_cut = False
        self._seen = self._given = since  # how far it has looked, and how far it has passed events on
        self._inner: Watch = store.watch(scope, since, self._hear)

    def take(self) -> Taken:
        """The events that were let through since the last call."""
        if self._is_cut:
            raise Expired(self._given, self._link.revision)
        self._look()
        if self._link.is_calm:
            self._open(len(self._waiting))
        events, self._ready = self._ready, []
        self._link.known = self._given
        return Taken(events, self._given)

    def close(self) -> None:
        self.is_closed = True
        self._inner.close()

    @property
    def is_late(self) -> bool:
        return not self.is_closed and (bool(self._waiting) or self._seen < self._link.revision)

    def let_through(self, most: int, *, again: int = 0, chance: Random | None = None) -> None:
        """Pass events on; every second of the last few that were passed on comes first once more."""
        if self.is_closed:
            return
        self._look()
        self._ready += list(self._told)[::2][:again]
        self._open(min(most, len(self._waiting)))
        if chance is not None:
            self._ready = _shuffled(self._ready, chance)
        self._wake()

    def cut(self) -> None:
        if not self.is_closed:
            self._is_cut = True
            self._wake()

    def _hear(self) -> None:
        if self._link.is_calm:
            self._wake()

    def _look(self) -> None:
        taken = self._inner.take()
        self._waiting += taken.events
        self._seen = taken.revision

    def _open(self, count: int) -> None:
        for _ in range(count):
            event = self._waiting.popleft()
            self._ready.append(event)
            self._told.append(event)
            self._given = max(self._given, event.record.revision)
        if not self._waiting:
            self._given = self._seen


def _shuffled(events: list[Event], chance: Random) -> list[Event]:
    """The same events, those of each kind in their order."""
    kinds = sorted({event.record.key.resource for event in events})
    chance.shuffle(kinds)
    return sorted(events, key=lambda event: kinds.index(event.record.key.resource))


def _about(result: object) -> str:
    """What the result of a write says that it was about."""
    if isinstance(result, Written):
        return result.record.key.resource
    return "bindings" if isinstance(result, int) and not isinstance(result, bool) else "leftovers"
