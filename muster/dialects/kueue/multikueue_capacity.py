"""How often a workload fits into the queue that it would wait in elsewhere. Called where the best cluster is asked."""

from __future__ import annotations

from collections import Counter
from math import inf

from muster.model.fields import Fields
from muster.model.resources import amount_of


def asked_of(workload: Fields) -> dict[str, int]:
    """What a workload that holds quota takes, all its pods together."""
    total: Counter[str] = Counter()
    for given in workload.child("status").child("admission").children("podSetAssignments"):
        for name, quantity in given.quantities("resourceUsage").items():
            total[name] += max(0, amount_of(name, quantity))
    return dict(total)


def fits_of(asked: dict[str, int], cluster_queue: Fields) -> float:
    """How many times as much as is asked for a queue has free now, by its own account of its quota."""
    free: Counter[str] = Counter()
    for group in cluster_queue.child("spec").children("resourceGroups"):
        for flavor in group.children("flavors"):
            for resource in flavor.children("resources"):
                name = resource.text("name")
                free[name] += _amount(name, resource, "nominalQuota")
    for flavor in cluster_queue.child("status").children("flavorsReservation"):
        for resource in flavor.children("resources"):
            name = resource.text("name")
            free[name] -= _amount(name, resource, "total")
    return min((max(0, free[name]) / amount for name, amount in asked.items() if amount), default=inf)


def _amount(name: str, resource: Fields, field: str) -> int:
    quantity = resource.quantity(field)
    return 0 if quantity is None else amount_of(name, quantity)
