"""What workloads cost: by the prices of a budget, else by those of their flavors' nodes. Used by the budget check.

A price is for one unit and hour: a core, a GiB of memory or storage, one of anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.dialects.kueue.check_kinds import QUEUE, SUBMIT_QUEUE
from muster.model.errors import InvalidObject
from muster.model.fields import INT64_MAX, Fields

HOUR_S = 3600.0
_GIB = 2.0**30
_MILLI = 3
_IN_GIB = ("memory", "ephemeral-storage", "storage")


@dataclass(frozen=True, slots=True)
class PricedNode:
    """A node whose price is known."""

    labels: Mapping[str, str]
    offered: Mapping[str, float]  # units by resource
    per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What things cost for an hour."""

    units: Mapping[tuple[str, str], float] = field(default_factory=dict)  # by flavor and resource
    flavor_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of the flavors' nodes
    nodes: tuple[PricedNode, ...] = ()

    def per_hour(self, workload: Fields) -> float:
        """What a workload with quota costs while it runs."""
        given = workload.child("status").child("admission").children("podSetAssignments")
        return sum(self._pod_set(one) for one in given)

    def _pod_set(self, given: Fields) -> float:
        flavors, usage = given.text_map("flavors"), units_of(given, "resourceUsage")
        priced = {name: self.units[flavor, name] for name, flavor in flavors.items() if (flavor, name) in self.units}
        if priced:
            return sum(usage.get(name, 0.0) * price for name, price in priced.items())
        count = given.integer("count", 1, least=0)
        of_one = {name: amount / count for name, amount in usage.items()} if count else {}
        return count * max((self._pod(flavor, of_one) for flavor in set(flavors.values())), default=0.0)

    def _pod(self, flavor: str, asked: Mapping[str, float]) -> float:
        """The part of a node that a pod takes, in its price; of several kinds of node the dearest counts."""
        labels = self.flavor_labels.get(flavor, {})
        suited = (node for node in self.nodes if all(node.labels.get(name) == text for name, text in labels.items()))
        return max((node.per_hour * _share(asked, node.offered) for node in suited), default=0.0)


def _share(asked: Mapping[str, float], offered: Mapping[str, float]) -> float:
    return min(1.0, max((amount / offered[name] for name, amount in asked.items() if offered.get(name)), default=0.0))


def units_of(fields: Fields, name: str) -> dict[str, float]:
    """Amounts of resources in the units that prices are for."""
    return {
        resource: quantity.scaled(_MILLI, INT64_MAX) / 10**_MILLI / (_GIB if resource in _IN_GIB else 1.0)
        for resource, quantity in fields.quantities(name).items()
    }


def listed_prices(spec: Fields) -> dict[tuple[str, str], float]:
    """The prices of a budget."""
    return {(one.text("flavor"), one.text("resource")): one.number("perHour") for one in spec.children("prices")}


def account_of(workload: Fields, scope: str) -> str:
    """Whose budget a workload is paid from."""
    namespace = workload.child("metadata").text("namespace")
    if scope == QUEUE:
        return workload.child("status").child("admission").text("clusterQueue")
    return f"{namespace}/{workload.child('spec').text('queueName')}" if scope == SUBMIT_QUEUE else namespace


def left_s(workload: Fields, expected_s: int, admitted_at: float | None, now: float) -> float:
    """For how long a workload is taken to run yet."""
    limit_s = workload.child("spec").integer("maximumExecutionTimeSeconds") or expected_s
    spent_s = workload.child("status").integer("accumulatedPastExecutionTimeSeconds")
    running_s = max(0.0, now - admitted_at) if admitted_at is not None else 0.0
    return max(0.0, limit_s - spent_s - running_s)


def spent_of(account: Fields, now: float, at_s: float) -> float:
    """What an account has spent by now, if nothing has changed since it was written down."""
    try:
        spent, per_hour = float(account.text("spent", "0")[:64]), float(account.text("perHour", "0")[:64])
    except ValueError:
        raise InvalidObject(account.path, "is no account that can be read") from None
    return spent + per_hour * max(0.0, now - at_s) / HOUR_S


def priced_nodes(nodes: Iterable[Fields], annotation: str) -> tuple[PricedNode, ...]:
    """The nodes that say what they cost."""
    found = []
    for node in nodes:
        metadata = node.child("metadata")
        try:
            per_hour = float(metadata.text_map("annotations").get(annotation, "0")[:64])
        except ValueError:
            continue
        if per_hour > 0:
            offered = units_of(node.child("status"), "allocatable")
            found.append(PricedNode(metadata.text_map("labels"), offered, per_hour))
    return tuple(found)
