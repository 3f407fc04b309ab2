"""Places in one tree: the tightest domain, several domains, slices, leaders, and what earlier pod sets took.

The builders are used by the other tests of the topology too. A row of nodes is "rack/host: cards"; results are read
back as {host: pods}, so a row shows only what matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from muster.engine.topology import PlacedUse, Topologies
from muster.model.flavor import Flavor
from muster.model.labels import NodeTerm, Operator, PreferredTerm, Requirement, Taint, Toleration
from muster.model.podspec import PodShape
from muster.model.topology import (
    HOSTNAME,
    BoundPod,
    Node,
    PlacedPods,
    Placement,
    PlacementAsk,
    PlacementRefusal,
    TopologyAssignment,
    TopologyRules,
    Unplaced,
)
from muster.model.workload import TopologyRequest

GPU = "nvidia.com/gpu"
BLOCK, RACK, HOST = "example.com/block", "example.com/rack", HOSTNAME
FLAVOR = "gpus"
LEVELS = (RACK, HOST)

# Builders ------------------------------------------------------------------------------------------------------------


def flavor(name: str = FLAVOR, *, levels: tuple[str, ...] = LEVELS, **fields: Any) -> Flavor:
    return Flavor(name=name, topology="topology", topology_levels=levels, **fields)


def node(path: str, gpus: int = 0, *, levels: tuple[str, ...] = LEVELS, **fields: Any) -> Node:
    """A node by its place, "rack/host"; `amounts` replaces its cards, `more` adds labels."""
    values = path.split("/")
    amounts = fields.pop("amounts", {GPU: gpus})
    labels = dict(zip(levels, values, strict=True)) | fields.pop("more", {})
    return Node(name=values[-1], labels=labels, allocatable={"pods": 100, **amounts}, **fields)


def world(nodes: Mapping[str, int] | Iterable[Node], *, levels: tuple[str, ...] = LEVELS, **rules: Any) -> Topologies:
    """The trees of one flavor, from cards by place or from whole nodes."""
    topologies = Topologies([flavor(levels=levels)], TopologyRules(**rules))
    rows = [node(path, gpus, levels=levels) for path, gpus in nodes.items()] if isinstance(nodes, Mapping) else nodes
    for row in rows:
        topologies.put_node(row)
    return topologies


def ask(count: int = 1, name: str = "main", *, gpus: int = 1, **fields: Any) -> PlacementAsk:
    """`count` pods of `gpus` cards; what the request says comes by its own names, the shape's fields in `shape`."""
    shape = {"requests": {GPU: gpus}} | fields.pop("shape", {})
    previous = fields.pop("previous", None)
    request = TopologyRequest(**fields) if fields else None
    return PlacementAsk(name=name, count=count, shape=PodShape(**shape), request=request, previous=previous)


def find(topologies: Topologies, *asks: PlacementAsk, **options: Any) -> dict[str, Placement]:
    return topologies.find({FLAVOR: list(asks)}, **options)


def places(placement: Placement | None) -> dict[str, int] | Unplaced | None:
    """A place as {host: pods}, a refusal as why."""
    if isinstance(placement, PlacementRefusal):
        return placement.why
    return {"/".join(d.values): d.count for d in placement.domains} if placement is not None else None


def found(topologies: Topologies, *asks: PlacementAsk, **options: Any) -> Any:
    """The places of the only pod set, or of several by name."""
    result = {name: places(place) for name, place in find(topologies, *asks, **options).items()}
    return result["main"] if len(asks) == 1 else result


def hosts(**counts: int) -> TopologyAssignment:
    return TopologyAssignment((HOST,), tuple(PlacedPods((host,), count) for host, count in counts.items()))


def hold(topologies: Topologies, *, gpus: int = 1, **counts: int) -> PlacedUse:
    """Charge so many pods on each host."""
    use = PlacedUse(FLAVOR, hosts(**counts), {GPU: gpus})
    topologies.charge(use)
    return use


# Which domain --------------------------------------------------------------------------------------------------------

