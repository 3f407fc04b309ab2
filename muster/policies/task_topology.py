"""task-topology: pods of a group stand together or apart by the parts they play. Volcano's plugin of that name.

Annotations of a group name roles that like or avoid each other or themselves. Pods are packed into buckets that want
one node; whoever belongs to a bucket goes before the others, and likes nodes where its bucket is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from muster.engine.node_table_rows import FloatArray, IntArray
from muster.engine.policy import Hooks, Policy, argument
from muster.engine.session import Session
from muster.engine.standing import PodStanding, Standing
from muster.engine.vectors import MEMORY, Vector, add, is_within
from muster.model.groups import PodStatus
from muster.model.resources import CPU, PODS

AFFINITY = "volcano.sh/task-topology-affinity"
ANTI_AFFINITY = "volcano.sh/task-topology-anti-affinity"
ORDER = "volcano.sh/task-topology-task-order"
BEST = 100
MILLI, MIB = 1000, 2**20
# How much a role has to say: those that avoid their like first.
SELF_ANTI, INTER_AFFINITY, SELF_AFFINITY, INTER_ANTI = 4, 3, 2, 1


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Weight multiplies the score."""

    weight: int = argument(1, least=0, alias="task-topology.weight")


@dataclass
class _Wishes:
    """Which roles of a group like or avoid which."""

    near: set[frozenset[str]] = field(default_factory=set)
    away: set[frozenset[str]] = field(default_factory=set)
    order: dict[str, int] = field(default_factory=dict)

    def place(self, role: str) -> int:
        """Where the user has a role in order; those that are not named come last."""
        return self.order.get(role, len(self.order))

    def rank(self, role: str) -> int:
        """How much a role has to say."""
        alone = frozenset((role,))
        if alone in self.away:
            return SELF_ANTI
        if any(role in pair and len(pair) == 2 for pair in self.near):
            return INTER_AFFINITY
        if alone in self.near:
            return SELF_AFFINITY
        return INTER_ANTI if any(role in pair for pair in self.away) else 0


@dataclass
class _Bucket:
    """Pods that want one node."""

    index: int
    pods: list[PodStanding] = field(default_factory=list)
    roles: Counter[str] = field(default_factory=Counter)
    weight: float = 0.0  # of what they ask for together


def build(arguments: Arguments) -> Hooks:
    return Hooks(open=lambda session: _TaskTopology(session, arguments).hooks())


