"""numa-aware: pods with cores of their own go where these lie in few NUMA nodes. Volcano's plugin of that name.

Nodes tell how many cores each of their NUMA nodes has free, and by which policy their kubelet hands them out. Pods ask
by an annotation for best effort, for as few as their cores can be had from, or for a single one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.engine.node_table_rows import BoolArray, FloatArray, IntArray
from muster.engine.policy import Hooks, Policy, argument
from muster.engine.session import Session
from muster.engine.standing import PodStanding
from muster.model.groups import HOLDING, NumaNode, PodStatus
from muster.model.resources import CPU

ANNOTATION = "volcano.sh/numa-topology-policy"
NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
BEST = 100
MILLI = 1000
_NEW = frozenset((PodStatus.ALLOCATED, PodStatus.BINDING, PodStatus.PIPELINED))


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Weight multiplies the score."""

    weight: int = argument(1, least=0)


def build(arguments: Arguments) -> Hooks:
    def opened(session: Session) -> Hooks:
        if not session.snapshot.numa:
            return Hooks()
        numa = _Numa(session, arguments.weight)
        return Hooks(fit_pod=numa.fit, score_pod=numa.score)

    return Hooks(open=opened)


class _Numa:
    """The cores of one session."""

    def __init__(self, session: Session, weight: int) -> None:
        self.session = session
        self.weight = weight
        table = session.placer.table
        self.by_row = {
            table.row_of(name): one for name, one in session.snapshot.numa.items() if name in session.snapshot.nodes
        }

    def fit(self, pod: PodStanding) -> BoolArray | None:
        policy, cores = _wish_of(pod)
        if not policy:
            return None
        allowed = np.zeros(self.session.rows, np.bool_)
        for row, numa in self.by_row.items():
            allowed[row] = numa.is_static and numa.policy == policy and self._suits(row, numa, policy, cores)
        return allowed

    def _suits(self, row: int, numa: NumaNode, policy: str, cores: int) -> bool:
        needed = _fewest(self._free(row, numa), cores)
        if policy == SINGLE:
            return needed == 1
        if policy == RESTRICTED:
            return needed is not None and needed <= (_fewest(list(numa.capacity), cores) or 0)
        return True

    def score(self, pod: PodStanding, rows: IntArray) -> FloatArray | None:
        policy, cores = _wish_of(pod)
        if not policy:
            return None
        found = [self._needed(row, cores) for row in rows.tolist()]
        most = max((one for one in found if one is not None), default=0)
        # Fewer NUMA nodes score more; the scale is that of the candidates.
        values = [0.0 if one is None else BEST * (1 - one / most) if most > 1 else float(BEST) for one in found]
        return np.array(values) * self.weight

    def _needed(self, row: int, cores: int) -> int | None:
        numa = self.by_row.get(row)
        return _fewest(self._free(row, numa), cores) if numa is not None else None

    def _free(self, row: int, numa: NumaNode) -> list[int]:
        """Free cores by NUMA node, less those of pods placed in this session, each from as few as can be."""
        free = list(numa.free)
        for pod in self.session.on_row.get(row, {}).values():
            if pod.status in _NEW and pod.status in HOLDING | {PodStatus.PIPELINED}:
                _take(free, _wish_of(pod)[1])
        return free


def _wish_of(pod: PodStanding) -> tuple[str, int]:
    """The policy that a pod asks for and how many whole cores; no policy for those that get no cores of their own."""
    policy = pod.pod.annotations.get(ANNOTATION, "")
    asked, limit = pod.pod.requests.get(CPU, 0), pod.pod.limits.get(CPU, 0)
    is_guaranteed = asked > 0 and asked == limit and asked % MILLI == 0
    return (policy if policy not in ("", NONE) and is_guaranteed else ""), asked // MILLI


def _fewest(free: Sequence[int], cores: int) -> int | None:
    """From how few NUMA nodes so many cores can be had; `None` when from none."""
    left = cores
    for count, have in enumerate(sorted(free, reverse=True), 1):
        left -= have
        if left <= 0:
            return count
    return None


def _take(free: list[int], cores: int) -> None:
    """Take cores: from the tightest NUMA node that has them all, else from the freest ones."""
    enough = [index for index, have in enumerate(free) if have >= cores]
    if enough:
        free[min(enough, key=lambda index: free[index])] -= cores
        return
    for index in sorted(range(len(free)), key=lambda index: -free[index]):
        part = min(free[index], cores)
        free[index] -= part
        cores -= part


POLICY = Policy(name="numa-aware", arguments=Arguments, build=build)