TWO_RACKS = {"r1/a": 4, "r1/b": 4, "r2/c": 3, "r2/d": 2}


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        pytest.param(ask(5, required=RACK), {"c": 3, "d": 2}, id="the tightest rack that fits"),
        pytest.param(ask(6, required=RACK), {"a": 4, "b": 2}, id="only the larger rack fits"),
        pytest.param(ask(9, required=RACK), Unplaced.TOO_FEW, id="no rack fits"),
        pytest.param(ask(9, preferred=RACK), {"a": 4, "b": 4, "d": 1}, id="two racks, the last host the tightest"),
        pytest.param(ask(14, preferred=RACK), Unplaced.TOO_FEW, id="not even all racks"),
        pytest.param(ask(3, required=HOST), {"c": 3}, id="the tightest host"),
        pytest.param(ask(4, preferred=HOST), {"a": 4}, id="equals in the order of names"),
        pytest.param(ask(3, is_unconstrained=True), {"c": 3}, id="anywhere: the tightest host"),
        pytest.param(ask(6, is_unconstrained=True), {"c": 3, "d": 2, "a": 1}, id="anywhere: least left first"),
        pytest.param(ask(6), {"c": 3, "d": 2, "a": 1}, id="not asked for is anywhere"),
        pytest.param(ask(2, required="example.com/row"), Unplaced.LEVEL_MISSING, id="no such level"),
    ],
)
def test_domain(asked, want):
    assert found(world(TWO_RACKS), asked) == want


def test_anywhere_fills_the_largest_first_when_not_packing():
    assert found(world(TWO_RACKS, packs_unconstrained=False), ask(6)) == {"a": 4, "d": 2}


def test_places_are_in_the_order_of_the_whole_path():
    placed = find(world({"r2/a": 1, "r1/z": 1}), ask(2, preferred=RACK))["main"]
    assert placed == hosts(z=1, a=1)


def test_racks_are_named_in_full_where_they_are_the_lowest_level():
    topologies = world({"b1/r1": 2, "b1/r2": 4}, levels=(BLOCK, RACK))
    placed = find(topologies, ask(3, required=RACK))["main"]
    assert placed == TopologyAssignment((BLOCK, RACK), (PlacedPods(("b1", "r2"), 3),))


def test_nodes_of_one_rack_add_up_where_racks_are_the_lowest_level():
    rows = [node("b1/r1", 2, levels=(BLOCK, RACK)), node("b1/r1", 3, levels=(BLOCK, RACK))]
    topologies = world(
        [Node(name=f"n{i}", labels=row.labels, allocatable=row.allocatable) for i, row in enumerate(rows)],
        levels=(BLOCK, RACK),
    )
    assert found(topologies, ask(5, required=RACK)) == {"b1/r1": 5}


# Slices --------------------------------------------------------------------------------------------------------------

BLOCKS = {"b1/r1/a": 3, "b1/r1/b": 3, "b1/r2/c": 5, "b2/r3/d": 4, "b2/r3/e": 2}


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        pytest.param(
            ask(4, required=BLOCK, slice_level=HOST, slice_size=2), {"d": 4}, id="whole slices on the tightest"
        ),
        pytest.param(
            ask(8, required=BLOCK, slice_level=HOST, slice_size=2), {"a": 2, "b": 2, "c": 4}, id="two cards stay unused"
        ),
        pytest.param(
            ask(10, required=BLOCK, slice_level=HOST, slice_size=2), Unplaced.TOO_FEW, id="cards enough, slices not"
        ),
        pytest.param(
            ask(10, required=BLOCK, slice_level=RACK, slice_size=5), {"a": 3, "b": 2, "c": 5}, id="slices over a rack"
        ),
        pytest.param(
            ask(12, preferred=BLOCK, slice_level=RACK, slice_size=3),
            {"a": 3, "b": 3, "d": 4, "e": 2},
            id="slices in two blocks",
        ),
        pytest.param(ask(6, slice_level=HOST, slice_size=3), {"a": 3, "b": 3}, id="slices anywhere"),
        pytest.param(
            ask(4, required=BLOCK, layers=((RACK, 4), (HOST, 2))), {"d": 2, "e": 2}, id="the smallest host first"
        ),
        pytest.param(
            ask(4, required=RACK, layers=((RACK, 4), (HOST, 4))), {"c": 4}, id="inner slices as large as the outer"
        ),
        pytest.param(
            ask(8, required=BLOCK, layers=((RACK, 4), (HOST, 2))), {"a": 2, "b": 2, "c": 4}, id="layers in two racks"
        ),
    ],
)
def test_slices(asked, want):
    assert found(world(BLOCKS, levels=(BLOCK, RACK, HOST)), asked) == want


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        pytest.param(ask(4, required=RACK, slice_level=HOST), Unplaced.SLICE_SIZE_MISSING, id="no size"),
        pytest.param(
            ask(4, required=RACK, slice_level="row", slice_size=2), Unplaced.SLICE_LEVEL_MISSING, id="no such level"
        ),
        pytest.param(
            ask(4, required=HOST, slice_level=RACK, slice_size=2), Unplaced.SLICE_LEVEL_ABOVE, id="wider than the set"
        ),
        pytest.param(
            ask(5, required=RACK, slice_level=HOST, slice_size=2), Unplaced.SLICES_UNEVEN, id="a pod is left over"
        ),
        pytest.param(
            ask(6, required=RACK, layers=((RACK, 6), (HOST, 4))), Unplaced.SLICES_UNEVEN, id="layers do not divide"
        ),
        pytest.param(
            ask(4, required=RACK, layers=((HOST, 4), (RACK, 2))), Unplaced.LAYERS_UNORDERED, id="layers go up"
        ),
    ],
)
def test_requests_that_make_no_sense(asked, why):
    assert found(world(TWO_RACKS), asked) is why


