"""How pods, their groups and queues stand in the middle of a session: counts that follow every change.

Changed by `muster/engine/session.py` alone, which can undo each change; policies and stages only look.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from muster.engine.node_table_rows import Demand, OnCards
from muster.engine.vectors import Vector, add
from muster.model.groups import (
    HOLDING,
    FairQueue,
    Group,
    GroupPhase,
    GroupPod,
    NearWish,
    PodStatus,
    SubGroupRule,
)

READY = HOLDING | {PodStatus.SUCCEEDED}
VALID = READY | {PodStatus.PIPELINED, PodStatus.PENDING}
_COUNTED_AS_HELD = HOLDING | {PodStatus.PIPELINED}
_UNKNOWN = Demand()  # until a session has worked out what a pod asks for


class PodStanding:
    """One pod, whose it is and where it is."""

    __slots__ = ("demand", "held", "is_best_effort", "key", "node", "owner", "pod", "row", "status", "sub")

    def __init__(self, pod: GroupPod, owner: Standing, sub: SubStanding) -> None:
        self.pod = pod
        self.key = pod.key
        self.owner = owner
        self.sub = sub
        self.status = pod.status
        self.node = pod.node
        self.is_best_effort = pod.is_best_effort
        self.row = -1  # of its node; below zero: none that is known
        self.held: OnCards = ()
        self.demand = _UNKNOWN

    @property
    def priority(self) -> int:
        """Of the pod itself."""
        return self.pod.priority

    @property
    def role(self) -> str:
        return self.pod.role

    @property
    def requests(self) -> Vector:
        """What it takes, as queues count it."""
        return self.pod.requests


class _Counts:
    """How many pods stand how."""

    __slots__ = ("by_status", "changes", "idle_best_effort", "ready")

    def __init__(self) -> None:
        self.by_status: Counter[PodStatus] = Counter()
        self.ready = 0  # pods that have a place of their own, finished ones included
        self.changes = 0  # grows with every change, for those who remember what they worked out
        self.idle_best_effort = 0  # pods that wait and ask for nothing: there is always room for them

    def shift(self, pod: PodStanding, step: int) -> None:
        """Count so many pods like this one, or out of it."""
        self.by_status[pod.status] += step
        self.changes += 1
        if pod.status in READY:
            self.ready += step
        if pod.is_best_effort and pod.status is PodStatus.PENDING:
            self.idle_best_effort += step

    def of(self, statuses: frozenset[PodStatus]) -> int:
        return sum(self.by_status[status] for status in statuses)

    @property
    def promised(self) -> int:
        """Pods that get a place when others have left it."""
        return self.by_status[PodStatus.PIPELINED]


class SubStanding(_Counts):
    """The pods of a group that belong together, or all of them where nothing divides them."""

    __slots__ = ("domain", "key", "near", "nominated", "owner", "pods", "rule", "values")

    def __init__(self, key: str, owner: Standing, rule: SubGroupRule | None, values: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.key = key
        self.owner = owner
        self.rule = rule
        self.values = values  # of the labels that they agree in
        self.near: NearWish | None = rule.near if rule is not None else None
        self.domain = ""  # where its pods stand
        self.nominated = ""  # the domain where others were told to go for it
        self.pods: dict[str, PodStanding] = {}

    @property
    def size(self) -> int:
        """So many pods make it ready."""
        return self.rule.size if self.rule is not None else self.owner.count_least


class Standing(_Counts):
    """A group as it stands."""

    __slots__ = ("allocated", "by_role", "domain", "group", "key", "near", "nominated", "phase", "pods", "subs")

    def __init__(self, group: Group) -> None:
        super().__init__()
        self.group = group
        self.key = group.key
        self.phase: GroupPhase = group.phase
        self.near: NearWish | None = group.near
        self.domain = group.domain
        self.nominated = ""
        self.pods: dict[str, PodStanding] = {}
        self.subs: dict[str, SubStanding] = {}
        self.by_role: dict[str, _Counts] = {}
        self.allocated: dict[str, float] = {}  # what its pods hold or will hold

    @property
    def priority(self) -> int:
        return self.group.priority

    @property
    def queue(self) -> str:
        return self.group.queue

    @property
    def count(self) -> int:
        """All its pods."""
        return len(self.pods)

    @property
    def count_least(self) -> int:
        """How many of its pods must run together."""
        return self.group.minimum

    @property
    def has_subs(self) -> bool:
        """Whether its pods are divided."""
        return bool(self.group.sub_groups)

    def pending(self) -> list[PodStanding]:
        """Pods that have no place and may have one."""
        return [pod for pod in self.pods.values() if pod.status is PodStatus.PENDING and not pod.pod.is_gated]

    def count_role(self, role: str, statuses: frozenset[PodStatus]) -> int:
        counts = self.by_role.get(role)
        return 0 if counts is None else counts.of(statuses)

    def role_best_effort(self, role: str) -> int:
        counts = self.by_role.get(role)
        return 0 if counts is None else counts.idle_best_effort


@dataclass(slots=True)
class QueueStanding:
    """A queue as it stands."""

    queue: FairQueue
    allocated: dict[str, float] = field(default_factory=dict)  # what pods of its groups hold or will hold
    groups: list[Standing] = field(default_factory=list)
    changes: int = 0  # of what is allocated
    totals: list[dict[str, float]] = field(default_factory=list)  # sums over several queues that it counts in

    @property
    def name(self) -> str:
        return self.queue.name


def count_pod(pod: PodStanding, queue: QueueStanding | None, step: int) -> None:
    """Count a pod in its group, sub group, role and queue, or out of them."""
    count_pods((pod,), queue, step)


def count_pods(pods: Sequence[PodStanding], queue: QueueStanding | None, sign: int) -> None:
    """The same for pods of one group, role and request that stand alike."""
    pod, step = pods[0], sign * len(pods)
    owner = pod.owner
    owner.shift(pod, step)
    pod.sub.shift(pod, step)
    role = owner.by_role.get(pod.role)
    if role is None:
        role = owner.by_role[pod.role] = _Counts()
    role.shift(pod, step)
    if pod.status in _COUNTED_AS_HELD:
        add(owner.allocated, pod.pod.requests, step)
        if queue is not None:
            add(queue.allocated, pod.pod.requests, step)
            queue.changes += 1
            for total in queue.totals:
                add(total, pod.pod.requests, step)
