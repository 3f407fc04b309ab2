"""Nodes and cards as the commands show them, for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.app.plan import PlanReport
    from muster.engine.fit import FitReport
    from muster.model.device import Share
    from muster.model.workload import Slot

NODES_SHOWN = 8


def slots_text(slots: Sequence[Slot]) -> str:
    """The nodes of pods in one line: a x8 (cards 0-7), b x2."""
    by_node: dict[str, list[Slot]] = {}
    for slot in slots:
        by_node.setdefault(slot.node, []).append(slot)
    parts = [_node_text(node, held) for node, held in list(by_node.items())[:NODES_SHOWN]]
    if len(by_node) > NODES_SHOWN:
        parts.append(f"and {len(by_node) - NODES_SHOWN} more nodes")
    return ", ".join(parts)


def _node_text(node: str, slots: Sequence[Slot]) -> str:
    times = f" x{len(slots)}" if len(slots) > 1 else ""
    cards = sorted(card for slot in slots for card in slot.cards)
    sliced = [slot.slices.shares for slot in slots if slot.slices is not None]
    shares = Counter((share.uuid, share.memory_mib, _cores_text(share)) for given in sliced for share in given)
    held = []
    if cards:
        held.append(f"{'card' if len(cards) == 1 else 'cards'} {_ranges(cards)}")
    for (uuid, memory_mib, cores), count in sorted(shares.items()):
        held.append(f"{uuid}{f' x{count}' if count > 1 else ''}: {memory_mib} MiB, {cores}")
    return f"{node}{times}" + (f" ({'; '.join(held)})" if held else "")


def _cores_text(share: Share) -> str:
    """The cores of a share in its vendor's own words."""
    from muster.app.plugins import vendors

    known = vendors().get(share.vendor)
    return known.cores_text(share.cores) if known is not None else f"{share.cores} cores"


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers with runs drawn together: 0-3, 5."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def jobs_in_parts(report: PlanReport) -> list[tuple[str, str, str]]:
    """Of jobs whose pods were decided on one by one: how many have nodes, and how many wait."""
    waiting = {one.verdict.workload for one in report.waiting}
    placed = {step.workload for step in report.steps} - waiting
    pods = Counter(report.owners.get(key, "") for key in placed | waiting)
    still = Counter(report.owners.get(key, "") for key in waiting)
    jobs = sorted(job for job, count in pods.items() if job and count > 1)
    return [(job, str(pods[job] - still[job]), str(still[job])) for job in jobs]


def slot_object(slot: Slot) -> dict[str, Any]:
    """One pod's node and cards as plain data."""
    shown: dict[str, Any] = {"node": slot.node}
    if slot.cards:
        shown["cards"] = list(slot.cards)
    if slot.slices is not None:
        shown["shares"] = [
            {"card": share.uuid, "memoryMiB": share.memory_mib, "cores": share.cores} for share in slot.slices.shares
        ]
    return shown


def fit_object(fit: FitReport) -> dict[str, Any]:
    """How a pod fares on the nodes, as plain data."""
    return {
        "nodes": fit.nodes,
        "fitting": fit.fitting,
        "refusals": [{"reason": refusal.text, "nodes": count} for refusal, count in fit.refusals],
        "nearest": [{"node": near.name, "lacks": [lack.text for lack in near.lacks]} for near in fit.nearest],
    }
