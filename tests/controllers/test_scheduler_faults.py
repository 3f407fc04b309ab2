"""The scheduler may stop at any write, and any write may fail: it ends where it should, and no card is given twice."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from random import Random

import pytest

from muster.dialects.kueue.slots_text import recorded_slots
from muster.model.fields import Fields
from muster.store.errors import Conflict, Unavailable
from muster.store.kinds import Object
from muster.store.objects import Part
from muster.store.records import Key
from tests.controllers.cluster import GPU, WORKLOADS, Cluster, node, pod, queue, workload
from tests.support import is_full_proof

REGISTER, ALLOCATED = "hami.io/node-nvidia-register", "hami.io/vgpu-devices-allocated"
CARDS = [{"id": f"GPU-{number}", "index": number, "count": 10, "devmem": 1000, "devcore": 100} for number in range(2)]
REGISTERED = {REGISTER: json.dumps([{**card, "type": "NVIDIA", "health": True} for card in CARDS])}


async def _prepare(cluster: Cluster) -> None:
    """A gang and a pod that fit, a workload for which there is no room, and slices of two cards."""
    nodes = [node("n1", gpus=4), node("n2", gpus=2), node("sliced", gpus=20, annotations=REGISTERED)]
    await cluster.set_up(queue("q", {GPU: "99", "nvidia.com/gpumem": "9k"}), nodes=nodes)
    await cluster.add(WORKLOADS, workload("gang", "q", 3, priority=1, gpu="2"))
    await cluster.add(WORKLOADS, workload("slices", "q", 3, priority=2, gpu="1", gpumem="500"))
    await cluster.add(WORKLOADS, workload("big", "q", 1, gpu="4"))
    for number in range(3):
        await cluster.add("pods", pod(f"gang-{number}", "gang", gpu="2"))
        await cluster.add("pods", pod(f"slices-{number}", "slices", gpu="1", gpumem="500"))
    await cluster.add("pods", pod("alone", gpu="1", gpumem="400"))


def _ending(cluster: Cluster) -> dict[str, object]:
    """Who was admitted and bound; where is left to the engine."""
    names = [one["metadata"]["name"] for one in cluster.all(WORKLOADS)]
    admitted = {name for name in names if cluster.is_admitted(name)}
    return {"admitted": admitted, "bound": {name for name, where in cluster.nodes_of_pods().items() if where}}


def check_nothing_sold_twice(cluster: Cluster) -> None:
    """As the objects alone say: slots on record, and what is written on pods."""
    cards: Counter[tuple[str, int]] = Counter()
    memory: Counter[str] = Counter()
    for one in cluster.all(WORKLOADS):
        for slots in recorded_slots(Fields(one)).values() if cluster.is_admitted(one["metadata"]["name"]) else ():
            for slot in slots:
                cards.update((slot.node, card) for card in slot.cards)
    for one in cluster.all("pods"):
        text = (one["metadata"].get("annotations") or {}).get(ALLOCATED, "")
        for share in text.replace(";", ":").split(":"):
            if share:
                uuid, _, mib, _ = share.split(",")
                memory[uuid] += int(mib)
    assert not [card for card, count in cards.items() if count > 1]
    assert not [uuid for uuid, mib in memory.items() if mib > 1000], memory
    room = {"n1": 4, "n2": 2}
    for name, most in room.items():
        on_node = [one for one in cluster.all("pods") if one["spec"].get("nodeName") == name]
        used = sum(int(one["spec"]["containers"][0]["resources"]["limits"].get(GPU, 0)) for one in on_node)
        assert used <= most, (name, used)


async def _undisturbed() -> tuple[dict[str, object], int]:
    cluster = Cluster()
    await _prepare(cluster)
    await cluster.start()
    await cluster.settle()
    await cluster.stop()
    check_nothing_sold_twice(cluster)
    return _ending(cluster), cluster.client.writes


def test_slices_are_given_and_written_on_the_pods():
    async def story() -> None:
        cluster = Cluster()
        await _prepare(cluster)
        await cluster.start()
        await cluster.settle()
        assert _ending(cluster) == {
            "admitted": {"gang", "slices"},
            "bound": {"alone", *(f"{of}-{number}" for of in ("gang", "slices") for number in range(3))},
        }
        written = [cluster.get("pods", f"slices-{number}")["metadata"]["annotations"] for number in range(3)]
        assert all("NVIDIA,500,0" in one[ALLOCATED] for one in written)
        assert all(cluster.nodes_of_pods()[f"slices-{number}"] == "sliced" for number in range(3))
        check_nothing_sold_twice(cluster)
        await cluster.stop()

    asyncio.run(story())


@pytest.mark.prove
@pytest.mark.parametrize("is_last_made", [False, True], ids=["before the write", "after it"])
def test_a_restart_at_any_write_ends_the_same(is_last_made):
    async def story() -> None:
        wanted, writes = await _undisturbed()
        step = 1 if is_full_proof() else max(1, writes // 6)
        for dies_at in range(1, writes + 1, step):
            cluster = Cluster()
            await _prepare(cluster)
            await cluster.start(dies_at, is_last_made=is_last_made)
            await cluster.settle()
            await cluster.stop()
            check_nothing_sold_twice(cluster)
            await cluster.start()
            await cluster.settle()
            await cluster.stop()
            check_nothing_sold_twice(cluster)
            assert _ending(cluster) == wanted, f"stopped at write {dies_at}"

    asyncio.run(story())


@pytest.mark.prove
def test_writes_that_fail_are_made_good():
    async def story(seed: int) -> None:
        chance = Random(seed)
        cluster = Cluster()
        await _prepare(cluster)
        await cluster.start()
        cluster.client.fails = lambda: chance.random() < 0.4
        await cluster.settle(30)
        check_nothing_sold_twice(cluster)
        cluster.client.fails = lambda: False
        await cluster.settle(120)
        await cluster.stop()
        check_nothing_sold_twice(cluster)
        assert _ending(cluster)["admitted"] == {"gang", "slices"}, f"seed {seed}"
        assert len(_ending(cluster)["bound"]) == 7, f"seed {seed}"

    for seed in range(40 if is_full_proof() else 5):
        asyncio.run(story(seed))


@pytest.mark.parametrize("lands", ["before", "after", "never"])
def test_what_has_no_answer_counts_until_it_is_known_what_became_of_it(lands):
    # A write is under way and nobody knows; meanwhile somebody more urgent comes, who would get the same quota.
    async def story() -> None:
        cluster = Cluster()
        await cluster.set_up(queue("q", {"cpu": "1"}), nodes=[node("n1"), node("n2")])
        await cluster.add(WORKLOADS, workload("first", "q"))
        await cluster.start()
        update, under_way = cluster.client.update, []

        async def without_answer(key: Key, given: Object, part: Part = Part.MAIN) -> Object:
            if key.resource == WORKLOADS and "admission" in (given.get("status") or {}) and not under_way:
                under_way.append((key, given, part))
                if lands == "before":
                    await update(key, given, part)
                await cluster.add(WORKLOADS, workload("urgent", "q", priority=9))
                raise Unavailable("no answer")
            return await update(key, given, part)

        cluster.client.update = without_answer
        await cluster.settle(5)
        if lands == "after":
            with pytest.raises(Conflict):
                await update(*under_way[0])
        await cluster.settle(5)
        assert [cluster.is_admitted(name) for name in ("first", "urgent")] == [True, False]
        await cluster.stop()

    asyncio.run(story())
