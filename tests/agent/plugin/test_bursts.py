"""Bursts of pods through a kubelet of our own: whatever order, repeats and restarts, nobody gets another's."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("grpc", reason="the extra muster[node] is not installed")

from muster.dialects.hami.node_lock import BY_COUNT, BY_UID
from tests.agent.plugin.world import AgentWorld, container
from tests.support import proof_count

BURSTS = 10_000
RESTART, NEW_AGENT = 0.01, 0.01  # of bursts


@pytest.mark.prove
@pytest.mark.parametrize("mode", [BY_UID, BY_COUNT])
def test_no_share_is_swapped_or_given_twice(tmp_path, mode):
    counts = asyncio.run(_bursts(tmp_path, mode, proof_count(BURSTS) // 2))
    assert counts["wrong"] == 0 and counts["right"] > 0


async def _bursts(folder, mode, count):
    counts = {"right": 0, "wrong": 0}
    async with AgentWorld(folder, mode, seed=count) as world:

        async def slow():
            for _ in range(world.chance.randrange(3)):
                await asyncio.sleep(0)

        world.around.delays = slow
        running = []
        for _ in range(count):
            running += await _burst(world, mode, counts)
            _check_once(world, running)
            world.chance.shuffle(running)
            while len(running) > 12 or (running and world.chance.random() < 0.5):
                world.end(running.pop())
            await _trouble(world)
    return counts


async def _burst(world, mode, counts):
    """Several pods at once, admitted in any order."""
    placed = []
    for _ in range(world.chance.randint(1, 4)):
        memory, cores = world.chance.choice((500, 1_000, 2_000, 3_000)), world.chance.choice((5, 10, 20))
        parts = [container(f"c{n}", world.chance.choice((0, 1, 1, 2)), memory + n, cores) for n in range(2)]
        init = (container("i", 1, memory, cores),) if world.chance.random() < 0.2 else ()
        if (name := world.place(*parts, init=init)) is None or not world.asking(name):
            continue
        placed.append(name)
        if mode == BY_COUNT:  # the lock has nobody come who could be mistaken for another
            counts[await _run(world, name)] += 1
    if mode == BY_UID:
        world.chance.shuffle(placed)
        for result in await asyncio.gather(*(_run(world, name) for name in placed)):
            counts[result] += 1
    return placed


async def _run(world, name):
    """A pod is admitted with all its containers, and then they start, some of them more than once."""
    answers = {one: await world.kubelet.admit(name, one, count) for one, count in world.asking(name)}
    for one in answers:
        for _ in range(world.chance.choice((1, 1, 2))):
            await world.kubelet.prepare(name, one)
    is_right = all(world.seen(answer) == world.wanted(name, one) for one, answer in answers.items())
    return "right" if is_right else "wrong"


def _check_once(world, running):
    """No device has two holders, and no card is given out beyond what it has."""
    ids = [one for held in world.kubelet.held.values() for one in held]
    assert len(ids) == len(set(ids))
    used = {}
    for name in running:
        init = {one["name"] for one in world.pod(name)["spec"].get("initContainers", ())}
        for one, _ in world.asking(name):
            if one not in init:
                for uuid, memory in zip(*world.wanted(name, one), strict=True):
                    used[uuid] = used.get(uuid, 0) + memory
    assert all(memory <= 10_000 for memory in used.values()), used


async def _trouble(world):
    if world.chance.random() < RESTART:
        await world.kubelet.restart()
        await world.socket.settle()
        await world.known()
    if world.chance.random() < NEW_AGENT:
        await world.end_agent()
        world.kubelet.registered.clear()
        world.kubelet.knows_devices.clear()
        world.begin_agent()
        await world.socket.settle()
        await world.known()
