"""How many pods the metrics of an autoscaler ask for. Pure; called by `autoscaler_metrics`.

Kubernetes' rules: the ratio of what is used to what is wanted, times the pods that count. A ratio near one changes
nothing. Pods without a metric count against a change, pods that are not ready yet count as idle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.controllers.builtin.conditions import condition_of
from muster.controllers.builtin.pods import is_ready, moment_s, phase_of
from muster.store.kinds import Object
from muster.store.metadata import is_deleting

TOLERANCE = 0.1
STARTING_S = 300.0  # after its start a pod's processor time says little
FIRST_READY_S = 30.0  # a pod that was never ready later than this does not come up any more
_FULL = 100


class NoCount(Exception):
    """Why the metrics do not say how many pods there should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerances:
    """How far a ratio may be from one before anything changes."""

    down: float = TOLERANCE
    up: float = TOLERANCE

    def has(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class Reading:
    """A metric of one pod."""

    amount: int  # thousandths
    at_s: float
    window_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The pods of a target by what their metric is worth."""

    ready: int  # with a metric that counts
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The pods of a target and what was measured of them, by name."""

    current: int  # how many pods the target wants now
    pods: Sequence[Object]
    readings: Mapping[str, Reading]
    now_s: float
    is_cpu: bool = False
    tolerances: Tolerances = field(default_factory=Tolerances)


@dataclass(frozen=True, slots=True)
class Count:
    """How many pods are asked for, and what was measured."""

    replicas: int
    average: int = 0  # thousandths
    utilization: int | None = None  # per cent of what was asked for


def grouped(asked: Asked) -> Group:
    """Sort pods by whether their metric counts."""
    ready, unready, missing, ignored = 0, set(), set(), set()
    for pod in asked.pods:
        name = pod["metadata"]["name"]
        if is_deleting(pod) or phase_of(pod) == "Failed":
            ignored.add(name)
        elif phase_of(pod) == "Pending":
            unready.add(name)
        elif name not in asked.readings:
            missing.add(name)
        elif asked.is_cpu and _is_coming_up(pod, asked.readings[name], asked.now_s):
            unready.add(name)
        else:
            ready += 1
    return Group(ready=ready, unready=frozenset(unready), missing=frozenset(missing), ignored=frozenset(ignored))


def _is_coming_up(pod: Object, reading: Reading, now_s: float) -> bool:
    status = pod.get("status") or {}
    condition, started_s = condition_of(status.get("conditions") or (), "Ready"), moment_s(status.get("startTime"))
    if condition is None or started_s is None:
        return True
    changed_s = moment_s(condition.get("lastTransitionTime")) or 0.0
    if started_s + STARTING_S > now_s:
        return condition["status"] == "False" or reading.at_s < changed_s + reading.window_s
    return condition["status"] == "False" and started_s + FIRST_READY_S > changed_s


def count_by_utilization(asked: Asked, requests: Mapping[str, int], target: int) -> Count:
    """The pods that keep usage at a share of what they ask for, in per cent."""

    def ratio_of(amounts: Mapping[str, int]) -> tuple[float, Count]:
        wanted = sum(requests[name] for name in amounts if name in requests)
        known = [amount for name, amount in amounts.items() if name in requests]
        if not wanted:
            raise NoCount("no metrics returned matched known pods")
        utilization = sum(known) * 100 // wanted
        return utilization / target, Count(0, sum(known) // len(known), utilization)

    fallback = max(_FULL, target)
    return _count(asked, ratio_of, lambda name: requests.get(name, 0) * fallback // 100)


def count_by_average(asked: Asked, target: int) -> Count:
    """The pods that keep the average of a metric at a value, in thousandths."""

    def ratio_of(amounts: Mapping[str, int]) -> tuple[float, Count]:
        average = sum(amounts.values()) // len(amounts)
        return average / target, Count(0, average)

    return _count(asked, ratio_of, lambda _name: target)


def _count(
    asked: Asked, ratio_of: Callable[[Mapping[str, int]], tuple[float, Count]], fallback: Callable[[str], int]
) -> Count:
    group = grouped(asked)
    unused = group.ignored | group.unready
    amounts = {name: one.amount for name, one in asked.readings.items() if name not in unused}
    if not amounts:
        raise NoCount("did not receive metrics for targeted pods (pods might be unready)")
    ratio, measured = ratio_of(amounts)

    def answer(replicas: int) -> Count:
        return Count(replicas, measured.average, measured.utilization)

    is_growing_unready = bool(group.unready) and ratio > 1.0
    if not is_growing_unready and not group.missing:
        return answer(asked.current if asked.tolerances.has(ratio) else math.ceil(ratio * group.ready))
    if ratio < 1.0:
        amounts |= {name: fallback(name) for name in group.missing}
    elif ratio > 1.0:
        amounts |= dict.fromkeys(group.missing, 0)
    if is_growing_unready:
        amounts |= dict.fromkeys(group.unready, 0)
    new, _ = ratio_of(amounts)
    if asked.tolerances.has(new) or (ratio < 1.0 < new) or (new < 1.0 < ratio):
        return answer(asked.current)
    replicas = math.ceil(new * len(amounts))
    is_backwards = (new < 1.0 and replicas > asked.current) or (new > 1.0 and replicas < asked.current)
    return answer(asked.current if is_backwards else replicas)


def count_by_value(asked: Asked, usage: int, target: int) -> Count:
    """The pods by a metric of something else than themselves, in thousandths."""
    ratio = usage / target
    if asked.current == 0:
        return Count(math.ceil(ratio), usage)
    if asked.tolerances.has(ratio):
        return Count(asked.current, usage)
    return Count(math.ceil(ratio * ready_count(asked.pods)), usage)


def count_by_share(asked: Asked, usage: int, target: int, *, running: int) -> Count:
    """The pods among which a metric of something else is divided; `running` are those that the target has."""
    average = math.ceil(usage / running) if running else usage
    ratio = usage / (target * running) if running else math.inf
    replicas = asked.current if asked.tolerances.has(ratio) else math.ceil(usage / target)
    return Count(replicas, average)


def ready_count(pods: Iterable[Object]) -> int:
    """How many pods run and are ready."""
    return sum(phase_of(pod) == "Running" and is_ready(pod) for pod in pods)
