"""The quota tree: queues linked to their parents, with the numbers that follow from the whole tree settled once.

One formula serves every system's queues: a node may use its reserve, plus the smaller of its own limit's room and
what its parent has available. `Cell` holds what the formula needs for one (flavor, resource) of one node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from muster.model.queue import Queue, Quota
from muster.model.resources import UNLIMITED, FlavorResource, is_unlimited

NOTHING = Quota()


class Cell:
    """What one node may use of one resource in one flavor, derived from the declared quotas of the tree."""

    __slots__ = ("limit", "nominal", "potential", "reserved", "subtree")

    def __init__(self, *, nominal: int, reserved: int, limit: int, subtree: int, potential: int) -> None:
        self.nominal = nominal  # its own share
        self.reserved = reserved  # never lent to siblings
        self.limit = limit  # usage never goes beyond
        self.subtree = subtree  # what it and its children bring, less what the children keep to themselves
        self.potential = potential  # the most it could get if nobody else used anything


class _Cells(dict[FlavorResource, Cell]):
    """The settled numbers of a node; one that nobody below declares is settled when it is first asked for."""

    def __init__(self, node: QuotaNode) -> None:
        super().__init__()
        self._node = node

    def __missing__(self, key: FlavorResource) -> Cell:
        cell = self[key] = self._node.settled(key, subtree=0)
        return cell


class QuotaNode:
    """A queue in its tree, with its usage. Only a ledger changes the usage."""

    __slots__ = ("borrowers", "cells", "children", "declared", "height", "name", "parent", "path", "queue", "usage")

    def __init__(self, queue: Queue) -> None:
        self.name = queue.name
        self.queue = queue
        self.parent: QuotaNode | None = None
        self.children: list[QuotaNode] = []
        self.path: tuple[QuotaNode, ...] = (self,)  # from here to the root
        self.height = 0  # the longest way down to a leaf
        self.usage: dict[FlavorResource, int] = {}
        self.borrowers: dict[FlavorResource, dict[QuotaNode, None]] = {}  # children that use more than they bring
        self.declared: tuple[FlavorResource, ...] = ()  # what it and its children have quota for
        self.cells = _Cells(self)  # by resource in a flavor; asked millions of times, so a plain look-up

    @property
    def root(self) -> QuotaNode:
        return self.path[-1]

    def cell(self, key: FlavorResource) -> Cell:
        """The settled numbers of one resource; one that nobody below declares can only be borrowed from above."""
        return self.cells[key]

    def settle(self, key: FlavorResource, subtree: int) -> None:
        self.cells[key] = self.settled(key, subtree)

    def settled(self, key: FlavorResource, subtree: int) -> Cell:
        """The numbers that follow from what a node and its children bring."""
        quota = self.queue.quotas.get(key, NOTHING)
        reserved = reserve_of(quota, subtree)
        limit = min(UNLIMITED, subtree + quota.borrowable)
        potential = subtree
        if self.parent is not None:
            potential = min(reserved + self.parent.cell(key).potential, limit)
        return Cell(nominal=quota.nominal, reserved=reserved, limit=limit, subtree=subtree, potential=potential)

    def leaves(self) -> Iterator[QuotaNode]:
        """All leaves of this subtree, in the order of their names at each level."""
        stack = [self]
        while stack:
            node = stack.pop()
            if node.queue.is_leaf:
                yield node
            stack.extend(reversed(node.children))


def reserve_of(quota: Quota, subtree: int) -> int:
    """What a node keeps to itself: all that it does not lend."""
    if is_unlimited(subtree) and not is_unlimited(quota.lendable):
        return subtree  # Kueue: a part of what has no limit is nothing, so nothing is lent.
    return max(0, subtree - quota.lendable)


class QuotaTree:
    """All trees of queues. Queues whose parents go round in a circle take no part and are named in `circular`."""

    def __init__(self, queues: Iterable[Queue]) -> None:
        self.nodes: dict[str, QuotaNode] = {queue.name: QuotaNode(queue) for queue in queues}
        self.circular: frozenset[str] = frozenset(self._find_circular())
        for name in self.circular:
            del self.nodes[name]
        self._link()
        self._settle()

    def leaf(self, name: str) -> QuotaNode | None:
        """The queue of that name if workloads can wait in it."""
        node = self.nodes.get(name)
        return node if node is not None and node.queue.is_leaf else None

    def _find_circular(self) -> set[str]:
        """The queues from which the way up never ends."""
        ends: dict[str, bool] = {}
        for start in self.nodes:
            way: list[str] = []
            on_way: set[str] = set()
            name: str | None = start
            while name is not None and name in self.nodes and name not in ends and name not in on_way:
                way.append(name)
                on_way.add(name)
                name = self.nodes[name].queue.parent
            does_end = name is None or name not in self.nodes or ends.get(name, False)
            ends.update((passed, does_end) for passed in way)
        return {name for name, does_end in ends.items() if not does_end}

    def _link(self) -> None:
        for name in sorted(self.nodes):
            node = self.nodes[name]
            parent = self.nodes.get(node.queue.parent) if node.queue.parent is not None else None
            if parent is not None:
                node.parent = parent
                parent.children.append(node)
        for node in self._widest_first():
            if node.parent is not None:
                node.path = (node, *node.parent.path)

    def _widest_first(self) -> list[QuotaNode]:
        """Every node after its parent, without recursion: a chain of cohorts may be long."""
        order = [node for node in self.nodes.values() if node.parent is None]
        for node in order:
            order.extend(node.children)
        return order

    def _settle(self) -> None:
        order = self._widest_first()
        subtrees: dict[str, dict[FlavorResource, int]] = {}
        for node in reversed(order):
            subtrees[node.name] = self._gathered(node, subtrees)
            node.height = 1 + max((child.height for child in node.children), default=0) if node.children else 0
            if not node.queue.is_leaf:
                node.height = max(1, node.height)
        for node in order:
            node.declared = tuple(subtrees[node.name])
            for key, subtree in subtrees[node.name].items():
                node.settle(key, subtree)

    @staticmethod
    def _gathered(node: QuotaNode, subtrees: Mapping[str, Mapping[FlavorResource, int]]) -> dict[FlavorResource, int]:
        """What a node and its children bring; a child keeps its reserve to itself."""
        total = {key: quota.nominal for key, quota in node.queue.quotas.items()}
        for child in node.children:
            for key, subtree in subtrees[child.name].items():
                lent = subtree - reserve_of(child.queue.quotas.get(key, NOTHING), subtree)
                total[key] = total.get(key, 0) + lent
        return total
