"""Filtering and binding on a cluster that is a table: what is given away once, the lock, its numbers, and its ends."""

from __future__ import annotations

import asyncio
import random

import pytest

from muster.apiserver.cards.extender import CardExtender
from muster.apiserver.cards.wire import BindArgs, FilterArgs
from muster.dialects.hami.claims import ALLOCATING, FAILED, PHASE
from muster.dialects.hami.filter import Extender
from muster.dialects.hami.node_lock import BINDERS, BY_COUNT, BY_UID, EXPIRY_S, FENCE, LOCK, read_binders
from muster.model.fields import Fields
from muster.store.clock import VirtualClock
from muster.store.errors import Conflict, NotFound
from muster.store.records import Key
from muster.vendors.nvidia import ALLOCATED, shares_of
from tests.apiserver.cards.world import VENDORS, TableCards, a_node, a_pod
from tests.support import proof_count


class World:
    def __init__(self, *nodes, pods=()):
        self.cluster = TableCards(nodes, pods)
        self.clock = VirtualClock()
        self.replica()

    def replica(self):
        self.extender = CardExtender(Extender(vendors=VENDORS), self.cluster, self.clock)
        return self.extender

    async def place(self, pod, nodes=("n",)):
        self.cluster.put(Key("pods", "ns", pod["metadata"]["name"]), pod)
        return await self.extender.filter(FilterArgs(pod=pod, names=tuple(nodes)))

    async def bind(self, name, node="n", uid=""):
        await self.extender.bind(BindArgs(namespace="ns", name=name, uid=uid or f"uid-{name}", node=node))

    def shares(self, name):
        return shares_of(Fields.of(self.cluster.objects[Key("pods", "ns", name)]))


def test_a_pod_is_placed_and_bound_and_its_annotations_say_so():
    async def story():
        world = World(a_node())
        answer = await world.place(a_pod("a"))
        assert answer.nodes == ("n",)
        await world.bind("a")
        written = world.cluster.annotations("pods", "a", "ns")
        assert written[PHASE] == ALLOCATING and FENCE not in written
        assert world.cluster.annotations("nodes", "n")[LOCK].endswith(",ns,a")
        assert [one.node for one in world.cluster.bound] == ["n"]

    asyncio.run(story())


def test_what_one_filter_gives_away_the_next_sees_taken_before_the_cluster_says_so():
    async def story():
        world = World(a_node(cards=1))
        assert (await world.place(a_pod("a", memory=6_000))).nodes == ("n",)
        assert (await world.place(a_pod("b", memory=6_000))).refused == {"n": "1/1 CardInsufficientMemory"}
        # Asked once more, a pod does not stand in its own way.
        assert (await world.place(a_pod("a", memory=6_000))).nodes == ("n",)

    asyncio.run(story())


def test_two_replicas_that_give_away_the_same_memory_bind_only_one_pod():
    async def story():
        world = World(a_node(cards=1, agent=BY_UID))
        await world.place(a_pod("a", memory=6_000))
        first = world.extender
        world.replica()
        await world.place(a_pod("b", memory=6_000))
        await first.bind(BindArgs(namespace="ns", name="a", uid="uid-a", node="n"))
        with pytest.raises(Conflict, match="has not so much left"):
            await world.bind("b")
        assert [one.key.name for one in world.cluster.bound] == ["a"]
        assert world.cluster.annotations("pods", "b", "ns")[PHASE] == FAILED
        assert [one.name for one in read_binders(world.cluster.annotations("nodes", "n")[BINDERS]).binders] == ["a"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("agent", "want"),
    [
        pytest.param(BY_UID, ["a", "b"], id="an agent that goes by uid takes several at once"),
        pytest.param(BY_COUNT, ["a"], id="one that goes by numbers does not take two for one another"),
        pytest.param("", ["a"], id="HAMi's plugin takes one at a time"),
    ],
)
def test_several_binds_on_one_node_at_once(agent, want):
    async def story():
        world = World(a_node(agent=agent))
        for name in ("a", "b"):  # on different cards: cards are spread
            await world.place(a_pod(name, memory=6_000))
        assert world.shares("a")[0][0].uuid != world.shares("b")[0][0].uuid
        await world.bind("a")
        binding = asyncio.create_task(world.bind("b"))
        while not binding.done():
            await asyncio.sleep(0)
            world.clock.advance(0.01)
        [problem] = await asyncio.gather(binding, return_exceptions=True)
        assert [one.key.name for one in world.cluster.bound] == want
        assert (problem is None) == (len(want) == 2)

    asyncio.run(story())


