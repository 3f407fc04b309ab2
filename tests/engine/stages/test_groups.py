"""The stages of a session: one story each."""

from __future__ import annotations

import pytest

from muster.app.policies import build_tiers
from muster.engine.fit_nodes import NodeFacts
from muster.engine.fit_pods import PodsOnNodes
from muster.engine.node_table import NodeTable
from muster.engine.node_table_columns import Placer
from muster.engine.profile import tier
from muster.engine.session import Session, SessionOptions
from muster.engine.slots import CardKinds, NodeSlots
from muster.engine.stages.enqueue import NOT_TAKEN_UP
from muster.engine.stages.groups import run_stages
from muster.model.groups import GroupPhase, NearWish, NetworkDomain, PodStatus, Sharding
from tests.groups import group, node, pod, queue, session, snapshot

PLAIN = ("priority", "gang", "conformance", "predicates")


def pods(name: str, count: int, **how: object) -> list:
    return [pod(f"{name}-{index}", name, **how) for index in range(count)]


def run(given, *stages: str, policies=PLAIN, options: SessionOptions | None = None):
    opened = session(given, *policies, options=options)
    run_stages(opened, stages)
    return opened


def test_a_group_starts_with_its_minimum_or_not_at_all():
    given = snapshot(
        [node("n", 4)],
        [queue()],
        [group("big", minimum=5, priority=1), group("small", minimum=2)],
        pods("big", 5) + pods("small", 3),
    )
    found = run(given, "allocate")
    assert set(found.outcome.binds) == {"ns/small-0", "ns/small-1", "ns/small-2"}
    assert "ns/big" in found.outcome.reasons


def test_who_is_not_taken_up_is_told():
    waiting = {"phase": GroupPhase.PENDING, "resources_least": {"cpu": 8000}}
    given = snapshot([node("n", 4)], [queue()], [group("a", **waiting)], pods("a", 1))
    found = run(given, "enqueue", "allocate", policies=("gang", "proportion"))
    assert found.outcome.reasons == {"ns/a": NOT_TAKEN_UP}
    assert not found.outcome.binds


def test_pods_that_ask_for_nothing_fill_in():
    given = snapshot([node("n", 1)], [queue()], [group("a")], [pod("a-0", "a", cpu=0)])
    assert not run(given, "allocate").outcome.binds
    assert run(given, "allocate", "backfill").outcome.binds == {"ns/a-0": "n"}


def test_the_less_important_leaves():
    given = snapshot(
        [node("n", 2)],
        [queue()],
        [group("low", minimum=1), group("high", minimum=1, priority=9)],
        [*pods("low", 2, node="n"), pod("high-0", "high")],
    )
    found = run(given, "preempt")
    assert len(found.outcome.evicted) == 1
    assert found.pods["ns/high-0"].status is PodStatus.PIPELINED


def test_nothing_is_held_for_a_group_that_cannot_start():
    """Preempting within a group is about its own pods: a free place is not kept for a part of a gang."""
    pods = [pod(f"a-{index}", "a", cpu=3) for index in range(2)]
    one = session(snapshot([node("n", 4)], [queue()], [group("a", minimum=2)], pods), "priority", "gang")
    run_stages(one, ["allocate", "preempt"])
    assert not any(found.node for found in one.pods.values())


def test_a_gang_is_not_broken_for_one_pod_but_may_leave_whole():
    given = snapshot(
        [node("n", 2)],
        [queue()],
        [group("low", minimum=2), group("high", minimum=2, priority=9)],
        [*pods("low", 2, node="n"), *pods("high", 2)],
    )
    assert not run(given, "preempt").outcome.evicted
    assert sorted(run(given, "gangpreempt").outcome.evicted) == ["ns/low-0", "ns/low-1"]


def test_what_can_be_spared_leaves_before_whole_groups():
    given = snapshot(
        [node("n", 4)],
        [queue()],
        [group("elastic", minimum=1), group("rigid", minimum=2), group("high", minimum=1, priority=9)],
        [*pods("elastic", 2, node="n"), *pods("rigid", 2, node="n"), pod("high-0", "high")],
    )
    assert run(given, "gangpreempt").outcome.evicted == ["ns/elastic-1"]


def test_nobody_leaves_where_it_would_not_help():
    given = snapshot(
        [node("n", 2)],
        [queue()],
        [group("low", minimum=1), group("high", minimum=3, priority=9)],
        [*pods("low", 2, node="n"), *pods("high", 3)],
    )
    assert not run(given, "preempt", "gangpreempt").outcome.evicted


@pytest.mark.parametrize("stage", ["reclaim", "gangreclaim"])
def test_a_queue_takes_back_its_share(stage):
    given = snapshot(
        [node("n", 4)],
        [queue("a", deserved={"cpu": 2000}), queue("b", deserved={"cpu": 2000})],
        [group("rich", queue="a", minimum=1), group("poor", queue="b", minimum=1)],
        [*pods("rich", 4, node="n"), pod("poor-0", "poor")],
    )
    found = run(given, stage, policies=(*PLAIN, "capacity"))
    assert len(found.outcome.evicted) == 1
    assert found.pods["ns/poor-0"].status is PodStatus.PIPELINED