def test_layers_are_ignored_when_switched_off():
    asked = ask(4, required=BLOCK, layers=((RACK, 4), (HOST, 2)))
    assert found(world(BLOCKS, levels=(BLOCK, RACK, HOST), has_layers=False), asked) == {"d": 4}


# Groups --------------------------------------------------------------------------------------------------------------


def grouped(workers: int, *, gpus: int = 1, **request: Any) -> list[PlacementAsk]:
    """A leader of one card, and its workers."""
    return [ask(1, "leader", group="g", **request), ask(workers, "workers", gpus=gpus, group="g", **request)]


@pytest.mark.parametrize(
    ("nodes", "asks", "want"),
    [
        pytest.param(
            {"r1/a": 4, "r2/b": 5},
            grouped(4, required=RACK),
            {"leader": {"b": 1}, "workers": {"b": 4}},
            id="room for both",
        ),
        pytest.param(
            {"r1/a": 8, "r1/b": 3},
            grouped(5, gpus=2, required=RACK),
            {"leader": {"b": 1}, "workers": {"a": 4, "b": 1}},
            id="the leader goes where the workers lose nothing",
        ),
        pytest.param(
            {"r1/a": 2, "r2/b": 2},
            grouped(3, preferred=RACK),
            {"leader": {"a": 1}, "workers": {"a": 1, "b": 2}},
            id="over two racks",
        ),
        pytest.param(
            {"r1/a": 4},
            grouped(4, required=RACK),
            {"leader": Unplaced.TOO_FEW, "workers": Unplaced.TOO_FEW},
            id="all or none",
        ),
        pytest.param(
            {"r1/a": 4, "r2/b": 9},
            [ask(2, "leader", group="g", required=RACK), ask(4, "workers", group="g", required=RACK)],
            {"leader": Unplaced.GROUP_WITHOUT_LEADER, "workers": Unplaced.GROUP_WITHOUT_LEADER},
            id="a leader is one pod",
        ),
    ],
)
def test_leader_and_workers(nodes, asks, want):
    assert found(world(nodes), *asks) == want


def test_pod_sets_count_those_placed_before_them():
    asks = [ask(2, "one", required=HOST), ask(2, "two", required=HOST), ask(2, "three", required=HOST)]
    want = {"one": {"a": 2}, "two": {"b": 2}, "three": Unplaced.TOO_FEW}
    assert found(world({"r1/a": 2, "r1/b": 3}), *asks) == want


def test_search_stops_at_the_first_refusal_and_passes_over_empty_pod_sets():
    asks = [ask(0, "none"), ask(9, "many"), ask(1, "one")]
    assert found(world({"r1/a": 2}), *asks) == {"many": Unplaced.TOO_FEW}


# What counts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(node("r1/b", 9, is_ready=False), id="not ready"),
        pytest.param(node("r1/b", 9, is_schedulable=False), id="cordoned"),
        pytest.param(Node(name="b", labels={HOST: "b"}, allocatable={GPU: 9, "pods": 9}), id="without a rack"),
        pytest.param(node("r1/b", 9, taints=(Taint("broken"),)), id="tainted"),
        pytest.param(node("r1/b", amounts={GPU: 9, "pods": 0}), id="no room for pods"),
    ],
)
def test_nodes_that_take_no_part(row):
    topologies = world([node("r1/a", 1), row])
    assert found(topologies, ask(1)) == {"a": 1}
    assert found(topologies, ask(2)) is Unplaced.TOO_FEW


