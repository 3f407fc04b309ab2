"""What of an object matters to the state that is built of it. Used by the cache."""

from __future__ import annotations

from muster.dialects.kueue.names import GROUP
from muster.store.kinds import Object

CHECKS = f"admissionchecks.{GROUP}"
_NO_MEANING = frozenset({"resourceVersion", "managedFields", "generation"})


def labels_of(node: Object | None) -> object:
    """The labels of a node, if it is there."""
    return None if node is None else node["metadata"].get("labels")


def meaning_of(obj: Object | None, resource: str) -> object:
    """What of an object shapes the state."""
    if obj is None:
        return None
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _NO_MEANING}
    rest = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    if resource == CHECKS:
        rest["status"] = obj.get("status")
    return metadata, rest
