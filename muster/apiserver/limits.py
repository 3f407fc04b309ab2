"""How much the server takes on at once: beyond that, clients are told to come back. Used by `asgi`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from muster.apiserver.statuses import too_many

# Kubernetes' own defaults.
MOST_READS = 400
MOST_WRITES = 200


class InFlight:
    """Requests that are being answered. Watches are counted by themselves."""

    def __init__(self) -> None:
        self._reads = 0
        self._writes = 0

    @contextmanager
    def one(self, *, is_write: bool) -> Iterator[None]:
        """Count one request while it is answered; refuses it when there are too many."""
        if is_write:
            if self._writes >= MOST_WRITES:
                raise too_many("too many writes at once, please try again later")
            self._writes += 1
            try:
                yield
            finally:
                self._writes -= 1
        else:
            if self._reads >= MOST_READS:
                raise too_many("too many reads at once, please try again later")
            self._reads += 1
            try:
                yield
            finally:
                self._reads -= 1
