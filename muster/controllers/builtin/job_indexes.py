"""Sets of completion indexes as a job's status writes them: 1,3-5,7. Used by the Job controller.

They are kept as spans, so that a job with very many completions costs as much as it has gaps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Indexes:
    """Numbers from 0 on, as spans in order that do not touch."""

    spans: tuple[tuple[int, int], ...] = ()  # first and last, both included

    def __contains__(self, index: int) -> bool:
        place = bisect_right(self.spans, (index, float("inf")))
        return place > 0 and index <= self.spans[place - 1][1]

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(last - first + 1 for first, last in self.spans)

    @property
    def text(self) -> str:
        """The set as a status shows it; two neighbours are written one by one."""
        return ",".join(_span_text(first, last) for first, last in self.spans)

    def plus(self, indexes: Iterable[int]) -> Indexes:
        """The set with some more numbers."""
        return joined((*self.spans, *((one, one) for one in indexes)))

    def merged(self, other: Indexes) -> Indexes:
        """The numbers of either set."""
        return joined((*self.spans, *other.spans))

    def missing(self, below: int) -> Iterator[int]:
        """The numbers below a bound that are not in the set, in order."""
        candidate = 0
        for first, last in self.spans:
            yield from range(candidate, min(first, below))
            candidate = last + 1
        yield from range(candidate, below)

    def common(self, other: Indexes) -> int:
        """How many numbers both sets have."""
        count, mine, theirs = 0, 0, 0
        while mine < len(self.spans) and theirs < len(other.spans):
            first = max(self.spans[mine][0], other.spans[theirs][0])
            last = min(self.spans[mine][1], other.spans[theirs][1])
            count += max(0, last - first + 1)
            if self.spans[mine][1] <= other.spans[theirs][1]:
                mine += 1
            else:
                theirs += 1
        return count


def joined(spans: Iterable[tuple[int, int]]) -> Indexes:
    """The set of some spans in any order."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return Indexes(tuple(found))


def parse_indexes(text: str, below: int) -> Indexes:
    """The set that a status or a success policy names, as far as it is below a bound; what is no number is left out."""
    spans = []
    for part in text.split(",") if text else ():
        first_text, dash, last_text = part.partition("-")
        first = _number(first_text)
        last = _number(last_text) if dash else first
        if first is not None and last is not None and first <= last and first < below:
            spans.append((first, min(last, below - 1)))
    return joined(spans)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


def _span_text(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
