"""What applications hold, and limits that workloads of several queues share. Part of the engine's state.

A shared limit is checked when a workload is tried and counted when the plan is carried out, so of those that share one
a cycle admits one: the stage that lets queues take turns sees to it (`muster/engine/stages/reserve.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.engine.holders import Holder
from muster.engine.tree import QuotaTree
from muster.model.queue import SharedLimit
from muster.model.reason import Amount, Code, Reason, because
from muster.model.resources import PODS, sum_amounts
from muster.model.workload import Workload

APPLICATIONS = "applications"


@dataclass(slots=True)
class _Tally:
    """What some workloads hold together."""

    amounts: dict[str, int] = field(default_factory=dict)
    applications: dict[str, int] = field(default_factory=dict)  # workloads of each that hold something

    def count(self, holder: Holder, sign: int) -> None:
        for (_, resource), amount in holder.usage.items():
            self.amounts[resource] = self.amounts.get(resource, 0) + sign * amount
        name = holder.workload.application
        left = self.applications.get(name, 0) + sign
        if left:
            self.applications[name] = left
        else:
            self.applications.pop(name, None)


class SharedUse:
    """Tallies of every shared limit and every application."""

    def __init__(self, limits: Mapping[str, SharedLimit], tree: QuotaTree) -> None:
        self._limits = limits
        self._tree = tree
        self._of_limits: dict[str, _Tally] = {name: _Tally() for name in limits}
        self._of_applications: dict[str, _Tally] = {}
        self._totals: dict[str, dict[str, int]] = {}  # by root
        self._roots: dict[str, str] = {}  # by application: the root of the tree that it is in

    def count(self, holder: Holder, sign: int) -> None:
        """Take up or drop what a workload holds."""
        workload = holder.workload
        if not workload.application:
            return
        for name in workload.limits:
            if name in self._of_limits:
                self._of_limits[name].count(holder, sign)
        self._of_applications.setdefault(workload.application, _Tally()).count(holder, sign)
        self._roots[workload.application] = holder.queue.root.name

    def held_by(self, application: str) -> float:
        """The largest part of any resource of its tree that an application holds."""
        tally = self._of_applications.get(application)
        if tally is None:
            return 0.0
        totals = self._totals_of(self._roots[application])
        return max((amount / totals[name] for name, amount in tally.amounts.items() if totals.get(name)), default=0.0)

    def _totals_of(self, root: str) -> dict[str, int]:
        """What a whole tree brings, by resource."""
        if root not in self._totals:
            node = self._tree.nodes[root]
            parts = ({resource: node.cells[flavor, resource].subtree} for flavor, resource in node.declared)
            self._totals[root] = sum_amounts(parts)
        return self._totals[root]

    def refusal(self, workload: Workload) -> Reason | None:
        """The first shared limit that leaves a workload no room."""
        asked = sum_amounts(
            {name: amount * pod_set.count_left for name, amount in pod_set.requests.items()}
            for pod_set in workload.pod_sets
        )
        asked[PODS] = sum(pod_set.count_left for pod_set in workload.pod_sets)
        for name in workload.limits:
            limit, tally = self._limits.get(name), self._of_limits.get(name)
            if limit is None or tally is None:
                continue
            for resource, most in limit.most.items():
                used, more = tally.amounts.get(resource, 0), asked.get(resource, 0)
                if more and used + more > most:
                    amounts = {"most": most, "used": used, "asked": more}
                    shown = {what: Amount(resource, amount) for what, amount in amounts.items()}
                    return because(Code.LIMIT_REACHED, limit=limit.title, resource=resource, **shown)
            count = len(tally.applications)
            is_new = workload.application not in tally.applications
            if limit.applications_most is not None and is_new and count >= limit.applications_most:
                numbers = {"most": limit.applications_most, "used": count, "asked": 1}
                return because(Code.LIMIT_REACHED, limit=limit.title, resource=APPLICATIONS, **numbers)
        return None
