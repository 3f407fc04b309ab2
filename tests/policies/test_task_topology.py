"""task-topology: roles of a group that like or avoid each other."""

from __future__ import annotations

from muster.engine.stages.groups import run_stages
from tests.groups import group, node, pod
from tests.policies.opened import opened, score_of

LIKES, AVOIDS = "volcano.sh/task-topology-affinity", "volcano.sh/task-topology-anti-affinity"
ORDER = "volcano.sh/task-topology-task-order"


def test_parts_that_like_each_other_stand_together():
    wish = group("a", minimum=4, annotations={LIKES: "ps,worker"})
    pods = [pod(f"{role}-{index}", "a", cpu=2, role=role) for role in ("ps", "worker") for index in range(2)]
    given = opened("gang", "task-topology", nodes=[node("n"), node("m")], groups=[wish], pods=pods)
    run_stages(given, ["allocate"])
    roles = {name: {given.pods[key].role for key, on in given.outcome.binds.items() if on == name} for name in "nm"}
    assert len(given.outcome.binds) == 4
    assert all(roles.values())


def test_parts_that_avoid_their_like_keep_apart():
    wish = group("a", minimum=2, annotations={AVOIDS: "ps"})
    pods = [pod(f"ps-{index}", "a", role="ps") for index in range(2)]
    given = opened("gang", "task-topology", nodes=[node("n"), node("m")], groups=[wish], pods=pods)
    run_stages(given, ["allocate"])
    assert set(given.outcome.binds.values()) == {"n", "m"}


def test_those_with_a_place_are_with_whoever_is_there():
    """Whether they like each other or not: a bucket is what stands on one node."""
    wish = group("a", annotations={AVOIDS: "ps", LIKES: "ps,worker"})
    standing = [pod(f"ps-{index}", "a", role="ps", node="n") for index in range(2)]
    given = opened(
        "task-topology", nodes=[node("n"), node("m")], groups=[wish], pods=[*standing, pod("w", "a", role="worker")]
    )
    scores = score_of(given, "ns/w")
    assert scores["n"] == 100  # two of its bucket of three are here, and it fits
    assert scores["m"] == 100 / 3


def test_of_equal_buckets_the_lighter_gets_the_next():
    """A worker likes each ps alike: it goes to the one that asks for less."""
    wish = group("a", annotations={AVOIDS: "ps", LIKES: "ps,worker"})
    pods = [pod("ps-0", "a", cpu=3, role="ps"), pod("ps-1", "a", cpu=1, role="ps"), pod("w", "a", role="worker")]
    given = opened("task-topology", groups=[wish], pods=pods)
    order = [one.key for one in given.sorted_pods(given.pods.values())]
    assert order == ["ns/ps-1", "ns/w", "ns/ps-0"]  # the larger bucket first, in it the part with more to say


def test_users_say_which_part_comes_first():
    wish = group("a", annotations={LIKES: "ps,worker", ORDER: "worker,ps"})
    pods = [pod("ps-0", "a", role="ps"), pod("w-0", "a", role="worker")]
    given = opened("task-topology", groups=[wish], pods=pods)
    assert [one.key for one in given.sorted_pods(given.pods.values())] == ["ns/w-0", "ns/ps-0"]
