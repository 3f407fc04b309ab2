"""The objects of one resource in the order of their paths. Kept by `state`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping
from heapq import merge
from itertools import islice

from muster.store.records import ALL, Record

_AFTER_SLASH = "0"  # the character that follows the slash: it ends the range of a namespace's paths


class Table:
    """Records by path, and their paths in order, so that a namespace and a page are slices."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.records = {record.key.path: record for record in records}
        self.order = sorted(self.records)

    def put(self, record: Record) -> None:
        path = record.key.path
        if path not in self.records:
            insort(self.order, path)
        self.records[path] = record

    def remove(self, path: str) -> None:
        del self.records[path]
        del self.order[bisect_left(self.order, path)]

    def page(
        self, namespace: str, *, limit: int, after: str = "", past: Mapping[str, Record | None]
    ) -> tuple[list[Record], int]:
        """The records after a path and how many more follow; `past` says what some of them were at an earlier time."""
        first, end = self._range(namespace, after)
        if not past:
            stop = min(end, first + limit) if limit else end
            return [self.records[path] for path in self.order[first:stop]], end - stop
        gone = sorted(
            path
            for path, record in past.items()
            if record is not None and path not in self.records and _is_within(path, namespace, after)
        )
        newer = sum(
            record is None and path in self.records and _is_within(path, namespace, after)
            for path, record in past.items()
        )
        then = (past.get(path, self.records.get(path)) for path in merge(self.order[first:end], gone))
        found = list(islice((record for record in then if record is not None), limit or None))
        return found, end - first + len(gone) - newer - len(found)

    def _range(self, namespace: str, after: str) -> tuple[int, int]:
        first, end = 0, len(self.order)
        if namespace != ALL:
            first = bisect_left(self.order, f"{namespace}/")
            end = bisect_left(self.order, f"{namespace}{_AFTER_SLASH}")
        if after:
            first = min(max(first, bisect_right(self.order, after)), end)
        return first, end


def _is_within(path: str, namespace: str, after: str) -> bool:
    return path > after and (namespace == ALL or path.startswith(f"{namespace}/"))
