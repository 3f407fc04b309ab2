"""tdm: nodes that are lent at some hours, for pods that may be taken off them again. Volcano's plugin of that name.

Nodes of a revocable zone take pods only while the zone's window is open, and only pods that say so. When it has closed,
pods that may be preempted leave, of each group as many at a time as its disruption budget allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from muster.engine.node_table_rows import BoolArray, FloatArray, IntArray
from muster.engine.policy import Hooks, Policy, Vote, argument
from muster.engine.session import Session
from muster.engine.standing import PodStanding, Standing
from muster.model.groups import ENDED, PodStatus

ZONE = "volcano.sh/revocable-zone"
MAX_UNAVAILABLE, MIN_AVAILABLE = "volcano.sh/jdb-max-unavailable", "volcano.sh/jdb-min-available"
ANY_ZONE = "*"
LIKED = 100.0
DAY_MINUTES = 24 * 60


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The window of each zone, such as 20:00-8:00 in the time of the cluster (UTC)."""

    zones: Mapping[str, str] = field(default_factory=dict, metadata=argument({}, prefix="tdm.revocable-zone.").metadata)
    period: str = argument("1m", alias="tdm.evict.period")

    def __post_init__(self) -> None:
        for zone, text in self.zones.items():
            if window_of(text) is None:
                raise ValueError(f"the window of zone {zone} is {text[:40]!r}: give one such as 20:00-8:00")


def window_of(text: str) -> tuple[int, int] | None:
    """The minutes of a day from which and until which a window is open; until the next day where that is earlier."""
    parts = [part.strip().split(":") for part in text.split("-")]
    if len(parts) != 2 or any(len(part) != 2 for part in parts):
        return None
    minutes = []
    for hour, minute in parts:
        if not (hour.isdecimal() and minute.isdecimal() and len(hour) <= 2 and len(minute) == 2):
            return None
        if int(hour) > 23 or int(minute) > 59:
            return None
        minutes.append(int(hour) * 60 + int(minute))
    start, end = minutes
    return start, end if end > start else end + DAY_MINUTES


def build(arguments: Arguments) -> Hooks:
    return Hooks(open=lambda session: _Zones(session, arguments).hooks())


class _Zones:
    """The zones of one session."""

    def __init__(self, session: Session, arguments: Arguments) -> None:
        self.session = session
        minute = int(session.now // 60) % DAY_MINUTES
        self.open = {zone for zone, text in arguments.zones.items() if _is_open(text, minute)}
        self.known = set(arguments.zones)
        nodes = session.snapshot.nodes
        names = session.placer.table.names
        self.zone_of = [nodes[name].labels.get(ZONE, "") if name in nodes else "" for name in names]

    def hooks(self) -> Hooks:
        return Hooks(
            fit_pod=self.fit,
            score_pod=self.score,
            compare_workloads=lambda one, two: one.group.is_preemptable - two.group.is_preemptable,
            promised=lambda group: Vote.PERMIT if group.ready + group.promised >= group.count_least else Vote.REJECT,
            starving=lambda group: not group.group.is_preemptable and bool(group.pending()),
            preempt=self.spare_ones,
            wanted=self.overdue,
        )

    def fit(self, pod: PodStanding) -> BoolArray | None:
        if not any(self.zone_of):
            return None
        wish = pod.pod.annotations.get(ZONE, "")
        return np.array(
            [not zone or (zone in self.open and wish in (ANY_ZONE, zone)) for zone in self.zone_of], np.bool_
        )

    def score(self, pod: PodStanding, rows: IntArray) -> FloatArray | None:
        wish = pod.pod.annotations.get(ZONE, "")
        if not wish:
            return None
        return np.array([LIKED if self.zone_of[row] in self.open else 0.0 for row in rows.tolist()])

    def spare_ones(self, preemptor: PodStanding, candidates: Sequence[PodStanding]) -> frozenset[str]:
        """Pods off the lent nodes that may be preempted, no more of a group than its budget allows."""
        if preemptor.pod.is_preemptable or preemptor.pod.annotations.get(ZONE):
            return frozenset()
        return _within_budgets(
            pod
            for pod in candidates
            if pod.pod.is_preemptable and pod.status is PodStatus.RUNNING and not self.zone_of[pod.row]
        )

    def overdue(self, running: Sequence[PodStanding]) -> list[PodStanding]:
        """Pods on nodes whose window has closed."""
        found = [pod for pod in running if pod.pod.is_preemptable and self.zone_of[pod.row] in self.known - self.open]
        named = _within_budgets(found)
        return [pod for pod in found if pod.key in named]


def _is_open(text: str, minute: int) -> bool:
    window = window_of(text)
    assert window is not None, "windows are checked when the arguments are read"
    start, end = window
    return start <= minute < end or start <= minute + DAY_MINUTES < end


def _within_budgets(pods: Iterable[PodStanding]) -> frozenset[str]:
    by_group: dict[str, list[PodStanding]] = {}
    for pod in pods:
        by_group.setdefault(pod.owner.key, []).append(pod)
    return frozenset(pod.key for found in by_group.values() for pod in found[: budget_of(found[0].owner)])


def budget_of(group: Standing) -> int:
    """How many more pods of a group may go."""
    running = group.by_status[PodStatus.RUNNING]
    most, least = (group.group.annotations.get(name, "") for name in (MAX_UNAVAILABLE, MIN_AVAILABLE))
    if most:
        lacking = group.count - group.of(ENDED) - running
        return max(0, _number(most, group.count) - lacking)
    return max(0, running - _number(least, group.count)) if least else 1


def _number(text: str, count: int) -> int:
    """A number, or so many per cent, rounded up; what is neither allows nothing to go."""
    digits = text.removesuffix("%")
    if not digits.isdecimal() or len(digits) > 9:
        return 0
    return -(-int(digits) * count // 100) if text.endswith("%") else int(digits)


POLICY = Policy(name="tdm", arguments=Arguments, build=build)
