"""Limits that the machine itself sees to: a control group for each run of a container, where that is permitted.

Used by the local node. Both versions of control groups are known. Where none can be made, as for a user who is not
root, the keeper watches memory instead and nothing limits the CPU.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
PERIOD_US = 100_000
LEAST_QUOTA_US = 1_000
_CONTROLLERS = ("memory", "cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a container may use; zero is as much as there is."""

    memory_bytes: int = 0
    cpu_millis: int = 0


@dataclass(frozen=True, slots=True)
class Cgroups:
    """Where groups can be made, by controller; version 2 has one place for all of them."""

    places: Mapping[str, Path]
    is_unified: bool

    def make(self, name: str, limits: Limits) -> tuple[str, ...]:
        """The groups of a run, or none where there is nothing to limit or it cannot be."""
        wanted = _settings_unified(limits) if self.is_unified else _settings(limits)
        made: dict[Path, None] = {}
        try:
            for controller, (file, value, is_needed) in wanted:
                group = self.places[controller] / name
                group.mkdir(exist_ok=True)
                made[group] = None
                with contextlib.nullcontext() if is_needed else contextlib.suppress(OSError):
                    (group / file).write_text(value)
        except (KeyError, OSError):
            for group in made:
                with contextlib.suppress(OSError):
                    group.rmdir()
            return ()
        return tuple(str(group) for group in made)


Setting = tuple[str, tuple[str, str, bool]]  # controller; file, value, and whether it has to be


def _settings(limits: Limits) -> list[Setting]:
    found: list[Setting] = []
    if limits.memory_bytes:
        found.append(("memory", ("memory.limit_in_bytes", str(limits.memory_bytes), True)))
        found.append(("memory", ("memory.memsw.limit_in_bytes", str(limits.memory_bytes), False)))
    if limits.cpu_millis:
        found.append(("cpu", ("cpu.cfs_period_us", str(PERIOD_US), True)))
        found.append(("cpu", ("cpu.cfs_quota_us", str(_quota_us(limits)), True)))
    return found


def _settings_unified(limits: Limits) -> list[Setting]:
    found: list[Setting] = []
    if limits.memory_bytes:
        found.append(("memory", ("memory.max", str(limits.memory_bytes), True)))
        found.append(("memory", ("memory.swap.max", "0", False)))
        found.append(("memory", ("memory.oom.group", "1", False)))  # a container ends as a whole
    if limits.cpu_millis:
        found.append(("cpu", ("cpu.max", f"{_quota_us(limits)} {PERIOD_US}", True)))
    return found


def _quota_us(limits: Limits) -> int:
    return max(LEAST_QUOTA_US, limits.cpu_millis * PERIOD_US // 1000)


def found_cgroups(mount: Path = MOUNT, own: Path = OWN) -> Cgroups | None:
    """Where this process may make groups; nothing where it may not."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return None
    paths = {names: path for _, names, path in (line.split(":", 2) for line in lines if line.count(":") >= 2)}
    if (mount / "cgroup.controllers").exists():
        return _unified(mount)
    places = {}
    for controller in _CONTROLLERS:
        path = next((path for names, path in paths.items() if controller in names.split(",")), "/")
        # Below its own group, so that what limits this process limits its containers as well.
        candidates = (mount / controller / path.lstrip("/"), mount / controller)
        place = next((one for one in candidates if one.is_dir() and os.access(one, os.W_OK)), None)
        if place is not None and (place / "cgroup.procs").exists():
            places[controller] = place
    return _tried(Cgroups(places, is_unified=False)) if places else None


def _unified(mount: Path) -> Cgroups | None:
    """A place of its own at the top: below another group that has processes nothing can be limited."""
    place = mount / "muster"
    try:
        place.mkdir(exist_ok=True)
        for group in (mount, place):
            (group / "cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in _CONTROLLERS))
    except OSError:
        return None
    return _tried(Cgroups(dict.fromkeys(_CONTROLLERS, place), is_unified=True))


def _tried(groups: Cgroups) -> Cgroups | None:
    made = groups.make(f"muster-{os.getpid()}-try", Limits(memory_bytes=2**30, cpu_millis=1000))
    for group in made:
        with contextlib.suppress(OSError):
            os.rmdir(group)
    return groups if made else None
