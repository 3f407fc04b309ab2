"""Order: which of the queues' heads goes first in a cycle."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from muster.engine.assignment import Assignment
from muster.engine.holders import Holder
from muster.engine.tree import QuotaNode
from muster.engine.victims import Victim
from muster.model.plan import Return, ScanProgress
from muster.model.reason import Reason, Shortage
from muster.model.settings import Settings
from muster.model.workload import Workload


class Status(Enum):
    """How far an entry came in its cycle."""

    REFUSED = "refused"  # before any flavor was looked at
    NOMINATED = "nominated"
    SKIPPED = "skipped"  # something processed before it took what it needed
    RESERVED = "reserved"
    PREEMPTING = "preempting"


@dataclass(slots=True, kw_only=True)
class Entry:
    """A head in its cycle: what was found for it and what became of it."""

    workload: Workload
    queue: QuotaNode | None = None
    is_preemptor: bool = False
    assignment: Assignment | None = None
    victims: list[Victim] = field(default_factory=list)
    older_slice: Holder | None = None
    status: Status = Status.REFUSED
    why: Return = Return.GENERIC
    reason: Reason | None = None
    keeps_progress: bool = True
    shortages: tuple[Shortage, ...] = ()  # as it was tried, before anything was held for it
    retry_at: float | None = None  # when a limit that spared its victims runs out
    is_personal: bool = False  # others that ask for the same might start
    resumed: ScanProgress | None = None  # where its flavor search went on
    held_back: Reason | None = None  # why it may start only where there is room for it as it is
    was_fit: bool = False  # it would have fitted when the cycle began
    seen_at: int = -1  # how much the cycle had decided when it was looked at

    @property
    def level(self) -> int:
        return self.assignment.level if self.assignment is not None else 0


def entry_order(entry: Entry, settings: Settings) -> tuple[bool, bool, int, int, float]:
    """Those with quota first, then the least borrowing, the highest priority, the longest waiting.

    Sorting is stable, so equals go in the order of their queues' names.
    """
    workload = entry.workload
    return (
        workload.admission is None,
        settings.preemptors_first and not entry.is_preemptor,
        entry.level,
        -workload.priority if settings.orders_by_priority else 0,
        workload.queued_at,
    )
