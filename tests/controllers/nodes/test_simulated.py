"""Simulated nodes on a virtual clock: their pods take the time they say, however many, and nodes fail on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from muster.app.kinds import catalog
from muster.controllers.feed import Feed
from muster.controllers.loop import Loop
from muster.controllers.node_lifecycle import NodeLifecycle, TaintEviction
from muster.controllers.nodes.containers import BackOff
from muster.controllers.nodes.heartbeat import LEASES, Heartbeats, node_object
from muster.controllers.nodes.simulated import SimulatedNodes, is_failed, look, node_terms
from muster.controllers.nodes.timing import Habits
from muster.controllers.view import View
from muster.store.aio import AsyncStore
from muster.store.client import PlainClient
from muster.store.clock import VirtualClock
from muster.store.identities import Identities
from muster.store.kinds import Object
from muster.store.memory import MemoryStore
from muster.store.objects import Objects
from muster.store.records import Key
from muster.store.rules import Deletion
from tests.controllers.nodes.pods import pod
from tests.stopwatch import is_done_within
from tests.store.kinds import START_S

SIM = "sim.muster.dev/"


class World:
    """Some simulated nodes, all that watches them, and time that passes when nobody has anything to do."""

    def __init__(self, *names: str) -> None:
        self.clock = VirtualClock(START_S)
        store = AsyncStore(MemoryStore(self.clock), pace_s=0)
        objects = Objects(catalog().rules, self.clock, identities=Identities(Random(1)), has_namespaces=False)
        self.client = PlainClient(store, objects, "tests")
        feed = Feed(
            store, View({("pods", "node"): node_terms}), self.clock, resources=("pods", "nodes", "configmaps", LEASES)
        )
        self.view = feed.view
        self.nodes = {
            name: node_object(name, capacity={"cpu": "8", "pods": "110"}, labels={}, address="198.18.0.1")
            for name in names
        }
        controllers = (
            SimulatedNodes(dict.fromkeys(names, Habits())),
            Heartbeats(self.nodes, is_failed),
            NodeLifecycle(),
            TaintEviction(),
        )
        self.loops = [Loop(one, feed, self.client, self.clock) for one in controllers]
        self.tasks = [asyncio.create_task(one.run()) for one in (feed, *self.loops)]

    async def register(self) -> None:
        for node in self.nodes.values():
            await self.client.create("nodes", node)

    async def add(self, name: str, annotations: dict[str, str] | None = None, **more: Any) -> Key:
        given = pod("c", **more)
        given["metadata"] = {"name": name, "namespace": "x"}
        given["metadata"]["annotations"] = {SIM + key: value for key, value in (annotations or {}).items()}
        await self.client.create("pods", given)
        return Key("pods", "x", name)

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and everybody do what becomes due."""
        end_s = self.clock.monotonic_s() + seconds
        while True:
            for _ in range(30):
                await asyncio.sleep(0)
            if not all(loop.is_idle for loop in self.loops):
                continue
            due_s = self.clock.next_due_s()
            if due_s is None or due_s > end_s:
                break
            self.clock.advance_to(due_s)
        self.clock.advance_to(end_s)

    def phase(self, key: Key) -> str:
        found = self.view.get(key)
        return "gone" if found is None else (found.get("status") or {}).get("phase", "")

    async def annotate(self, key: Key, name: str, value: str) -> None:
        found = self.view.get(key)
        assert found is not None
        annotations = {**(found["metadata"].get("annotations") or {}), SIM + name: value}
        await self.client.update(key, {**found, "metadata": {**found["metadata"], "annotations": annotations}})

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def in_world(test: Callable[[World], Awaitable[None]], *names: str) -> None:
    async def run() -> None:
        world = World(*(names or ("n",)))
        await world.register()
        await world.pass_time(1)
        await test(world)
        await world.close()

    asyncio.run(run())


def test_a_pod_starts_runs_and_ends_when_it_says():
    async def story(world: World) -> None:
        key = await world.add("p", {"start-time": "10s", "run-time": "1m"}, restartPolicy="Never")
        await world.pass_time(8)
        assert world.phase(key) == "Pending"
        await world.pass_time(4)
        assert world.phase(key) == "Running"
        await world.pass_time(55)
        assert world.phase(key) == "Running"
        await world.pass_time(5)
        assert world.phase(key) == "Succeeded"

    in_world(story)


