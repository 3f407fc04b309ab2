"""What the local node's processes use, from /proc. Asked through `app` by the API server and the autoscaler.

Nothing is looked at until somebody asks: the time that processors worked is the difference to the last look that is
long enough ago, or to the start of the container.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from muster.agent.local.keeper import descendants, resident_bytes
from muster.agent.local.processes import PodFolder, RunFolder
from muster.model.usage import Measure, Usage
from muster.store.clock import Clock

LEAST_S = 5.0  # between two looks that are compared
_KEPT = 4_096
_TICKS = os.sysconf("SC_CLK_TCK")
_NANOS = 1_000_000_000


class _Look(NamedTuple):
    at_s: float
    cpu_s: float


class LocalUsage:
    """The usage of one machine and the pods on it."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._looks: OrderedDict[str, tuple[_Look, _Look]] = OrderedDict()  # the last two, by what was looked at
        now = _Look(clock.now_s(), _machine_cpu_s())
        self._looks[""] = (now, now)

    def of_node(self, _node: Mapping[str, Any], /) -> Measure | None:
        window_s, cpu_nanos = self._rate("", _Look(self._clock.now_s(), _machine_cpu_s()), 0.0)
        usage = Usage(cpu_nanos=cpu_nanos, memory_bytes=_machine_memory_bytes())
        return Measure(at_s=self._clock.now_s(), window_s=window_s, parts={"": usage})

    def of_pod(self, pod: Mapping[str, Any], /) -> Measure | None:
        parts, windows = {}, []
        for run in PodFolder(self._folder / pod["metadata"]["uid"]).living():
            window_s, usage = self._of_run(run)
            parts[run.folder.parent.name] = usage
            windows.append(window_s)
        return Measure(at_s=self._clock.now_s(), window_s=max(windows), parts=parts) if parts else None

    def _of_run(self, run: RunFolder) -> tuple[float, Usage]:
        keeper = run.keeper_pid()
        pids = [] if keeper is None else descendants(keeper)
        cpu_s = sum(_cpu_s(pid) for pid in pids) + (0.0 if keeper is None else _cpu_s(keeper, has_own=False))
        started_s = float(run.started().get("started_s") or self._clock.now_s())
        window_s, nanos = self._rate(str(run.folder), _Look(self._clock.now_s(), cpu_s), started_s)
        return window_s, Usage(cpu_nanos=nanos, memory_bytes=resident_bytes(pids))

    def _rate(self, name: str, now: _Look, started_s: float) -> tuple[float, int]:
        """How many billionths of processors worked on average, and since when: the last look, or the start."""
        start = _Look(started_s, 0.0)
        before, last = self._looks.pop(name, (start, start))
        since = last if now.at_s - last.at_s >= LEAST_S else before
        self._looks[name] = (last, now) if since is last else (before, last)
        if len(self._looks) > _KEPT:
            self._looks.popitem(last=False)
        window_s = max(now.at_s - since.at_s, 1 / _TICKS)
        return window_s, int(max(0.0, now.cpu_s - since.cpu_s) / window_s * _NANOS)


def _cpu_s(pid: int, *, has_own: bool = True) -> float:
    """How long a process has worked with the children that it has waited for; of a keeper the children alone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        own, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    except (OSError, IndexError, ValueError):
        return 0.0
    return (own * has_own + children) / _TICKS


def _machine_cpu_s() -> float:
    """How long all processors of this machine have worked."""
    try:
        with open("/proc/stat", "rb") as file:
            user, nice, system, _idle, _wait, *rest = (int(one) for one in file.readline().split()[1:8])
    except (OSError, ValueError):
        return 0.0
    return (user + nice + system + sum(rest)) / _TICKS


def _machine_memory_bytes() -> int:
    """How much memory of this machine could not be given to anybody else."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = {line.partition(":")[0]: int(line.split()[1]) * 1024 for line in file}
    except (OSError, ValueError, IndexError):
        return 0
    return found.get("MemTotal", 0) - found.get("MemAvailable", 0)
