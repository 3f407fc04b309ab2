"""rescheduling: pods leave nodes that are far busier than others, so that they start again elsewhere. Volcano's plugin.

Nodes whose measured use is below all thresholds are idle, those above any target are busy. Pods leave the busiest
nodes, the least important first, until the node is below its target or the idle ones could take no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.engine.policy import Hooks, Policy
from muster.engine.session import Session
from muster.engine.standing import PodStanding
from muster.engine.vectors import MEMORY
from muster.model.groups import MeasuredUse
from muster.model.resources import CPU

STRATEGY = "lowNodeUtilization"
LOW, TARGET = {"cpu": 20.0, "memory": 20.0}, {"cpu": 50.0, "memory": 50.0}


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The strategies with their thresholds; how often is the caller's to say, by how often it shuffles."""

    interval: str = "5m"
    strategies: tuple[Any, ...] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        _thresholds(self.strategies)


def build(arguments: Arguments) -> Hooks:
    low, target = _thresholds(arguments.strategies)

    def opened(session: Session) -> Hooks:
        return Hooks(wanted=lambda running: _leaving(session, running, low, target))

    return Hooks(open=opened)


def _leaving(
    session: Session, running: Sequence[PodStanding], low: Mapping[str, float], target: Mapping[str, float]
) -> list[PodStanding]:
    table = session.placer.table
    used = {
        table.row_of(name): _parts(one)
        for name, one in session.snapshot.measured.items()
        if name in session.snapshot.nodes
    }
    idle = [row for row, parts in used.items() if all(parts[name] < most for name, most in low.items())]
    busy = [row for row, parts in used.items() if any(parts[name] > most for name, most in target.items())]
    if not idle or not busy:
        return []
    room = {
        name: sum((target[name] - used[row][name]) / 100 * _total(session, row, name) for row in idle)
        for name in target
    }
    found: list[PodStanding] = []
    for row in sorted(busy, key=lambda one: (-max(used[one].values()), one)):
        over = {name: (used[row][name] - target[name]) / 100 * _total(session, row, name) for name in target}
        on_row = [pod for pod in running if pod.row == row and pod.pod.is_preemptable]
        for pod in sorted(on_row, key=lambda pod: (pod.priority, not pod.is_best_effort, pod.key)):
            if all(amount <= 0 for amount in over.values()) or any(amount <= 0 for amount in room.values()):
                break
            found.append(pod)
            for name in target:
                amount = pod.requests.get(_resource(name), 0)
                over[name] -= amount
                room[name] -= amount
    return found


def _parts(measured: MeasuredUse) -> dict[str, float]:
    return {"cpu": measured.cpu_percent, "memory": measured.memory_percent}


def _resource(name: str) -> str:
    return CPU if name == "cpu" else MEMORY


def _total(session: Session, row: int, name: str) -> int:
    table = session.placer.table
    column = table.column_of(_resource(name))
    return int(table.total[column, row]) if column is not None else 0


def _thresholds(strategies: Sequence[Any]) -> tuple[dict[str, float], dict[str, float]]:
    low, target = dict(LOW), dict(TARGET)
    for one in strategies:
        if not isinstance(one, Mapping) or one.get("name") != STRATEGY:
            raise ValueError(f"a strategy is {str(one)[:40]!r}: give {STRATEGY}")
        params = one.get("params") or {}
        for name, into in (("thresholds", low), ("targetThresholds", target)):
            for key, value in (params.get(name) or {}).items():
                if key not in into or isinstance(value, bool) or not isinstance(value, (int, float)):
                    raise ValueError(f"{name} has {str(key)[:40]!r}: give per cents of cpu and memory")
                into[key] = float(value)
    return low, target


POLICY = Policy(name="rescheduling", arguments=Arguments, build=build)
