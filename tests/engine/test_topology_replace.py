"""A failed node is replaced near the pods that stay, and a workload that changed its size keeps its places."""

from __future__ import annotations

from typing import Any

import pytest

from muster.engine.topology import PlacedUse, Topologies
from muster.model.topology import PlacementAsk, TopologyAssignment, Unplaced
from tests.engine.test_topology import (
    BLOCK,
    FLAVOR,
    GPU,
    HOST,
    RACK,
    ask,
    found,
    grouped,
    hosts,
    places,
    world,
)

BLOCKS = (BLOCK, RACK, HOST)
NODES = {"b1/r1/a": 2, "b1/r1/b": 2, "b1/r2/c": 2, "b1/r2/d": 4, "b2/r3/e": 9}


def replaced(topologies: Topologies, current: dict[str, TopologyAssignment], *asks: PlacementAsk, host: str) -> Any:
    """The places after a host failed, while the workload holds its own."""
    for one in asks:
        topologies.charge(PlacedUse(FLAVOR, current[one.name], one.shape.requests))
    topologies.drop_node(host)
    result = topologies.replace({FLAVOR: list(asks)}, current, host)
    return {name: places(place) for name, place in result.items()}


@pytest.mark.parametrize(
    ("asked", "current", "want"),
    [
        pytest.param(ask(4, preferred=RACK), hosts(a=2, b=2), {"b": 2, "c": 2}, id="preferred: the tightest anywhere"),
        pytest.param(ask(3, required=RACK), hosts(a=2, b=1), Unplaced.TOO_FEW, id="required: not outside its rack"),
        pytest.param(ask(3, required=BLOCK), hosts(a=2, b=1), {"b": 1, "c": 2}, id="required: within its block"),
        pytest.param(ask(2, required=RACK), hosts(a=2), {"b": 2}, id="all pods lost: anywhere"),
        pytest.param(
            ask(4, preferred=BLOCK, slice_level=RACK, slice_size=4),
            hosts(a=2, b=2),
            Unplaced.TOO_FEW,
            id="a broken slice stays in its rack",
        ),
        pytest.param(
            ask(4, preferred=BLOCK, slice_level=HOST, slice_size=2),
            hosts(a=2, b=2),
            {"b": 2, "c": 2},
            id="a whole slice may go elsewhere",
        ),
        pytest.param(ask(3, required=BLOCK), hosts(a=2, z=1), Unplaced.DOMAIN_GONE, id="another host is gone too"),
        pytest.param(ask(2, required=BLOCK), hosts(c=2), {"c": 2}, id="nothing was lost"),
    ],
)
def test_replacement(asked, current, want):
    topologies = world(NODES, levels=BLOCKS)
    assert replaced(topologies, {"main": current}, asked, host="a") == {"main": want}


def test_inner_slices_are_kept_whole_in_the_broken_one():
    asked = ask(8, required=BLOCK, layers=((RACK, 8), (HOST, 2)))
    topologies = world({"b1/r1/a": 2, "b1/r1/b": 5, "b1/r1/c": 7}, levels=BLOCKS)
    current = {"main": hosts(a=2, b=2, c=4)}
    assert replaced(topologies, current, asked, host="a") == {"main": {"b": 4, "c": 4}}


@pytest.mark.parametrize(
    ("leader", "workers", "want"),
    [
        pytest.param(hosts(a=1), hosts(c=2), {"leader": {"d": 1}, "workers": {"c": 2}}, id="only the leader"),
        pytest.param(
            hosts(a=1), hosts(a=1, d=2), {"leader": {"c": 1}, "workers": {"c": 1, "d": 2}}, id="leader and worker"
        ),
        pytest.param(hosts(c=1), hosts(a=1, c=1), {"leader": {"c": 1}, "workers": {"c": 1, "d": 1}}, id="a worker"),
    ],
)
def test_replacement_in_a_group(leader, workers, want):
    asks = grouped(workers.count, preferred=RACK)
    topologies = world({"b1/r2/c": 2, "b1/r2/d": 4}, levels=BLOCKS)
    assert replaced(topologies, {"leader": leader, "workers": workers}, *asks, host="a") == want


def test_pod_sets_that_move_count_each_other():
    asks = [ask(1, "one", required=HOST), ask(1, "two", required=HOST)]
    topologies = world({"b1/r1/b": 1, "b1/r1/c": 2}, levels=BLOCKS)
    current = {"one": hosts(a=1), "two": hosts(a=1)}
    assert replaced(topologies, current, *asks, host="a") == {"one": {"b": 1}, "two": {"c": 1}}


def test_racks_cannot_be_replaced():
    topologies = world({"b1/r1": 2, "b1/r2": 4}, levels=(BLOCK, RACK))
    result = topologies.replace({FLAVOR: [ask(1)]}, {"main": hosts(r1=1)}, "r1")
    assert places(result["main"]) is Unplaced.NOT_BY_HOST


def test_what_stays_is_charged_as_before():
    topologies = world({"b1/r1/b": 1, "b1/r1/c": 2}, levels=BLOCKS)
    before = dict(topologies.trees[FLAVOR].pool.usage[0])
    topologies.replace({FLAVOR: [ask(2)]}, {"main": hosts(a=2)}, "a")
    assert topologies.trees[FLAVOR].pool.usage[0] == before


# Other sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        pytest.param(ask(3, previous=hosts(a=1, b=2)), {"a": 1, "b": 2}, id="the same size"),
        pytest.param(ask(2, previous=hosts(a=1, b=2)), {"a": 1, "b": 1}, id="smaller: the first stay"),
        pytest.param(ask(5, previous=hosts(a=1, b=2)), {"a": 1, "b": 2, "c": 2}, id="larger: the rest is added"),
        pytest.param(
            ask(4, required=RACK, previous=hosts(a=1, b=2)), {"a": 2, "b": 2}, id="larger: in the rack that it is in"
        ),
        pytest.param(ask(5, required=RACK, previous=hosts(a=1, b=2)), Unplaced.TOO_FEW, id="larger: the rack is full"),
        pytest.param(ask(2, previous=hosts(z=1, b=1)), {"a": 2}, id="a place is gone: all afresh"),
    ],
)
def test_taking_over_from_an_older_slice(asked, want):
    assert found(world({"r1/a": 2, "r1/b": 2, "r2/c": 2}), asked) == want


def test_places_taken_over_count_for_the_next_pod_set():
    asks = [ask(2, "one", previous=hosts(a=2)), ask(1, "two", required=HOST)]
    assert found(world({"r1/a": 2, "r1/b": 2}), *asks) == {"one": {"a": 2}, "two": {"b": 1}}


def test_cards_are_charged_by_what_one_pod_requests():
    topologies = world({"r1/a": 4})
    topologies.charge(PlacedUse(FLAVOR, hosts(a=1), {GPU: 3}))
    assert found(topologies, ask(1, gpus=1)) == {"a": 1}
    assert found(topologies, ask(1, gpus=2)) is Unplaced.TOO_FEW
