"""Questions to the quota tree: how much is free, who borrows, how far up a request must reach. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

from muster.engine.tree import QuotaNode
from muster.model.resources import Amounts, FlavorResource


def available(node: QuotaNode, key: FlavorResource) -> int:
    """How much more a node may use: its free reserve, plus what its limit and its parent both allow.

    May be negative where an ancestor is over its quota; a queue that is asked clamps it at zero.
    """
    root = node.path[-1]
    free = root.cells[key].subtree - root.usage.get(key, 0)
    for below in node.path[-2::-1]:
        cell = below.cells[key]
        used = below.usage.get(key, 0)
        above_reserve = max(0, used - cell.reserved)
        room = cell.limit - cell.reserved - above_reserve
        free = max(0, cell.reserved - used) + min(room, free)
    return free


def free_for(queue: QuotaNode, key: FlavorResource) -> int:
    """How much more a queue may use, never less than nothing."""
    return max(0, available(queue, key))


def potential(node: QuotaNode, key: FlavorResource) -> int:
    """The most that a node could get if nobody else used anything."""
    return node.cells[key].potential


def reserve_left(node: QuotaNode, key: FlavorResource) -> int:
    """What is free of the part that a node keeps to itself."""
    return max(0, node.cells[key].reserved - node.usage.get(key, 0))


def is_borrowing_with(node: QuotaNode, key: FlavorResource, amount: int) -> bool:
    """Whether the node would use more than it brings with that much more."""
    return node.usage.get(key, 0) + amount > node.cells[key].subtree


def is_borrowing_any(node: QuotaNode, keys: Iterable[FlavorResource]) -> bool:
    """Whether the node uses more than it brings of any of these."""
    for key in keys:
        if node.usage.get(key, 0) > node.cells[key].subtree:
            return True
    return False


def is_borrowing(node: QuotaNode) -> bool:
    """Whether the node uses more than it brings of anything; the top of a tree has nobody to borrow from."""
    return node.parent is not None and is_borrowing_any(node, node.usage)


def fits(queue: QuotaNode, amounts: Amounts) -> bool:
    """Whether the queue may use all of these at once."""
    for key, amount in amounts.items():
        if free_height(queue, key, amount) is None:
            return False
    return True


def free_height(queue: QuotaNode, key: FlavorResource, amount: int) -> int | None:
    """How far up a request borrows that the queue may use as it is; `None` where there is too little free.

    The answers of `free_for` and `lowest_fitting_height` on one way up: most requests ask for nothing else.
    """
    height: int | None = None
    left = amount
    for node in queue.path:
        cell = node.cells[key]
        used = node.usage.get(key, 0)
        is_top = node.parent is None
        if height is None and (is_top or used + left <= cell.subtree):
            height = node.height if node is not queue else 0
        if used + left > (cell.subtree if is_top else cell.limit) and amount > 0:
            return None
        if used < cell.reserved:
            left -= cell.reserved - used
    return height


def lowest_fitting_height(queue: QuotaNode, key: FlavorResource, amount: int) -> tuple[int, bool]:
    """How high the smallest subtree is that could hold the amount without borrowing, and whether more lies above it.

    Height 0 is the queue itself. Below the top, the request may be satisfied by reclaiming inside the subtree.
    """
    if queue.parent is None or not is_borrowing_with(queue, key, amount):
        return 0, queue.parent is not None
    left = amount - reserve_left(queue, key)
    for node in queue.path[1:]:
        if not is_borrowing_with(node, key, left):
            return node.height, node.parent is not None
        left -= reserve_left(node, key)
    return queue.root.height, False
