"""drf: the smallest dominant share goes first, in a tree if there is one."""

from __future__ import annotations

from dataclasses import replace

from muster.engine.profile import PolicyUse
from muster.engine.session import SessionOptions
from muster.engine.session_fairness import PATH, WEIGHTS
from muster.engine.stages.groups import run_stages
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


def test_a_branch_that_wants_something_scarce_does_not_block_the_others():
    """Thirty cores and thirty gigabytes; three ask for cores, two for memory, one of each share a branch."""
    paths = {"p1": "root/p1", "p2": "root/p2", "p31": "root/p3/p31", "p32": "root/p3/p32", "p4": "root/p4"}
    queues = [branch(name, path, "/".join("1" * (path.count("/") + 1))) for name, path in paths.items()]
    groups = [group(name, queue=name, minimum=0) for name in paths]
    pods = []
    for name in paths:
        asks = {"requests": {"memory": 10**9}, "cpu": 0} if name in ("p32", "p4") else {"cpu": 1}
        pods += [pod(f"{name}-{index}", name, **asks) for index in range(30)]
    big = node("n", 30)
    big = replace(big, allocatable={**big.allocatable, "memory": 30 * 10**9, "pods": 500})
    hierarchy = PolicyUse(name="drf", arguments={"hierarchy": True})
    given = session(snapshot([big], queues, groups, pods), hierarchy, options=SessionOptions(enqueues=False))
    run_stages(given, ["allocate"])
    held = {name: given.groups[f"ns/{name}"].allocated for name in paths}
    assert {name: one.get("cpu", 0) for name, one in held.items()} == {
        "p1": 10_000, "p2": 10_000, "p31": 10_000, "p32": 0, "p4": 0
    }  # fmt: skip
    assert {name: one.get("memory", 0) // 10**9 for name, one in held.items()} == {
        "p1": 0, "p2": 0, "p31": 0, "p32": 15, "p4": 15
    }  # fmt: skip


def test_a_poorer_branch_takes_back_from_a_richer_one():
    queues = [branch("x", "root/x", "1/1"), branch("y", "root/y", "1/1")]
    groups = [group("a", queue="x"), group("b", queue="y")]
    pods = [pod(f"a{index}", "a", node="n") for index in range(4)] + [pod("b0", "b", node="n")]
    pods += [pod(f"b{index}", "b") for index in range(1, 6)]
    hierarchy = PolicyUse(name="drf", arguments={"hierarchy": True})
    given = session(snapshot([node("n", 8)], queues, groups, pods), hierarchy)
    assert given.tiers.reclaim(given.pods["ns/b1"], [given.pods["ns/a0"]]) == {"ns/a0"}
    assert given.tiers.reclaim(given.pods["ns/a0"], [given.pods["ns/b0"]]) == set()
