"""Why something was decided: codes with one sentence template each, used by events, status, commands and pages.

A `Reason` is a code and the values that its template names. A `Verdict` is what a workload that was not admitted
is told: one dominant reason, what it lacks and who holds it, and what would unblock it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from muster.model.resources import amount_text, is_unlimited


class Code(Enum):
    """Every reason that Muster gives. The first group are dominant codes of verdicts, with Kueue's names."""

    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    WAITING_FOR_PREEMPTED_WORKLOADS = "WaitingForPreemptedWorkloads"
    ADMISSION_GATED = "AdmissionGated"
    PREEMPTION_GATED = "PreemptionGated"
    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    PENDING_EVALUATION = "PendingEvaluation"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    WAITING_FOR_CHECKS = "WaitingForChecks"
    CHECK_FAILED = "CheckFailed"
    QUEUE_MISSING = "QueueMissing"
    QUEUE_INACTIVE = "QueueInactive"
    NAMESPACE_NOT_ADMITTED = "NamespaceNotAdmitted"
    BACKING_OFF = "BackingOff"
    LOST_TO_ANOTHER = "LostToAnother"
    BEHIND_ANOTHER = "BehindAnother"
    ALIKE_WAITS = "AlikeWaits"
    CYCLE_CUT_SHORT = "CycleCutShort"
    HELD_BACK = "HeldBack"
    WAITING_TO_REQUEUE = "WaitingToRequeue"
    BETTER_VARIANT_RUNS = "BetterVariantRuns"
    GAVE_UP_WAITING = "GaveUpWaiting"
    WAITING_FOR_NODES = "WaitingForNodes"
    LIMIT_REACHED = "LimitReached"

    # Why one flavor was passed over.
    FLAVOR_MISSING = "FlavorMissing"
    FLAVOR_NOT_ALLOWED = "FlavorNotAllowed"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    LABELS_DO_NOT_MATCH = "LabelsDoNotMatch"
    TOPOLOGY_UNSUPPORTED = "TopologyUnsupported"
    TOPOLOGY_NOT_ASKED = "TopologyNotAsked"
    FLAVOR_OF_OLDER_SLICE = "FlavorOfOlderSlice"
    RESOURCE_NOT_COVERED = "ResourceNotCovered"
    ABOVE_MAXIMUM = "AboveMaximum"
    SHORT_OF_QUOTA = "ShortOfQuota"
    NOBODY_TO_PREEMPT = "NobodyToPreempt"
    NO_PLACE = "NoPlace"
    NO_TOPOLOGY_FLAVOR = "NoTopologyFlavor"
    NO_NODES = "NoNodes"

    # What is wrong with a workload itself.
    REQUEST_ABOVE_LIMIT = "RequestAboveLimit"
    LIMIT_RANGE = "LimitRange"

    # Why a workload was admitted, evicted or finished.
    QUOTA_RESERVED = "QuotaReserved"
    PLACED = "Placed"
    PREEMPTED_IN_QUEUE = "InClusterQueue"
    RECLAIMED = "InCohortReclamation"
    RECLAIMED_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    RECLAIMED_FAIR_SHARE = "InCohortFairSharing"
    FLAVOR_MIGRATION = "FlavorMigration"
    SLICE_REPLACED = "WorkloadSliceReplaced"
    NODE_FAILURES = "NodeFailures"
    GANG_DEADLINE = "GangDeadline"
    SHRUNK = "Shrunk"


