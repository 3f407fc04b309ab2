"""The plan of one cycle: decisions as data, and a verdict for every workload that was tried and not served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from muster.model.reason import Reason, Verdict
from muster.model.workload import Admission, Slot


class Return(Enum):
    """Why a workload that was tried goes back to its queue; whether it stays in line or is parked follows from it."""

    GENERIC = ""
    NO_FIT = "NoFit"
    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    PENDING_PREEMPTION = "PendingPreemption"
    PENDING_MIGRATION = "PendingMigration"
    PREEMPTION_FAILED = "PreemptionFailed"
    PREEMPTION_GATED = "PreemptionGated"
    PREEMPTION_NO_CANDIDATES = "PreemptionNoCandidates"
    GAVE_UP_WAITING = "GaveUpWaiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanProgress:
    """Where the flavor search of a workload stopped: per pod set and resource the last index tried, -1 at the end."""

    tried: tuple[Mapping[str, int], ...]
    generation: int  # of the queue when it stopped
    kind_key: str
    cycle: int
    began_at: int = 0  # the version of the queue's tree when the search was at the first flavor

    @property
    def is_pending(self) -> bool:
        """Whether a flavor is left to try."""
        return any(index != -1 for pod_set in self.tried for index in pod_set.values())

    @property
    def left(self) -> frozenset[tuple[int, str]]:
        """The pod sets, by number, and resources that have flavors left to try."""
        pairs = ((number, one) for number, one in enumerate(self.tried))
        return frozenset((number, name) for number, one in pairs for name, index in one.items() if index != -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Give a workload quota; it is admitted at once unless checks are to be passed."""

    workload: str
    admission: Admission
    is_admitted: bool
    reason: Reason
    considered: tuple[Reason, ...] = ()  # flavors passed over on the way


@dataclass(frozen=True, slots=True, kw_only=True)
class Amend:
    """Decide the place of a workload that has its quota, for the first time or anew."""

    workload: str
    admission: Admission
    is_admitted: bool
    replaced_node: str = ""  # the failed node that its pods move away from


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """No place was found for a workload that has its quota; look again later."""

    workload: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """Tell a running workload to go."""

    workload: str
    queue: str
    in_favour_of: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrink:
    """Tell some pods of a running workload to go; the rest goes on."""

    workload: str
    queue: str
    in_favour_of: str
    slots: Mapping[str, tuple[Slot, ...]]  # by pod set, those to be left
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """End a workload whose work another one took over."""

    workload: str
    in_favour_of: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """Put a workload that was tried back; the queue state decides between line and parking by the reason."""

    workload: str
    queue: str
    why: Return
    progress: ScanProgress | None = None
    starts_over: bool = False  # flavors tried before may suit now: it is tried again at once
    retry_at: float | None = None  # when a limit that spared its victims runs out
    is_personal: bool = False  # others that ask for the same might start


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Admit nothing more until the pods of these workloads are ready."""

    waiting_for: tuple[str, ...]


Decision = Reserve | Amend | Retry | Evict | Shrink | Finish | Requeue | Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one cycle decided, in the order in which it was decided."""

    cycle: int
    decisions: tuple[Decision, ...] = ()
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    skipped_preemptions: Mapping[str, int] = field(default_factory=dict)  # by queue
    recomputed_targets: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by queue and outcome
    steps: int = 0  # tries made
    resumes_at: str = ""  # the queue at which the next cycle begins, where this one was cut short

    @property
    def reserves(self) -> tuple[Reserve, ...]:
        return tuple(decision for decision in self.decisions if isinstance(decision, Reserve))

    @property
    def evictions(self) -> tuple[Evict, ...]:
        return tuple(decision for decision in self.decisions if isinstance(decision, Evict))

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes for any workload."""
        return all(isinstance(decision, Requeue) for decision in self.decisions)
