"""What a manager counts, as a page for Prometheus. Fed by the changes that its controllers see; served by `monitoring`.

What Kueue counts too has Kueue's name, so that its dashboards and alerts go on. How many wait and what is used is read
from the status of queues when somebody asks; what has happened is counted as it is seen. Whoever does not lead sees
nothing: of several managers one tells of the queues.
"""

from __future__ import annotations

import os
import resource
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from muster.app.config import MonitoringSettings
from muster.controllers.belonging import WORKLOADS
from muster.controllers.cache import CLUSTER_QUEUES, LOCAL_QUEUES
from muster.controllers.feed import Changes
from muster.controllers.view import Seen, View
from muster.model.errors import InvalidObject
from muster.model.quantity import InvalidQuantity, parse_quantity
from muster.model.resources import AMOUNT_MAX, CPU_POWER
from muster.model.times import parse_moment
from muster.store.kinds import Object

Labels = tuple[tuple[str, str], ...]
_BOUNDS_S = (1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240)
_STATES = ("pending", "active", "terminating")
_WAITING = ("active", "inadmissible")
_COUNTED = (
    ("pendingWorkloads", "pending_workloads", "that wait"),
    ("reservingWorkloads", "reserving_active_workloads", "that have quota and are not finished"),
    ("admittedWorkloads", "admitted_active_workloads", "that are admitted and not finished"),
)


class _Row(NamedTuple):
    """One number of a figure."""

    labels: Labels
    value: float
    suffix: str = ""


