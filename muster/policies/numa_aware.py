"""numa-aware: pods with cores of their own go where these lie in few NUMA nodes. Volcano's plugin of that name.

Nodes tell how many cores each of their NUMA nodes has free, and by which policy their kubelet hands them out. Pods ask
by an annotation for best effort, for as few as their cores can be had from, or for a single one; as with the kubelet,
each container is served by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.engine.node_table_rows import BoolArray, FloatArray, IntArray
from muster.engine.policy import Hooks, Policy, argument
from muster.engine.session import Session
from muster.engine.standing import PodStanding
from muster.model.groups import NumaNode, PodStatus

ANNOTATION = "volcano.sh/numa-topology-policy"
NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
BEST = 100
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
        policy = _policy_of(pod)
        if not policy:
            return None
        allowed = np.zeros(self.session.rows, np.bool_)
        for row, numa in self.by_row.items():
            if numa.is_static and numa.policy == policy:
                allowed[row] = _seated(self._free(row, numa), numa, pod) is not None
        return allowed

    def score(self, pod: PodStanding, rows: IntArray) -> FloatArray | None:
        if not _policy_of(pod):
            return None
        found = [self._needed(row, pod) for row in rows.tolist()]
        most = max((one for one in found if one is not None), default=0)
        # Fewer NUMA nodes score more; the scale is that of the candidates.
        values = [0.0 if one is None else BEST * (1 - one / most) if most > 1 else float(BEST) for one in found]
        return np.array(values) * self.weight

    def _needed(self, row: int, pod: PodStanding) -> int | None:
        """How many NUMA nodes a pod's cores would lie in."""
        numa = self.by_row.get(row)
        seated = _seated(self._free(row, numa), numa, pod) if numa is not None else None
        return len(seated) if seated is not None else None

    def _free(self, row: int, numa: NumaNode) -> list[int]:
        """Free cores by NUMA node, less those of pods placed in this session."""
        free = list(numa.free)
        for pod in self.session.on_row.get(row, {}).values():
            if pod.status in _NEW:
                for cores in pod.pod.cores_alone:
                    _take(free, cores)
        return free


def _policy_of(pod: PodStanding) -> str:
    """The policy that a pod asks for; none for those that get no cores of their own."""
    policy = pod.pod.annotations.get(ANNOTATION, "")
    return policy if policy not in ("", NONE) and pod.pod.cores_alone else ""


def _seated(free: list[int], numa: NumaNode, pod: PodStanding) -> set[int] | None:
    """The NUMA nodes that the containers of a pod get cores of, one after the other; `None`: not by its policy."""
    policy, used = _policy_of(pod), set[int]()
    for cores in pod.pod.cores_alone:
        needed = _fewest(free, cores)
        if policy == SINGLE and needed != 1:
            return None
        if policy == RESTRICTED and (needed is None or needed > (_fewest(numa.capacity, cores) or 0)):
            return None
        used |= _take(free, cores)
    return used


def _fewest(free: Sequence[int], cores: int) -> int | None:
    """From how few NUMA nodes so many cores can be had; `None` when from none."""
    left = cores
    for count, have in enumerate(sorted(free, reverse=True), 1):
        left -= have
        if left <= 0:
            return count
    return None


def _take(free: list[int], cores: int) -> set[int]:
    """Take cores: from the tightest NUMA node that has them all, else from the freest ones; which they are of."""
    enough = [index for index, have in enumerate(free) if have >= cores]
    if enough:
        tightest = min(enough, key=lambda index: free[index])
        free[tightest] -= cores
        return {tightest}
    taken = set()
    for index in sorted(range(len(free)), key=lambda index: -free[index]):
        part = min(free[index], cores)
        free[index] -= part
        cores -= part
        if part:
            taken.add(index)
    return taken


POLICY = Policy(name="numa-aware", arguments=Arguments, build=build)
