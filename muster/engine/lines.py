"""Lines: the workloads waiting in one queue, in order, and those parked until something changes.

Workloads of one kind form a group, because the engine treats them alike: when one cannot start, the whole group is
parked by one step, and called back by one step. So the cost of a change does not depend on how many wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from muster.model.plan import Return, ScanProgress
from muster.model.queue import Order, Turns
from muster.model.workload import Workload

Place = tuple[bool, int, float, str, str]  # the last part is the workload's key

# What keeps a workload in a best-effort line: something is under way that will make room for it.
STAYS_IN_LINE = frozenset(
    (Return.FAILED_AFTER_NOMINATION, Return.PENDING_PREEMPTION, Return.PENDING_MIGRATION, Return.PREEMPTION_FAILED)
)
WAITS_FOR_VICTIMS = frozenset((Return.PENDING_PREEMPTION, Return.PENDING_MIGRATION))
PARKS_ALIKE = frozenset((Return.NO_FIT, Return.PREEMPTION_NO_CANDIDATES))


def stays_in_line(order: Order, why: Return, progress: ScanProgress | None, *, is_called_back: bool = False) -> bool:
    """Whether a workload that was tried in vain keeps its place or is parked."""
    if is_called_back or (progress is not None and progress.is_pending):
        return True
    if order is Order.STRICT_FIFO:
        return why is not Return.NAMESPACE_MISMATCH
    return why in STAYS_IN_LINE


def is_backing_off(workload: Workload, now: float) -> bool:
    """Whether a workload must not be tried yet."""
    return workload.is_held or (workload.held_until is not None and now < workload.held_until)


def kind_of(workload: Workload) -> str:
    """What a workload has in common with those that it waits with; a slice asks for less than others like it."""
    return f"{workload.kind_key} after {workload.replaces}" if workload.replaces else workload.kind_key


class _Group:
    """Waiting workloads of one kind and one submit queue, best first."""

    __slots__ = ("heap", "is_parked", "members", "turn")

    def __init__(self, turn: str, *, is_parked: bool) -> None:
        self.turn = turn
        self.is_parked = is_parked
        self.members: dict[str, Place] = {}
        self.heap: list[Place] = []

    def first(self) -> Place | None:
        """The best member; places that were given up are cleared away on the way."""
        while self.heap:
            place = self.heap[0]
            if self.members.get(place[-1]) == place:
                return place
            heapq.heappop(self.heap)
        return None


class Line:
    """One queue's waiting workloads: those in line, best first, and those parked."""

    def __init__(self, order: Order, used_by: Callable[[str], float] | None = None, turns: Turns | None = None) -> None:
        self.order = order
        # Whose use counts: the application's, else the submit queue's.
        self._is_by_application = turns is not None and used_by is not None
        self._by_priority = turns is None or turns.by_priority
        self.sticky = ""  # the workload that waits for its victims stays at the head
        self._used_by = used_by  # where submit queues or applications take turns: what each has used
        self._workloads: dict[str, Workload] = {}
        self._alone: dict[str, None] = {}  # parked one by one
        self._groups: dict[tuple[str, str], _Group] = {}
        self._firsts: dict[str, list[Place]] = {}  # by turn: the best of each group in line, some outdated
        self._offered: list[Place] = []  # where applications take turns: the same of all of them
        self._hopeless: dict[str, str] = {}  # kinds that cannot start now, and who showed it

    def __len__(self) -> int:
        return len(self._workloads)

    def waiting(self) -> Iterator[Workload]:
        """The workloads in line, in no order."""
        return (workload for key, workload in self._workloads.items() if not self.is_parked(key))

    def parked(self) -> Iterator[Workload]:
        return (workload for key, workload in self._workloads.items() if self.is_parked(key))

    def get(self, key: str) -> Workload | None:
        return self._workloads.get(key)

    def is_parked(self, key: str) -> bool:
        workload = self._workloads.get(key)
        return workload is not None and (key in self._alone or self._group_of(workload).is_parked)

    def shown_by(self, kind: str) -> str:
        """Which workload showed that its kind cannot start now; empty when none did."""
        return self._hopeless.get(kind, "")

    def head(self) -> Workload | None:
        """The workload to try next."""
        used_by = self._used_by
        if used_by is None:
            place = self._first_of_turn("")
            return self._workloads[place[-1]] if place is not None else None
        if self._is_by_application:
            return self._head_by_application(used_by)
        firsts = [
            (used_by(turn), place) for turn in list(self._firsts) if (place := self._first_of_turn(turn)) is not None
        ]
        return self._workloads[min(firsts)[1][-1]] if firsts else None

    def _head_by_application(self, used_by: Callable[[str], float]) -> Workload | None:
        """The most important workload, and of equals the one whose application uses least."""
        first = self._first_in(self._offered)
        if first is None or not used_by(self._workloads[first[-1]].application):
            return self._workloads[first[-1]] if first is not None else None  # nobody uses less than nothing
        firsts = [place for turn in list(self._firsts) if (place := self._first_of_turn(turn)) is not None]
        best = min(firsts, key=lambda place: (place[:2], used_by(self._workloads[place[-1]].application), place))
        return self._workloads[best[-1]]

    def add(self, workload: Workload, now: float) -> None:
        """Take a workload in: into line, or parked when it is backing off or its kind cannot start now."""
        self.remove(workload.key)
        self._workloads[workload.key] = workload
        if is_backing_off(workload, now):
            self._alone[workload.key] = None
        else:
            self._join(workload)

    def remove(self, key: str) -> Workload | None:
        """Let a workload go for good."""
        if key == self.sticky:
            self.sticky = ""
        workload = self._workloads.get(key)
        if workload is None:
            return None
        self._quit(workload)
        return self._workloads.pop(key)

    def keep(self, key: str, why: Return) -> None:
        """Leave a tried workload in line; one that waits for its victims goes first in a best-effort line."""
        workload = self._workloads.get(key)
        if workload is None:
            return
        if why in WAITS_FOR_VICTIMS and self.order is Order.BEST_EFFORT_FIFO and self.sticky != key:
            previous, self.sticky = self._workloads.get(self.sticky), key
            if previous is not None and previous.key not in self._alone:
                self._quit(previous)
                self._join(previous)
            self._quit(workload)
        if key in self._alone or key not in self._group_of(workload).members:
            self._quit(workload)
            self._join(workload)

    def park(self, key: str, why: Return, *, parks_alike: bool) -> None:
        """Set a tried workload aside; with it those of its kind, which could not start either."""
        workload = self._workloads.get(key)
        if workload is None or key in self._alone:
            return
        if parks_alike and why in PARKS_ALIKE and self.order is Order.BEST_EFFORT_FIFO and kind_of(workload):
            self._hopeless[kind_of(workload)] = key
            for group in self._groups_of_kind(workload):
                group.is_parked = True
        else:
            self._quit(workload)
            self._alone[key] = None

    def recall(self, key: str) -> None:
        """Call one parked workload back, and those of its kind that were parked with it."""
        workload = self._workloads.get(key)
        if workload is None:
            return
        if key in self._alone:
            del self._alone[key]
            self._join(workload)
        self._hopeless.pop(kind_of(workload), None)
        for group in self._groups_of_kind(workload):
            if group.is_parked:
                group.is_parked = False
                self._offer(group)

    def flush(self, may_be_tried: Callable[[Workload], bool]) -> None:
        """Call parked workloads back into line after something changed."""
        self._hopeless.clear()
        for group in self._groups.values():
            if group.is_parked:
                group.is_parked = False
                self._offer(group)
        for key in list(self._alone):
            workload = self._workloads[key]
            if may_be_tried(workload):
                del self._alone[key]
                self._join(workload)

    def _first_of_turn(self, turn: str) -> Place | None:
        first = self._first_in(self._firsts.get(turn, []))
        if first is None:
            self._firsts.pop(turn, None)
        return first

    def _first_in(self, heap: list[Place]) -> Place | None:
        """The best of a heap that is still offered; outdated places are cleared away on the way."""
        while heap:
            place = heap[0]
            workload = self._workloads.get(place[-1])
            if workload is not None and place[-1] not in self._alone:
                group = self._groups.get((self._turn_of(workload), kind_of(workload)))
                if group is not None and not group.is_parked and group.first() == place:
                    return place
            heapq.heappop(heap)
        return None

    def _turn_of(self, workload: Workload) -> str:
        if self._used_by is None:
            return ""
        return workload.application if self._is_by_application else workload.submit_queue

    def _group_of(self, workload: Workload) -> _Group:
        name = (self._turn_of(workload), kind_of(workload))
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _Group(name[0], is_parked=kind_of(workload) in self._hopeless)
        return group

    def _groups_of_kind(self, workload: Workload) -> list[_Group]:
        if self._used_by is None:
            return [self._group_of(workload)]
        return [group for (_, kind), group in self._groups.items() if kind == kind_of(workload)]

    def _join(self, workload: Workload) -> None:
        priority = -workload.priority if self._by_priority else 0
        place = (workload.key != self.sticky, priority, workload.queued_at, workload.uid, workload.key)
        group = self._group_of(workload)
        group.members[workload.key] = place
        heapq.heappush(group.heap, place)
        if not group.is_parked and group.heap[0] is place:
            self._offer(group)

    def _quit(self, workload: Workload) -> None:
        """Take a workload out of its group, or from among those parked alone."""
        if workload.key in self._alone:
            del self._alone[workload.key]
            return
        name = (self._turn_of(workload), kind_of(workload))
        group = self._groups.get(name)
        if group is None or group.members.pop(workload.key, None) is None:
            return
        if not group.members:
            del self._groups[name]
        elif not group.is_parked:
            self._offer(group)

    def _offer(self, group: _Group) -> None:
        """Let the best of a group stand for it among the firsts."""
        place = group.first()
        if place is not None:
            heapq.heappush(self._firsts.setdefault(group.turn, []), place)
            if self._is_by_application:
                heapq.heappush(self._offered, place)
