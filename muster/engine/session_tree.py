"""Queues as a tree: who is below whom, and what whole branches hold. Used by policies that know of hierarchies.

Queues that name no parent are below the root, which need not be an object. A queue whose parents go round in a circle,
or whose parent is not there, makes the tree unusable, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.engine.standing import QueueStanding
from muster.engine.vectors import Vector, add

ROOT = "root"


class QueueTree:
    """The tree of a session's queues."""

    def __init__(self, queues: Mapping[str, QueueStanding]) -> None:
        self.queues = queues
        self.parents = {name: one.queue.parent or ROOT for name, one in queues.items() if name != ROOT}
        self.children: dict[str, list[str]] = {ROOT: []}
        self.problem = self._find_problem()
        for name in sorted(self.parents):
            self.children.setdefault(self.parents[name], []).append(name)
            self.children.setdefault(name, [])
        self._held: dict[str, dict[str, float]] = {name: {} for name in (ROOT, *self.parents)}
        for name in queues if self.is_usable else ():
            self._count(queues[name])

    def _count(self, queue: QueueStanding) -> None:
        """Let a queue count in all branches that it is in, now and whenever it changes."""
        for name in self.path(queue.name):
            add(self._held[name], queue.allocated)
            queue.totals.append(self._held[name])

    def _find_problem(self) -> str:
        sound = {ROOT}
        for name in sorted(self.parents):
            path: dict[str, None] = {}
            one = name
            while one not in sound:
                if one in path:
                    return f"the parents of queue {one} go round in a circle"
                if one not in self.parents:
                    return f"queue {next(reversed(path))} has the parent {one}, which is not there"
                path[one] = None
                one = self.parents[one]
            sound.update(path)
        for name, parent in sorted(self.parents.items()):
            if parent in self.queues and self.queues[parent].groups:
                return f"queue {parent} has groups and queues below it, such as {name}"
        return ""

    @property
    def is_usable(self) -> bool:
        return not self.problem

    def is_leaf(self, name: str) -> bool:
        return name != ROOT and not self.children.get(name)

    def path(self, name: str) -> list[str]:
        """A queue and all above it, the root last."""
        found = [name]
        while found[-1] != ROOT:
            found.append(self.parents[found[-1]])
        return found

    def below(self, name: str) -> list[str]:
        """A queue and all below it, parents before children."""
        found = [name]
        for one in found:
            found.extend(self.children.get(one, ()))
        return found

    def held_by(self, name: str) -> Vector:
        """What a queue and all below it hold."""
        return self._held[name]

    def split(self, first: str, second: str) -> tuple[str, str]:
        """The two branches in which queues part: the ones just below the queue that both are below."""
        one, two = self.path(first)[::-1], self.path(second)[::-1]
        at = 0
        while at + 1 < min(len(one), len(two)) and one[at + 1] == two[at + 1]:
            at += 1
        return one[min(at + 1, len(one) - 1)], two[min(at + 1, len(two) - 1)]

    def shared_depth(self, first: str, second: str) -> int:
        """How far down two queues have the same ancestors."""
        return len(set(self.path(first)) & set(self.path(second)))