def test_nodes_need_the_labels_of_the_flavor():
    topologies = Topologies([flavor(labels={"kind": "big"})])
    topologies.put_node(node("r1/a", 9))
    assert found(topologies, ask(1)) is Unplaced.NO_DOMAINS
    topologies.put_node(node("r1/b", 9, more={"kind": "big"}))
    assert found(topologies, ask(1)) == {"b": 1}


@pytest.mark.parametrize(
    "tolerations",
    [
        pytest.param({"shape": {"tolerations": (Toleration("broken", "Exists"),)}}, id="of the pod"),
        pytest.param({"flavor": {"tolerations": (Toleration("broken", "Exists"),)}}, id="of the flavor"),
    ],
)
def test_tolerated_taints(tolerations):
    topologies = Topologies([flavor(**tolerations.get("flavor", {}))])
    topologies.put_node(node("r1/a", 1, taints=(Taint("broken"),)))
    assert found(topologies, ask(1, shape=tolerations.get("shape", {}))) == {"a": 1}


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param({"node_selector": {"disk": "fast"}}, id="selector"),
        pytest.param({"affinity": (NodeTerm((Requirement("disk", Operator.EXISTS),)),)}, id="affinity to a label"),
        pytest.param(
            {"affinity": (NodeTerm(names=(Requirement("metadata.name", Operator.IN, frozenset(["b"])),)),)},
            id="affinity to a name",
        ),
    ],
)
def test_pods_choose_their_nodes(shape):
    topologies = world([node("r1/a", 1), node("r1/b", 5, more={"disk": "fast"})])
    assert found(topologies, ask(1, shape=shape)) == {"b": 1}


def test_pods_without_an_assignment_hold_their_part_and_a_place():
    topologies = world({"r1/a": 4})
    topologies.put_pod(BoundPod(key="x/one", node="a", requests={GPU: 3}))
    assert found(topologies, ask(2)) is Unplaced.TOO_FEW
    topologies.put_pod(BoundPod(key="x/one", node="a", requests={GPU: 1}))
    assert found(topologies, ask(3)) == {"a": 3}
    topologies.drop_pod("x/one")
    assert found(topologies, ask(4)) == {"a": 4}


def test_pods_take_a_place_each_even_when_they_ask_for_nothing():
    topologies = world([node("r1/a", amounts={"pods": 3})])
    assert found(topologies, ask(3, gpus=0)) == {"a": 3}
    assert found(topologies, ask(4, gpus=0)) is Unplaced.TOO_FEW


# Liked nodes and balance ---------------------------------------------------------------------------------------------


def test_liked_nodes_go_first_when_they_count():
    likes = {"preferred": (PreferredTerm(5, NodeTerm((Requirement("disk", Operator.EXISTS),))),)}
    rows = [node("r1/a", 2), node("r1/b", 4, more={"disk": "fast"})]
    assert found(world(rows), ask(2, preferred=HOST, shape=likes)) == {"a": 2}
    assert found(world(rows, follows_preferred_affinity=True), ask(2, preferred=HOST, shape=likes)) == {"b": 2}


@pytest.mark.parametrize(
    ("nodes", "count", "want"),
    [
        pytest.param({"r1/a": 6, "r1/b": 6}, 8, {"a": 4, "b": 4}, id="halves"),
        pytest.param({"r1/a": 6, "r1/b": 6}, 9, {"a": 5, "b": 4}, id="the first takes the odd one"),
        pytest.param({"r1/a": 9, "r1/b": 6}, 8, {"a": 8}, id="one is enough"),
        pytest.param({"r1/a": 7, "r1/b": 6, "r1/c": 5}, 11, {"b": 6, "c": 5}, id="the tightest pair"),
        pytest.param({"r1/a": 7, "r1/b": 1}, 8, {"a": 7, "b": 1}, id="as even as it gets"),
    ],
)
def test_balanced(nodes, count, want):
    assert found(world(nodes, is_balanced=True), ask(count, preferred=RACK)) == want
