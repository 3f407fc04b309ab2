"""Objects in their read form, read once for all in a process who follow a store. Kept by `AsyncStore`.

A state of an object reaches several views at about the same time, and whoever has written it looks at it too. Reading
it anew for each of them was most of what following many pods cost, and keeping it for each most of the memory.
"""

from __future__ import annotations

from collections import OrderedDict

from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.records import Record

MOST = 8_192  # objects that are kept; others are read again when somebody asks


class Readings:
    """The objects that were asked for last. Whoever gets one must not change it."""

    def __init__(self) -> None:
        self._read: OrderedDict[int, Object] = OrderedDict()  # by revision, which no two states share

    def of(self, record: Record) -> Object:
        """The object of a record."""
        known = self._read.get(record.revision)
        if known is None:
            known = decode(record)
            self.note(record, known)
        else:
            self._read.move_to_end(record.revision)
        return known

    def note(self, record: Record, known: Object) -> None:
        """Keep the object of a record that somebody has read already."""
        self._read[record.revision] = known
        if len(self._read) > MOST:
            self._read.popitem(last=False)
