"""The cache: what changes has brought it to is what it would read anew, and no object can stop it."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from muster.controllers.cache import Cache
from muster.engine.state import EngineState
from muster.store.records import Key
from tests.controllers.cluster import GPU, GROUP, WORKLOADS, Cluster, node, pod, queue, workload
from tests.controllers.test_scheduler_faults import REGISTER, REGISTERED
from tests.support import is_full_proof


def _picture(state: EngineState) -> dict[str, object]:
    """All that objects say; not what the engine remembers of the past."""
    strangers = state.places.slots.foreign if state.places.slots is not None else {}
    nodes = state.tree.nodes.items()
    return {
        "workloads": {key: one.changed(pods_bound=0) for key, one in state.workloads.items()},
        "usage": {name: {cell: used for cell, used in one.usage.items() if used} for name, one in nodes},
        "strangers": {key: [slot.node for slot in use.slots] for key, (_, use) in strangers.items()},
        "waiting": {name: {one.key for one in (*line.waiting(), *line.parked())} for name, line in state.lines.items()},
    }


def _assert_like_new(cluster: Cluster) -> None:
    fresh = Cache(cluster.scheduling.view, cluster.scheduling.parts)
    fresh.sync(cluster.clock.now_s())
    assert _picture(cluster.scheduling.scheduler.cache.state) == _picture(fresh.state)


async def _something_happens(cluster: Cluster, chance: Random) -> None:
    name, other = f"w{chance.randrange(5)}", f"p{chance.randrange(8)}"
    names = {one["metadata"]["name"] for one in cluster.all(WORKLOADS)}
    pods = {one["metadata"]["name"]: one for one in cluster.all("pods")}
    deed = chance.randrange(8)
    if deed <= 1 and name not in names:
        made = workload(
            name, "q", chance.randrange(1, 4), priority=chance.randrange(3), gpu=str(chance.randrange(1, 3))
        )
        await cluster.add(WORKLOADS, made)
    elif deed == 2:
        await cluster.remove(WORKLOADS, name)
    elif deed <= 4 and other not in pods:
        of = chance.choice([name, name, ""])
        await cluster.add("pods", pod(other, of, priority=chance.randrange(3), gpu="1", cpu="1"))
    elif deed == 5 and other in pods:
        if chance.random() < 0.5:
            await cluster.set_status("pods", other, {"phase": chance.choice(["Running", "Succeeded", "Failed"])})
        else:
            await cluster.remove("pods", other)
    elif deed == 6:
        evicted = [one for one in sorted(names) if cluster.conditions(one).get("Evicted", ("", ""))[0] == "True"]
        if evicted and cluster.is_admitted(evicted[0]):
            await cluster.let_go(evicted[0])
    elif deed == 7:
        one = f"n{chance.randrange(3)}"
        if any(known["metadata"]["name"] == one for known in cluster.all("nodes")):
            await cluster.remove("nodes", one, "")
        else:
            await cluster.add_node(node(one, gpus=4))


@pytest.mark.prove
def test_deltas_lead_where_reading_anew_would():
    async def story(seed: int) -> None:
        chance = Random(seed)
        cluster = Cluster(seed=seed)
        preemption = {"withinClusterQueue": "LowerPriority"}
        await cluster.set_up(queue("q", {GPU: "9"}, preemption=preemption), nodes=[node("n0", gpus=4)])
        await cluster.start()
        for _ in range(40):
            for _ in range(chance.randrange(1, 4)):
                await _something_happens(cluster, chance)
            await cluster.settle()
            _assert_like_new(cluster)
        await cluster.stop()

    for seed in range(40 if is_full_proof() else 2):
        asyncio.run(story(seed))


def test_a_pod_that_begins_to_run_is_no_news():
    async def story() -> None:
        cluster = Cluster()
        await cluster.set_up(queue("q", {GPU: "8"}), nodes=[node("n", gpus=4)])
        await cluster.start()
        await cluster.add("pods", pod("p", gpu="1"))
        await cluster.settle()
        cache = cluster.scheduling.scheduler.cache
        taken_in = []
        right, cache.sync = cache.sync, lambda now: (taken_in.append(now), right(now))
        await cluster.set_status("pods", "p", {"phase": "Running"})
        await cluster.settle()
        assert not taken_in and not cache.has_news
        seen = cache.seen(Key("pods", "team", "p"))
        assert seen is not None and seen["status"]["phase"] == "Running", "what is decided now is written on this"
        await cluster.set_status("pods", "p", {"phase": "Succeeded"})
        await cluster.settle()
        assert taken_in, "it holds nothing any more"
        await cluster.stop()

    asyncio.run(story())


def test_an_object_that_cannot_be_read_stops_nobody(caplog):
    async def story() -> None:
        cluster = Cluster()
        await cluster.set_up(queue("q", {GPU: "8"}), nodes=[node("n", gpus=4)])
        await cluster.start()
        await cluster.add(WORKLOADS, workload("w", "q", 1, gpu="2"))
        await cluster.add("pods", pod("p", "w", gpu="2"))
        await cluster.settle()
        bad = {"hami.io/node-nvidia-register": "["}
        await cluster.add_node(node("bad", gpus=2, annotations=bad))
        obj = cluster.get(WORKLOADS, "w")
        for one in obj["status"]["conditions"]:
            if one["type"] == "muster.dev/Slots":
                one["message"] = "nonsense"
        await cluster.set_status(WORKLOADS, "w", obj["status"])
        await cluster.add(WORKLOADS, workload("big", "q", 1, gpu="4"))
        await cluster.add(WORKLOADS, workload("small", "q", 1, gpu="2"))
        await cluster.settle()
        assert (cluster.is_admitted("big"), cluster.is_admitted("small")) == (False, True)
        await cluster.stop()

    asyncio.run(story())
    assert "its pods count one by one" in caplog.text


def test_a_status_of_a_queue_does_not_build_the_state_anew():
    async def story() -> None:
        cluster = Cluster()
        await cluster.set_up(queue("q", {GPU: "8"}), nodes=[node("n", gpus=4)])
        await cluster.start()
        await cluster.settle()
        state = cluster.scheduling.scheduler.cache.state
        await cluster.add(WORKLOADS, workload("w", "q", 1, gpu="2"))
        await cluster.settle()
        assert cluster.scheduling.scheduler.cache.state is state
        changed = cluster.get(f"clusterqueues.{GROUP}", "q", "")
        changed["spec"]["stopPolicy"] = "Hold"
        await cluster.plain.update(Key(f"clusterqueues.{GROUP}", "", "q"), changed)
        await cluster.settle()
        assert cluster.scheduling.scheduler.cache.state is not state
        assert cluster.get(f"clusterqueues.{GROUP}", "q", "")["status"]["conditions"][0]["reason"] == "Stopped"
        await cluster.stop()

    asyncio.run(story())


def test_what_has_gone_while_the_state_is_built_anew_is_forgotten():
    async def story() -> None:
        cluster = Cluster()
        await cluster.set_up(queue("q", {GPU: "9"}), nodes=[node("n1", gpus=4)])
        await cluster.add("pods", pod("one", gpu="1"))
        await cluster.add(WORKLOADS, workload("train", "q", gpu="1"))
        await cluster.start()
        await cluster.settle()
        await cluster.remove("pods", "one")
        await cluster.remove(WORKLOADS, "train")
        await cluster.add(f"clusterqueues.{GROUP}", queue("other", {GPU: "1"}))
        await cluster.settle()
        assert cluster.scheduling.scheduler.cache.leftovers() == []
        await cluster.stop()

    asyncio.run(story())


def test_what_a_pod_holds_of_cards_is_read_when_its_node_comes_back():
    async def story() -> None:
        cluster = Cluster()
        sliced = node("sliced", gpus=20, annotations=REGISTERED)
        plain = node("plain", gpus=20, annotations={REGISTER: REGISTERED[REGISTER].replace("GPU-", "CARD-")})
        await cluster.set_up(queue("q", {GPU: "9"}), nodes=[sliced])
        await cluster.add("pods", pod("alone", gpu="1", gpumem="300"))
        await cluster.start()
        await cluster.settle()
        await cluster.stop()
        await cluster.remove("nodes", "sliced", "")
        await cluster.add_node(plain)
        await cluster.start()  # it has never seen the pod's node
        await cluster.settle()
        await cluster.add_node(sliced)
        await cluster.settle()
        _assert_like_new(cluster)
        alone = cluster.scheduling.scheduler.cache.state.workloads["team/pod/alone"]
        assert alone.admission is not None, "a more important one may take its place"
        await cluster.stop()

    asyncio.run(story())
