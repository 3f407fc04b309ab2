"""The trees follow what happens: nodes, pods, charges and their undoing, flavors that share hosts; and the model."""

from __future__ import annotations

import pytest

from muster.engine.topology import PlacedUse, Topologies
from muster.engine.topology_tree import EMPTY, NOW
from muster.model.fields import Fields
from muster.model.labels import Taint
from muster.model.topology import (
    BoundPod,
    Node,
    PlacementRefusal,
    TopologyRules,
    Unplaced,
    levels_of,
    read_bound_pod,
    read_node,
)
from tests.engine.test_topology import (
    FLAVOR,
    GPU,
    HOST,
    RACK,
    ask,
    find,
    flavor,
    found,
    hold,
    hosts,
    node,
    places,
    world,
)

# Nodes ---------------------------------------------------------------------------------------------------------------


def test_a_node_comes_changes_and_goes():
    topologies = world({"r1/a": 2})
    assert found(topologies, ask(4)) is Unplaced.TOO_FEW
    topologies.put_node(node("r1/b", 2))
    assert found(topologies, ask(4)) == {"a": 2, "b": 2}
    topologies.put_node(node("r1/b", 4))
    assert found(topologies, ask(4)) == {"b": 4}
    topologies.drop_node("b")
    assert found(topologies, ask(4)) is Unplaced.TOO_FEW
    topologies.drop_node("a")
    assert found(topologies, ask(1)) is Unplaced.NO_DOMAINS


def test_a_node_fails_and_comes_back():
    topologies = world({"r1/a": 2, "r1/b": 1})
    hold(topologies, a=1)
    topologies.put_node(node("r1/a", 2, is_ready=False))
    assert found(topologies, ask(2)) is Unplaced.TOO_FEW
    topologies.put_node(node("r1/a", 2))
    assert found(topologies, ask(2)) == {"a": 1, "b": 1}


def test_a_node_moves_to_another_rack():
    topologies = world({"r1/a": 2, "r2/b": 2})
    assert found(topologies, ask(4, required=RACK)) is Unplaced.TOO_FEW
    topologies.put_node(node("r2/a", 2))
    assert found(topologies, ask(4, required=RACK)) == {"a": 2, "b": 2}


def test_a_taint_comes_to_a_node_after_it_was_searched():
    topologies = world({"r1/a": 2, "r1/b": 3})
    assert found(topologies, ask(2)) == {"a": 2}
    topologies.put_node(node("r1/a", 2, taints=(Taint("broken"),)))
    assert found(topologies, ask(2)) == {"b": 2}


def test_pods_come_before_their_node():
    topologies = world({"r1/a": 1})
    topologies.put_pod(BoundPod(key="x/one", node="b", requests={GPU: 2}))
    topologies.put_node(node("r1/b", 3))
    assert found(topologies, ask(2, required=HOST)) is Unplaced.TOO_FEW


def test_two_nodes_of_one_host_name_count_once():
    topologies = world({"r1/a": 2})
    topologies.put_node(Node(name="z", labels={RACK: "r2", HOST: "a"}, allocatable={GPU: 9, "pods": 9}))
    assert found(topologies, ask(3)) is Unplaced.TOO_FEW
    topologies.drop_node("a")
    assert found(topologies, ask(3)) == {"a": 3}


def test_a_resource_that_nobody_had_comes_with_a_node():
    topologies = world({"r1/a": 1})
    asked = ask(1, shape={"requests": {"cpu": 1}})
    assert found(topologies, asked) is Unplaced.TOO_FEW
    topologies.put_node(node("r1/b", amounts={"cpu": 1}))
    assert found(topologies, asked) == {"b": 1}


# Charges -------------------------------------------------------------------------------------------------------------


def test_what_is_held_is_not_free():
    topologies = world({"r1/a": 3, "r1/b": 2})
    use = hold(topologies, a=2)
    assert found(topologies, ask(2, required=HOST)) == {"b": 2}
    topologies.release(use)
    assert found(topologies, ask(3, required=HOST)) == {"a": 3}


def test_rollback_gives_everything_back():
    topologies = world({"r1/a": 3, "r1/b": 2})
    first = hold(topologies, a=1)
    topologies.commit()
    before = found(topologies, ask(4))
    outer = topologies.checkpoint()
    hold(topologies, b=2)
    inner = topologies.checkpoint()
    topologies.release(first)
    assert found(topologies, ask(4)) is Unplaced.TOO_FEW
    topologies.rollback(inner)
    assert found(topologies, ask(3)) is Unplaced.TOO_FEW
    topologies.rollback(outer)
    assert found(topologies, ask(4)) == before


def test_what_was_not_held_cannot_be_given_back():
    topologies = world({"r1/a": 3})
    with pytest.raises(AssertionError, match="gives back more"):
        topologies.release(PlacedUse(FLAVOR, hosts(a=1), {GPU: 1}))


def test_as_if_nobody_had_a_place():
    topologies = world({"r1/a": 3, "r1/b": 3})
    hold(topologies, a=3, b=3)
    topologies.put_pod(BoundPod(key="x/one", node="a", requests={GPU: 2}))
    assert found(topologies, ask(1)) is Unplaced.TOO_FEW
    assert found(topologies, ask(4), is_empty=True) == {"a": 1, "b": 3}
    assert found(topologies, ask(5), is_empty=True) is Unplaced.TOO_FEW
    asks = [ask(3, "one"), ask(3, "two")]
    assert found(topologies, *asks, is_empty=True) == {"one": {"b": 3}, "two": Unplaced.TOO_FEW}


