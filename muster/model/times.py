"""Moments as seconds since 1970, read from and written as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime

from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown

TEXT_MOST = 40


def moment(fields: Fields, name: str) -> float | None:
    """The moment in a field, `None` when absent."""
    text = fields.text(name)
    return parse_moment(text, fields.at(name)) if text else None


def parse_moment(text: str, path: str) -> float:
    """A moment such as 2026-01-01T12:00:00Z."""
    problem = InvalidObject(path, f"is {shown(text)}", "give a time such as 2026-01-01T12:00:00Z")
    if len(text) > TEXT_MOST or "T" not in text:
        raise problem
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise problem from None
    if parsed.tzinfo is None:
        raise problem
    return parsed.timestamp()


def moment_text(seconds: float) -> str:
    """The moment in whole seconds, as Kubernetes stores it."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
