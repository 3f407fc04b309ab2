"""Which objects a controller has to look at, and when: each once, however often it changed. Used by `loop`.

A plain data structure without a clock of its own, so that every order of things can be tested.
"""

from __future__ import annotations

import heapq
import itertools

from muster.store.records import Key

FIRST_WAIT_S = 0.005  # after a failure; each further one doubles it
LONGEST_WAIT_S = 60.0


class KeyQueue:
    """Keys that are due, keys that will be, and keys that are being worked on."""

    def __init__(self) -> None:
        self._due: dict[Key, None] = {}  # in the order they came up
        self._later: list[tuple[float, int, Key]] = []
        self._earliest: dict[Key, float] = {}  # of those that come later
        self._order = itertools.count()
        self._running: dict[Key, bool] = {}  # True: it has changed since it was begun
        self._failures: dict[Key, int] = {}

    def add(self, key: Key) -> None:
        """Have a key looked at, as soon as nobody works on it."""
        if key in self._running:
            self._running[key] = True
        else:
            self._due[key] = None

    def add_later(self, key: Key, due_s: float) -> None:
        """Have a key looked at when it is time; the earliest time counts."""
        if due_s < self._earliest.get(key, float("inf")):
            self._earliest[key] = due_s
            heapq.heappush(self._later, (due_s, next(self._order), key))

    def take(self, now_s: float) -> Key | None:
        """The next key to work on; it is not given again until it is done."""
        self._wake(now_s)
        if not self._due:
            return None
        key = next(iter(self._due))
        del self._due[key]
        self._running[key] = False
        return key

    def done(self, key: Key) -> None:
        """Work on a key has ended well."""
        self._failures.pop(key, None)
        self._finish(key)

    def failed(self, key: Key, now_s: float) -> float:
        """Work on a key has failed and is tried again later; gives how many seconds later."""
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(count, 20))
        self._running[key] = False  # whatever has changed meanwhile is seen then
        self._finish(key)
        self.add_later(key, now_s + wait_s)
        return wait_s

    def next_due_s(self) -> float | None:
        """When a key becomes due next, if none is now."""
        while self._later and self._earliest.get(self._later[0][2]) != self._later[0][0]:
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is due and nobody works."""
        return not self._due and not self._running

    def _finish(self, key: Key) -> None:
        if self._running.pop(key):
            self._due[key] = None

    def _wake(self, now_s: float) -> None:
        while (due_s := self.next_due_s()) is not None and due_s <= now_s:
            key = heapq.heappop(self._later)[2]
            del self._earliest[key]
            self.add(key)