def test_numbers_grow_and_whoever_comes_after_the_end_of_a_lock_gets_a_new_one():
    async def story():
        world = World(a_node(agent=BY_COUNT))
        for name in ("a", "b"):
            await world.place(a_pod(name, memory=6_000))
        await world.bind("a")
        world.clock.advance(EXPIRY_S + 1)
        await world.bind("b")
        assert [world.cluster.annotations("pods", name, "ns")[FENCE] for name in ("a", "b")] == ["1", "2"]
        # The first was overtaken: the node no longer knows its number, and its agent serves it nothing.
        assert [one.fence for one in read_binders(world.cluster.annotations("nodes", "n")[BINDERS]).binders] == [2]

    asyncio.run(story())


def test_a_lock_whose_pod_is_gone_holds_nobody():
    async def story():
        world = World(a_node())
        for name in ("a", "b"):
            await world.place(a_pod(name, memory=6_000))
        await world.bind("a")
        del world.cluster.objects[Key("pods", "ns", "a")]
        await world.bind("b")
        assert [one.key.name for one in world.cluster.bound] == ["a", "b"]

    asyncio.run(story())


def test_a_node_that_changes_under_a_bind_is_read_again():
    async def story():
        world = World(a_node())
        await world.place(a_pod("a"))
        node = Key("nodes", "", "n")
        world.cluster.before_node_write = lambda: world.cluster.put(node, world.cluster.objects[node])
        await world.bind("a")
        assert len(world.cluster.bound) == 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"uid": "uid-other"}, "does not exist", id="a foreign uid"),
        pytest.param({"node": "m"}, "not on m", id="another node than the cards'"),
        pytest.param({"name": "nobody"}, "does not exist", id="no such pod"),
    ],
)
def test_binds_that_do_not_mean_the_pod_that_was_placed_are_refused(change, problem):
    async def story():
        world = World(a_node())
        await world.place(a_pod("a"))
        with pytest.raises((Conflict, NotFound), match=problem):
            await world.bind(**{"name": "a", "uid": "uid-a", **change})
        assert not world.cluster.bound

    asyncio.run(story())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("GPU-n-0,NVIDIA,9000,20:;", "was given 9000 MiB of a card, and asks for 4000", id="more memory"),
        pytest.param("GPU-n-0,NVIDIA,4000,90:;", "was given 90 % of a card, and asks for 20", id="more cores"),
        pytest.param("GPU-x-7,NVIDIA,4000,20:;", "GPU-x-7.*which the node has not", id="a foreign card"),
        pytest.param("GPU-n-0,NVIDIA,4000,20:GPU-n-1,NVIDIA,4000,20:;", "asks for 1", id="more cards"),
        pytest.param("GPU-n-0,NVIDIA,4000,20:;GPU-n-1,NVIDIA,4000,20:;", "to 2 containers", id="more containers"),
    ],
)
def test_forged_annotations_are_not_bound(text, problem):
    async def story():
        world = World(a_node())
        await world.place(a_pod("a"))
        world.cluster._annotate(Key("pods", "ns", "a"), {ALLOCATED: text})
        with pytest.raises(Conflict, match=problem):
            await world.bind("a")
        assert not world.cluster.bound
        assert LOCK not in world.cluster.annotations("nodes", "n")

    asyncio.run(story())


@pytest.mark.prove
def test_however_filters_and_binds_of_replicas_meet_no_card_is_sold_twice():
    for seed in range(proof_count(500)):
        asyncio.run(_storm(seed))


async def _storm(seed):
    chance = random.Random(seed)
    names = ("n", "m")
    world = World(*(a_node(name, agent=chance.choice((BY_UID, BY_COUNT))) for name in names))
    replicas = [world.extender, world.replica()]

    async def one(number):
        pod = a_pod(f"p{number}", memory=chance.choice((2_000, 3_000, 5_000)), cores=chance.choice((10, 30)))
        world.cluster.put(Key("pods", "ns", pod["metadata"]["name"]), pod)
        for _ in range(4):
            extender = chance.choice(replicas)
            answer = await extender.filter(FilterArgs(pod=pod, names=names))
            if len(answer.nodes) != 1:
                return
            args = BindArgs(namespace="ns", name=f"p{number}", uid=f"uid-p{number}", node=answer.nodes[0])
            try:
                await chance.choice(replicas).bind(args)
            except Conflict:
                if chance.random() < 0.5:
                    world.cluster.refresh()
                continue
            return

    tasks = [asyncio.create_task(one(number)) for number in range(8)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        world.clock.advance(0.5)
    for task in tasks:
        task.result()
    assert world.cluster.bound, f"seed {seed}"
    used = {}
    for binding in world.cluster.bound:
        for share in (share for shares in world.shares(binding.key.name) for share in shares):
            memory, cores = used.get(share.uuid, (0, 0))
            used[share.uuid] = (memory + share.memory_mib, cores + share.cores)
    assert all(memory <= 10_000 and cores <= 100 for memory, cores in used.values()), f"seed {seed}: {used}"
