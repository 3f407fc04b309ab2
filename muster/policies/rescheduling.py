"""rescheduling: pods leave nodes that are far busier than others, so that they start again elsewhere. Volcano's plugin.

Nodes whose measured use is below all thresholds are idle, those above any target are busy. Pods leave the busiest
nodes, the least important first, until the node is below its target or the idle ones could take no more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.engine.policy import Hooks, Policy, argument
from muster.engine.session import Session
from muster.engine.standing import PodStanding
from muster.engine.vectors import MEMORY
from muster.model.groups import MeasuredUse
from muster.model.resources import CPU, PODS

STRATEGY = "lowNodeUtilization"
OTHERS = ("offlineOnly", "lowPriorityFirst", "shortLifeTimeFirst", "bigObjectFirst", "moreReplicasFirst")
NEARLY = 1e-6  # of parts of a whole that were reckoned in per cent
UNBOUNDED = {"cpu": 100.0, "memory": 100.0, "pods": 100.0}


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The strategies with their thresholds, and whose pods may leave.

    How often, and over which time use is measured, is the caller's to say, by how often it shuffles and measures.
    """

    interval: str = "5m"
    period: str = argument("5m", alias="metricsPeriod")
    strategies: tuple[Any, ...] = field(default_factory=tuple)
    queues: tuple[str, ...] = argument((), alias="queueSelector")  # none: of all queues
    labels: Mapping[str, str] = field(default_factory=dict, metadata=argument({}, alias="labelSelector").metadata)

    def __post_init__(self) -> None:
        _thresholds(self.strategies)


def build(arguments: Arguments) -> Hooks:
    bounds = _thresholds(arguments.strategies)
    if bounds is None:
        return Hooks()

    def opened(session: Session) -> Hooks:
        def wanted(running: Sequence[PodStanding]) -> list[PodStanding]:
            return _leaving(session, [pod for pod in running if _is_chosen(pod, arguments)], *bounds)

        return Hooks(wanted=wanted)

    return Hooks(open=opened)


def _is_chosen(pod: PodStanding, arguments: Arguments) -> bool:
    is_in_queue = not arguments.queues or pod.owner.queue in arguments.queues
    return (
        is_in_queue
        and pod.pod.is_preemptable
        and all(pod.pod.labels.get(key) == value for key, value in arguments.labels.items())
    )


def _leaving(
    session: Session, running: Sequence[PodStanding], low: Mapping[str, float], target: Mapping[str, float]
) -> list[PodStanding]:
    table = session.placer.table
    used = {
        table.row_of(name): _parts(session, table.row_of(name), one)
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
        on_row = [pod for pod in running if pod.row == row]
        for pod in sorted(on_row, key=lambda pod: (pod.priority, _quality(pod), pod.key)):
            if all(amount < NEARLY for amount in over.values()) or any(amount < NEARLY for amount in room.values()):
                break
            found.append(pod)
            for name in target:
                amount = pod.requests.get(name, 0)
                over[name] -= amount
                room[name] -= amount
    return found


def _quality(pod: PodStanding) -> int:
    """Kubernetes' classes of service, those first that are promised least."""
    if pod.is_best_effort:
        return 0
    asked, most = pod.requests, pod.pod.limits
    return 2 if all(most.get(name) and most[name] == asked.get(name) for name in (CPU, MEMORY)) else 1


def _parts(session: Session, row: int, measured: MeasuredUse) -> dict[str, float]:
    """What is used of a node, in per cent of what it has."""
    places = _total(session, row, PODS)
    pods = 100.0 * len(session.on_row.get(row, {})) / places if places else 0.0
    return {CPU: measured.cpu_percent, MEMORY: measured.memory_percent, PODS: pods}


def _total(session: Session, row: int, name: str) -> int:
    table = session.placer.table
    column = table.column_of(name)
    return int(table.total[column, row]) if column is not None else 0


def _thresholds(strategies: Sequence[Any]) -> tuple[dict[str, float], dict[str, float]] | None:
    """Below which use a node is idle and above which it is busy; `None` where no strategy says that pods leave."""
    found = None if strategies else (dict(UNBOUNDED), dict(UNBOUNDED))
    for one in strategies:
        name = one.get("name") if isinstance(one, Mapping) else None
        if name in OTHERS:
            continue  # Volcano: known by name, and nothing comes of it
        if name != STRATEGY:
            raise ValueError(f"a strategy is {str(one)[:40]!r}: give {STRATEGY}")
        found = (dict(UNBOUNDED), dict(UNBOUNDED))
        params = one.get("params")
        for part, into in zip(("thresholds", "targetThresholds"), found, strict=True):
            given = params.get(part) if isinstance(params, Mapping) else None
            for key, value in given.items() if isinstance(given, Mapping) else ():
                if key not in into or isinstance(value, bool) or not isinstance(value, (int, float)):
                    raise ValueError(f"{part} has {str(key)[:40]!r}: give per cents of cpu, memory and pods")
                into[key] = float(value)
    return found


POLICY = Policy(name="rescheduling", arguments=Arguments, build=build)
