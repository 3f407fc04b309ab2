"""capacity: shares by resource, flat and as a tree."""

from __future__ import annotations

import pytest

from muster.engine.profile import PolicyUse
from muster.engine.vectors import INFINITE
from tests.groups import group, node, pod, queue, session, snapshot

TREE = PolicyUse(name="capacity", arguments={"hierarchy": True})


def opened(queues, groups, pods, policy="capacity", cpu=8):
    return session(snapshot([node("n", cpu)], queues, groups, pods), policy)


@pytest.mark.parametrize(
    ("capability", "running", "want"),
    [
        pytest.param(None, 6, True, id="all there is"),
        pytest.param({"cpu": 3000}, 2, True, id="within its bound"),
        pytest.param({"cpu": 3000}, 3, False, id="at its bound"),
        pytest.param({"memory": 1}, 3, True, id="a bound of something else"),
    ],
)
def test_what_a_queue_may_take(capability, running, want):
    pods = [pod(f"r{index}", "a", node="n") for index in range(running)]
    given = opened([queue(capability=capability)], [group("a")], [*pods, pod("new", "a")])
    assert given.tiers.is_allocatable("q", given.pods["ns/new"]) is want


def test_a_guarantee_is_kept_from_others():
    queues = [queue("a"), queue("b", guarantee={"cpu": 6000})]
    given = opened(
        queues, [group("x", queue="a"), group("y", queue="b")], [pod("one", "x", cpu=3), pod("two", "y", cpu=3)]
    )
    assert not given.tiers.is_allocatable("a", given.pods["ns/one"])
    assert given.tiers.is_allocatable("b", given.pods["ns/two"])


def test_a_closed_queue_takes_nobody():
    given = opened([queue(is_open=False)], [group("a", resources_least={"cpu": 1})], [pod("p", "a")])
    assert not given.tiers.is_allocatable("q", given.pods["ns/p"])
    assert not given.tiers.is_enqueueable(given.groups["ns/a"])


def test_the_bound_of_a_parent_holds_for_all_below_it():
    queues = [queue("team", capability={"cpu": 3000}), queue("x", parent="team"), queue("y", parent="team")]
    groups = [group("a", queue="x"), group("b", queue="y")]
    pods = [pod(f"r{index}", "a", node="n") for index in range(2)] + [pod("one", "b"), pod("two", "b", cpu=2)]
    given = opened(queues, groups, pods, TREE)
    assert given.tiers.is_allocatable("y", given.pods["ns/one"])
    assert not given.tiers.is_allocatable("y", given.pods["ns/two"])


@pytest.mark.parametrize(
    ("queues", "want"),
    [
        pytest.param([queue("a", parent="b"), queue("b", parent="a")], "go round in a circle", id="a circle"),
        pytest.param([queue("a", parent="x")], "which is not there", id="no parent"),
        pytest.param([queue("a"), queue("b", parent="a")], "has groups and queues below it", id="no leaf"),
    ],
)
def test_a_tree_that_is_none_lets_nobody_in(queues, want):
    given = opened(queues, [group("g", queue="a")], [pod("p", "g")], TREE)
    assert want in given.tiers.find_fault(given.groups["ns/g"])
    assert not given.tiers.is_allocatable("a", given.pods["ns/p"])


def test_near_queues_lose_first():
    queues = [
        queue("team", deserved={"cpu": 4000}),
        queue("x", parent="team", deserved={"cpu": 1000}),
        queue("y", parent="team", deserved={"cpu": 1000}),
        queue("far", deserved={"cpu": 1000}),
    ]
    groups = [group("a", queue="x"), group("b", queue="y"), group("c", queue="far")]
    given = opened(queues, groups, [pod("p", "a")], TREE)
    assert given.tiers.compare_victim_queues("y", "far", "x") < 0


def test_absurd_amounts_do_no_harm():
    given = opened([queue(capability={"cpu": 10**30})], [group("a")], [pod("p", "a", cpu=1)])
    assert given.tiers.is_allocatable("q", given.pods["ns/p"])
    assert INFINITE > 10**30
