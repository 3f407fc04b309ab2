"""Moments as seconds since 1970, read from and written as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown

TEXT_MOST = 40


def moment(fields: Fields, name: str) -> float | None:
    """The moment in a field, `None` when absent."""
    text = fields.text(name)
    return parse_moment(text, fields.at(name)) if text else None


def parse_moment(text: str, path: str) -> float:
    """A moment such as 2026-01-01T12:00:00Z."""
    if len(text) <= TEXT_MOST and "T" in text:
        try:
            parsed = datetime.fromisoformat(text)
        except ValueError:
            parsed = None
        if parsed is not None and parsed.tzinfo is not None:
            return parsed.timestamp()
    raise InvalidObject(path, f"is {shown(text)}", "give a time such as 2026-01-01T12:00:00Z")


def moment_text(seconds: float) -> str:
    """The moment in whole seconds, as Kubernetes stores it."""
    return _second_text(int(seconds))


def micro_time(seconds: float) -> str:
    """The moment with its microseconds, as Kubernetes stores it in leases."""
    return f"{moment_text(seconds)[:-1]}.{int(seconds % 1 * 1_000_000):06d}Z"


@lru_cache(maxsize=64)  # the same second is written many times over
def _second_text(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
