"""Builders for places: hosts in racks, pods that must be near each other, workloads that are placed already.

Also the plain count of what hosts have left, from nodes, pods and workloads alone: it shares nothing with the trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muster.model.flavor import Flavor
from muster.model.labels import first_untolerated, node_matches
from muster.model.plan import Plan
from muster.model.podspec import PodShape
from muster.model.resources import PODS
from muster.model.topology import (
    HOSTNAME,
    BoundPod,
    Node,
    Path,
    PlacedPods,
    TopologyAssignment,
    TopologyRequest,
)
from muster.model.workload import Admission, PodSet, PodSetAdmission, Workload
from tests.engine.builders import FLAVOR, GPU, name_of, pod_set, running, workload

BLOCK, RACK = "example.com/block", "example.com/rack"
LEVELS = (RACK, HOSTNAME)
IN_ONE_RACK = TopologyRequest(required=RACK)


def racks(name: str = FLAVOR, levels: tuple[str, ...] = LEVELS, **fields: Any) -> Flavor:
    """A flavor whose nodes are placed by racks and hosts."""
    return Flavor(name=name, topology="racks", topology_levels=levels, **fields)


def host(at: str, gpus: int = 4, **fields: Any) -> Node:
    """A node, named by where it is: rack/host, or block/rack/host."""
    *above, name = at.split("/")
    labels = dict(zip((RACK, BLOCK), reversed(above), strict=False)) | {HOSTNAME: name} | fields.pop("labels", {})
    allocatable = {GPU: gpus, PODS: 99} | fields.pop("amounts", {})
    return Node(name=name, labels=labels, allocatable=allocatable, **fields)


def near(
    name: str, count: int, *, gpus: int = 1, request: TopologyRequest | None = IN_ONE_RACK, **fields: Any
) -> Workload:
    """A workload that waits: so many pods that must be in one rack unless they ask for something else."""
    return workload(name, pod_sets=(pod_set(count=count, gpus=gpus, topology=request),), **fields)


def placed(name: str, hosts: Mapping[str, int], *, request: TopologyRequest | None = IN_ONE_RACK, **fields: Any) -> Any:
    """A running workload with so many pods on each host."""
    count, gpus = sum(hosts.values()), fields.pop("gpus", 1)
    one = running(name, pod_sets=(pod_set(count=count, gpus=gpus, topology=request),), **fields)
    assert one.admission is not None
    return replace(one, admission=with_place(one.admission, on_hosts(hosts)))


def on_hosts(hosts: Mapping[str, int]) -> TopologyAssignment:
    return TopologyAssignment((HOSTNAME,), tuple(PlacedPods((name,), count) for name, count in sorted(hosts.items())))


def with_place(admission: Admission, place: TopologyAssignment | None) -> Admission:
    """The same admission with its first pod set somewhere else."""
    first, *others = admission.pod_sets
    return replace(admission, pod_sets=(replace(first, place=place), *others))


def hosts_of(admission: Admission | None, index: int = 0) -> dict[str, int] | None:
    """Pods by host, or by the last part of their domain's name; nothing where the place is not decided."""
    place = admission.pod_sets[index].place if admission is not None else None
    return {domain.values[-1]: domain.count for domain in place.domains} if place is not None else None


def placements(plan: Plan) -> dict[str, dict[str, int] | None]:
    """Who got quota, and where its first pod set goes."""
    return {name_of(one.workload): hosts_of(one.admission) for one in plan.reserves}


# What is left, counted plainly -----------------------------------------------------------------------------------

Spot = tuple[str, Path]  # a leaf: flavor and domain; hosts are the same in every flavor, and named without one


@dataclass
class Ground:
    """Nodes and the pods that no admission accounts for, and the flavors that place on them."""

    flavors: Mapping[str, Flavor]
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, BoundPod] = field(default_factory=dict)
    known: dict[str, Node] = field(default_factory=dict)  # all there ever were

    def spot(self, flavor: str, values: Path) -> Spot:
        is_by_host = self.flavors[flavor].topology_levels[-1] == HOSTNAME
        return ("", values[-1:]) if is_by_host else (flavor, values)

    def path(self, flavor: str, values: Path) -> Path:
        """The whole name of a domain; that of a host is in the labels of its node."""
        levels = self.flavors[flavor].topology_levels
        if levels[-1] != HOSTNAME:
            return values
        return tuple(self.known[values[-1]].labels[level] for level in levels)

    def nodes_at(self, flavor: str, values: Path) -> list[Node]:
        """The nodes of a leaf that take part."""
        kind = self.flavors[flavor]
        path = self.path(flavor, values)
        return [
            node
            for node in self.nodes.values()
            if node.is_ready
            and node.is_schedulable
            and tuple(node.labels.get(level) for level in kind.topology_levels) == path
            and all(node.labels.get(name) == value for name, value in kind.labels.items())
        ]

    def capacity(self, flavor: str, values: Path) -> dict[str, int]:
        """What the nodes of a leaf have, less what pods without an admission hold."""
        nodes = self.nodes_at(flavor, values)
        total: dict[str, int] = {}
        for node in nodes:
            add(total, node.allocatable)
        names = {node.name for node in nodes}
        for pod in self.pods.values():
            if pod.node in names:
                add(total, {**pod.requests, PODS: pod.requests.get(PODS, 0) + 1}, -1)
        return total


def add(total: dict[str, int], amounts: Mapping[str, int], times: int = 1) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + amount * times


def pod_sets_of(one: Workload, admission: Admission) -> Iterator[tuple[PodSet, PodSetAdmission, str]]:
    """The pod sets that have a place, what each was given, and the flavor that they are placed in."""
    known = {pods.name: pods for pods in one.pod_sets}
    for given in admission.pod_sets:
        if given.place is not None:
            yield known[given.name], given, min(given.flavors.items())[1]


def held_at(ground: Ground, workloads: Iterable[Workload]) -> dict[Spot, dict[str, int]]:
    """What workloads hold of each leaf."""
    held: dict[Spot, dict[str, int]] = {}
    for one in workloads:
        if one.admission is None or one.is_finished:
            continue
        for pods, given, flavor in pod_sets_of(one, one.admission):
            assert given.place is not None
            for domain in given.place.domains:
                spot = ground.spot(flavor, domain.values)
                add(held.setdefault(spot, {}), {**pods.shape.requests, PODS: 1}, domain.count)
    return held


def may_use(shape: PodShape, node: Node, flavor: Flavor) -> bool:
    """Whether a pod may be on a node at all."""
    tolerations = (*shape.tolerations, *flavor.tolerations)
    return first_untolerated(node.taints, tolerations) is None and node_matches(
        node.labels, selector=shape.node_selector, affinity=shape.affinity, node_name=node.name
    )