TEMPLATES: Mapping[Code, str] = {
    Code.NO_MATCHING_FLAVOR: "no flavor of queue {queue} suits the pods",
    Code.EXCEEDS_MAX_QUOTA: "it asks for more than queue {queue} could ever get, even with all it may borrow",
    Code.WAITING_FOR_QUOTA: "queue {queue} does not have enough free quota",
    Code.TOPOLOGY_PLACEMENT_FAILED: "the pods do not fit together where they must be",
    Code.WAITING_FOR_PREEMPTED_WORKLOADS: "it waits for the workloads that were preempted for it to leave: {victims}",
    Code.ADMISSION_GATED: "its admission is held back by {gates}",
    Code.PREEMPTION_GATED: "it needs to preempt, and its preemption is held back by {gates}",
    Code.MISCONFIGURED: "its pods could not run: {problem}",
    Code.SUSPENDED: "it is set inactive",
    Code.PENDING_EVALUATION: "it has not been looked at yet",
    Code.WAITING_FOR_PODS_READY: "it waits until the pods of the workloads admitted before are ready: {waiting_for}",
    Code.WAITING_FOR_CHECKS: "it holds quota in queue {queue} and waits for the checks {checks}",
    Code.CHECK_FAILED: "the checks {checks} said no",
    Code.QUEUE_MISSING: "the queue {queue} that it names does not exist",
    Code.QUEUE_INACTIVE: "queue {queue} takes no workloads: {problem}",
    Code.NAMESPACE_NOT_ADMITTED: "queue {queue} does not admit workloads of namespace {namespace}: {problem}",
    Code.BACKING_OFF: "it is held back for another {seconds} s after it was evicted",
    Code.LOST_TO_ANOTHER: "what was free in queue {queue} went to {winner} in the same cycle",
    Code.BEHIND_ANOTHER: "{ahead} is ahead of it in queue {queue}",
    Code.ALIKE_WAITS: "{like}, which asks for the same, could not start either",
    Code.CYCLE_CUT_SHORT: "the cycle ran out of its {steps} steps before its turn; it is tried again",
    Code.WAITING_TO_REQUEUE: "it was evicted and has not been let into the queue again",
    Code.HELD_BACK: "{contender} has preempted it {count} times and runs: it waits until that one leaves or changes",
    Code.GAVE_UP_WAITING: "{victims} did not leave for it within {seconds} s; it is tried again later",
    Code.WAITING_FOR_NODES: "its pods do not all fit on nodes",
    Code.LIMIT_REACHED: "{limit} may have {most} of {resource}: they have {used}, and it asks for {asked}",
    Code.BETTER_VARIANT_RUNS: "{variant} runs the same work in a better flavor",
    Code.FLAVOR_MISSING: "flavor {flavor} does not exist",
    Code.FLAVOR_NOT_ALLOWED: "flavor {flavor} is not among the flavors that the workload allows",
    Code.TAINT_NOT_TOLERATED: "the pods do not tolerate the taint {taint} of flavor {flavor}",
    Code.LABELS_DO_NOT_MATCH: "the pods' node selector or affinity does not match the labels of flavor {flavor}",
    Code.TOPOLOGY_UNSUPPORTED: "flavor {flavor} cannot place pods by topology as asked",
    Code.TOPOLOGY_NOT_ASKED: "flavor {flavor} takes only pods that ask for a topology",
    Code.FLAVOR_OF_OLDER_SLICE: "the older slice runs in another flavor than {flavor}",
    Code.RESOURCE_NOT_COVERED: "queue {queue} has no quota for {resource}",
    Code.ABOVE_MAXIMUM: "{asked} of {resource} asked for, {most} is the most queue {queue} could get in {flavor}",
    Code.SHORT_OF_QUOTA: "{asked} of {resource} asked for, {free} free in {flavor}, {short} short",
    Code.NOBODY_TO_PREEMPT: "nobody may be preempted for {resource} in {flavor}",
    Code.NO_PLACE: "pod set {pod_set} finds no place in {flavor}: {problem}",
    Code.NO_NODES: "pod set {pod_set} finds no nodes in flavor {flavor}: {problem}",
    Code.NO_TOPOLOGY_FLAVOR: "pod set {pod_set} asks for a topology and got {problem}",
    Code.REQUEST_ABOVE_LIMIT: "{path} requests more than its limit of {resources}",
    Code.LIMIT_RANGE: "{path} breaks a LimitRange of its namespace: {problem}",
    Code.PLACED: "there is room for all its pods, and no queue counts them",
    Code.QUOTA_RESERVED: "queue {queue} has the quota in {flavors}",
    Code.PREEMPTED_IN_QUEUE: "{preemptor} goes before it in queue {queue}",
    Code.RECLAIMED: "{preemptor} takes back what queue {queue} had lent",
    Code.RECLAIMED_WHILE_BORROWING: "{preemptor} of higher priority may borrow in place of it for queue {queue}",
    Code.RECLAIMED_FAIR_SHARE: "{preemptor} is below its fair share in queue {queue}",
    Code.FLAVOR_MIGRATION: "{preemptor} runs it in a better flavor",
    Code.SLICE_REPLACED: "{preemptor} takes over from it",
    Code.NODE_FAILURES: "node {node} failed and its pods find no other place: {problem}",
    Code.GANG_DEADLINE: "{bound} of {count} pods were bound within {seconds} s: all give their places back",
    Code.SHRUNK: "{preemptor} takes the places of {count} pods above the minimum",
}


