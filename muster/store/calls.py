"""Calling back those who wait for the store. Used by every store's writer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

log = logging.getLogger(__name__)


def call_each(calls: Iterable[Callable[[], None]]) -> None:
    """Make the calls; a broken one harms neither the others nor the writer."""
    for call in calls:
        try:
            call()
        except Exception:
            log.exception("a callback of the store failed")
