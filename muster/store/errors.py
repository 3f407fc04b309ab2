"""What a store can answer instead of what was asked for. Raised by every store; the API server gives them codes."""

from __future__ import annotations

from muster.store.records import Key


class StoreError(Exception):
    """Why a read or a write was not done."""


class NotFound(StoreError):
    """There is no object of this name."""

    def __init__(self, key: Key) -> None:
        super().__init__(f"{key} does not exist")
        self.key = key


class AlreadyExists(StoreError):
    """There is an object of this name already."""

    def __init__(self, key: Key, *, is_deleting: bool = False) -> None:
        super().__init__(f"{key} exists already")
        self.key = key
        self.is_deleting = is_deleting


class Conflict(StoreError):
    """The object is not the one, or not in the state, that the writer took it for."""

    def __init__(self, key: Key, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key = key
        self.problem = problem


class Refused(StoreError):
    """The state of something else forbids the write, such as a namespace that is being deleted."""

    def __init__(self, key: Key, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key = key
        self.problem = problem


class Forbidden(StoreError):
    """A rule of the namespace or the cluster does not allow the write, such as a quota; in the rule's own words."""

    def __init__(self, key: Key, problem: str) -> None:
        super().__init__(f"{key}: {problem}")
        self.key = key
        self.problem = problem


class Expired(StoreError):
    """The history no longer reaches back to the revision asked for: list anew (410 Gone)."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"revision {asked} is too old, the history starts after {oldest}")
        self.asked = asked
        self.oldest = oldest


class TooNew(StoreError):
    """The revision asked for has not been given to any write yet."""

    def __init__(self, asked: int, newest: int) -> None:
        super().__init__(f"revision {asked} is ahead of the newest, {newest}")
        self.asked = asked
        self.newest = newest


class Unavailable(StoreError):
    """The store cannot be opened, or cannot make writes durable now. Nothing was acknowledged."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
