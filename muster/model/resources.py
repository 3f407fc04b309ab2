"""Resource amounts: exact integers in the unit quota is counted in, keyed by resource or by (flavor, resource).

cpu is counted in thousandths of a core, everything else in its base unit (bytes, cards, per cent of a card).
Amounts are Python integers, so sums never overflow. Two constants bound them: no request is read as more than
AMOUNT_MAX, and UNLIMITED is far above any sum of requests, so plain arithmetic and comparison do the right thing
with it and the hot path needs no special case.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from muster.model.quantity import Quantity, quantity_text

FlavorResource = tuple[str, str]
Amounts = Mapping[FlavorResource, int]

AMOUNT_MAX = 2**126
UNLIMITED = 2**200

CPU = "cpu"
PODS = "pods"
CPU_POWER = 3

Key = TypeVar("Key", bound=Hashable)


def amount_of(resource: str, quantity: Quantity) -> int:
    """The quantity in the unit that this resource is counted in, rounded up as Kubernetes does."""
    return quantity.scaled(CPU_POWER if resource == CPU else 0, AMOUNT_MAX)


def is_unlimited(amount: int) -> bool:
    """Whether an amount stands for no limit; differences of unlimited and real amounts still do."""
    return amount >= UNLIMITED // 2


def amount_text(resource: str, amount: int) -> str:
    """The amount as Kubernetes would write it: 2500 of cpu is 2500m, 3221225472 of memory is 3Gi."""
    if is_unlimited(amount):
        return "unlimited"
    return quantity_text(amount, power=CPU_POWER if resource == CPU else 0, binary=_is_counted_in_bytes(resource))


def _is_counted_in_bytes(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-")


def sum_amounts(parts: Iterable[Mapping[Key, int]]) -> dict[Key, int]:
    """The sum of several vectors."""
    total: dict[Key, int] = {}
    for part in parts:
        for key, amount in part.items():
            total[key] = total.get(key, 0) + amount
    return total
