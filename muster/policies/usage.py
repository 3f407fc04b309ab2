"""usage: pods keep away from nodes that are really busy, whatever was asked for there. Volcano's plugin of that name.

What a node used of late comes with the snapshot: cpu, memory, and of its cards their work, memory, heat and power. What
is older than five minutes does not count. Pods that came since are reckoned by what they ask for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from muster.engine.node_table_rows import BoolArray, FloatArray, IntArray
from muster.engine.policy import Hooks, Policy, argument
from muster.engine.session import Session
from muster.engine.standing import PodStanding
from muster.engine.vectors import MEMORY
from muster.model.groups import MeasuredUse, PodStatus
from muster.model.resources import CPU

FRESH_S = 300.0
THRESHOLD = 80.0
BEST = 100
# Volcano: how much of its request a pod uses, more on nodes that are busy, and what one uses that asks for nothing.
USED_PART, BUSY_FROM, BUSY_FACTOR = 0.7, 0.6, 1.2
IDLE_CPU_MILLI, IDLE_MEMORY = 250.0, 200.0 * 2**20
_UNSEEN = frozenset((PodStatus.ALLOCATED, PodStatus.BINDING, PodStatus.BOUND, PodStatus.PIPELINED))
_MEASURES = {
    "cpu": "cpu_percent",
    "mem": "memory_percent",
    "gpu": "gpu_percent",
    "gpu-memory": "gpu_memory_percent",
    "gpu-temperature": "gpu_celsius",
    "gpu-power": "gpu_watts",
}


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """How much it counts, the parts of cpu, memory and cards in it, and above which use a node is shut."""

    weight: int = argument(5, least=0, alias="usage.weight")
    cpu: int = argument(1, least=0, alias="cpu.weight")
    memory: int = argument(1, least=0, alias="memory.weight")
    gpu: int = argument(0, least=0, alias="gpu.weight")
    thresholds: Mapping[str, float] = field(default_factory=lambda: {"cpu": THRESHOLD, "mem": THRESHOLD})

    def __post_init__(self) -> None:
        unknown = sorted(set(self.thresholds) - set(_MEASURES))
        if unknown:
            raise ValueError(f"there is no threshold for {unknown[0][:40]!r}: give {', '.join(_MEASURES)}")


def build(arguments: Arguments) -> Hooks:
    return Hooks(open=lambda session: _Usage(session, arguments).hooks())


class _Usage:
    """What the nodes of one session use."""

    def __init__(self, session: Session, arguments: Arguments) -> None:
        self.session = session
        self.arguments = arguments
        self.measured = {
            session.placer.table.row_of(name): one
            for name, one in session.snapshot.measured.items()
            if name in session.snapshot.nodes and self._is_fresh(one)
        }

    def _is_fresh(self, measured: MeasuredUse) -> bool:
        return measured.measured_at is None or self.session.now - measured.measured_at < FRESH_S

    def hooks(self) -> Hooks:
        return Hooks(fit_pod=self.fit, score_pod=self.score)

    def fit(self, _pod: PodStanding) -> BoolArray | None:
        if not self.measured:
            return None
        allowed = np.ones(self.session.rows, np.bool_)
        for row, measured in self.measured.items():
            for name, most in self.arguments.thresholds.items():
                if getattr(measured, _MEASURES[name]) > most:
                    allowed[row] = False
        return allowed

    def score(self, _pod: PodStanding, rows: IntArray) -> FloatArray | None:
        if not self.measured:
            return None
        return np.array([self._score_of(row) for row in rows.tolist()])

    def _score_of(self, row: int) -> float:
        measured = self.measured.get(row)
        if measured is None:
            return 0.0
        table, arguments = self.session.placer.table, self.arguments
        cpu, memory = measured.cpu_percent / 100, measured.memory_percent / 100
        more_cpu, more_memory = self._unseen(row, cpu, memory)
        names = {name: column for column, name in enumerate(table.resources)}
        cpu += more_cpu / max(1, int(table.total[names[CPU], row])) if CPU in names else 0.0
        memory += more_memory / max(1, int(table.total[names[MEMORY], row])) if MEMORY in names else 0.0
        parts = ((arguments.cpu, cpu), (arguments.memory, memory), (arguments.gpu, measured.gpu_percent / 100))
        weights = sum(weight for weight, _ in parts)
        if not weights:
            return 0.0
        return BEST * arguments.weight * sum(weight * max(0.0, 1 - use) for weight, use in parts) / weights

    def _unseen(self, row: int, cpu: float, memory: float) -> tuple[float, float]:
        """What pods use that came after it was measured."""
        more_cpu = more_memory = 0.0
        for pod in self.session.on_row.get(row, {}).values():
            if pod.status not in _UNSEEN:
                continue
            more_cpu += USED_PART * pod.requests.get(CPU, 0) or IDLE_CPU_MILLI
            more_memory += USED_PART * pod.requests.get(MEMORY, 0) or IDLE_MEMORY
        return (
            more_cpu * (BUSY_FACTOR if cpu >= BUSY_FROM else 1.0),
            more_memory * (BUSY_FACTOR if memory >= BUSY_FROM else 1.0),
        )


POLICY = Policy(name="usage", arguments=Arguments, build=build)
