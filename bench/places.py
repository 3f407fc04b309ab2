"""Places: what it costs to find room for pods that must be near each other, in clusters of different sizes."""

from __future__ import annotations

import gc
import statistics
import time

from muster.engine.topology import PlacedUse, Topologies
from muster.model.flavor import Flavor
from muster.model.podspec import PodShape
from muster.model.topology import (
    HOSTNAME,
    Node,
    PlacementAsk,
    PlacementRefusal,
    TopologyAssignment,
    TopologyRequest,
)

RACK = "rack"
NODES_A_RACK = 64
CARDS = 8
FLAVOR = Flavor(name="gpu", labels={}, topology="racks", topology_levels=(RACK, HOSTNAME))
SEARCHES = 200
IN_A_RACK = TopologyRequest(required=RACK)


def cluster(nodes: int, *, are_alike: bool = True) -> Topologies:
    """Racks of nodes with eight cards each; equal ones, or each with a little more cpu than the one before."""
    topologies = Topologies([FLAVOR])
    for index in range(nodes):
        name = f"node-{index}"
        labels = {RACK: f"rack-{index // NODES_A_RACK}", HOSTNAME: name}
        allocatable = {"cpu": 64_000 + (0 if are_alike else index), "nvidia.com/gpu": CARDS, "pods": 110}
        topologies.put_node(Node(name=name, labels=labels, allocatable=allocatable))
    return topologies


def ask(kind: int = 0, *, request: TopologyRequest | None = IN_A_RACK) -> PlacementAsk:
    """Eight pods of one card that, unless told otherwise, must share a rack; kinds differ in the cpu of a pod."""
    shape = PodShape(requests={"cpu": 4_000 + kind, "nvidia.com/gpu": 1})
    return PlacementAsk(name="main", count=8, shape=shape, request=request)


def place_and_charge_s(nodes: int) -> float:
    """Median CPU seconds to find a place for one more workload and take it, as a cluster fills up."""
    topologies = cluster(nodes)
    _place(topologies, ask())  # what is kept between searches is there from the second one on
    gc.collect()
    taken = []
    for _ in range(SEARCHES):
        started = time.process_time()
        _place(topologies, ask())
        taken.append(time.process_time() - started)
    return statistics.median(taken)


def first_search_s(nodes: int, *, request: TopologyRequest | None = IN_A_RACK, are_alike: bool = True) -> float:
    """Median CPU seconds of the first search for a kind of pod that was not seen before."""
    topologies = cluster(nodes, are_alike=are_alike)
    _place(topologies, ask(request=request))
    gc.collect()
    taken = []
    for kind in range(1, 31):
        started = time.process_time()
        _place(topologies, ask(kind, request=request))
        taken.append(time.process_time() - started)
    return statistics.median(taken)


def _place(topologies: Topologies, wanted: PlacementAsk) -> None:
    found = topologies.find({FLAVOR.name: [wanted]})[wanted.name]
    assert not isinstance(found, PlacementRefusal), "there is room"
    assert isinstance(found, TopologyAssignment)
    topologies.charge(PlacedUse(FLAVOR.name, found, wanted.shape.requests))
    topologies.commit()
