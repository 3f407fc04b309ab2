"""I1, from the objects alone: no admission takes a queue or a cohort beyond what it may use. Used by `invariants`.

Written from the rules of quota and not from the engine's code, so that the two can disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from muster.controllers.belonging import WORKLOADS, has_condition
from muster.controllers.cache import CLUSTER_QUEUES
from muster.dialects.kueue.names import GROUP
from muster.model.quantity import parse_quantity
from muster.model.resources import amount_of
from muster.sim.census import Census
from muster.sim.network import Landed
from muster.store.kinds import Object

COHORTS = f"cohorts.{GROUP}"
_ENDLESS = 1 << 60

Cell = tuple[str, str]  # flavor and resource


@dataclass(slots=True)
class _Node:
    """A queue or a cohort."""

    name: str
    parent: str
    nominal: dict[Cell, int] = field(default_factory=dict)
    borrowing: dict[Cell, int] = field(default_factory=dict)
    lending: dict[Cell, int] = field(default_factory=dict)
    children: list[_Node] = field(default_factory=list)

    def whole(self, cell: Cell) -> int:
        """What it and those below it bring."""
        return self.nominal.get(cell, 0) + sum(child.whole(cell) - child.kept(cell) for child in self.children)

    def kept(self, cell: Cell) -> int:
        """What it does not lend to others."""
        return max(0, self.whole(cell) - self.lending[cell]) if cell in self.lending else 0

    def most(self, cell: Cell) -> int:
        """What it may use at most."""
        if not self.parent:
            return self.whole(cell)
        return self.whole(cell) + self.borrowing.get(cell, _ENDLESS)

    def used(self, cell: Cell, by_queue: Mapping[str, Mapping[Cell, int]]) -> int:
        """What it uses: of a cohort, what those below it use beyond what they keep to themselves."""
        own = by_queue.get(self.name, {}).get(cell, 0)
        return own + sum(max(0, child.used(cell, by_queue) - child.kept(cell)) for child in self.children)


class Quotas:
    """Remembers who used what before the last step."""

    def __init__(self) -> None:
        self._before: dict[str, dict[Cell, int]] = {}

    def violations(self, census: Census, landed: list[Landed]) -> Iterator[str]:
        """Queues and cohorts that the last step has taken beyond what they may use."""
        if not any(change.key.resource == WORKLOADS for change in census.changes):
            return
        before, now = self._before, usage_by_queue(census)
        self._before = now
        if any(one.began < census.quotas_since for one in landed if one.process == "scheduler"):
            return  # it could not know of the change that an administrator has made meanwhile
        grown = {
            cell
            for queue, cells in now.items()
            for cell, used in cells.items()
            if used > before.get(queue, {}).get(cell, 0)
        }
        nodes = _tree(census) if grown else {}
        for node in nodes.values():
            for cell in sorted(grown):
                used = node.used(cell, now)
                if used > node.most(cell) and used > node.used(cell, before):
                    yield f"I1: {node.name} uses {used} of {cell} and may use {node.most(cell)}"


def usage_by_queue(census: Census) -> dict[str, dict[Cell, int]]:
    """What the admitted workloads of each queue hold, as their status says."""
    found: dict[str, dict[Cell, int]] = {}
    for workload in census.all(WORKLOADS):
        status = workload.get("status") or {}
        admission = status.get("admission")
        if not admission or not has_condition(workload, "QuotaReserved") or has_condition(workload, "Finished"):
            continue
        done = {one["name"]: one["count"] for one in status.get("reclaimablePods") or ()}
        cells = found.setdefault(admission["clusterQueue"], {})
        for given in admission["podSetAssignments"]:
            count = given.get("count") or 0
            left = max(0, count - done.get(given["name"], 0))
            for resource, text in (given.get("resourceUsage") or {}).items():
                cell = (given.get("flavors", {}).get(resource, ""), resource)
                cells[cell] = cells.get(cell, 0) + (_amount(resource, text) * left // count if count else 0)
    return found


def _tree(census: Census) -> dict[str, _Node]:
    nodes: dict[str, _Node] = {}
    for resource, parent in ((COHORTS, "parentName"), (CLUSTER_QUEUES, "cohortName")):
        for obj in census.all(resource):
            node = _read(obj, parent)
            nodes[_called(resource, node.name)] = node
    for node in list(nodes.values()):
        if node.parent:
            above = _called(COHORTS, node.parent)
            nodes.setdefault(above, _Node(node.parent, "")).children.append(node)
    return nodes


def _called(resource: str, name: str) -> str:
    return f"{resource} {name}"


def _read(obj: Object, parent: str) -> _Node:
    spec = obj.get("spec") or {}
    node = _Node(obj["metadata"]["name"], spec.get(parent) or "")
    for group in spec.get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for one in flavor["resources"]:
                cell = (flavor["name"], one["name"])
                node.nominal[cell] = _amount(one["name"], one["nominalQuota"])
                if one.get("borrowingLimit") is not None:
                    node.borrowing[cell] = _amount(one["name"], one["borrowingLimit"])
                if one.get("lendingLimit") is not None:
                    node.lending[cell] = _amount(one["name"], one["lendingLimit"])
    return node


def _amount(resource: str, text: object) -> int:
    return amount_of(resource, parse_quantity(str(text)))