class Waits:
    """How long some workloads have waited, as a histogram."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS_S) + 1)
        self._sum_s = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(_BOUNDS_S, seconds)] += 1
        self._sum_s += seconds

    def rows(self, labels: Labels) -> Iterator[_Row]:
        """Its numbers, each bound with all that are below it."""
        total = 0
        for bound, count in zip((*map(str, _BOUNDS_S), "+Inf"), self._counts, strict=True):
            total += count
            yield _Row((*labels, ("le", bound)), total, "_bucket")
        yield _Row(labels, self._sum_s, "_sum")
        yield _Row(labels, total, "_count")


class Figures:
    """The figures of one process."""

    def __init__(self, settings: MonitoringSettings) -> None:
        self._settings = settings
        self._view: View | None = None  # while this process leads
        self._requests: list[Callable[[], int]] = []
        self._reserved: dict[str, Waits] = {}  # by cluster queue
        self._admitted: dict[str, Waits] = {}
        self._evicted: Counter[tuple[str, str]] = Counter()  # by cluster queue and reason
        self._began_s = time.time()

    def count_requests(self, count: Callable[[], int]) -> None:
        """Have the requests of a connection be among those that are told of."""
        self._requests.append(count)

    @contextmanager
    def of(self, feed: Changes) -> Iterator[None]:
        """Tell of what a feed brings, as long as that goes on."""
        feed.listen(self.hear)
        self._view = feed.view
        try:
            yield
        finally:
            self._view = None

    # Counting --------------------------------------------------------------------------------------------------------

    def hear(self, seen: Seen) -> None:
        """Count what a change has brought; what was so before this process came is not counted again."""
        if seen.key.resource != WORKLOADS or seen.before is None or seen.now is None:
            return
        before, now = _conditions(seen.before), _conditions(seen.now)
        if before == now:
            return
        queue = _queue_of(seen.now) or _queue_of(seen.before)
        began_s = _waits_since(seen.before, before)
        for kind, waits in (("QuotaReserved", self._reserved), ("Admitted", self._admitted)):
            if _is_true(now, kind) and not _is_true(before, kind):
                ended_s = _moment(now[kind].get("lastTransitionTime"), began_s)
                waits.setdefault(queue, Waits()).add(max(0.0, ended_s - began_s))
        if _is_true(now, "Evicted") and not _is_true(before, "Evicted"):
            self._evicted[queue, str(now["Evicted"].get("reason") or "")] += 1

    # Telling ---------------------------------------------------------------------------------------------------------

    def page(self) -> str:
        """All figures in the text format of Prometheus."""
        return "".join(self._parts())

    def _parts(self) -> Iterator[str]:
        leads = [_Row((), float(self._view is not None))]
        yield _figure("muster_leading", "gauge", "Whether this process leads", leads)
        sent = [_Row((), sum(count() for count in self._requests))]
        yield _figure("muster_requests_total", "counter", "Requests to the API server", sent)
        yield from self._of_process()
        for name, told, waits in (
            ("quota_reserved", "got quota", self._reserved),
            ("admission", "were admitted", self._admitted),
        ):
            total = "quota_reserved_workloads_total" if name == "quota_reserved" else "admitted_workloads_total"
            by_queue = {(("cluster_queue", queue),): one for queue, one in sorted(waits.items())}
            rows = {labels: list(one.rows(labels)) for labels, one in by_queue.items()}
            counts = [_Row(labels, found[-1].value) for labels, found in rows.items()]
            yield _figure(f"kueue_{total}", "counter", f"Workloads that {told}", counts)
            seconds = [row for found in rows.values() for row in found]
            help_text = f"Seconds from when workloads began to wait until they {told}"
            yield _figure(f"kueue_{name}_wait_time_seconds", "histogram", help_text, seconds)
        evicted = [
            _Row((("cluster_queue", queue), ("reason", reason)), count)
            for (queue, reason), count in sorted(self._evicted.items())
        ]
        yield _figure("kueue_evicted_workloads_total", "counter", "Workloads that lost their quota", evicted)
        if self._view is not None:
            yield from self._of_queues(self._view)

    def _of_process(self) -> Iterator[str]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        for name, kind, told, value in (
            ("process_cpu_seconds_total", "counter", "Processor time of this process", used.ru_utime + used.ru_stime),
            ("process_resident_memory_bytes", "gauge", "Memory of this process", _memory_bytes()),
            ("process_start_time_seconds", "gauge", "When this process began", self._began_s),
        ):
            yield _figure(name, kind, told, [_Row((), value)])

    def _of_queues(self, view: View) -> Iterator[str]:
        queues = list(view.all(CLUSTER_QUEUES))
        names: list[Labels] = [(("cluster_queue", one["metadata"]["name"]),) for one in queues]
        yield from _counts("kueue_", dict(zip(names, queues, strict=True)))
        rows = [
            _Row((*labels, ("status", state)), float(state == _state_of(one)))
            for labels, one in zip(names, queues, strict=True)
            for state in _STATES
        ]
        yield _figure("kueue_cluster_queue_status", "gauge", "Whether a queue is in a state", rows)
        if self._settings.has_resources:
            yield from _resources(queues)
        if self._settings.has_local_queues:
            found = list(view.all(LOCAL_QUEUES))
            places = [one["metadata"] for one in found]
            labels = [(("name", one["name"]), ("namespace", one.get("namespace") or "")) for one in places]
            yield from _counts("kueue_local_queue_", dict(zip(labels, found, strict=True)))


def _counts(prefix: str, queues: Mapping[Labels, Object]) -> Iterator[str]:
    """How many workloads queues have. Of those that wait, the ones in a queue that is stopped are inadmissible."""
    for field, name, told in _COUNTED:
        rows = []
        for labels, one in queues.items():
            count = (one.get("status") or {}).get(field) or 0
            if field == "pendingWorkloads":
                state = "active" if _state_of(one) == "active" else "inadmissible"
                rows += [_Row((*labels, ("status", word)), count * (word == state)) for word in _WAITING]
            else:
                rows.append(_Row(labels, count))
        yield _figure(f"{prefix}{name}", "gauge", f"Workloads {told}", rows)


def _resources(queues: Iterable[Object]) -> Iterator[str]:
    """What queues have and use of each resource."""
    quotas: dict[str, list[_Row]] = {name: [] for name in ("nominalQuota", "borrowingLimit", "lendingLimit")}
    amounts: dict[str, list[_Row]] = {name: [] for name in ("flavorsReservation", "flavorsUsage")}
    for one in queues:
        spec, status = one.get("spec") or {}, one.get("status") or {}
        own = (("cohort", spec.get("cohortName") or ""), ("cluster_queue", one["metadata"]["name"]))
        for group in spec.get("resourceGroups") or ():
            for name, rows in quotas.items():
                rows += _amounts(own, group.get("flavors") or (), name)
        for name, rows in amounts.items():
            rows += _amounts(own, status.get(name) or (), "total")
    for name, told, rows in (
        ("nominal_quota", "Quota of a queue", quotas["nominalQuota"]),
        ("borrowing_limit", "What a queue may borrow", quotas["borrowingLimit"]),
        ("lending_limit", "What a queue may lend", quotas["lendingLimit"]),
        ("resource_reservation", "What workloads with quota hold", amounts["flavorsReservation"]),
        ("resource_usage", "What admitted workloads use", amounts["flavorsUsage"]),
    ):
        yield _figure(f"kueue_cluster_queue_{name}", "gauge", told, rows)


def _amounts(own: Labels, flavors: Iterable[Object], name: str) -> Iterator[_Row]:
    for flavor in flavors:
        for one in flavor.get("resources") or ():
            if one.get(name) is None:
                continue
            try:
                value = parse_quantity(str(one[name])).scaled(CPU_POWER, AMOUNT_MAX) / 10**CPU_POWER
            except InvalidQuantity:
                continue
            yield _Row((*own, ("flavor", str(flavor.get("name"))), ("resource", str(one.get("name")))), value)


def _state_of(queue: Object) -> str:
    if queue["metadata"].get("deletionTimestamp"):
        return "terminating"
    return "active" if _is_true(_conditions(queue), "Active") else "pending"


def _conditions(one: Object) -> dict[str, Object]:
    return {c["type"]: c for c in (one.get("status") or {}).get("conditions") or ()}


def _is_true(conditions: Mapping[str, Object], kind: str) -> bool:
    return kind in conditions and conditions[kind].get("status") == "True"


def _queue_of(workload: Object) -> str:
    admission = (workload.get("status") or {}).get("admission") or {}
    return str(admission.get("clusterQueue") or "")


def _waits_since(workload: Object, conditions: Mapping[str, Object]) -> float:
    """Since when a workload waits: since it is there, or was evicted."""
    created_s = _moment(workload["metadata"].get("creationTimestamp"), 0.0)
    if _is_true(conditions, "Evicted"):
        return _moment(conditions["Evicted"].get("lastTransitionTime"), created_s)
    return created_s


def _moment(text: object, otherwise_s: float) -> float:
    try:
        return parse_moment(text, "") if isinstance(text, str) else otherwise_s
    except InvalidObject:
        return otherwise_s


def _memory_bytes() -> float:
    with open("/proc/self/statm", "rb") as told:
        return int(told.read().split()[1]) * float(os.sysconf("SC_PAGE_SIZE"))


def _figure(name: str, kind: str, told: str, rows: Iterable[_Row]) -> str:
    lines = [f"# HELP {name} {told}.\n# TYPE {name} {kind}\n"]
    for row in rows:
        labels = ",".join(f'{label}="{_escaped(value)}"' for label, value in row.labels)
        lines.append(f"{name}{row.suffix}{{{labels}}} {row.value:.17g}\n" if labels else f"{name} {row.value:.17g}\n")
    return "".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