class Amount(NamedTuple):
    """An amount to be shown as Kubernetes writes it; written out only where somebody reads it."""

    resource: str
    amount: int

    def __str__(self) -> str:
        return amount_text(self.resource, self.amount)

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class Reason(NamedTuple):
    """A code and the values that its template names."""

    code: Code
    values: tuple[tuple[str, object], ...] = ()

    @property
    def text(self) -> str:
        return TEMPLATES[self.code].format_map(_Known(self.values))

    def value(self, name: str) -> str:
        return str(dict(self.values).get(name, ""))


class _Known(dict[str, object]):
    """Values for a template; one that was not given is shown as a dash, so that a sentence always comes out."""

    def __missing__(self, key: str) -> str:
        return "-"


def because(code: Code, **values: object) -> Reason:
    """A reason with the values that its template names."""
    return Reason(code, tuple(values.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """One resource in one flavor that a workload lacks."""

    flavor: str
    resource: str
    asked: int
    free: int
    most: int  # what the queue could ever get
    holders: tuple[str, ...] = ()  # the workloads that hold it, largest first

    @property
    def short(self) -> int:
        return max(0, self.asked - self.free)

    @property
    def text(self) -> str:
        """The shortage in words."""
        asked, free = amount_text(self.resource, self.asked), amount_text(self.resource, self.free)
        sentence = f"{self.resource} in {self.flavor}: asks for {asked}, {free} free"
        if self.asked > self.most and not is_unlimited(self.most):
            return f"{sentence}, {amount_text(self.resource, self.most)} at the very most"
        held = f", held by {shortened(self.holders)}" if self.holders else ""
        return f"{sentence}, {amount_text(self.resource, self.short)} short{held}"


HOLDERS_SHOWN = 5


def shortened(names: tuple[str, ...], most: int = HOLDERS_SHOWN) -> str:
    """The first names of a list, and how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a workload that was not admitted is told."""

    workload: str
    queue: str
    reason: Reason
    details: tuple[Reason, ...] = ()  # why each flavor was passed over
    shortages: tuple[Shortage, ...] = ()
    unblocked_by: tuple[str, ...] = ()  # what would help, in words

    @property
    def code(self) -> Code:
        return self.reason.code

    @property
    def text(self) -> str:
        """The verdict in one line."""
        parts = [self.reason.text, *(shortage.text for shortage in self.shortages)]
        return "; ".join(parts)

    @property
    def told(self) -> str:
        """The verdict as its object tells it: where nodes are lacking, with what keeps each pod set from them."""
        details = self.details if self.code is Code.WAITING_FOR_NODES else ()
        return "; ".join(dict.fromkeys((self.text, *(reason.text for reason in details))))
