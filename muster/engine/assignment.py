"""What a flavor search found: per pod set and resource a flavor, how well it fits, and what was passed over.

These are made by the hundred thousand: the small ones are named tuples, and the larger ones are not frozen, because
making a frozen dataclass takes three times as long. Nobody changes them all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from muster.model.queue import FlavorRules
from muster.model.reason import Code, Reason
from muster.model.resources import FlavorResource
from muster.model.topology import TopologyAssignment
from muster.model.workload import Admission, PodSetAdmission, Slot


class Mode(IntEnum):
    """How well one resource fits in one flavor, worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1  # it would fit if somebody could be preempted, but nobody may be
    PREEMPT = 2  # at the expense of the own queue
    RECLAIM = 3  # at the expense of borrowers only
    FIT = 4


class Outcome(IntEnum):
    """How well a whole workload fits, worst first."""

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED_FIT = 2  # it fits once those that were told to go in this cycle are gone
    FIT = 3


def outcome_of(mode: Mode) -> Outcome:
    if mode is Mode.FIT:
        return Outcome.FIT
    return Outcome.NO_FIT if mode is Mode.NO_FIT else Outcome.PREEMPT


# How hard it is to get over a refusal: the pods or the flavors must change, the quota must, others must leave.
SEVERITY: Mapping[Code, int] = {
    Code.TOPOLOGY_PLACEMENT_FAILED: 1,
    Code.WAITING_FOR_NODES: 1,
    Code.WAITING_FOR_QUOTA: 2,
    Code.EXCEEDS_MAX_QUOTA: 3,
    Code.NO_MATCHING_FLAVOR: 4,
}


class Standing(NamedTuple):
    """How well something fits and how far up the tree it has to borrow."""

    mode: Mode
    level: int


WORST = Standing(Mode.NO_FIT, 0)
BEST = Standing(Mode.FIT, 0)


def is_preferred(one: Standing, other: Standing, rules: FlavorRules) -> bool:
    """Whether the first is strictly better under the queue's rules."""
    if one.mode <= Mode.NO_CANDIDATES or other.mode <= Mode.NO_CANDIDATES:
        if min(one.mode, Mode.PREEMPT) != min(other.mode, Mode.PREEMPT):
            return one.mode > other.mode
        return one.mode is not Mode.NO_FIT and one.level < other.level
    if rules.prefers_preempting:
        return (-one.level, one.mode) > (-other.level, other.mode)
    return (one.mode, -one.level) > (other.mode, -other.level)


class Attempt(NamedTuple):
    """One flavor that was looked at."""

    flavor: str
    standing: Standing
    refusal: Code | None = None  # the dominant code when it does not fit at all
    reasons: tuple[Reason, ...] = ()


class FlavorChoice(NamedTuple):
    """The flavor that one resource got."""

    flavor: str
    mode: Mode
    level: int
    tried_index: int  # the last flavor looked at, -1 when it was the last there is


@dataclass(slots=True, kw_only=True)
class PodSetChoice:
    """The flavors that one pod set got."""

    name: str
    count: int
    requests: Mapping[str, int]  # of all its pods
    flavors: Mapping[str, FlavorChoice]  # by resource
    attempts: tuple[Attempt, ...]
    reasons: tuple[Reason, ...]
    refusal: Code | None = None
    place: TopologyAssignment | None = None
    is_delayed: bool = False  # its place is decided when the checks are ready
    slots: tuple[Slot, ...] = ()  # one for each pod, where nodes are decided too
    outcome: Outcome = field(init=False)

    def __post_init__(self) -> None:
        if self.refusal is None and not self.reasons:
            self.outcome = Outcome.FIT
        elif not self.flavors:
            self.outcome = Outcome.NO_FIT
        else:
            self.outcome = min(outcome_of(choice.mode) for choice in self.flavors.values())

    def in_slots(self, slots: tuple[Slot, ...]) -> PodSetChoice:
        """The same with a slot for each pod; for the hot path, where `replace` takes too long."""
        return PodSetChoice(
            name=self.name,
            count=self.count,
            requests=self.requests,
            flavors=self.flavors,
            attempts=self.attempts,
            reasons=self.reasons,
            refusal=self.refusal,
            place=self.place,
            is_delayed=self.is_delayed,
            slots=slots,
        )


class Grant(NamedTuple):
    """What a workload is given that fits, and why."""

    admission: Admission
    reason: Reason
    considered: tuple[Reason, ...]  # flavors passed over on the way


@dataclass(slots=True, kw_only=True)
class Assignment:
    """The flavors that a workload got, or how far the search came. Many workloads of a kind may have the same one."""

    pod_sets: tuple[PodSetChoice, ...]
    usage: Mapping[FlavorResource, int]
    level: int  # how far up it borrows, over all resources
    is_deferred: bool = False
    outcome: Outcome = field(init=False)
    grant: Grant | None = field(default=None, init=False, repr=False, compare=False)  # once somebody was given it

    def __post_init__(self) -> None:
        found = min((pod_set.outcome for pod_set in self.pod_sets), default=Outcome.NO_FIT)
        self.outcome = Outcome.DEFERRED_FIT if self.is_deferred and found is Outcome.FIT else found

    @property
    def refusal(self) -> Code | None:
        """The refusal that is hardest to get over, of all pod sets."""
        codes = [pod_set.refusal for pod_set in self.pod_sets if pod_set.refusal is not None]
        return max(codes, key=SEVERITY.__getitem__, default=None)

    def contested(self) -> frozenset[FlavorResource]:
        """The resources for which somebody would have to leave."""
        return frozenset(
            (choice.flavor, resource)
            for pod_set in self.pod_sets
            for resource, choice in pod_set.flavors.items()
            if outcome_of(choice.mode) is Outcome.PREEMPT
        )

    def tried(self) -> tuple[Mapping[str, int], ...]:
        """Where the search of each pod set stopped."""
        return tuple(
            {resource: choice.tried_index for resource, choice in pod_set.flavors.items()} for pod_set in self.pod_sets
        )

    def admission(self, queue: str) -> Admission:
        """The assignment as what the workload is given."""
        return Admission(queue=queue, pod_sets=tuple(_given(pod_set) for pod_set in self.pod_sets))


def _given(pod_set: PodSetChoice) -> PodSetAdmission:
    return PodSetAdmission(
        name=pod_set.name,
        count=pod_set.count,
        flavors={resource: choice.flavor for resource, choice in pod_set.flavors.items()},
        # What no flavor pays for is not counted: the queue covers it not.
        usage={resource: amount for resource, amount in pod_set.requests.items() if resource in pod_set.flavors},
        place=pod_set.place,
        is_delayed=pod_set.is_delayed,
        slots=pod_set.slots,
    )
