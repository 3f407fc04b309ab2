"""What a store keeps and hands out: keys, records, events, pages. Used by whoever reads or writes a store.

Records and events are structs that the garbage collector does not look at: there are tens of thousands, they never
change, and they cannot form cycles.
"""

from __future__ import annotations

import base64
import binascii
from enum import Enum
from typing import NamedTuple

import msgspec

from muster.model.errors import InvalidObject

ALL = ""  # every resource, or every namespace


class Key(NamedTuple):
    """Where an object lives: `pods` or `jobs.batch`, its namespace (empty for the whole cluster's) and its name."""

    resource: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """The key within its resource; lists are in the order of these texts."""
        return f"{self.namespace}/{self.name}"

    def can_own(self, dependent: Key) -> bool:
        """Whether an object may be an owner of another: from the same namespace, or from none."""
        return self.namespace in ("", dependent.namespace)

    def __str__(self) -> str:
        return f"{self.resource} {self.namespace}/{self.name}" if self.namespace else f"{self.resource} {self.name}"


class Record(msgspec.Struct, frozen=True, gc=False):
    """One state of an object: its text as clients see it, and what the store needs to know without reading that."""

    key: Key
    uid: str
    revision: int  # of the write that made this state
    created: int  # the revision of the object's first state
    value: bytes  # JSON, with `revision` as its metadata.resourceVersion
    owners: tuple[str, ...] = ()  # uids


class Action(Enum):
    """What a write did to one object, in the words of the watch protocol."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Event(msgspec.Struct, frozen=True, gc=False):
    """One write to one object. Both states are there, so that a selector can tell who starts or stops to match."""

    action: Action
    record: Record  # for a deletion: the last state, under the revision of the deletion
    before: Record | None
    time_s: float


class Scope(NamedTuple):
    """Which objects a list or a watch is about."""

    resource: str = ALL  # a list needs one, a watch may follow everything
    namespace: str = ALL


class Cursor(NamedTuple):
    """Where a list goes on: at which revision, after which path."""

    revision: int
    after: str

    def text(self) -> str:
        """The cursor as the opaque text that clients send back."""
        return base64.urlsafe_b64encode(f"{self.revision} {self.after}".encode()).decode()

    @staticmethod
    def parse(text: str) -> Cursor:
        """The cursor that a client sent back."""
        try:
            revision, _, after = base64.urlsafe_b64decode(text.encode()).decode().partition(" ")
            number = int(revision)
        except (ValueError, binascii.Error):
            raise InvalidObject("continue", "is not a token of this server", "start the list anew") from None
        if number < 1 or "/" not in after:
            raise InvalidObject("continue", "is not a token of this server", "start the list anew")
        return Cursor(number, after)


class Page(NamedTuple):
    """A list or a part of it, as of one revision."""

    records: list[Record]
    revision: int
    remaining: int  # how many more there are after this page

    @property
    def next(self) -> Cursor | None:
        """Where the next page starts; `None` after the last."""
        return Cursor(self.revision, self.records[-1].key.path) if self.remaining else None


class Taken(NamedTuple):
    """What a watch has got since it was last asked; with no events this is a bookmark."""

    events: list[Event]
    revision: int  # all events up to here have been delivered
