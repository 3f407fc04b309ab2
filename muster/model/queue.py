"""Queues: the nodes of a quota tree, what each may use, and whom each may preempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from muster.model.labels import Selector
from muster.model.resources import UNLIMITED, FlavorResource


class Order(Enum):
    """What a workload that cannot start does to those behind it."""

    STRICT_FIFO = "StrictFIFO"  # it blocks them
    BEST_EFFORT_FIFO = "BestEffortFIFO"  # it steps aside until something changes


class PreemptionPolicy(Enum):
    """Whom a workload may preempt."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "LowerOrNewerEqualPriority"
    LOWER_OR_EQUAL_PRIORITY = "LowerOrEqualPriority"
    ANY = "Any"
    UNSET = ""  # nobody, yet it is not the answer Never: Kueue treats the two apart when shares are fair


class Stop(Enum):
    """Whether a queue takes in workloads; a hold lets the running ones finish, a drain does not."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


@dataclass(frozen=True, slots=True)
class Quota:
    """What a queue declares for one resource in one flavor; what follows from the tree is settled by the engine."""

    nominal: int = 0  # its own share; above it the queue is borrowing
    borrowable: int = UNLIMITED  # how far above its share it may go
    lendable: int = UNLIMITED  # how much of its share others may use

    def __post_init__(self) -> None:
        assert min(self.nominal, self.borrowable, self.lendable) >= 0, f"a quota has no negative numbers: {self}"


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Resources that get one flavor together, and the flavors to try in order."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorRules:
    """When the search for a flavor goes on although one was found."""

    next_instead_of_borrowing: bool = False
    next_instead_of_preempting: bool = True
    prefers_preempting: bool = False  # over borrowing, when both are possible


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionRules:
    """Whom the workloads of a queue may preempt."""

    within_queue: PreemptionPolicy = PreemptionPolicy.NEVER
    reclaim: PreemptionPolicy = PreemptionPolicy.NEVER  # from other queues of the tree
    may_borrow: bool = False  # preempt in other queues even when that leaves this queue borrowing
    borrow_priority_most: int | None = None  # and then only workloads up to this priority; None: any lower one
    counts_shares_alone: bool = False  # its right to take back is about what it, or a queue above, has a share of
    is_fence: bool = False  # those in the queue, or below it, take nobody outside
    is_spared: bool = False  # those in the queue leave for nobody in other queues


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRule:
    """A check that a workload must pass between its quota and its start."""

    name: str
    flavors: frozenset[str] = frozenset()  # only where one of these is used; empty: always
    delays_place: bool = False  # nodes appear, or a cluster is chosen, only while it is passed
    is_elsewhere: bool = False  # it sends workloads to other clusters, so their pods need no node here


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """How the branches of a queue take turns: the one goes next that has the least part of what it is due."""

    by_priority: bool = True  # and before that, the one with the most important workload
    priority_offset: int = 0  # what the queue adds to the importance of those in it, as its parent sees it
    is_priority_fence: bool = False  # and they are all as important as that, whatever they are among themselves
    number: int = 0  # the order of those that are even


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLimit:
    """What some workloads of any queues may hold together."""

    name: str
    title: str  # as users know it
    most: Mapping[str, int] = field(default_factory=dict)  # by resource; what is not named is not limited
    applications_most: int | None = None  # None: any number


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A node of the quota tree. Workloads wait only in leaves; inner nodes gather quota."""

    name: str  # unique in the tree, inner nodes included
    title: str  # as users know it
    is_leaf: bool
    parent: str | None = None
    quotas: Mapping[FlavorResource, Quota] = field(default_factory=dict)
    groups: tuple[ResourceGroup, ...] = ()
    order: Order = Order.BEST_EFFORT_FIFO
    flavor_rules: FlavorRules = FlavorRules()
    preemption: PreemptionRules = PreemptionRules()
    checks: tuple[CheckRule, ...] = ()
    admits_namespaces: Selector | None = None  # None: nobody
    weight: float = 1.0  # for fair shares
    stop: Stop = Stop.NONE
    inactive_because: str = ""  # a sentence; empty when the queue takes part
    generation: int = 0
    is_usage_ordered: bool = False  # its submit queues take turns by what they have used
    last_acceptable_flavor: str = ""  # variants do not move to flavors behind this one
    is_unlimited: bool = False  # nothing is counted: whoever waits here only needs a place
    turns: Turns | None = None  # its tree gives to one workload at a time, whose turn it is; the root's decides
    shares_by_application: bool = False  # of those in line the one goes next whose application holds least

    def group_of(self, resource: str) -> ResourceGroup | None:
        """The group that covers a resource."""
        for group in self.groups:
            if resource in group.resources:
                return group
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitQueue:
    """Where users of a namespace submit to; it leads to one leaf of the tree."""

    key: str  # namespace/name
    queue: str
    weight: float = 1.0
    stop: Stop = Stop.NONE
    consumed: Mapping[str, float] = field(default_factory=dict)  # its past use by resource, faded
    consumed_at: float | None = None  # as of then