@pytest.mark.parametrize("stage", ["reclaim", "gangreclaim"])
def test_a_queue_that_may_not_be_taken_from(stage):
    given = snapshot(
        [node("n", 4)],
        [queue("a", deserved={"cpu": 2000}, is_reclaimable=False), queue("b", deserved={"cpu": 2000})],
        [group("rich", queue="a", minimum=1), group("poor", queue="b", minimum=1)],
        [*pods("rich", 4, node="n"), pod("poor-0", "poor")],
    )
    assert not run(given, stage, policies=(*PLAIN, "capacity")).outcome.evicted


def test_pods_move_together_to_make_room_and_nobody_loses():
    given = snapshot(
        [node("n1", 4), node("n2", 4)],
        [queue()],
        [group("a", minimum=1), group("b", minimum=1), group("big", minimum=1)],
        [pod("a-0", "a", node="n1"), pod("b-0", "b", node="n2"), pod("big-0", "big", cpu=4)],
    )
    found = run(given, "consolidate")
    assert found.outcome.evicted == ["ns/a-0"]
    assert found.pods["ns/big-0"].node == "n1"
    full = snapshot([node("n1", 4), node("n2", 1)], *given_parts(given))
    assert not run(full, "consolidate").outcome.evicted


def given_parts(given):
    return list(given.queues.values()), list(given.groups.values()), list(given.pods.values())


RACKS = {
    "r1": NetworkDomain(name="r1", tier=1, nodes=("n1", "n2")),
    "r2": NetworkDomain(name="r2", tier=1, nodes=("n3", "n4")),
    "row": NetworkDomain(name="row", tier=2, domains=("r1", "r2")),
}


@pytest.mark.parametrize(
    ("highest", "count", "is_hard", "want"),
    [
        pytest.param(1, 4, True, 1, id="one rack holds it"),
        pytest.param(1, 5, True, 0, id="no rack does"),
        pytest.param(2, 5, True, 2, id="the row does"),
        pytest.param(None, 5, False, 2, id="it is only a wish"),
    ],
)
def test_groups_stand_near_each_other(highest, count, is_hard, want):
    near = NearWish(is_hard=is_hard, tier=highest)
    nodes = [node(f"n{index}", 2) for index in range(1, 5)]
    given = snapshot(nodes, [queue()], [group("a", minimum=count, near=near)], pods("a", count), domains=RACKS)
    found = run(given, "allocate", policies=(*PLAIN, "network-topology-aware"))
    assert len({found.domains.leaf_of(name).name for name in found.outcome.binds.values()}) == want
    assert len(found.outcome.binds) == (count if want else 0)


def test_the_own_shard_goes_first_and_may_be_all():
    nodes = [node("n1", 1), node("n2", 1)]
    parts = ([queue()], [group("a", minimum=0)], pods("a", 2))
    soft = snapshot(nodes, *parts, sharding=Sharding(nodes=frozenset(("n2",))))
    assert run(soft, "allocate").outcome.binds == {"ns/a-0": "n2", "ns/a-1": "n1"}
    hard = snapshot(nodes, *parts, sharding=Sharding(nodes=frozenset(("n2",)), is_hard=True))
    assert run(hard, "allocate").outcome.binds == {"ns/a-0": "n2"}


def test_what_others_still_hold_is_promised_and_not_given():
    leaving = pod("old-0", "old", cpu=2, node="n", status=PodStatus.RELEASING)
    given = snapshot([node("n", 2)], [queue()], [group("old"), group("new")], [leaving, pod("new-0", "new", cpu=2)])
    found = run(given, "allocate")
    assert not found.outcome.binds
    assert found.pods["ns/new-0"].status is PodStatus.PIPELINED


def test_cards_that_others_still_hold_are_not_given():
    """A node of eight cards: four are in use, four are being left; a pod that asks for four has to wait for them."""
    cards = CardKinds(counts=("nvidia.com/gpu",), resources=frozenset(("nvidia.com/gpu",)))
    slots = NodeSlots(Placer(NodeTable(), (), PodsOnNodes(NodeFacts())), flavors={}, cards=cards)
    four = {"requests": {"nvidia.com/gpu": 4}}
    given = snapshot(
        [node("n", 16, **{"nvidia.com/gpu": 8})],
        [queue()],
        [group("old", minimum=1), group("new", minimum=1)],
        [
            pod("stays", "old", node="n", **four),
            pod("leaves", "old", node="n", status=PodStatus.RELEASING, **four),
            pod("comes", "new", **four),
        ],
    )
    found = Session(given, slots, build_tiers((tier(*PLAIN),)).tiers)
    run_stages(found, ["allocate"])
    assert not found.outcome.binds
    assert found.pods["ns/comes"].status is PodStatus.PIPELINED


@pytest.mark.parametrize(
    ("leaver", "want"),
    [
        pytest.param({"status": PodStatus.RELEASING, "priority": 0}, 0, id="its place is being left"),
        pytest.param({"priority": 0}, 1, id="nobody leaves yet"),
    ],
)
def test_who_waits_for_its_place_has_nobody_else_leave(leaver, want):
    given = snapshot(
        [node("n1", 1), node("n2", 1)],
        [queue()],
        [group("low", minimum=0), group("high", minimum=1, priority=9)],
        [
            pod("low-0", "low", node="n1", **leaver),
            pod("low-1", "low", node="n2", priority=0),
            pod("high-0", "high", cpu=0.5, priority=5, nominated_node="n1"),
        ],
    )
    assert len(run(given, "preempt").outcome.evicted) == want