def test_searching_changes_nothing():
    topologies = world({"r1/a": 3, "r1/b": 3})
    hold(topologies, a=1)
    mark = topologies.checkpoint()
    usage = [dict(table) for table in topologies.trees[FLAVOR].pool.usage]
    find(topologies, ask(2, "one"), ask(2, "two"))
    find(topologies, ask(2, "one"), ask(2, "two"), is_empty=True)
    assert topologies.checkpoint() == mark
    assert [topologies.trees[FLAVOR].pool.usage[column] for column in (NOW, EMPTY)] == usage


@pytest.mark.parametrize(
    ("uses", "want"),
    [
        pytest.param([hosts(a=2)], True, id="free"),
        pytest.param([hosts(a=3)], False, id="too many"),
        pytest.param([hosts(a=1), hosts(a=1)], True, id="two that fit together"),
        pytest.param([hosts(a=1), hosts(a=2)], False, id="two that do not"),
        pytest.param([hosts(z=1)], False, id="no such host"),
    ],
)
def test_room_for_places_found_before(uses, want):
    topologies = world({"r1/a": 3})
    hold(topologies, a=1)
    assert topologies.has_room([PlacedUse(FLAVOR, use, {GPU: 1}) for use in uses]) is want


# Flavors -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("merges", "want"), [(True, Unplaced.TOO_FEW), (False, {"a": 2})])
def test_flavors_that_share_a_host(merges, want):
    topologies = Topologies([flavor("gpus"), flavor("spot", levels=(HOST,))], TopologyRules(merges_flavors=merges))
    topologies.put_node(node("r1/a", 2))
    topologies.charge(PlacedUse("spot", hosts(a=1), {GPU: 1}))
    assert found(topologies, ask(2)) == want


def test_flavors_are_placed_in_the_order_of_their_names():
    topologies = Topologies([flavor("gpus"), flavor("spot")])
    topologies.put_node(node("r1/a", 2))
    topologies.put_node(node("r1/b", 1))
    result = topologies.find({"spot": [ask(1, "second")], "gpus": [ask(1, "first")]})
    assert {name: places(place) for name, place in result.items()} == {"first": {"b": 1}, "second": {"a": 1}}


def test_a_flavor_without_a_topology_has_no_places():
    topologies = Topologies([flavor("gpus"), flavor("plain", levels=())])
    assert places(topologies.find({"plain": [ask(1)]})["main"]) is Unplaced.NO_DOMAINS
    topologies.charge(PlacedUse("plain", hosts(a=1), {GPU: 1}))
    assert not topologies.has_room([PlacedUse("plain", hosts(a=1), {GPU: 1})])


# Refusals ------------------------------------------------------------------------------------------------------------


def test_a_refusal_tells_the_numbers():
    rows = [
        node("r1/a", 2),
        node("r1/b", 0),
        node("r1/c", 9, taints=(Taint("broken", "yes"),)),
        node("r2/d", 1, more={"disk": "slow"}),
    ]
    topologies = world(rows)
    asked = ask(4, preferred=RACK, shape={"node_selector": {}})
    refusal = find(topologies, asked, explains=True)["main"]
    assert isinstance(refusal, PlacementRefusal)
    assert (refusal.fitting, refusal.asked, refusal.nodes) == (3, 4, 4)
    assert refusal.excluded == ((f'resource "{GPU}"', 1), ('taint "broken=yes:NoSchedule"', 1))


def test_a_refusal_of_slices_tells_every_layer():
    refusal = find(world({"r1/a": 3, "r1/b": 3}), ask(6, required=RACK, layers=((RACK, 6), (HOST, 2))), explains=True)
    assert refusal["main"].by_layer == ((RACK, 0, 1), (HOST, 2, 3))


# The model -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param([{HOST: "a"}, {HOST: "b"}], (HOST,), id="hosts alone"),
        pytest.param(
            [{HOST: "a", "topology.kubernetes.io/zone": "z", "topology.kubernetes.io/rack": "r"}],
            ("topology.kubernetes.io/zone", "topology.kubernetes.io/rack", HOST),
            id="widest first",
        ),
        pytest.param(
            [{HOST: "a", "topology.kubernetes.io/zone": "z"}, {HOST: "b"}], (HOST,), id="a label that one lacks"
        ),
        pytest.param([], (), id="no nodes"),
        pytest.param([{}], (), id="no labels"),
    ],
)
def test_levels_from_labels_alone(labels, want):
    assert levels_of([Node(name=str(number), labels=each) for number, each in enumerate(labels)]) == want


def test_a_node_is_read():
    read = read_node(
        Fields.of(
            {
                "metadata": {"name": "a", "labels": {HOST: "a"}},
                "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoExecute"}]},
                "status": {
                    "allocatable": {"cpu": "1500m", GPU: "8"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
        )
    )
    assert read == Node(
        name="a",
        labels={HOST: "a"},
        taints=(Taint("k", effect="NoExecute"),),
        allocatable={"cpu": 1500, GPU: 8},
        is_ready=True,
        is_schedulable=False,
    )


@pytest.mark.parametrize(
    ("node_name", "phase", "holds"),
    [
        ("a", "Running", True),
        ("a", "Pending", True),
        ("", "Pending", False),
        ("a", "Succeeded", False),
        ("a", "Failed", False),
    ],
)
def test_a_pod_holds_its_node_from_binding_to_its_end(node_name, phase, holds):
    obj = {
        "metadata": {"namespace": "x", "name": "one"},
        "spec": {"nodeName": node_name, "containers": [{"resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": phase},
    }
    want = BoundPod(key="x/one", node="a", requests={"cpu": 1000}) if holds else None
    assert read_bound_pod(Fields.of(obj)) == want
