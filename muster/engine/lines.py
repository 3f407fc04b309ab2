"""Lines: the workloads waiting in one queue, in order, and those parked until something changes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from muster.model.plan import Return, ScanProgress
from muster.model.queue import Order
from muster.model.workload import Workload

Place = tuple[bool, int, float, str, str]

# What keeps a workload in a best-effort line: something is under way that will make room for it.
STAYS_IN_LINE = frozenset(
    (Return.FAILED_AFTER_NOMINATION, Return.PENDING_PREEMPTION, Return.PENDING_MIGRATION, Return.PREEMPTION_FAILED)
)
WAITS_FOR_VICTIMS = frozenset((Return.PENDING_PREEMPTION, Return.PENDING_MIGRATION))
PARKS_ALIKE = frozenset((Return.NO_FIT, Return.PREEMPTION_NO_CANDIDATES))


def stays_in_line(order: Order, why: Return, progress: ScanProgress | None, *, was_flushed: bool = False) -> bool:
    """Whether a workload that was tried in vain keeps its place or is parked."""
    if was_flushed or (progress is not None and progress.is_pending):
        return True
    if order is Order.STRICT_FIFO:
        return why is not Return.NAMESPACE_MISMATCH
    return why in STAYS_IN_LINE


def is_backing_off(workload: Workload, now: float) -> bool:
    """Whether a workload must not be tried yet."""
    return workload.is_held or (workload.held_until is not None and now < workload.held_until)


class Line:
    """One queue's waiting workloads: those in line, best first, and those parked."""

    def __init__(self, order: Order, used_by: Callable[[str], float] | None = None) -> None:
        self.order = order
        self._used_by = used_by  # where submit queues take turns: what each has used
        self.sticky = ""  # the workload that waits for its victims stays at the head
        self.flushed_in = -1  # the cycle in which parked workloads were last called back
        self._waiting: dict[str, Workload] = {}
        self._parked: dict[str, Workload] = {}
        self._places: dict[str, Place] = {}
        self._heaps: dict[str, list[tuple[Place, str]]] = {}  # one, or one a submit queue where they take turns
        self._by_kind: dict[str, dict[str, None]] = {}
        self._hopeless: dict[str, str] = {}  # kinds that cannot start now, and who showed it

    def __len__(self) -> int:
        return len(self._waiting) + len(self._parked)

    def waiting(self) -> Iterable[Workload]:
        return self._waiting.values()

    def parked(self) -> Iterable[Workload]:
        return self._parked.values()

    def get(self, key: str) -> Workload | None:
        return self._waiting.get(key) or self._parked.get(key)

    def is_parked(self, key: str) -> bool:
        return key in self._parked

    def shown_by(self, kind: str) -> str:
        """Which workload showed that its kind cannot start now; empty when none did."""
        return self._hopeless.get(kind, "")

    def head(self) -> Workload | None:
        """The workload to try next."""
        if self._used_by is None:
            first = self._first("")
            return self._waiting[first[1]] if first is not None else None
        used_by = self._used_by
        firsts = [(used_by(name), first) for name in list(self._heaps) if (first := self._first(name)) is not None]
        return self._waiting[min(firsts)[1][1]] if firsts else None

    def _first(self, submit_queue: str) -> tuple[Place, str] | None:
        """The best of one heap; what has left or moved is cleared away on the way."""
        heap = self._heaps.get(submit_queue)
        while heap:
            place, key = heap[0]
            if self._places.get(key) == place:
                return heap[0]
            heapq.heappop(heap)
        self._heaps.pop(submit_queue, None)
        return None

    def add(self, workload: Workload, now: float) -> None:
        """Take a workload in: into line, or parked when it is backing off or its kind cannot start now."""
        self.remove(workload.key)
        if is_backing_off(workload, now) or workload.kind_key in self._hopeless:
            self._parked[workload.key] = workload
        else:
            self._enter(workload)

    def remove(self, key: str) -> Workload | None:
        """Let a workload go for good."""
        if key == self.sticky:
            self.sticky = ""
        return self._leave(key) or self._parked.pop(key, None)

    def keep(self, key: str, why: Return) -> None:
        """Leave a tried workload in line; one that waits for its victims goes first in a best-effort line."""
        workload = self._leave(key) or self._parked.pop(key, None)
        if workload is None:
            return
        if why in WAITS_FOR_VICTIMS and self.order is Order.BEST_EFFORT_FIFO:
            previous, self.sticky = self.sticky, key
            if previous in self._waiting:
                self._enter(self._waiting[previous])
        self._enter(workload)

    def park(self, key: str, why: Return, *, parks_alike: bool) -> None:
        """Set a tried workload aside; with it those of its kind, which could not start either."""
        workload = self._leave(key)
        if workload is None:
            return
        self._parked[key] = workload
        if not parks_alike or why not in PARKS_ALIKE or self.order is not Order.BEST_EFFORT_FIFO:
            return
        if workload.kind_key:
            self._hopeless[workload.kind_key] = key
            for alike in list(self._by_kind.get(workload.kind_key, ())):
                moved = self._leave(alike)
                assert moved is not None, f"{alike} is indexed and not in line"
                self._parked[alike] = moved

    def flush(self, cycle: int, callable_back: Iterable[str]) -> int:
        """Call parked workloads back into line after something changed."""
        self.flushed_in = cycle
        self._hopeless.clear()
        count = 0
        for key in callable_back:
            self._enter(self._parked.pop(key))
            count += 1
        return count

    def _enter(self, workload: Workload) -> None:
        place = (workload.key != self.sticky, -workload.priority, workload.queued_at, workload.uid, workload.key)
        self._waiting[workload.key] = workload
        self._places[workload.key] = place
        self._by_kind.setdefault(workload.kind_key, {})[workload.key] = None
        heap = self._heaps.setdefault(workload.submit_queue if self._used_by is not None else "", [])
        heapq.heappush(heap, (place, workload.key))

    def _leave(self, key: str) -> Workload | None:
        workload = self._waiting.pop(key, None)
        if workload is not None:
            del self._places[key]
            alike = self._by_kind[workload.kind_key]
            del alike[key]
            if not alike:
                del self._by_kind[workload.kind_key]
        return workload
