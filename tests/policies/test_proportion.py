"""proportion: shares by weight, no more than is asked for, and who has too much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.policies.proportion import share_out
from tests.groups import group, node, pod, queue, session, snapshot


def asks(weight: int, cpu: float, *, most: float = 1e9, least: float = 0):
    return (weight, {"cpu": cpu}, {"cpu": most}, {"cpu": least} if least else {})


@pytest.mark.parametrize(
    ("queues", "want"),
    [
        pytest.param({"a": asks(1, 10), "b": asks(1, 10)}, {"a": 5, "b": 5}, id="alike"),
        pytest.param({"a": asks(3, 10), "b": asks(1, 10)}, {"a": 7.5, "b": 2.5}, id="by weight"),
        pytest.param({"a": asks(1, 2), "b": asks(1, 10)}, {"a": 2, "b": 8}, id="what is not asked for goes round"),
        pytest.param({"a": asks(1, 10, most=3), "b": asks(1, 10)}, {"a": 3, "b": 7}, id="within its bound"),
        pytest.param({"a": asks(1, 1, least=4), "b": asks(1, 10)}, {"a": 4, "b": 6}, id="no less than its guarantee"),
        pytest.param({"a": asks(1, 1), "b": asks(1, 2)}, {"a": 1, "b": 2}, id="enough for all"),
    ],
)
def test_shares(queues, want):
    found = share_out({"cpu": 10.0}, queues)
    assert {name: pytest.approx(one["cpu"], abs=0.2) for name, one in found.items()} == want


def test_many_queues_are_settled():
    queues = {f"q{index:03}": asks(index % 7 + 1, index) for index in range(300)}
    found = share_out({"cpu": 1000.0}, queues)
    assert sum(one.get("cpu", 0) for one in found.values()) == pytest.approx(1000, abs=1)


def opened(*pods):
    groups = [group("a", queue="qa"), group("b", queue="qb")]
    return session(snapshot([node("n", 4)], [queue("qa"), queue("qb")], groups, pods), "proportion")


def test_a_queue_with_all_of_its_share_waits_and_can_lose_the_rest():
    given = opened(*[pod(f"a{index}", "a", node="n") for index in range(3)], pod("b0", "b"), pod("b1", "b"))
    assert given.tiers.is_overused("qa")
    assert not given.tiers.is_overused("qb")
    assert not given.tiers.is_allocatable("qa", given.pods["ns/b0"])
    assert given.tiers.is_preemptive("qb", given.pods["ns/b0"])
    victims = given.tiers.reclaim(given.pods["ns/b0"], [given.pods[f"ns/a{index}"] for index in range(3)])
    assert len(victims) == 1
    assert given.compare_queues(given.queues["qb"], given.queues["qa"]) < 0


def test_nodes_that_do_not_say_how_many_pods_they_take_take_any():
    bare = node("n", 4)
    bare = replace(bare, allocatable={"cpu": 4000})
    given = session(snapshot([bare], [queue()], [group("a")], [pod("p", "a")]), "proportion")
    assert given.tiers.is_allocatable("q", given.pods["ns/p"])
