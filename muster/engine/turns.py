"""Turns: in which order the heads of a tree are tried whose branches take turns.

At every branching the branch goes first that has the most important workload, then the one that has the least part of
what it is due: of what it brings itself, or of the most that it could get where it brings nothing.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from muster.engine.tree import QuotaNode
from muster.model.queue import Turns
from muster.model.workload import Workload

Head = tuple[QuotaNode, Workload]
Place = tuple[int, float, int, str]

PRIORITY_MOST = 2**31 - 1
_PLAIN = Turns()


def takes_turns(queue: QuotaNode) -> bool:
    """Whether the tree of a queue gives to one workload at a time."""
    return queue.root.queue.turns is not None


class _Branch(NamedTuple):
    """An active branch as its parent sees it."""

    priority: int
    is_sure: bool  # else it may be less important by now
    place: Place


def _of_head(_queue: QuotaNode, head: Workload) -> int:
    return head.priority


class TurnTaking:
    """Whose turn it is among the heads of one tree, while some are served and others drop out.

    Every branching keeps its branches in a heap; a change touches only the way from a queue to the root. Of a queue
    that was served nobody knows who comes next, only that it is no more important than the one before: it keeps its
    place, and when its turn comes there is no next.
    """

    def __init__(self, heads: Iterable[Head], priority_of: Callable[[QuotaNode, Workload], int] = _of_head) -> None:
        self._heads = dict(heads)
        self._priority_of = priority_of  # a queue is as important as its most important workload
        self._served: set[QuotaNode] = set()
        # By node: how many of its active branches it sees with which priority, and those of them that are sure.
        self._priorities: dict[QuotaNode, Counter[int]] = {}
        self._sure: dict[QuotaNode, Counter[int]] = {}
        self._branches: dict[QuotaNode, _Branch] = {}
        self._heaps: dict[QuotaNode, list[tuple[Place, QuotaNode]]] = {}
        active = {node for leaf in self._heads for node in leaf.path}
        for node in sorted(active, key=lambda node: -len(node.path)):
            self._enter(node)
        self._root = next((leaf.root for leaf in self._heads), None)

    def next(self) -> Head | None:
        """The head that is to be tried next; `None` when nobody is left, or nobody knows."""
        node = self._root
        while node is not None and node not in self._heads:
            is_by_priority = (node.queue.turns or _PLAIN).by_priority
            node = self._first(node)
            if node is not None and is_by_priority and not self._branches[node].is_sure:
                return None
        return (node, self._heads[node]) if node is not None and node not in self._served else None

    def serve(self, leaf: QuotaNode) -> None:
        """A queue was given something, so its branches have more of their due; who comes next in it is not known."""
        self._served.add(leaf)
        for node in leaf.path[:-1]:
            self._leave(node)
            self._enter(node)

    def drop(self, leaf: QuotaNode) -> None:
        """A queue has nobody more to try."""
        del self._heads[leaf]
        for node in leaf.path[:-1]:
            self._leave(node)
            if node in self._heads or self._priorities.get(node):
                self._enter(node)  # others wait in it, and may be less important
        if leaf is self._root:
            self._root = None

    def _enter(self, node: QuotaNode) -> None:
        """Put a branch into its place among those of its parent."""
        parent = node.parent
        if parent is None:
            return
        head = self._heads.get(node)
        own = self._priority_of(node, head) if head is not None else max(self._priorities[node])
        is_sure = node not in self._served if head is not None else own in self._sure[node]
        turns = node.queue.turns or _PLAIN
        priority = seen_from_above(own, turns)
        is_counted = (parent.queue.turns or _PLAIN).by_priority
        place = (-priority if is_counted else 0, part_of_due(node), turns.number, node.name)
        branch = self._branches[node] = _Branch(priority, is_sure or turns.is_priority_fence, place)
        self._priorities.setdefault(parent, Counter())[priority] += 1
        self._sure.setdefault(parent, Counter())
        if branch.is_sure:
            self._sure[parent][priority] += 1
        heapq.heappush(self._heaps.setdefault(parent, []), (place, node))

    def _leave(self, node: QuotaNode) -> None:
        assert node.parent is not None, "the root is nobody's branch"
        branch = self._branches.pop(node)
        for seen in (self._priorities[node.parent], self._sure[node.parent])[: 2 if branch.is_sure else 1]:
            seen[branch.priority] -= 1
            if not seen[branch.priority]:
                del seen[branch.priority]

    def _first(self, node: QuotaNode) -> QuotaNode | None:
        """The branch whose turn it is; places that were given up are cleared away on the way."""
        heap = self._heaps.get(node, [])
        while heap:
            place, branch = heap[0]
            if branch in self._branches and self._branches[branch].place == place:
                return branch
            heapq.heappop(heap)
        return None


def seen_from_above(priority: int, turns: Turns) -> int:
    """How important a queue is to its parent, given its most important workload."""
    if turns.is_priority_fence:
        return turns.priority_offset
    return max(-PRIORITY_MOST - 1, min(PRIORITY_MOST, priority + turns.priority_offset))


def seen_at(meeting: QuotaNode, leaf: QuotaNode, priority: int) -> int:
    """How important a workload of a queue is to a queue above, as all queues on the way there have it."""
    for node in leaf.path:
        if node is meeting:
            break
        priority = seen_from_above(priority, node.queue.turns or _PLAIN)
    return priority


def in_turn(heads: Iterable[Head]) -> list[Head]:
    """The heads of one tree in the order in which they are tried if none of them gets anything."""
    turns = TurnTaking(heads)
    order: list[Head] = []
    while (head := turns.next()) is not None:
        order.append(head)
        turns.drop(head[0])
    return order


def part_of_due(node: QuotaNode) -> float:
    """The largest part of what a queue is due that it uses, over all resources."""
    part = 0.0
    for key, used in node.usage.items():
        cell = node.cells[key]
        due = cell.subtree or cell.potential
        part = max(part, used / due if due else float(used))
    return part
