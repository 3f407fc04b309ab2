"""Properties of the topology search on small random clusters, against a count that knows nothing of trees and order.

A place is found exactly when there is one; it never holds more than a leaf has, never splits what must stay together,
and depends on nothing but the cluster as it is: not on the way there, nor on searches before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.engine.topology import PlacedUse, Topologies
from muster.engine.topology_assign import Choice, Share, spread
from muster.engine.topology_counts import Ranking
from muster.model.flavor import Flavor
from muster.model.labels import Taint, Toleration, first_untolerated, node_matches
from muster.model.podspec import PodShape
from muster.model.resources import PODS
from muster.model.topology import (
    HOSTNAME,
    BoundPod,
    Node,
    Path,
    Placement,
    PlacementAsk,
    PlacementRefusal,
    TopologyAssignment,
    TopologyRules,
    Unplaced,
)
from muster.model.workload import TopologyRequest

BLOCK, RACK = "block", "rack"
LEVELS = ((HOSTNAME,), (RACK, HOSTNAME), (BLOCK, RACK, HOSTNAME), (BLOCK, RACK))
FLAVOR = "gpus"
chances = st.randoms(use_true_random=False)

# Random clusters -----------------------------------------------------------------------------------------------------


@dataclass
class Cluster:
    """What a cluster is made of, apart from any tree."""

    levels: tuple[str, ...]
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, BoundPod] = field(default_factory=dict)
    uses: list[PlacedUse] = field(default_factory=list)

    def topologies(self, chance: Random | None = None, **rules: bool) -> Topologies:
        """Trees fed with all of it, in any order."""
        built = Topologies([Flavor(name=FLAVOR, topology="t", topology_levels=self.levels)], TopologyRules(**rules))
        steps = [(built.put_node, node) for node in self.nodes.values()]
        steps += [(built.put_pod, pod) for pod in self.pods.values()]
        steps += [(built.charge, use) for use in self.uses]
        if chance is not None:
            chance.shuffle(steps)
        for step, what in steps:
            step(what)
        built.commit()
        return built

    def leaves(self) -> dict[Path, list[Node]]:
        """The nodes that take part, by where they are."""
        found: dict[Path, list[Node]] = {}
        for node in self.nodes.values():
            if node.is_ready and node.is_schedulable:
                found.setdefault(tuple(node.labels[level] for level in self.levels), []).append(node)
        return found

    def key(self, path: Path) -> Path:
        return path[-1:] if self.levels[-1] == HOSTNAME else path

    def free(self, path: Path, nodes: Iterable[Node], *, is_empty: bool = False) -> dict[str, int]:
        left: dict[str, int] = {}
        for node in nodes:
            _add(left, node.allocatable, 1)
            for pod in self.pods.values():
                if pod.node == node.name:
                    _add(left, {**pod.requests, PODS: 1}, -1)
        for use in self.uses if not is_empty else ():
            for domain in use.assignment.domains:
                if domain.values == self.key(path):
                    _add(left, {**use.requests, PODS: 1}, -domain.count)
        return left


def _add(total: dict[str, int], amounts: Mapping[str, int], times: int) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + amount * times


def a_node(chance: Random, name: str, levels: tuple[str, ...]) -> Node:
    block, rack = chance.choice("AB"), chance.choice("12")
    values = {BLOCK: block, RACK: rack, HOSTNAME: name}
    return Node(
        name=name,
        labels={level: values[level] for level in levels} | {"disk": chance.choice(("fast", "slow"))},
        taints=(Taint("busy"),) if chance.randrange(6) == 0 else (),
        allocatable={"cpu": chance.randrange(8), "gpu": chance.randrange(5), PODS: chance.choice((2, 5, 9, 9))},
        is_ready=chance.randrange(8) > 0,
    )


def a_cluster(chance: Random) -> Cluster:
    """Up to nine nodes with pods on them and workloads that hold what the search gave them."""
    cluster = Cluster(chance.choice(LEVELS))
    for number in range(chance.randint(1, 9)):
        name = f"n{number}"
        cluster.nodes[name] = a_node(chance, name, cluster.levels)
    for number in range(chance.randrange(3)):
        pod = BoundPod(key=f"x/{number}", node=f"n{chance.randrange(9)}", requests={"cpu": chance.randrange(3)})
        cluster.pods[pod.key] = pod
    for _ in range(chance.randrange(3)):
        hold_another(chance, cluster)
    return cluster


def hold_another(chance: Random, cluster: Cluster) -> None:
    """One more workload, if it finds a place."""
    asked = an_ask(chance, cluster, "held")
    found = cluster.topologies().find({FLAVOR: [asked]})["held"]
    if isinstance(found, TopologyAssignment):
        cluster.uses.append(PlacedUse(FLAVOR, found, asked.shape.requests))


def a_shape(chance: Random) -> PodShape:
    return PodShape(
        requests={"cpu": chance.randrange(3), "gpu": chance.randrange(3)},
        node_selector={"disk": "fast"} if chance.randrange(5) == 0 else {},
        tolerations=(Toleration("busy", "Exists"),) if chance.randrange(3) == 0 else (),
    )


def a_request(chance: Random, levels: tuple[str, ...]) -> tuple[TopologyRequest, int]:
    """A request that makes sense, and what the number of pods must be a multiple of."""
    asked = chance.randrange(len(levels))
    layers: tuple[tuple[str, int], ...] = ()
    if chance.randrange(2) == 0:
        outer = chance.randrange(asked, len(levels))
        inner = chance.choice((1, 2))
        layers = ((levels[outer], inner * chance.choice((1, 2))),)
        if outer + 1 < len(levels) and chance.randrange(2) == 0:
            layers = (*layers, (levels[chance.randrange(outer + 1, len(levels))], inner))
    kind = chance.choice(("required", "preferred", "preferred", "slices" if layers else "anywhere"))
    request = TopologyRequest(
        required=levels[asked] if kind == "required" else "",
        preferred=levels[asked] if kind == "preferred" else "",
        is_unconstrained=kind == "anywhere",
        layers=layers,
    )
    return request, layers[0][1] if layers else 1


def an_ask(chance: Random, cluster: Cluster, name: str = "main") -> PlacementAsk:
    request, size = a_request(chance, cluster.levels)
    return PlacementAsk(name=name, count=size * chance.randint(1, 5), shape=a_shape(chance), request=request)


def a_group(chance: Random, cluster: Cluster) -> list[PlacementAsk]:
    """Mostly one pod set, sometimes one with a leader."""
    workers = an_ask(chance, cluster, "workers")
    if chance.randrange(3):
        return [workers]
    assert workers.request is not None
    request = replace(workers.request, group="g")
    leader = PlacementAsk(name="leader", count=1, shape=a_shape(chance), request=request)
    return [leader, replace(workers, count=max(workers.count, 1), request=request)]


# The oracle ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Oracle:
    """Whether there is a place, found by counting."""

    cluster: Cluster
    asks: list[PlacementAsk]
    is_empty: bool = False

    @property
    def workers(self) -> PlacementAsk:
        return self.asks[-1]

    @property
    def layers(self) -> list[tuple[int, int]]:
        assert self.workers.request is not None
        found = [(self.cluster.levels.index(level) + 1, size) for level, size in self.workers.request.layers]
        return found or [(len(self.cluster.levels), 1)]

    def has_place(self) -> bool:
        request = self.workers.request
        assert request is not None
        level = self.cluster.levels.index(request.required) + 1 if request.required else 0
        leaves = self.cluster.leaves()
        domains = {path[:level] for path in leaves}
        return any(self._fits(domain, [path for path in leaves if path[:level] == domain]) for domain in domains)

    def _fits(self, domain: Path, leaves: list[Path]) -> bool:
        size = self.layers[0][1]
        leaders = [path for path in leaves if self._times(path, self.asks[0])] if len(self.asks) > 1 else [None]
        return any(self._slices(domain, leaves, leader) * size >= self.workers.count for leader in leaders)

    def _slices(self, domain: Path, leaves: list[Path], leader: Path | None) -> int:
        """Slices of the outermost layer, with inner layers rounded down on the way up."""
        pods = {
            path: self._times(path, self.workers, beside=self.asks[0] if path == leader else None) for path in leaves
        }
        for index in range(len(self.layers) - 1, -1, -1):
            level, size = self.layers[index]
            pods = {path[:level]: 0 for path in pods} | _grouped(pods, level)
            pods = {path: count - count % size for path, count in pods.items()}
        return sum(pods.values()) // self.layers[0][1]

    def _times(self, path: Path, ask: PlacementAsk, beside: PlacementAsk | None = None) -> int:
        nodes = self.cluster.leaves()[path]
        if self.cluster.levels[-1] == HOSTNAME and not may_use(ask.shape, nodes[0]):
            return 0
        left = self.cluster.free(path, nodes, is_empty=self.is_empty)
        if beside is not None:
            _add(left, {**beside.shape.requests, PODS: 1}, -1)
        needs = {**ask.shape.requests, PODS: 1}
        return max(0, min(left.get(name, 0) // amount for name, amount in needs.items() if amount))


def _grouped(pods: Mapping[Path, int], level: int) -> dict[Path, int]:
    found: dict[Path, int] = {}
    for path, count in pods.items():
        found[path[:level]] = found.get(path[:level], 0) + count
    return found


def may_use(shape: PodShape, node: Node) -> bool:
    return first_untolerated(node.taints, shape.tolerations) is None and node_matches(
        node.labels, selector=shape.node_selector, affinity=shape.affinity, node_name=node.name
    )


# What must hold of places --------------------------------------------------------------------------------------------


def check_places(cluster: Cluster, asks: list[PlacementAsk], found: Mapping[str, Placement], *, is_empty: bool) -> None:
    """Nothing over what leaves have, nobody where he may not be, nothing split that belongs together."""
    paths = {cluster.key(path): path for path in cluster.leaves()}
    taken: dict[Path, dict[str, int]] = {}
    for ask in asks:
        placed = found[ask.name]
        assert isinstance(placed, TopologyAssignment)
        assert placed.count == ask.count
        assert all(domain.count > 0 for domain in placed.domains)
        spots = [paths[domain.values] for domain in placed.domains]
        assert spots == sorted(set(spots)), "each leaf once, in the order of its name"
        for domain in placed.domains:
            _add(taken.setdefault(domain.values, {}), {**ask.shape.requests, PODS: 1}, domain.count)
            node = cluster.leaves()[paths[domain.values]][0]
            assert cluster.levels[-1] != HOSTNAME or may_use(ask.shape, node)
    for key, amounts in taken.items():
        left = cluster.free(paths[key], cluster.leaves()[paths[key]], is_empty=is_empty)
        assert all(amount <= left.get(name, 0) for name, amount in amounts.items() if amount)
    check_nearness(cluster, asks, found)


def check_nearness(cluster: Cluster, asks: list[PlacementAsk], found: Mapping[str, Placement]) -> None:
    paths = {cluster.key(path): path for path in cluster.leaves()}
    workers = asks[-1]
    request = workers.request
    assert request is not None
    if request.required:
        level = cluster.levels.index(request.required) + 1
        assert len({paths[d.values][:level] for ask in asks for d in found[ask.name].domains}) == 1
    for label, size in request.layers:
        level = cluster.levels.index(label) + 1
        counts: dict[Path, int] = {}
        for domain in found[workers.name].domains:
            _add(counts, {paths[domain.values][:level]: domain.count}, 1)
        assert all(count % size == 0 for count in counts.values()), "slices stay whole"


def is_placed(found: Mapping[str, Placement]) -> bool:
    return not any(isinstance(place, PlacementRefusal) for place in found.values())


# Properties ----------------------------------------------------------------------------------------------------------


@given(chances, st.booleans())
@settings(max_examples=400, deadline=None)
def test_a_place_is_found_exactly_when_there_is_one(chance, is_empty):
    cluster = a_cluster(chance)
    asks = a_group(chance, cluster)
    found = cluster.topologies().find({FLAVOR: asks}, is_empty=is_empty)
    assert is_placed(found) == Oracle(cluster, asks, is_empty).has_place()
    if is_placed(found):
        check_places(cluster, asks, found, is_empty=is_empty)


@given(chances, st.sampled_from(["is_balanced", "follows_preferred_affinity", "packs_unconstrained"]))
@settings(max_examples=200, deadline=None)
def test_settings_change_the_choice_but_not_the_rules(chance, setting):
    cluster = a_cluster(chance)
    asks = a_group(chance, cluster)
    rules = {setting: setting != "packs_unconstrained"}
    found = cluster.topologies(**rules).find({FLAVOR: asks})
    assert is_placed(found) == Oracle(cluster, asks).has_place()
    if is_placed(found):
        check_places(cluster, asks, found, is_empty=False)


@given(chances)
@settings(max_examples=200, deadline=None)
def test_the_way_there_does_not_matter(chance):
    """Trees that lived through changes and searches answer as trees built from what is left."""
    cluster = a_cluster(chance)
    topologies = cluster.topologies(chance)
    kinds = [a_group(chance, cluster) for _ in range(3)]
    for _ in range(chance.randint(1, 12)):
        change(chance, cluster, topologies)
        asks, is_empty = chance.choice(kinds), chance.randrange(4) == 0
        fresh = cluster.topologies(chance)
        found = topologies.find({FLAVOR: asks}, is_empty=is_empty)
        assert found == fresh.find({FLAVOR: asks}, is_empty=is_empty)
        assert topologies.trees[FLAVOR].pool.usage == fresh.trees[FLAVOR].pool.usage
        assert found == topologies.find({FLAVOR: asks}, is_empty=is_empty)


def change(chance: Random, cluster: Cluster, topologies: Topologies) -> None:
    """One thing happens to a cluster and to its trees."""
    kind = chance.randrange(5)
    name = f"n{chance.randrange(9)}"
    if kind == 0:
        cluster.nodes[name] = a_node(chance, name, cluster.levels)
        topologies.put_node(cluster.nodes[name])
    elif kind == 1 and name in cluster.nodes:
        cluster.nodes[name] = replace(cluster.nodes[name], is_ready=not cluster.nodes[name].is_ready)
        topologies.put_node(cluster.nodes[name])
    elif kind == 2:
        cluster.nodes.pop(name, None)
        topologies.drop_node(name)
    elif kind == 3:
        pod = BoundPod(key=f"x/{chance.randrange(3)}", node=name, requests={"cpu": chance.randrange(3)})
        cluster.pods[pod.key] = pod
        topologies.put_pod(pod)
    elif cluster.uses and chance.randrange(2):
        topologies.release(cluster.uses.pop(chance.randrange(len(cluster.uses))))
    else:
        before = len(cluster.uses)
        hold_another(chance, cluster)
        for use in cluster.uses[before:]:
            topologies.charge(use)


@given(chances)
@settings(max_examples=150, deadline=None)
def test_a_try_leaves_no_trace(chance):
    cluster = a_cluster(chance)
    topologies = cluster.topologies()
    asks = a_group(chance, cluster)
    before = topologies.find({FLAVOR: asks})
    mark = topologies.checkpoint()
    for use in list(cluster.uses):
        if chance.randrange(2):
            topologies.release(use)
        topologies.find({FLAVOR: a_group(chance, cluster)}, is_empty=chance.randrange(2) == 0)
    if is_placed(before):
        for ask in asks:
            topologies.charge(PlacedUse(FLAVOR, before[ask.name], ask.shape.requests))
    topologies.rollback(mark)
    assert topologies.trees[FLAVOR].pool.usage == cluster.topologies().trees[FLAVOR].pool.usage
    assert topologies.find({FLAVOR: asks}) == before


@given(chances)
@settings(max_examples=200, deadline=None)
def test_a_replacement_moves_only_what_was_lost(chance):
    cluster = a_cluster(chance)
    asks = a_group(chance, cluster)
    before = cluster.topologies().find({FLAVOR: asks})
    if not is_placed(before) or cluster.levels[-1] != HOSTNAME:
        return
    hosts = sorted({domain.values for place in before.values() for domain in place.domains})
    (lost,) = chance.choice(hosts)
    cluster.nodes[lost] = replace(cluster.nodes[lost], is_ready=False)
    cluster.uses += [PlacedUse(FLAVOR, before[ask.name], ask.shape.requests) for ask in asks]
    after = cluster.topologies().replace({FLAVOR: asks}, before, lost)
    if not is_placed(after):
        assert {place.why for place in after.values()} == {Unplaced.TOO_FEW} or not cluster.leaves()
        return
    for ask in asks:
        stayed = {domain.values: domain.count for domain in before[ask.name].domains if domain.values != (lost,)}
        now = {domain.values: domain.count for domain in after[ask.name].domains}
        assert all(now.get(values, 0) >= count for values, count in stayed.items())
    cluster.uses = cluster.uses[: -len(asks)]
    check_places(cluster, asks, after, is_empty=False)


# Filling -------------------------------------------------------------------------------------------------------------

capacities = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=8)


@given(capacities, st.integers(1, 20), st.booleans())
@settings(max_examples=300, deadline=None)
def test_filling_is_what_it_says(rows, need, is_descending):
    keys = sorted((capacity, pods, position) for position, (capacity, pods) in enumerate(rows))
    total = sum(capacity for capacity, _ in rows)
    choice = Choice(Ranking([keys]), None, total, lambda position: 0)
    assert spread(choice, need, is_descending=is_descending) == list(plain_fill(keys, need, is_descending))


def plain_fill(keys: list[tuple[int, int, int]], need: int, is_descending: bool) -> Iterator[Share]:
    """Take domains in order; as soon as one holds the rest, take the tightest of those not taken that does."""
    if sum(capacity for capacity, _, _ in keys) < need:
        return
    left = sorted(keys, key=lambda key: (-key[0] if is_descending else key[0], key[1], key[2]))
    while left:
        capacity, _, position = left[0]
        if capacity >= need:
            tightest = min(key for key in left if key[0] >= need)
            yield Share(tightest[2], need)
            return
        if capacity:
            yield Share(position, capacity)
        need -= capacity
        left = left[1:]
