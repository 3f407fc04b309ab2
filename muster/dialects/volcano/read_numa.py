"""Numatopology objects: which cores of a node lie together, and which of them are free. Called by `read`."""

from __future__ import annotations

from collections import Counter

from muster.model.fields import Fields
from muster.model.groups import NumaNode

CORES_MOST = 100_000


def read_numa(obj: Fields) -> tuple[str, NumaNode]:
    """The node that an object is about, and its cores."""
    spec = obj.child("spec")
    detail, policies = spec.child("cpuDetail"), spec.text_map("policies")
    if len(detail.values) > CORES_MOST:
        raise spec.error("cpuDetail", f"holds {len(detail.values)} cores", f"give at most {CORES_MOST}")
    numa_of = {core: detail.child(core).integer("numa", least=0) for core in detail.values}
    cpu = spec.child("numares").child("cpu")
    free = _cores(cpu, "allocatable") if cpu.has("allocatable") else set(numa_of)
    total = Counter(numa_of.values())
    counts = Counter(numa for core, numa in numa_of.items() if core in free)
    nodes = sorted(total)
    return obj.child("metadata").text("name"), NumaNode(
        capacity=tuple(total[one] for one in nodes),
        free=tuple(counts[one] for one in nodes),
        policy=policies.get("TopologyManagerPolicy", ""),
        is_static=policies.get("CPUManagerPolicy", "") == "static",
    )


def _cores(fields: Fields, name: str) -> set[str]:
    """A list of cores such as 0-3,8,10-11."""
    found: set[str] = set()
    for part in fields.text(name).split(","):
        first, _, last = part.strip().partition("-")
        if not first:
            continue
        if not first.isdecimal() or (last and not last.isdecimal()) or len(first + last) > 12:
            raise fields.error(name, f"has {part[:40]!r}", "give cores such as 0-3,8")
        begin, end = int(first), int(last or first)
        if end - begin > CORES_MOST:
            raise fields.error(name, f"has {part[:40]!r}", f"give at most {CORES_MOST} cores")
        found.update(str(core) for core in range(begin, end + 1))
    return found
