"""Turns: in which order the heads of a tree are tried whose branches take turns.

At every branching the branch goes first that has the most important workload, then the one that has the least part of
what it is due: of what it brings itself, or of the most that it could get where it brings nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.engine.tree import QuotaNode
from muster.model.queue import Turns
from muster.model.workload import Workload

Head = tuple[QuotaNode, Workload]

PRIORITY_MOST = 2**31 - 1
_PLAIN = Turns()


def takes_turns(queue: QuotaNode) -> bool:
    """Whether the tree of a queue gives to one workload at a time."""
    return queue.root.queue.turns is not None


def in_turn(heads: Iterable[Head]) -> Iterator[Head]:
    """The heads of one tree, whose turn it is first."""
    waiting = dict(heads)
    priorities: dict[QuotaNode, int] = {}
    active: dict[QuotaNode, dict[QuotaNode, None]] = {}  # by node: its branches that somebody waits in
    for leaf, workload in waiting.items():
        priority = workload.priority
        for node in leaf.path:
            priority = _seen_from_above(priority, node)
            is_known = node in priorities and priorities[node] >= priority
            if not is_known:
                priorities[node] = priority
            if node.parent is not None:
                active.setdefault(node.parent, {})[node] = None
    stack = [leaf.root for leaf in waiting][:1]
    while stack:
        node = stack.pop()
        if node in waiting:
            yield node, waiting[node]
        turns = node.queue.turns or _PLAIN
        branches = sorted(
            active.get(node, ()),
            key=lambda branch: (
                -priorities[branch] if turns.by_priority else 0,
                part_of_due(branch),
                (branch.queue.turns or _PLAIN).number,
                branch.name,
            ),
        )
        stack.extend(reversed(branches))


def _seen_from_above(priority: int, node: QuotaNode) -> int:
    """How important a queue is to its parent, given its most important workload."""
    turns = node.queue.turns or _PLAIN
    if turns.is_priority_fence:
        return turns.priority_offset
    return max(-PRIORITY_MOST - 1, min(PRIORITY_MOST, priority + turns.priority_offset))


def part_of_due(node: QuotaNode) -> float:
    """The largest part of what a queue is due that it uses, over all resources."""
    part = 0.0
    for key, used in node.usage.items():
        cell = node.cells[key]
        due = cell.subtree or cell.potential
        part = max(part, used / due if due else float(used))
    return part
