"""Nodes as they are written down for a plan. Called by `intake`."""

from __future__ import annotations

from typing import Any

from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown
from muster.model.quantity import ZERO


def check_amounts(status: Fields) -> None:
    """No node has less than nothing, and nobody's room may come from such a mistake."""
    allocatable = status.child("allocatable")
    for name, amount in status.quantities("allocatable").items():
        if amount < ZERO:
            raise InvalidObject(f"{allocatable.path}[{name}]", f"is {shown(allocatable.raw(name))}", "give 0 or more")


def taken_as_ready(node: dict[str, Any]) -> dict[str, Any]:
    """The node, ready unless it says otherwise: who writes one down for a plan means one that works."""
    status = Fields(node).child("status")
    if status.items("conditions"):
        return node
    return {**node, "status": {**status.values, "conditions": [{"type": "Ready", "status": "True"}]}}
