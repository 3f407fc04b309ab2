"""A line of queues, groups or sub groups, best first. Used by the stages of a session.

Whoever is in line is compared when somebody comes or goes, as Volcano does: one whose standing changes meanwhile is
taken out first and put back.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from functools import cmp_to_key
from typing import Any, Generic, TypeVar

Entry = TypeVar("Entry")


class Ordered(Generic[Entry]):
    """A heap by a comparison."""

    def __init__(self, compare: Callable[[Entry, Entry], int], entries: Iterable[Entry] = ()) -> None:
        self._key: Callable[[Entry], Any] = cmp_to_key(compare)
        # A key knows its entry; a pair of both would be asked whether it equals another before which is less.
        self._heap: list[Any] = [self._key(entry) for entry in entries]
        heapq.heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def __iter__(self) -> Iterator[Entry]:
        """All that are in line, in no order."""
        return (key.obj for key in self._heap)

    def push(self, entry: Entry) -> None:
        heapq.heappush(self._heap, self._key(entry))

    def pop(self) -> Entry:
        """The best of all; it is in line no more."""
        entry: Entry = heapq.heappop(self._heap).obj
        return entry
