"""Workloads: pod sets that start together, what they ask for and what they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple

from muster.model.pod_rules import ANYWHERE, PodRules
from muster.model.podspec import PodShape
from muster.model.reason import Reason
from muster.model.resources import FlavorResource
from muster.model.slices import CardRequests, Slices
from muster.model.topology import TopologyAssignment, TopologyRequest


class CheckState(Enum):
    """Where a check of a workload stands."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


class Phase(Enum):
    """How far a workload has come."""

    PENDING = "pending"
    RESERVED = "reserved"
    ADMITTED = "admitted"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSet:
    """`count` equal pods, of which `count_least` must start together."""

    name: str
    count: int
    count_least: int  # equal to count unless the workload may start smaller
    requests: Mapping[str, int]  # of one pod, as quota counts them
    shape: PodShape
    topology: TopologyRequest | None = None
    finished_pods: int = 0  # their quota may be used by others already
    rules: PodRules = ANYWHERE  # where its pods may be, beside their shape; read where Muster decides on nodes
    cards: CardRequests | None = None  # what its pods ask of cards, read likewise

    @property
    def count_left(self) -> int:
        """The pods that still need quota."""
        return max(0, self.count - self.finished_pods)


class Slot(NamedTuple):
    """Where one pod goes: its node, and its part of the cards there."""

    node: str
    cards: tuple[int, ...] = ()  # whole cards or thousandths of them, by their numbers on the node
    slices: Slices | None = None  # memory and cores of cards that are known one by one
    names: tuple[str, ...] = ()  # of `cards`, where the node tells them: numbers may change when a card is lost

    @property
    def on_cards(self) -> tuple[int, ...] | Slices:
        """What it is of cards: some by their numbers, or slices."""
        return self.cards if self.slices is None else self.slices


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetAdmission:
    """What one pod set was given."""

    name: str
    count: int
    flavors: Mapping[str, str]  # by resource
    usage: Mapping[str, int]  # by resource, of all its pods
    place: TopologyAssignment | None = None  # where its pods go, when that was decided too
    is_delayed: bool = False  # the place is decided when its checks are ready
    slots: tuple[Slot, ...] = ()  # one for each pod, where the nodes are decided too


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Which queue pays for a workload, and in which flavors."""

    queue: str
    pod_sets: tuple[PodSetAdmission, ...]

    # Computed once: workloads of a kind share their admissions, and all that is held is counted by them.
    _usage: Mapping[FlavorResource, int] = field(init=False, repr=False, compare=False)
    _flavored: frozenset[FlavorResource] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        total: dict[FlavorResource, int] = {}
        for pod_set in self.pod_sets:
            for resource, amount in pod_set.usage.items():
                # Resources without a flavor are not counted: the queue covers them not.
                if flavor := pod_set.flavors.get(resource):
                    total[flavor, resource] = total.get((flavor, resource), 0) + amount
        given = ((flavor, resource) for pod_set in self.pod_sets for resource, flavor in pod_set.flavors.items())
        object.__setattr__(self, "_usage", total)
        object.__setattr__(self, "_flavored", frozenset(given))

    def usage(self) -> Mapping[FlavorResource, int]:
        """What the admission holds of the queue's quota."""
        return self._usage

    def flavored(self) -> frozenset[FlavorResource]:
        """The resources that were given a flavor, zero amounts included."""
        return self._flavored


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Pod sets that start together, their place in line, and what they hold."""

    key: str  # namespace/name
    uid: str
    namespace: str
    submit_queue: str = ""  # namespace/name of where it was submitted
    queue: str = ""  # the leaf that it waits in; empty when the submit queue leads nowhere
    priority: int = 0
    created_at: float = 0.0
    queued_at: float = 0.0  # its place among equals
    pod_sets: tuple[PodSet, ...] = ()
    admission: Admission | None = None
    reserved_at: float | None = None  # since when it holds quota
    is_admitted: bool = False
    is_evicted: bool = False  # told to go, still holding quota
    is_finished: bool = False
    is_active: bool = True
    is_ready: bool = False  # all its pods run
    pods_bound: int = 0  # how many of its pods have their node
    is_elastic: bool = False  # it may get more pods while it runs, and lose those above its minimum
    pods_least: int = 0  # how many of its pods must run together, where that is more than its pod sets say
    # By pod set: the slots of pods that were told to go and are still there.
    leaving_slots: Mapping[str, tuple[Slot, ...]] = field(default_factory=dict)
    is_preemptible: bool = True
    may_preempt: bool = True  # else it waits until there is room, whatever its queue is due
    preempted_at: float | None = None
    checks: Mapping[str, CheckState] = field(default_factory=dict)
    held_until: float | None = None  # backing off
    is_held: bool = False  # not to be queued until somebody says so
    gates: tuple[str, ...] = ()  # who holds its admission back
    preemption_gates: tuple[str, ...] = ()  # closed ones: it may start, but not at others' expense
    allowed_flavors: frozenset[str] | None = None
    replaces: str = ""  # the older slice that it takes over from
    variant_of: str = ""  # the uid of the workload that it is a per-flavor variant of
    is_split: bool = False  # its variants wait in its place
    unhealthy_nodes: tuple[str, ...] = ()  # failed nodes that some of its pods are on
    is_pod: bool = False  # one pod that stands for itself: it cannot be moved
    kind_key: str = ""  # equal for workloads that the engine cannot tell apart, but for name and time
    faults: tuple[Reason, ...] = ()  # why its pods could never run, whatever is free
    application: str = ""  # what it is a part of, with others
    limits: tuple[str, ...] = ()  # the shared limits that it counts against

    @property
    def phase(self) -> Phase:
        if self.is_finished:
            return Phase.FINISHED
        if self.admission is None:
            return Phase.PENDING
        return Phase.ADMITTED if self.is_admitted else Phase.RESERVED

    def changed(self, **changes: object) -> Workload:
        """The same workload with some values changed, for the engine's hot path: a sixth of the time of `replace`."""
        draft = _Draft(*_VALUES(self))
        for name, value in changes.items():
            setattr(draft, name, value)
        draft.__class__ = Workload
        return draft  # type: ignore[no-any-return]

    @property
    def needs_place(self) -> bool:
        """Whether it holds quota and its place has to be decided, for the first time or anew."""
        if self.admission is None or self.is_finished or self.is_evicted:
            return False
        if self.unhealthy_nodes and self.is_admitted and not self.is_pod:
            return True
        is_delayed = any(given.is_delayed for given in self.admission.pod_sets)
        return is_delayed and all(state is CheckState.READY for state in self.checks.values())

    @property
    def slot_count(self) -> int:
        """How many pods have a slot."""
        return sum(len(given.slots) for given in self.admission.pod_sets) if self.admission is not None else 0

    @property
    def is_short_of_pods(self) -> bool:
        """Whether too few of its pods are on nodes: fewer than it has slots, or fewer than an elastic one needs."""
        if self.is_ready or self.is_evicted or not self.slot_count:
            return False
        needed = self.slot_count
        if self.is_elastic:
            needed = min(needed, max(self.pods_least, sum(pod_set.count_least for pod_set in self.pod_sets)))
        return self.pods_bound < needed

    @property
    def may_shrink(self) -> bool:
        """Whether it may start with fewer pods than it asks for."""
        return any(pod_set.count_least < pod_set.count for pod_set in self.pod_sets)


# A frozen dataclass checks and sets every field by name, which takes longer than everything else that is done when a
# workload is admitted. A draft has the same slots and is not frozen; when it is filled it becomes a workload.
_Draft: Any = make_dataclass("_Draft", Workload.__slots__, slots=True)
_VALUES = attrgetter(*Workload.__slots__)
