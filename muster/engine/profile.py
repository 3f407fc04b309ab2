"""Profiles: how a family of workloads is decided. Chosen by name in the configuration, obeyed by the stages.

A profile names its policies; `muster/app/policies.py` finds them, checks their arguments and builds them. Nothing here
loads a policy, so that a command that places nothing does not wait for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any

# What a policy may answer, as `muster/engine/policy.py` has it.
HOOK_NAMES = (
    "shares",
    "compare_queues",
    "compare_workloads",
    "compare_pods",
    "overused",
    "allocatable",
    "starving",
    "enqueueable",
    "fit",
    "score",
    "prefer",
    "preempt",
    "reclaim",
    "evict",
    "valid",
    "ready",
    "promised",
    "sub_ready",
    "sub_promised",
    "compare_subs",
    "compare_victim_queues",
    "preemptive",
    "enqueued",
    "keep",
    "fit_pod",
    "score_pod",
    "wanted",
    "gradient",
    "score_domains",
    "moved",
    "close",
    "foresee",
)


class Depth(IntEnum):
    """How far a decision goes; each step refines the one before."""

    QUOTA = 1  # which flavor pays
    DOMAIN = 2  # which rack, for those that ask for one
    NODE = 3
    DEVICE = 4  # which share of which card


class Stage(Enum):
    """A step of a cycle."""

    RESERVE = "reserve"  # quota for waiting workloads, best first
    PLACE = "place"  # nodes and cards for gangs, all or nothing, and growth beyond their minimum
    PREEMPT = "preempt"  # places at the cost of others
    BACKFILL = "backfill"  # what is left, for those that delay nobody


class Batch(Enum):
    """What one cycle takes up."""

    HEADS = "heads"  # the first in line of every queue
    ALL = "all"  # everybody in line, in order
    PODS = "pods"  # every pod by itself, whatever it belongs to


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyUse:
    """A policy by name, with its arguments as they are written, and the hooks that are not asked."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    off: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Tier:
    """Policies that are asked together, in order."""

    policies: tuple[PolicyUse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How a family of workloads is decided: how deep, in which steps, by whose opinions."""

    name: str
    depth: Depth
    stages: tuple[Stage, ...]
    batch: Batch
    tiers: tuple[Tier, ...] = ()

    def __post_init__(self) -> None:
        assert len(set(self.stages)) == len(self.stages), f"profile {self.name} has a stage twice"
        assert self.needs_place == (Stage.PLACE in self.stages), f"profile {self.name} places without going to nodes"

    @property
    def needs_place(self) -> bool:
        """Whether a workload is admitted only where its pods have nodes to go to."""
        return self.depth >= Depth.NODE

    @property
    def places_workloads(self) -> bool:
        """Whether all pods of a workload get their nodes together, when it is admitted."""
        return self.needs_place and self.batch is Batch.HEADS


def tier(*uses: PolicyUse | str) -> Tier:
    """A tier of policies; one that is only named has its default arguments."""
    return Tier(tuple(PolicyUse(name=use) if isinstance(use, str) else use for use in uses))


DEFAULT = Profile(
    name="muster",
    depth=Depth.DEVICE,
    stages=(Stage.RESERVE, Stage.PLACE, Stage.PREEMPT, Stage.BACKFILL),
    batch=Batch.HEADS,
    # Whole gangs may leave for others, so it is the stages that keep them from being broken.
    tiers=(
        tier("priority", PolicyUse(name="gang", off=frozenset(("preempt", "reclaim")))),
        # What pods prefer counts beside how cards are kept together; how full a node is does not.
        tier("fgd", PolicyUse(name="nodeorder", arguments={"least_requested": 0, "balanced": 0})),
    ),
)
# Kueue: admission is about quota, and about a rack where a workload asks for one; others place the pods.
QUOTA_ONLY = Profile(name="kueue", depth=Depth.DOMAIN, stages=(Stage.RESERVE,), batch=Batch.HEADS)
# kube-scheduler: the pod of highest priority goes first, by itself, to the node that has most left and is liked best.
POD_BY_POD = Profile(
    name="kube-default",
    depth=Depth.NODE,
    stages=(Stage.PLACE, Stage.PREEMPT),
    batch=Batch.PODS,
    tiers=(tier("priority"), tier("nodeorder")),
)
PROFILES: Mapping[str, Profile] = MappingProxyType({one.name: one for one in (DEFAULT, QUOTA_ONLY, POD_BY_POD)})
