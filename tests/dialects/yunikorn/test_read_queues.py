"""Queues of the model: shares, limits and the root, guarantees that are cut, and limits by user and group."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from muster.dialects.yunikorn.read import Reading, Surroundings, read_pods
from muster.dialects.yunikorn.read_queues import FLAVOR, PREFIX
from muster.dialects.yunikorn.validate import read_configuration
from muster.engine.quota import available, potential
from muster.engine.tree import QuotaTree
from muster.model.queue import PreemptionPolicy, Queue
from muster.model.resources import is_unlimited
from tests.dialects.yunikorn.builders import pod, reading

CPU = (FLAVOR, "cpu")


def vcore(guaranteed: int | None = None, most: int | None = None) -> dict[str, Any]:
    parts = {"guaranteed": guaranteed, "max": most}
    return {name: {"vcore": amount} for name, amount in parts.items() if amount is not None}


def queue_of(got: Reading, path: str) -> Queue:
    return got.queues[f"{PREFIX}{path}"]


def tree_of(root: dict[str, Any], cores: int | None) -> QuotaTree:
    total = None if cores is None else {"cpu": cores * 1000}
    return QuotaTree(reading(root=root, total=total).queues.values())


def test_a_guarantee_is_a_share_and_a_maximum_a_limit() -> None:
    root = {
        "queues": [
            {"name": "a", "resources": vcore(4, 6)},
            {"name": "b", "resources": vcore(3), "queues": [{"name": "c", "resources": vcore(1, 9)}, {"name": "d"}]},
        ]
    }
    tree = tree_of(root, 10)
    cells = {name.removeprefix(PREFIX): node.cells[CPU] for name, node in tree.nodes.items()}
    assert {name: cell.subtree for name, cell in cells.items()} == {
        "root": 10_000,
        "root.a": 4000,
        "root.b": 3000,
        "root.b.c": 1000,
        "root.b.d": 0,
    }
    assert all(cell.reserved == 0 for cell in cells.values())
    assert cells["root.a"].limit == 6000
    assert is_unlimited(cells["root.b"].limit)
    assert cells["root.b.c"].limit == 9000
    assert {name: potential(tree.nodes[f"{PREFIX}{name}"], CPU) for name in ("root.a", "root.b.d")} == {
        "root.a": 6000,
        "root.b.d": 10_000,
    }


@pytest.mark.parametrize(
    ("cores", "want"),
    [
        pytest.param(20, {"a": 8000, "b": 8000}, id="the cluster has it all"),
        pytest.param(10, {"a": 8000, "b": 2000}, id="the later one is cut"),
        pytest.param(0, {"a": 0, "b": 0}, id="there is nothing"),
    ],
)
def test_guarantees_are_cut_to_what_there_is(cores: int, want: dict[str, int]) -> None:
    tree = tree_of({"queues": [{"name": name, "resources": vcore(8)} for name in "ab"]}, cores)
    assert {name: tree.nodes[f"{PREFIX}root.{name}"].cells[CPU].subtree for name in "ab"} == want
    assert available(tree.nodes[f"{PREFIX}root.a"], CPU) == cores * 1000


def test_queues_that_are_made_cannot_be_promised_more_than_their_parent_may_have() -> None:
    people = {
        "name": "people",
        "parent": True,
        "resources": vcore(None, 5),
        "childtemplate": {"resources": vcore(4, 4)},
    }
    rules = [{"name": "provided", "create": True}]
    text = yaml.safe_dump({"partitions": [{"placementrules": rules, "queues": [{"name": "root", "queues": [people]}]}]})
    pods = [pod(name, at=number, app=name, queue=f"root.people.{name}") for number, name in enumerate(("x", "y", "z"))]
    got = read_pods(pods, read_configuration(text, "queues.yaml"), Surroundings(total={"cpu": 100_000}))
    tree = QuotaTree(got.queues.values())
    assert tree.nodes[f"{PREFIX}root.people"].cells[CPU].limit == 5000
    shares = [tree.nodes[f"{PREFIX}root.people.{name}"].cells[CPU].subtree for name in ("x", "y", "z")]
    assert shares == [4000, 1000, 0]


def test_without_nodes_nothing_but_maximums_is_short() -> None:
    tree = tree_of({"queues": [{"name": "a", "resources": vcore(4, 6)}]}, None)
    assert available(tree.nodes[f"{PREFIX}root.a"], CPU) == 6000
    assert is_unlimited(available(tree.nodes[f"{PREFIX}root"], CPU))


@pytest.mark.parametrize(
    ("properties", "want"),
    [
        pytest.param({}, {"is_fence": False, "is_spared": False}, id="nothing"),
        pytest.param({"preemption.policy": "fence"}, {"is_fence": True, "is_spared": False}, id="a fence"),
        pytest.param({"preemption.policy": "Disabled"}, {"is_fence": False, "is_spared": True}, id="nobody leaves"),
    ],
)
def test_preemption(properties: dict[str, str], want: dict[str, bool]) -> None:
    rules = queue_of(reading(root={"queues": [{"name": "a", "properties": properties}]}), "root.a").preemption
    assert {name: getattr(rules, name) for name in want} == want
    assert rules.reclaim is PreemptionPolicy.LOWER_OR_EQUAL_PRIORITY


def test_how_queues_take_turns() -> None:
    properties = {"priority.offset": "20", "priority.policy": "fence", "application.sort.priority": "disabled"}
    queues = [{"name": "a", "properties": {**properties, "application.sort.policy": "fair"}}, {"name": "b"}]
    got = reading(root={"queues": queues})
    first, second = queue_of(got, "root.a"), queue_of(got, "root.b")
    assert first.turns is not None and second.turns is not None
    assert (first.turns.priority_offset, first.turns.is_priority_fence, first.turns.by_priority) == (20, True, False)
    assert (second.turns.priority_offset, second.turns.is_priority_fence, second.turns.by_priority) == (0, False, True)
    assert first.turns.number < second.turns.number
    assert (first.shares_by_application, second.shares_by_application) == (True, False)


# Limits --------------------------------------------------------------------------------------------------------------

LIMITS = [
    {"users": ["ann"], "maxresources": {"vcore": 2}},
    {"users": ["*"], "maxapplications": 1},
    {"groups": ["staff", "admins"], "maxresources": {"memory": 5}},
    {"groups": ["*"], "maxapplications": 7},
]


@pytest.mark.parametrize(
    ("user", "groups", "want"),
    [
        pytest.param("ann", [], {"root.a user ann": ({"cpu": 2000}, None)}, id="a user by name"),
        pytest.param("ben", [], {"root.a user ben": ({}, 1)}, id="any user has what everybody has"),
        pytest.param(
            "ann",
            ["x", "admins", "staff"],
            {"root.a user ann": ({"cpu": 2000}, None), "root.a group admins": ({"memory": 5}, None)},
            id="the first of a user's groups that is limited",
        ),
        pytest.param(
            "ann",
            ["x"],
            {"root.a user ann": ({"cpu": 2000}, None), "root.a group *": ({}, 7)},
            id="all other groups together",
        ),
    ],
)
def test_limits(user: str, groups: list[str], want: dict[str, Any]) -> None:
    got = reading(
        pod("p", queue="root.a", user=user, groups=groups), root={"queues": [{"name": "a", "limits": LIMITS}]}
    )
    (workload,) = got.workloads.values()
    assert set(workload.limits) == set(want)
    assert {name: (dict(one.most), one.applications_most) for name, one in got.shared_limits.items()} == want


def test_limits_of_queues_above_count_too() -> None:
    root = {
        "maxapplications": 9,
        "queues": [{"name": "a", "maxapplications": 3, "queues": [{"name": "b", "maxapplications": 2}]}],
    }
    got = reading(pod("p", queue="root.a.b"), root=root)
    most = {name: one.applications_most for name, one in got.shared_limits.items()}
    assert most == {"root.a.b applications": 2, "root.a applications": 3, "root applications": 9}


def test_what_has_no_meaning_is_told() -> None:
    properties = {"application.sort.policy": "lifo", "priority.offset": "many", "preemption.policy": "maybe"}
    queue = {"name": "a", "properties": properties, "resources": {"max": {"cpu": 5}}}
    paths = [doubt.path for _, doubt in reading(root={"queues": [queue]}).doubts]
    assert paths == [
        "root.a: application.sort.policy",
        "root.a: preemption.policy",
        "root.a: priority.offset",
        "root.a: resources",
    ]