class _TaskTopology:
    """The buckets of one session."""

    def __init__(self, session: Session, arguments: Arguments) -> None:
        self.session = session
        self.arguments = arguments
        self.wishes: dict[str, _Wishes] = {}
        self.bucket_of: dict[str, _Bucket] = {}
        self.sizes: dict[str, int] = {}
        for group in session.groups.values():
            wishes = _wishes_of(group.group.annotations)
            if wishes is not None:
                self.wishes[group.key] = wishes
                self._fill(group, wishes)

    def hooks(self) -> Hooks:
        return Hooks(compare_pods=self.compare, score_pod=self.score) if self.wishes else Hooks()

    def _fill(self, group: Standing, wishes: _Wishes) -> None:
        """Put pods into buckets, those with most to say first."""

        def order(pod: PodStanding) -> tuple[object, ...]:
            has_place = pod.status is not PodStatus.PENDING
            return (not has_place, wishes.place(pod.role), -wishes.rank(pod.role), pod.key)

        buckets: list[_Bucket] = []
        on_node: dict[str, _Bucket] = {}  # those that have a place are together with whoever is there
        for pod in sorted((one for one in group.pods.values() if wishes.rank(one.role)), key=order):
            best = on_node.get(pod.node) if pod.node else _liked_most(wishes, buckets, pod.role)
            if best is None:
                best = _Bucket(len(buckets))
                buckets.append(best)
            if pod.node:
                on_node[pod.node] = best
            best.pods.append(pod)
            best.roles[pod.role] += 1
            best.weight += _weight(pod.requests)
            self.bucket_of[pod.key] = best
        self.sizes[group.key] = max((len(bucket.pods) for bucket in buckets), default=0)

    def compare(self, first: PodStanding, second: PodStanding) -> int:
        """Those in buckets before others, larger buckets first, then the earlier ones."""
        if first.owner is not second.owner:
            return 0
        one, two = self.bucket_of.get(first.key), self.bucket_of.get(second.key)
        if one is None or two is None:
            return (one is None) - (two is None)
        if one is not two:
            return len(two.pods) - len(one.pods) or one.index - two.index
        wishes = self.wishes[first.owner.key]
        by_order = wishes.place(first.role) - wishes.place(second.role)
        return by_order or wishes.rank(second.role) - wishes.rank(first.role)

    def score(self, pod: PodStanding, rows: IntArray) -> FloatArray | None:
        bucket = self.bucket_of.get(pod.key)
        if bucket is None:
            return None
        most = max(1, self.sizes[pod.owner.key])
        values = [self._score_on(pod, bucket, row) for row in rows.tolist()]
        return np.array(values) * (BEST * self.arguments.weight / most)

    def _score_on(self, pod: PodStanding, bucket: _Bucket, row: int) -> float:
        """Pods of the bucket that are here and that fit here, less those whom the pod avoids."""
        wishes = self.wishes[pod.owner.key]
        on_row = self.session.on_row.get(row, {})
        here = sum(one.key in on_row for one in bucket.pods)
        avoided = sum(
            frozenset((pod.role, one.role)) in wishes.away for one in on_row.values() if one.owner is pod.owner
        )
        return here - avoided + self._fitting(bucket, row)

    def _fitting(self, bucket: _Bucket, row: int) -> int:
        free = self.session.future_idle(row)
        count = 0
        for one in bucket.pods:
            if one.status is PodStatus.PENDING and is_within(one.requests, free):
                add(free, one.requests, -1)
                count += 1
        return count


def _liked_most(wishes: _Wishes, buckets: list[_Bucket], role: str) -> _Bucket | None:
    """The bucket with most that a role likes, the smaller request of equals; `None` where it avoids more in each."""
    found = [(-_worth(wishes, bucket, role), bucket.weight, bucket.index) for bucket in buckets]
    worth, _, index = min(found, default=(1, 0.0, 0))
    return buckets[index] if worth <= 0 else None


def _weight(requests: Vector) -> float:
    """What a pod asks for in one number: thousandths of cores, MiB of memory, thousandths of all else."""
    others = sum(amount * MILLI for name, amount in requests.items() if name not in (CPU, MEMORY, PODS))
    return requests.get(CPU, 0) + requests.get(MEMORY, 0) / MIB + others


def _worth(wishes: _Wishes, bucket: _Bucket, role: str) -> int:
    """Those in a bucket that a role likes, less those that it avoids."""
    worth = 0
    for other, count in bucket.roles.items():
        pair = frozenset((role, other))
        worth += count * ((pair in wishes.near) - (pair in wishes.away))
    return worth


def _wishes_of(annotations: Mapping[str, str]) -> _Wishes | None:
    """What a group's annotations say; `None` when nothing."""
    if not annotations.get(AFFINITY) and not annotations.get(ANTI_AFFINITY):
        return None
    order = [role.strip() for role in annotations.get(ORDER, "").split(",") if role.strip()]
    return _Wishes(
        near=set(_pairs(annotations.get(AFFINITY, ""))),
        away=set(_pairs(annotations.get(ANTI_AFFINITY, ""))),
        order={role: index for index, role in enumerate(order)},
    )


def _pairs(text: str) -> Iterable[frozenset[str]]:
    """Sets of roles such as "ps,worker;worker" as pairs; a single one is about its like."""
    for part in text[:10_000].split(";"):
        roles = [role.strip() for role in part.split(",") if role.strip()][:100]
        if len(roles) == 1:
            yield frozenset(roles)
        for index, one in enumerate(roles):
            for two in roles[index + 1 :]:
                yield frozenset((one, two))


POLICY = Policy(name="task-topology", arguments=Arguments, build=build)