def test_failures_are_made_on_demand():
    async def story(world: World) -> None:
        first = await world.add("first", {"exit-code": "3", "run-time": "5s"}, restartPolicy="Never")
        again = await world.add("again", {"failing-runs": "1", "run-time": "5s"}, restartPolicy="OnFailure")
        told = await world.add("told", restartPolicy="Never")
        stays = await world.add("stays")
        await world.pass_time(3)
        await world.annotate(told, "fail", "9")
        await world.pass_time(20)
        assert [world.phase(one) for one in (first, again, told, stays)] == ["Failed", "Succeeded", "Failed", "Running"]

    in_world(story)


def test_a_pod_is_deleted_within_its_grace():
    async def story(world: World) -> None:
        quick = await world.add("quick", {"stop-time": "5s"})
        slow = await world.add("slow", {"stop-time": "10m"})
        await world.pass_time(2)
        for key in (quick, slow):
            await world.client.delete(key, Deletion(grace_s=20))
        await world.pass_time(3)
        assert world.phase(quick) == "Running"
        await world.pass_time(5)
        assert (world.phase(quick), world.phase(slow)) == ("gone", "Running")
        await world.pass_time(15)
        assert world.phase(slow) == "gone"

    in_world(story)


def test_a_pod_with_annotations_that_mean_nothing_says_so():
    async def story(world: World) -> None:
        key = await world.add("p", {"run-time": "soon"})
        await world.pass_time(2)
        found = world.view.get(key)
        assert found is not None
        waiting = found["status"]["containerStatuses"][0]["state"]["waiting"]
        assert waiting["reason"] == "CreateContainerConfigError"
        assert "sim.muster.dev/run-time" in waiting["message"]

    in_world(story)


