"""drf: the smallest dominant share goes first, in a tree if there is one."""

from __future__ import annotations

from muster.engine.profile import PolicyUse
from muster.engine.session_fairness import PATH, WEIGHTS
from tests.groups import group, node, pod, queue, session, snapshot


def test_the_smaller_share_goes_first_and_the_larger_may_lose():
    pods = [*(pod(f"a{index}", "a", node="n") for index in range(3)), pod("b0", "b")]
    given = session(snapshot([node("n", 4)], [queue()], [group("a"), group("b")], pods), "drf")
    a, b = given.groups["ns/a"], given.groups["ns/b"]
    assert given.tiers.compare_workloads(b, a) < 0
    named = given.tiers.preempt(given.pods["ns/b0"], [given.pods[f"ns/a{index}"] for index in range(3)])
    assert named == {"ns/a0", "ns/a1"}


def branch(name: str, path: str, weights: str):
    return queue(name, annotations={PATH: path, WEIGHTS: weights})


def test_a_branch_counts_as_a_whole():
    queues = [branch("x", "root/eng/x", "1/1/1"), branch("y", "root/eng/y", "1/1/1"), branch("z", "root/sci", "1/1")]
    groups = [group("a", queue="x"), group("b", queue="y"), group("c", queue="z")]
    pods = [pod("a0", "a", node="n"), pod("b0", "b", node="n"), pod("c0", "c", cpu=1.5, node="n")]
    more = [pod(f"{name}1", name) for name in "abc"]
    hierarchy = PolicyUse(name="drf", arguments={"hierarchy": True})
    given = session(snapshot([node("n", 8)], queues, groups, [*pods, *more]), hierarchy)
    assert given.tiers.compare_queues("z", "x") < 0  # both of eng count together
    assert given.tiers.compare_queues("x", "y") == 0


def test_weights_that_are_none_count_one():
    queues = [branch("x", "root/x", "1/zero"), branch("y", "y", ""), branch("z", "root/" + "a/" * 100, "")]
    hierarchy = PolicyUse(name="drf", arguments={"hierarchy": True})
    given = session(snapshot([node("n")], queues, [], []), hierarchy)
    assert given.tiers.compare_queues("x", "y") == 0
