"""The waiting room: the lines of all queues, who is called back when, and which queues have anybody to try."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

from muster.engine.lines import Line, is_backing_off, stays_in_line
from muster.engine.tree import QuotaNode, QuotaTree
from muster.model.plan import Requeue
from muster.model.queue import Stop
from muster.model.workload import Workload


class Flushes(NamedTuple):
    """How often parked workloads of a tree were called back, and in which cycle last."""

    times: int
    cycle: int


NO_FLUSH = Flushes(0, -1)


class WaitingRoom:
    """All lines. A change is noted once; each line follows when it is next looked at."""

    def __init__(
        self,
        tree: QuotaTree,
        admits: Callable[[QuotaNode, Workload], bool],
        used_by: Callable[[str], float] | None = None,
        held_by: Callable[[str], float] | None = None,
    ) -> None:
        self._tree = tree
        self._admits = admits
        self._lines: dict[str, Line] = {}
        for name, node in sorted(tree.nodes.items()):
            if node.queue.is_leaf:
                turn = used_by if node.queue.is_usage_ordered else None
                turn = held_by if node.queue.shares_by_application else turn
                self._lines[name] = Line(node.queue.order, turn, node.queue.turns)
        self._awake: set[str] = set()  # queues that may have somebody in line
        self._to_wake: set[QuotaNode] = set()  # trees in which something changed since the heads were last asked for
        self._flushes: dict[str, Flushes] = {}  # by root
        self._followed: dict[str, int] = {}  # by queue: how many of its root's flushes it has followed
        self._due: list[tuple[float, str, str]] = []  # heap of when whose back-off ends, and in which queue

    def __contains__(self, queue: str) -> bool:
        return queue in self._lines

    def line(self, queue: str, now: float) -> Line:
        """A queue's line as it is now."""
        line, node = self._lines[queue], self._tree.nodes[queue]
        flushes = self._flushes.get(node.root.name)
        if flushes is not None and self._followed.get(queue, 0) < flushes.times:
            self._followed[queue] = flushes.times
            line.flush(lambda workload: not is_backing_off(workload, now) and self._admits(node, workload))
        return line

    def lines(self, now: float) -> dict[str, Line]:
        return {name: self.line(name, now) for name in self._lines}

    def add(self, workload: Workload, now: float) -> None:
        """Let a workload wait in its queue."""
        self.line(workload.queue, now).add(workload, now)
        self._awake.add(workload.queue)
        if workload.held_until is not None and workload.held_until > now:
            heapq.heappush(self._due, (workload.held_until, workload.key, workload.queue))

    def remove(self, workload: Workload) -> None:
        if workload.queue in self._lines:
            self._lines[workload.queue].remove(workload.key)

    def call_due(self, now: float) -> None:
        """Put those whose back-off has ended into line."""
        while self._due and self._due[0][0] <= now:
            _, key, queue = heapq.heappop(self._due)
            workload = self._lines[queue].get(key)
            if workload is not None and not is_backing_off(workload, now):
                self._lines[queue].recall(key)
                self._awake.add(queue)

    def next_due(self) -> float | None:
        """When somebody's back-off ends, as far as is known now."""
        return self._due[0][0] if self._due else None

    def flush(self, root: QuotaNode, cycle: int) -> None:
        """Something changed in a tree: those parked there may be tried again."""
        self._flushes[root.name] = Flushes(self._flushes.get(root.name, NO_FLUSH).times + 1, cycle)
        self._to_wake.add(root)

    def heads(self, now: float, first: str = "") -> Iterator[tuple[QuotaNode, Workload]]:
        """The first workload of every queue that takes part, beginning with a queue where one is named.

        A queue with nobody in line sleeps until something changes in its tree.
        """
        for root in self._to_wake:
            self._awake.update(leaf.name for leaf in root.leaves())
        self._to_wake.clear()
        names = sorted(self._awake)
        first_index = bisect_left(names, first)
        for name in (*names[first_index:], *names[:first_index]):
            head = self.line(name, now).head()
            if head is None:
                self._awake.discard(name)
                continue
            node = self._tree.nodes[name]
            if not node.queue.inactive_because and node.queue.stop is Stop.NONE:
                yield node, head

    def put_back(self, decision: Requeue, cycle: int, now: float, *, parks_alike: bool) -> None:
        """Keep a tried workload in line or park it, as the reason says."""
        if decision.queue not in self._lines:
            return
        line = self.line(decision.queue, now)
        workload = line.get(decision.workload)
        root = self._tree.nodes[decision.queue].root.name
        was_flushed = self._flushes.get(root, NO_FLUSH).cycle >= cycle
        is_called_back = was_flushed or decision.starts_over
        stays = stays_in_line(line.order, decision.why, decision.progress, is_called_back=is_called_back)
        if stays and workload is not None and not is_backing_off(workload, now):
            line.keep(decision.workload, decision.why)
            self._awake.add(decision.queue)
        else:
            line.park(decision.workload, decision.why, parks_alike=parks_alike and not decision.is_personal)
            if decision.retry_at is not None:
                heapq.heappush(self._due, (decision.retry_at, decision.workload, decision.queue))
