"""Builders for places: hosts in racks, pods that must be near each other, workloads that are placed already.

Also the plain count of what hosts have left, from nodes, pods and workloads alone: it shares nothing with the trees.
On it the checks are built that every plan has to stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muster.model.flavor import Flavor
from muster.model.labels import first_untolerated, node_matches
from muster.model.plan import Amend, Plan, Reserve
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


# What must hold of a plan ----------------------------------------------------------------------------------------


def check_plan(ground: Ground, workloads: Mapping[str, Workload], plan: Plan) -> None:
    """Each decision in turn finds room for what it moves, and puts it where it may be."""
    known = dict(workloads)
    for decision in plan.decisions:
        if not isinstance(decision, Reserve | Amend):
            continue
        one = known[decision.workload]
        check_room(ground, known.values(), one, decision.admission)
        check_together(ground, one, decision.admission)
        for pods, given, _ in pod_sets_of(one, decision.admission):
            assert given.place.count == given.count <= pods.count
            assert all(domain.count > 0 for domain in given.place.domains)
        if isinstance(decision, Amend):
            check_amend(ground, one, decision)
        else:
            for given in decision.admission.pod_sets:
                assert (given.place is None) is (given.is_delayed or not given.count)
        known[one.key] = replace(one, admission=decision.admission)


def check_room(ground: Ground, workloads: Iterable[Workload], one: Workload, admission: Admission) -> None:
    """Where pods come to, they may be, and there is room for them beside all who are there."""
    held = held_at(ground, workloads)
    before = domains_of(one, one.admission) if one.admission is not None else {}
    for pods, given, flavor in pod_sets_of(one, admission):
        for domain in given.place.domains:
            came = domain.count - before.get((given.name, domain.values), 0)
            if came <= 0:
                continue
            nodes = ground.nodes_at(flavor, domain.values)
            assert nodes, f"{one.key} goes to {domain.values}, where nothing is"
            if ground.flavors[flavor].topology_levels[-1] == HOSTNAME:
                assert may_use(pods.shape, nodes[0], ground.flavors[flavor]), f"{one.key} may not be on {domain.values}"
            needs = {name: amount for name, amount in {**pods.shape.requests, PODS: 1}.items() if amount}
            there = held.setdefault(ground.spot(flavor, domain.values), {})
            add(there, needs, came)
            has = ground.capacity(flavor, domain.values)
            over = {name: there[name] - has.get(name, 0) for name in needs if there[name] > has.get(name, 0)}
            assert not over, f"{one.key} puts {came} pods on {domain.values}, which is over by {over}"


def domains_of(one: Workload, admission: Admission) -> dict[tuple[str, Path], int]:
    """How many pods of which pod set are where."""
    return {
        (given.name, domain.values): domain.count
        for _, given, _ in pod_sets_of(one, admission)
        for domain in given.place.domains
    }


def check_together(ground: Ground, one: Workload, admission: Admission) -> None:
    """What is required in one domain is in one; slices are whole."""
    groups: dict[str, set[Path]] = {}
    for pods, given, flavor in pod_sets_of(one, admission):
        request = pods.topology or TopologyRequest()
        levels = ground.flavors[flavor].topology_levels
        places = [(ground.path(flavor, domain.values), domain.count) for domain in given.place.domains]
        if request.required:
            depth = levels.index(request.required) + 1
            groups.setdefault(request.group or given.name, set()).update(path[:depth] for path, _ in places)
        for label, size in request.layers if pods.name != "leader" else ():
            depth, counts = levels.index(label) + 1, dict[Path, int]()
            for path, count in places:
                counts[path[:depth]] = counts.get(path[:depth], 0) + count
            assert not any(count % size for count in counts.values()), f"{one.key} has a broken slice: {counts}"
    split = {name: domains for name, domains in groups.items() if len(domains) > 1}
    assert not split, f"{one.key} is split: {split}"


def check_amend(ground: Ground, one: Workload, decision: Amend) -> None:
    """Only what was lost, or had no place yet, moves; flavors and counts stay."""
    assert one.admission is not None
    now = {given.name: given for given in decision.admission.pod_sets}
    for given in one.admission.pod_sets:
        after: PodSetAdmission = now[given.name]
        assert (after.count, after.flavors, after.usage) == (given.count, given.flavors, given.usage)
        assert after.place is not None or not after.count, f"{one.key} is left without a place"
        for domain in given.place.domains if given.place is not None else ():
            stays = next((other.count for other in after.place.domains if other.values == domain.values), 0)
            if decision.replaced_node in domain.values:
                assert stays == 0 or ground.nodes_at(min(given.flavors.items())[1], domain.values)
            else:
                assert stays >= domain.count
