"""Fair shares: how much of what its tree could lend a queue has borrowed, by its most borrowed resource and weight."""

from __future__ import annotations

from dataclasses import dataclass
from functools import total_ordering
from math import ceil, inf

from muster.engine.tree import QuotaNode
from muster.model.fields import INT64_MAX
from muster.model.resources import FlavorResource

PER_MILLE = 1000


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """A weighted dominant share. A borrower of weight zero is above everybody of any weight."""

    ratio: float = 0.0  # borrowed per thousand of what could be lent, of the dominant resource
    weight: float = 1.0
    is_borrowing: bool = False
    resource: str = ""  # the dominant one

    @property
    def is_endless(self) -> bool:
        return self.is_borrowing and self.weight == 0

    @property
    def value(self) -> float:
        """The share as one number; a queue without weight has no right to borrow at all."""
        if self.weight == 0:
            return inf if self.is_borrowing else 0.0
        return self.ratio / self.weight

    @property
    def shown(self) -> int:
        """The share as a status shows it: rounded up."""
        return INT64_MAX if self.is_endless else ceil(self.value)

    def _rank(self) -> tuple[bool, float]:
        return (self.is_endless, self.ratio if self.is_endless else self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Share) and self._rank() == other._rank()

    def __lt__(self, other: Share) -> bool:
        return self._rank() < other._rank()

    def __hash__(self) -> int:
        return hash(self._rank())


NO_SHARE = Share()


def share_of(node: QuotaNode) -> Share:
    """What a node has borrowed of what its parent could lend it. The top of a tree borrows from nobody."""
    if node.parent is None:
        return NO_SHARE
    weight = node.queue.weight
    borrowed: dict[str, int] = {}
    for key, used in node.usage.items():
        above = used - node.cells[key].subtree
        if above > 0:
            borrowed[key[1]] = borrowed.get(key[1], 0) + above
    if not borrowed:
        return Share(weight=weight)
    ratio, dominant = 0.0, ""
    for resource in sorted(borrowed):
        could_lend = lendable(node.parent, resource)
        if could_lend <= 0:
            continue
        of_resource = borrowed[resource] * PER_MILLE / could_lend
        if of_resource > ratio or not dominant:
            ratio, dominant = of_resource, resource
    return Share(ratio=ratio, weight=weight, is_borrowing=True, resource=dominant)


def lendable(parent: QuotaNode, resource: str) -> int:
    """The most that a node could get of a resource, over all flavors of its tree."""
    return sum(parent.cells[key].potential for key in flavored(parent.root, resource))


def flavored(root: QuotaNode, resource: str) -> list[FlavorResource]:
    """The flavors in which a tree declares a resource."""
    return [key for key in root.declared if key[1] == resource]
