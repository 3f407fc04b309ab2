"""The recent past of a store: events in order, bounded, and the places that watches have in it. Kept by `state`.

Watches share the events. A watch that is slow costs nothing and loses nothing silently: when the history has gone past
it, its next question is answered with Expired.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice

from muster.store.records import ALL, Action, Event, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of the past is kept; the first limit that is reached counts."""

    events: int = 10_000
    age_s: float = 300.0
    size_bytes: int = 32 * 2**20  # of states that only the history still holds


@dataclass(slots=True)
class Feed:
    """The events of one resource. Places are numbers that never change: how many events came before."""

    events: list[Event] = field(default_factory=list)
    dropped: int = 0
    wakes: dict[object, Callable[[], None]] = field(default_factory=dict)

    def place_after(self, revision: int) -> int:
        return self.dropped + bisect_right(self.events, revision, key=_revision_of)

    def since(self, place: int) -> list[Event] | None:
        """The events from a place on; `None` when some of them are gone."""
        return self.events[place - self.dropped :] if place >= self.dropped else None

    def end(self) -> int:
        return self.dropped + len(self.events)

    def drop(self, count: int) -> None:
        del self.events[:count]
        self.dropped += count


def _revision_of(event: Event) -> int:
    return event.record.revision


class History:
    """Events by resource and all together, and how far back they reach."""

    def __init__(self, limits: Limits, compacted: int) -> None:
        self.limits = limits
        self.compacted = compacted  # events up to this revision are gone
        self.feeds: dict[str, Feed] = {ALL: Feed()}
        self.size_bytes = 0

    def feed(self, resource: str) -> Feed:
        """The events of a resource, or of all."""
        if resource not in self.feeds:
            self.feeds[resource] = Feed()
        return self.feeds[resource]

    def add(self, events: Iterable[Event]) -> None:
        everything = self.feeds[ALL].events
        for event in events:
            everything.append(event)
            self.feed(event.record.key.resource).events.append(event)
            self.size_bytes += _only_history_holds(event)

    def trim(self) -> list[Event]:
        """Drop what is beyond the limits, as of the newest event, after some were added; gives what was dropped."""
        events = self.feeds[ALL].events
        count = self._beyond_limits(events)
        dropped = events[:count]
        if dropped:
            self.compacted = dropped[-1].record.revision
            self.feeds[ALL].drop(count)
            counts: dict[str, int] = {}
            for event in dropped:
                counts[event.record.key.resource] = counts.get(event.record.key.resource, 0) + 1
            for resource, count in counts.items():
                self.feeds[resource].drop(count)
        return dropped

    def _beyond_limits(self, events: list[Event]) -> int:
        count = max(0, len(events) - self.limits.events)
        for event in islice(events, count):
            self.size_bytes -= _only_history_holds(event)
        oldest_s = events[-1].time_s - self.limits.age_s
        for event in islice(events, count, None):
            if event.time_s >= oldest_s and self.size_bytes <= self.limits.size_bytes:
                break
            self.size_bytes -= _only_history_holds(event)
            count += 1
        return count

    def past(self, resource: str, at: int) -> dict[str, Record | None]:
        """What the objects that have changed since were at a revision; `None` for those that came later."""
        then: dict[str, Record | None] = {}
        feed = self.feed(resource)
        for event in feed.since(feed.place_after(at)) or ():
            then.setdefault(event.record.key.path, event.before)
        return then


def _only_history_holds(event: Event) -> int:
    before = len(event.before.value) if event.before is not None else 0
    return before + (len(event.record.value) if event.action is Action.DELETED else 0)
