"""Pod groups and the queues that share a cluster between them: what a session decides on. All of it is frozen.

Read by a dialect whose objects are queues with weights, groups of pods and nodes by network distance; decided on by
`muster/engine/session.py`. Amounts are as in `muster/model/resources.py`; every pod holds one of `pods`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from muster.model.labels import Selector
from muster.model.pod_rules import ANYWHERE, PodRules
from muster.model.slices import CardRequests, Slices
from muster.model.topology import Node

Amounts = Mapping[str, int]  # by resource


class PodStatus(Enum):
    """Where a pod of a group stands."""

    PENDING = "Pending"
    ALLOCATED = "Allocated"  # has a place, and waits for the rest of its minimum
    PIPELINED = "Pipelined"  # has a place that others have yet to leave
    BINDING = "Binding"
    BOUND = "Bound"
    RUNNING = "Running"
    RELEASING = "Releasing"  # told to go
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    __hash__ = object.__hash__  # there is one of each, and sessions count pods by it


HOLDING = frozenset((PodStatus.ALLOCATED, PodStatus.BINDING, PodStatus.BOUND, PodStatus.RUNNING))
ENDED = frozenset((PodStatus.SUCCEEDED, PodStatus.FAILED))


class GroupPhase(Enum):
    """How far a group has come."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"  # taken up: its pods may be made and placed
    RUNNING = "Running"
    UNKNOWN = "Unknown"  # some run and others cannot be placed
    COMPLETED = "Completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPod:
    """One pod and the group that it belongs to."""

    key: str  # namespace/name
    uid: str
    group: str  # namespace/name of its group
    status: PodStatus
    role: str = ""  # which part it plays in its group
    node: str = ""
    requests: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)
    cores_alone: tuple[int, ...] = ()  # by container: whole cores that it gets for itself
    rules: PodRules = ANYWHERE
    cards: CardRequests | None = None
    slices: Slices | None = None  # that it holds already
    priority: int = 1
    created_at: float = 0.0
    is_preemptable: bool = True
    may_preempt: bool = True
    is_gated: bool = False
    is_critical: bool = False  # belongs to the cluster itself: nobody's victim
    nominated_node: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    waits_for_volumes: bool = False  # it is bound only once its claims are
    claims: tuple[str, ...] = ()  # of devices, by name
    scheduled_at: float | None = None

    @property
    def is_best_effort(self) -> bool:
        """Whether it asks for nothing that is counted."""
        return not any(amount for name, amount in self.requests.items() if name != "pods")


@dataclass(frozen=True, slots=True, kw_only=True)
class NearWish:
    """How near to each other pods go: in one domain of this tier or a lower one."""

    is_hard: bool  # else it is only preferred
    tier: int | None = None  # None: by name, or wherever
    tier_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubGroupRule:
    """Pods of a group that belong together: those that agree in labels."""

    name: str
    label_keys: tuple[str, ...] = ()  # pods with the same values of these are one sub group; none: takes no pods
    selector: Selector | None = None  # None: all pods
    size: int = 0  # so many pods make one sub group ready
    least: int = 0  # so many sub groups have to be ready
    near: NearWish | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Pods that start together."""

    key: str  # namespace/name
    queue: str
    namespace: str
    priority: int = 0
    created_at: float = 0.0
    minimum: int = 0  # pods that have to run together
    minimum_by_role: Mapping[str, int] = field(default_factory=dict)
    resources_least: Amounts | None = None  # what it needs at least, to be taken up; None: nothing is asked
    sub_groups: tuple[SubGroupRule, ...] = ()
    near: NearWish | None = None
    domain: str = ""  # where its pods stand already, as it was recorded
    phase: GroupPhase = GroupPhase.PENDING
    is_preemptable: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupWish:
    """Which named groups of nodes a queue is kept to, kept from, or sent to rather."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    disliked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FairQueue:
    """A queue and its part of the cluster."""

    name: str
    created_at: float = 0.0
    weight: int = 1
    priority: int = 0
    parent: str = ""
    capability: Amounts | None = None  # never more than this; None: all there is
    guarantee: Amounts = field(default_factory=dict)  # kept for it whether it is used or not
    deserved: Amounts = field(default_factory=dict)  # its own share; beyond it others may take back
    is_open: bool = True
    is_reclaimable: bool = True
    node_groups: NodeGroupWish | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDomain:
    """Nodes, or domains, that are near to each other; the lower the tier, the nearer."""

    name: str
    tier: int
    tier_name: str = ""
    domains: tuple[str, ...] = ()  # that are members of it
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceQuota:
    """What all pods of a namespace may use together."""

    key: str  # namespace/name
    namespace: str
    hard: Amounts
    used: Amounts = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """Pods of a namespace of which only so many may be told to go."""

    key: str
    namespace: str
    selector: Selector | None
    allowed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredUse:
    """What a node really used of late, in per cent of what it has."""

    cpu_percent: float = 0.0
    memory_percent: float = 0.0
    measured_at: float | None = None  # None: just now
    gpu_percent: float = 0.0
    gpu_memory_percent: float = 0.0
    gpu_celsius: float = 0.0
    gpu_watts: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """The cores of a node by NUMA node, and how its kubelet hands them out."""

    capacity: tuple[int, ...]
    free: tuple[int, ...]
    policy: str = ""  # of its topology manager
    is_static: bool = False  # its cpu manager gives pods cores of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """The part of the nodes that this scheduler looks at first, or alone."""

    nodes: frozenset[str] = frozenset()
    is_hard: bool = False  # else other nodes are taken where these do not do


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """Everything that a session looks at."""

    now: float
    nodes: Mapping[str, Node]
    queues: Mapping[str, FairQueue]
    groups: Mapping[str, Group]
    pods: Mapping[str, GroupPod]
    domains: Mapping[str, NetworkDomain] = field(default_factory=dict)
    quotas: tuple[NamespaceQuota, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    measured: Mapping[str, MeasuredUse] = field(default_factory=dict)  # by node
    numa: Mapping[str, NumaNode] = field(default_factory=dict)  # by node
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # their labels
    sharding: Sharding | None = None
