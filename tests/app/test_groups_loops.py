"""Circles, unknown names and trees that promise too much: refused with the reason, at a bounded cost, at any size."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from muster.app.plan import PlanOptions, PlanReport, plan_objects
from muster.model.documents import Document
from tests.app.test_groups import node, obj, queue, volcano_job
from tests.stopwatch import is_done_within

MANY = 2000
TOPOLOGY = "topology.volcano.sh/v1alpha1"


def planned(*objects: dict[str, Any]) -> PlanReport:
    """A plan that takes no more than a few seconds of one core, whatever it is given."""
    found: list[PlanReport] = []

    def plan() -> None:
        documents = [Document(value, "test", 1) for value in objects]
        found.append(plan_objects(documents, PlanOptions(now=0.0)))

    assert is_done_within(20.0, plan)
    return found[-1]


def domain(name: str, tier: int, *members: str, kind: str = "HyperNode") -> dict[str, Any]:
    chosen = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    return obj("HyperNode", name, TOPOLOGY, spec={"tier": tier, "members": chosen})


def configured(value: object) -> dict[str, Any]:
    return obj("ConfigMap", "c", namespace="volcano-system", data={"volcano-scheduler.conf": yaml.safe_dump(value)})


NEAR = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
DOMAINS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "itself": ([domain("a", 1, "a")], "would be above and below a"),
    "two in a circle": ([domain("a", 1, "b"), domain("b", 2, "a")], "is of tier 2, not below that of a"),
    "two of one tier in a circle": ([domain("a", 1, "b"), domain("b", 1, "a")], "not below that of"),
    "a long circle": (
        [domain(f"d{index}", index + 1, f"d{(index - 1) % MANY}") for index in range(MANY)],
        f"is of tier {MANY}, not below that of d0",
    ),
    "a long chain": (
        [
            domain("d0", 1, *(f"n{index}" for index in range(50)), kind="Node"),
            *(domain(f"d{index}", index + 1, f"d{index - 1}") for index in range(1, MANY)),
        ],
        "is more than 32 levels deep",
    ),
    "one below many": ([domain("a", 1), *(domain(f"d{index}", 2, "a") for index in range(MANY))], "is a member of d0"),
    "members that are not there": ([domain("a", 2, *(f"x{index}" for index in range(MANY)))], "is not there"),
}


@pytest.mark.parametrize("name", list(DOMAINS))
def test_domains_that_cannot_be(name):
    domains, want = DOMAINS[name]
    nodes = [node(f"n{index}") for index in range(50)]
    report = planned(*nodes, *domains, volcano_job("far", 1, 1), volcano_job("near", 1, 1, **NEAR))
    assert any(want in str(one) for one in report.refused)
    assert len(next(one for one in report.groups if one.key == "ns/far").binds) == 1


QUEUES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "its own parent": ([queue("q", parent="q")], "is q itself"),
    "two in a circle": ([queue("q", parent="r"), queue("r", parent="q")], "go round in a circle"),
    "a long circle": (
        [queue("q", parent="q0"), *(queue(f"q{i}", parent=f"q{(i + 1) % MANY}") for i in range(MANY))],
        "",
    ),
    "a long chain": ([queue("q", parent="q0"), *(queue(f"q{i}", parent=f"q{i + 1}") for i in range(MANY))], "deep"),
    "no parent": ([queue("q", parent="nobody")], "is nobody, which is not there"),
    "more than its parent": (
        [queue("p", capability={"cpu": "2"}), queue("q", parent="p", capability={"cpu": "4"})],
        "above the capability of p",
    ),
    "together more than their parent": (
        [
            queue("p", deserved={"cpu": "2"}),
            queue("a", parent="p", deserved={"cpu": "1"}),
            queue("q", parent="p", deserved={"cpu": "2"}),
        ],
        "makes the queues below p have 3",
    ),
    "very many together": (
        [
            queue("p", deserved={"cpu": "1"}),
            *(queue(f"a{i}", parent="p", deserved={"cpu": "1"}) for i in range(MANY)),
            queue("q", parent="p", deserved={"cpu": "1"}),
        ],
        f"makes the queues below p have {MANY + 1}",
    ),
    "guaranteed more than it may have": (
        [queue("q", capability={"cpu": "1"}, guarantee={"resource": {"cpu": "2"}})],
        "above its capability",
    ),
}


@pytest.mark.parametrize("name", list(QUEUES))
@pytest.mark.parametrize("plugin", [{"name": "capacity", "enableHierarchy": True}, {"name": "proportion"}], ids=str)
def test_queues_that_cannot_be(name, plugin):
    queues, want = QUEUES[name]
    tiers = configured({"tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}, plugin]}]})
    report = planned(node("n"), tiers, *queues, volcano_job("bad", 1, 1, queue="q"), volcano_job("good", 1, 1))
    assert any(want in str(one) for one in report.refused)
    by_name = {one.key: one for one in report.groups}
    assert by_name["ns/bad"].why == "queue q is not there"
    assert len(by_name["ns/good"].binds) == 1


CONFIGURATIONS: dict[str, tuple[object, str]] = {
    "very many plugins": ({"tiers": [{"plugins": [{"name": f"p{i}"} for i in range(MANY)]}]}, "is one too many"),
    "a plugin again": ({"tiers": [{"plugins": [{"name": "gang"}]}, {"plugins": [{"name": "gang"}]}]}, "again"),
    "very many arguments": (
        {"tiers": [{"plugins": [{"name": "drf", "arguments": {f"a{i}": i for i in range(MANY)}}]}]},
        "is no argument of drf",
    ),
    "very many flags": (
        {"tiers": [{"plugins": [{"name": "gang", **{f"f{i}": True for i in range(MANY)}}]}]},
        "no flag",
    ),
    "very many actions": ({"actions": ", ".join(f"a{i}" for i in range(MANY))}, "has 'a0'"),
    "very many tiers": ({"tiers": [{"plugins": []} for _ in range(MANY)], "actions": "dance"}, "has 'dance'"),
    "two that do not go together": (
        {"tiers": [{"plugins": [{"name": "proportion"}, {"name": "drf", "enableHierarchy": True}]}]},
        "has proportion beside drf",
    ),
}


@pytest.mark.parametrize("name", list(CONFIGURATIONS))
def test_configurations_that_cannot_be(name):
    value, want = CONFIGURATIONS[name]
    report = planned(node("n"), configured(value), volcano_job("a", 1, 1))
    assert any(want in str(one) for one in report.refused)
    assert len(report.groups[0].binds) == 1