def test_a_node_that_fails_loses_its_pods_after_a_while_and_comes_back():
    async def story(world: World) -> None:
        lost, kept = await world.add("lost"), await world.add("kept", nodeName="m")
        stays = await world.add("stays", tolerations=[{"operator": "Exists"}])
        await world.pass_time(30)
        node = Key("nodes", "", "n")
        await world.annotate(node, "failed", "true")
        await world.pass_time(60)
        assert taints(world, node) == {"NoSchedule", "NoExecute"}
        found = world.view.get(lost)
        assert found is not None
        ready = next(one for one in found["status"]["conditions"] if one["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "NodeNotReady")
        assert not deleting(world, lost)
        await world.pass_time(300)
        assert (deleting(world, lost), deleting(world, kept), deleting(world, stays)) == (True, False, False)
        await world.annotate(node, "failed", "false")
        await world.pass_time(60)
        assert taints(world, node) == set()
        assert world.phase(lost) == "gone"

    in_world(story, "n", "m")


def taints(world: World, node: Key) -> set[str]:
    found = world.view.get(node)
    assert found is not None
    return {one["effect"] for one in found["spec"].get("taints") or ()}


def deleting(world: World, key: Key) -> bool:
    found = world.view.get(key)
    return found is not None and bool(found["metadata"].get("deletionTimestamp"))


def test_nodes_become_ready_and_stay_it():
    async def story(world: World) -> None:
        await world.pass_time(1_000)
        node = world.view.get(Key("nodes", "", "n"))
        assert node is not None
        assert not node["spec"].get("taints")
        assert {one["type"]: one["status"] for one in node["status"]["conditions"]}["Ready"] == "True"
        lease = world.view.get(Key(LEASES, "kube-node-lease", "n"))
        assert lease is not None and lease["spec"]["leaseDurationSeconds"] == 40

    in_world(story)


@pytest.mark.parametrize("hours", [24, -24, 0.01, -0.01])
def test_a_clock_that_is_set_silences_no_node_and_hides_none_that_is_silent(hours):
    async def story(world: World) -> None:
        lost, kept = await world.add("lost"), await world.add("kept", nodeName="m")
        await world.pass_time(95)
        world.clock.set_by(hours * 3600)
        for _ in range(10):
            await world.pass_time(9)
            assert taints(world, Key("nodes", "", "n")) == set() == taints(world, Key("nodes", "", "m"))
        await world.annotate(Key("nodes", "", "n"), "failed", "true")
        world.clock.set_by(-hours * 3600)
        await world.pass_time(90)
        assert taints(world, Key("nodes", "", "n")) == {"NoSchedule", "NoExecute"}
        assert not deleting(world, lost)
        await world.pass_time(300)
        assert (deleting(world, lost), deleting(world, kept)) == (True, False)

    in_world(story, "n", "m")


def test_work_that_was_saved_is_not_done_again():
    async def story(world: World) -> None:
        notes = {SIM + "run-time": "100s", "muster.dev/checkpoint-signal": "SIGUSR1"}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
        for name in ("first", "second", "third"):
            given = pod("c", restartPolicy="Never")
            given["metadata"] = {"name": name, "namespace": "x", "annotations": notes, "ownerReferences": [owner]}
            await world.client.create("pods", given)
            key = Key("pods", "x", name)
            await world.pass_time(40)
            if name != "third":
                assert world.phase(key) == "Running"
                await world.client.delete(key, Deletion(grace_s=20))
                await world.pass_time(5)
        assert world.phase(key) == "Succeeded", "twenty seconds were left to do"

    in_world(story)


def test_a_pod_on_a_node_that_was_never_there_is_removed_after_a_while():
    async def story(world: World) -> None:
        key = await world.add("p", nodeName="nowhere")
        await world.pass_time(30)
        assert world.phase(key) == "Pending"
        await world.pass_time(30)
        assert world.phase(key) == "gone"

    in_world(story)


@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule"])
def test_only_taints_that_say_so_drive_pods_away(effect):
    async def story(world: World) -> None:
        key = await world.add("p")
        await world.pass_time(2)
        await taint(world, effect)
        await world.pass_time(1_000)
        assert world.phase(key) == "Running"
        await taint(world, "NoExecute")
        await world.pass_time(2)
        assert world.phase(key) == "gone"

    in_world(story)


def test_pods_of_a_node_that_is_gone_are_removed():
    async def story(world: World) -> None:
        key = await world.add("p")
        await world.pass_time(2)
        await world.client.delete(Key("nodes", "", "n"))
        await world.pass_time(30)
        assert world.phase(key) == "Running"
        await world.pass_time(20)
        assert world.phase(key) == "gone"

    in_world(story)


async def taint(world: World, effect: str) -> None:
    key = Key("nodes", "", "n")
    node = world.view.get(key)
    assert node is not None
    await world.client.update(key, {**node, "spec": {"taints": [{"key": "x", "effect": effect}]}})


def test_an_hour_of_pods_is_simulated_fast():
    """An hour of some hundred pods."""

    def an_hour() -> None:
        async def story(world: World) -> None:
            names = sorted(world.nodes)
            keys = [
                await world.add(f"p{number}", {"run-time": "uniform(1m,1h)"}, restartPolicy="Never",
                                nodeName=names[number % len(names)])
                for number in range(PODS)
            ]  # fmt: skip
            await world.pass_time(3_700)
            assert {world.phase(key) for key in keys} == {"Succeeded"}

        in_world(story, *(f"n{number}" for number in range(2)))

    assert is_done_within(15.0, an_hour)


PODS = 300


def test_a_pod_of_instant_runs_does_not_hold_up_the_others():
    given = pod("c", metadata={"annotations": {SIM + "run-time": "0s"}})
    assert is_done_within(5.0, lambda: look(given, Habits(), BackOff(first_s=0.0), now_s=START_S))


@pytest.mark.parametrize("seed", range(20))
def test_however_often_it_is_looked_at_a_pod_ends_the_same(seed: int):
    chance = Random(seed)
    given = pod("c", init=["i", "s+"], restartPolicy="OnFailure")
    given["metadata"]["annotations"] = {SIM + "run-time": "uniform(5s,60s)", SIM + "failing-runs": "2"}
    ends: list[Object] = []
    for _ in range(2):
        one, now_s = dict(given), START_S
        for _ in range(10_000):
            after = look(one, Habits(), BackOff(), now_s=now_s)
            one = {**one, "status": after.status}
            if after.is_over or after.due_s is None:
                break
            # At the moment that was asked for, or several times before it.
            early_s = now_s + (after.due_s - now_s) * chance.random()
            now_s = after.due_s if not ends or chance.random() < 0.3 else early_s
        ends.append(one["status"])
    assert ends[0]["phase"] == "Succeeded"
    assert [one["restartCount"] for one in ends[0]["containerStatuses"]] == [2]
    assert ends[0]["containerStatuses"][0]["state"] == ends[1]["containerStatuses"][0]["state"]
