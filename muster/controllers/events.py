"""Events: what controllers tell people about an object. The same said again soon raises a count instead of a new event.

Called by the controllers with what they have done. An event that cannot be written is dropped: telling is never worth
a failed turn.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from dataclasses import dataclass

from muster.controllers.loop import Turn
from muster.dialects.kueue.write import Event
from muster.model.errors import InvalidObject
from muster.model.times import moment_text
from muster.store.client import Client
from muster.store.errors import StoreError
from muster.store.kinds import Object
from muster.store.records import Key

log = logging.getLogger(__name__)
EVENTS = "events"
NORMAL, WARNING = "Normal", "Warning"
AGAIN_S = 600.0  # the same within this time is the same event
_KNOWN_MOST = 4_096
_MESSAGE_BYTES = 1_024
_NAME_MOST = 236  # leaves room for the end that makes a name unique


@dataclass(frozen=True, slots=True)
class Note:
    """Something to tell about an object."""

    kind: str  # Normal or Warning
    reason: str  # one word for programs
    message: str  # a sentence for people


def note_of(event: Event) -> Note:
    """What is told of an object, without the object."""
    return Note(event.type, event.reason, event.message)


class Events:
    """The events of one controller."""

    def __init__(self, component: str) -> None:
        self._component = component
        self._known: OrderedDict[tuple[str, Note], tuple[float, Object]] = OrderedDict()  # by uid and what was said

    async def tell(self, turn: Turn, about: Object, note: Note) -> None:
        """Write down what has happened to an object in a turn; nobody waits to see it."""
        await self.write(turn.client, about, note, turn.now_s)

    async def write(self, client: Client, about: Object, note: Note, now_s: float) -> None:
        """Write down what has happened to an object."""
        place = (str(about["metadata"]["uid"]), note)
        told_s, told = self._known.pop(place, (0.0, None))
        try:
            if told is not None and now_s - told_s < AGAIN_S:
                kept = await _raised(client, told, now_s)
            else:
                kept = await client.create(EVENTS, self._event(about, note, now_s))
        except (StoreError, InvalidObject) as problem:
            log.debug("an event about %s is lost: %s", about["metadata"]["name"], problem)
            return
        self._known[place] = (now_s, kept)
        if len(self._known) > _KNOWN_MOST:
            self._known.popitem(last=False)

    def _event(self, about: Object, note: Note, now_s: float) -> Object:
        metadata = about["metadata"]
        namespace = metadata.get("namespace") or "default"
        said = f"{metadata['uid']} {note.reason} {note.message} {now_s!r}"
        name = f"{metadata['name'][:_NAME_MOST]}.{hashlib.sha256(said.encode()).hexdigest()[:16]}"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": _reference(about),
            "type": note.kind,
            "reason": note.reason,
            "message": note.message.encode()[:_MESSAGE_BYTES].decode(errors="ignore"),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": moment_text(now_s),
            "lastTimestamp": moment_text(now_s),
            "count": 1,
        }


async def _raised(client: Client, told: Object, now_s: float) -> Object:
    key = Key(EVENTS, told["metadata"]["namespace"], told["metadata"]["name"])
    return await client.update(key, {**told, "count": told["count"] + 1, "lastTimestamp": moment_text(now_s)})


def _reference(about: Object) -> Object:
    metadata = about["metadata"]
    found = {
        "apiVersion": about["apiVersion"],
        "kind": about["kind"],
        "name": metadata["name"],
        "namespace": metadata.get("namespace"),
        "uid": metadata["uid"],
        "resourceVersion": metadata.get("resourceVersion"),
    }
    return {name: value for name, value in found.items() if value}
