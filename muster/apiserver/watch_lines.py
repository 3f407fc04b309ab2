"""Events as the lines that watches send. Watches that follow the same resource share the bytes. Used by `watching`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from muster.apiserver.answers import encode
from muster.apiserver.field_checks import read
from muster.apiserver.selectors import Selection
from muster.apiserver.served import Served
from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.records import Action, Event, Record

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
Show = Callable[[Record], bytes]  # an object in the form that a watch asked for
CHUNK_BYTES = 256 * 1024
_REMEMBERED_BYTES = 16 * 1024 * 1024
_HEADS = {one: b'{"type":"%b","object":' % one.value.encode() for one in Action}


def line(action: Action, shown: bytes) -> bytes:
    """One event."""
    return b"%b%b}\n" % (_HEADS[action], shown)


def bookmark_object(served: Served, revision: int, *, ends_initial: bool) -> Object:
    """An object that says nothing but up to where all events have been sent."""
    kind = served.kind
    metadata: Object = {"resourceVersion": str(revision)}
    if ends_initial:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    given: Object = {"kind": kind.kind, "apiVersion": served.api_version, "metadata": metadata}
    return read(given, kind.type_name).value if kind.type_name else given


def special_line(action: str, given: Object) -> bytes:
    """A bookmark or an error."""
    return encode({"type": action, "object": given}) + b"\n"


def in_chunks(events: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """Events in groups that are not too long to send at once: a client that lags behind may have many to come."""
    start = size = 0
    for place, event in enumerate(events):
        size += len(event.record.value)
        if size > CHUNK_BYTES:
            yield events[start : place + 1]
            start, size = place + 1, 0
    if start < len(events):
        yield events[start:]


class SharedLines:
    """The newest chunks of lines, by what they show. A hundred watches that are woken together encode once."""

    def __init__(self) -> None:
        self._chunks: dict[tuple[str, int, int, int], bytes] = {}
        self._size_bytes = 0

    def chunks(self, events: Sequence[Event], form: str, show: Show) -> Iterator[bytes]:
        """The lines of some events in chunks; `form` names everything that makes `show` different from another's."""
        whole = self._chunks.get(_key(events, form)) if events else None
        if whole is not None:  # so it is for all but the first of the watches that are woken together
            yield whole
            return
        for few in in_chunks(events):
            yield self._chunk(few, form, show)

    def _chunk(self, events: Sequence[Event], form: str, show: Show) -> bytes:
        key = _key(events, form)
        found = self._chunks.get(key)
        if found is None:
            found = b"".join([line(event.action, show(event.record)) for event in events])
            if self._size_bytes + len(found) > _REMEMBERED_BYTES:
                self._chunks.clear()
                self._size_bytes = 0
            self._chunks[key] = found
            self._size_bytes += len(found)
        return found


def _key(events: Sequence[Event], form: str) -> tuple[str, int, int, int]:
    return form, events[0].record.revision, events[-1].record.revision, len(events)


def selected_lines(events: Iterable[Event], selection: Selection, show: Show) -> bytes:
    """The lines for a watch that wants only some objects: it sees them come and go as they start and stop to match."""
    return b"".join(one for event in events if (one := _selected_line(event, selection, show)))


def _selected_line(event: Event, selection: Selection, show: Show) -> bytes:
    was = event.before is not None and selection.matches(event.before)
    if event.action is Action.DELETED:
        return line(Action.DELETED, show(event.record)) if was else b""
    if selection.matches(event.record):
        return line(Action.MODIFIED if was else Action.ADDED, show(event.record))
    if was:
        assert event.before is not None, "what has matched was there"
        return line(Action.DELETED, show(_last_seen(event.before, event.record.revision)))
    return b""


def _last_seen(before: Record, revision: int) -> Record:
    """An object as the watch knows it, under the revision at which it stopped to match."""
    last = decode(before)
    last["metadata"]["resourceVersion"] = str(revision)
    return msgspec.structs.replace(before, revision=revision, value=encode(last))
