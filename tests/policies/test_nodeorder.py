"""What nodeorder says of small clusters, worked out by hand, and that its wishes decide between nodes that fit."""

from __future__ import annotations

import pytest

from muster.engine.node_table import NodeTable
from muster.engine.node_table_rows import TableNode, demand
from muster.model.labels import PREFER_NO_SCHEDULE, Taint
from muster.policies.nodeorder import POLICY, Arguments, balanced, least_requested, most_requested
from tests.engine.fit_builders import (
    HOSTNAME,
    PREFERRED,
    SOFT,
    app,
    asks,
    expression,
    likes,
    near,
    node,
    put,
    rules,
    spread,
    spreads,
    world,
)

NO_WEIGHTS = Arguments(
    least_requested=0, most_requested=0, balanced=0, node_affinity=0, pod_affinity=0, taints=0, spread=0
)


def table(*used, cpu=10, memory=100, cards=0):
    """Nodes by what is used of their cpu and memory."""
    found = NodeTable(
        TableNode(name=f"n{row}", amounts={"cpu": cpu, "memory": memory}, cards=cards) for row in range(len(used))
    )
    for row, (cpu_used, memory_used) in enumerate(used):
        found.charge(row, demand({"cpu": cpu_used, "memory": memory_used}), ())
    return found


@pytest.mark.parametrize(
    ("score", "pod", "want"),
    [
        # Left: 9 of 10 and 90 of 100, 4 of 10 and 85 of 100 (62.5).
        pytest.param(least_requested, {"cpu": 1, "memory": 10}, [90, 62], id="least"),
        pytest.param(least_requested, {"cpu": 6}, [70, 47], id="least: more than there is counts as nothing left"),
        pytest.param(most_requested, {"cpu": 1, "memory": 10}, [10, 37], id="most"),
        pytest.param(most_requested, {"cpu": 6}, [30, 52], id="most: no more than all"),
        # Shares of 0.1 and 0.1; of 0.6 and 0.15, half the difference is 0.225.
        pytest.param(balanced, {"cpu": 1, "memory": 10}, [100, 77], id="balanced"),
        pytest.param(balanced, {}, [0, 0], id="balanced: a pod that asks for nothing"),
    ],
)
def test_scores_of_a_node_alone(score, pod, want):
    assert score(demand(pod), table((0, 0), (5, 5)).rows()).tolist() == want


def test_cards_are_balanced_too():
    rows = table((0, 0), cards=8).rows()
    # Shares of 0.5, 0.5 and 0.5; then of 0.5, 0.5 and 1, whose standard deviation is 0.2357.
    assert balanced(demand({"cpu": 5, "memory": 50}, cards=4), rows).tolist() == [100]
    assert balanced(demand({"cpu": 5, "memory": 50}, cards=8), rows).tolist() == [76]


def test_nodes_that_lack_a_resource():
    rows = NodeTable([TableNode(name="a", amounts={"cpu": 10})]).rows()
    assert least_requested(demand({"cpu": 4}), rows).tolist() == [60]
    assert balanced(demand({"cpu": 4}), rows).tolist() == [100]
    assert least_requested(demand({}), NodeTable([TableNode(name="a")]).rows()).tolist() == [0]


def test_absurd_amounts_are_counted_right():
    rows = NodeTable([TableNode(name="a", amounts={"cpu": 2**61})]).rows()
    assert least_requested(demand({"cpu": 2**60}), rows).tolist() == [50]
    assert most_requested(demand({"cpu": 2**60}), rows).tolist() == [50]


@pytest.mark.parametrize(
    ("argument", "spec", "want"),
    [
        pytest.param(
            "node_affinity",
            {
                "affinity": {
                    "nodeAffinity": {
                        PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [expression("disk", "Exists")]}}]
                    }
                }
            },
            "c",
            id="node affinity",
        ),
        pytest.param("taints", {}, "b", id="taints"),
        pytest.param("pod_affinity", likes("podAffinity", (1, near(HOSTNAME, app("a")))), "b", id="pod affinity"),
        pytest.param("spread", spreads(spread(HOSTNAME, app("a"), whenUnsatisfiable=SOFT)), "a", id="spreading"),
        pytest.param("least_requested", {}, "c", id="least requested"),
        pytest.param("most_requested", {}, "b", id="most requested"),
    ],
)
def test_each_weight_decides(argument, spec, want):
    hooks = POLICY.hooks(Arguments(**{**vars(NO_WEIGHTS), argument: 1}))
    place = world(
        node("a", {}, Taint("t", "", PREFER_NO_SCHEDULE)),
        node("b"),
        node("c", {"disk": "ssd"}, Taint("t", "", PREFER_NO_SCHEDULE)),
        hooks=[hooks],
    )
    place.charge(0, demand({"cpu": 1_000}), ())
    put(place, "b", rules({"app": "a"}), 20)
    found = place.place(asks(rules({"app": "b"}, spec)))
    assert found is not None and place.table.names[found.row] == want


def test_wishes_are_counted_anew_for_each_pod_of_a_gang():
    place = world(node("a"), node("b"), node("c"), hooks=[POLICY.hooks(Arguments(**{**vars(NO_WEIGHTS), "spread": 1}))])
    wanted = asks(rules({"app": "a"}, spreads(spread(HOSTNAME, app("a"), whenUnsatisfiable=SOFT))))
    found = place.place_many(wanted, 4)
    assert found is not None and [one.row for one in found] == [0, 1, 2, 0]


def test_preferences_can_be_switched_off():
    hooks = POLICY.hooks().without(frozenset(["score", "prefer"]))
    place = world(node("a", {}, Taint("t", "", PREFER_NO_SCHEDULE)), node("b"), hooks=[hooks])
    found = place.place(asks(rules()))
    assert found is not None and found.row == 0
