"""Kinds of job in files: whose they are, and the other objects that they need. Used by `intake`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.engine.contracts import Find, Integration

Named = tuple[tuple[str, str], str, str]  # group and kind, namespace, name


def is_own(integration: Integration) -> bool:
    """Whether a kind of job is Kubernetes' own; whether others are right only their makers know."""
    return integration.gvk.group in ("", "batch")


def finder(items: Mapping[Named, Mapping[str, Any]]) -> Find:
    """What finds other objects for a job among those that were given."""

    def find(resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        for ((group, kind), place, called), value in items.items():
            if (place, called) == (namespace, name) and f"{kind.lower()}s.{group}" == resource:
                return value
        return None

    return find
