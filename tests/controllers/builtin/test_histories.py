"""Whatever people, kubelets and disks do in whatever order, workloads end as their last wish says, and nothing doubles.

The controllers' client loses answers: a write is refused, or made and not confirmed. Controllers are stopped in the
middle and started with nothing in their heads.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from muster.controllers.builtin import CONTROLLERS
from muster.store.client import Client
from muster.store.errors import Conflict, NotFound, Unavailable
from muster.store.kinds import Object
from muster.store.objects import PLAINLY, Part
from muster.store.records import Key
from muster.store.rules import Deletion
from tests.controllers.builtin.workload_cluster import Cluster, template, workload
from tests.support import assert_sound, proof_count

DEPLOYMENTS, SETS, STATEFUL, DAEMON = "deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps"


class LossyClient:
    """A client whose writes fail now and then, before or after they were made."""

    def __init__(self, client: Client, chance: Random) -> None:
        self._client = client
        self._chance = chance
        self.is_lossy = True

    def _lose(self, share: float) -> None:
        if self.is_lossy and self._chance.random() < share:
            raise Unavailable("the disk is full")

    async def create(self, resource: str, given: Object) -> Object:
        self._lose(0.05)
        kept = await self._client.create(resource, given)
        self._lose(0.05)
        return kept

    async def update(self, key: Key, given: Object, part: Part = Part.MAIN) -> Object:
        self._lose(0.05)
        kept = await self._client.update(key, given, part)
        self._lose(0.05)
        return kept

    async def delete(self, key: Key, deletion: Deletion = PLAINLY) -> Object:
        self._lose(0.05)
        kept = await self._client.delete(key, deletion)
        self._lose(0.05)
        return kept


class Story:
    """A cluster that things happen to by chance."""

    def __init__(self, chance: Random, resource: str) -> None:
        self.chance = chance
        self.resource = resource
        self.lossy: list[LossyClient] = []
        self.cluster = Cluster(CONTROLLERS, chance.randrange(10**6), wrap=self._wrapped)
        self.replicas = chance.randrange(1, 5)
        self.image = "i:1"

    def _wrapped(self, client: Client) -> Client:
        self.lossy.append(LossyClient(client, self.chance))
        return self.lossy[-1]

    async def begin(self, given: Object) -> None:
        await self.cluster.create(self.resource, given)

    async def step(self) -> None:
        """One thing happens."""
        cluster, chance = self.cluster, self.chance
        pods = cluster.all("pods")
        match chance.randrange(8):
            case 0 | 1 if self.resource != DAEMON:
                self.replicas = chance.randrange(5)
                await cluster.change(self.resource, "a", lambda one: one["spec"].update(replicas=self.replicas))
            case 2:
                self.image = f"i:{chance.randrange(1, 4)}"
                await cluster.change(
                    self.resource, "a", lambda one: one["spec"].update(template=template(image=self.image))
                )
            case 3 if pods:
                await self._to_pod(cluster.delete("pods", chance.choice(pods)["metadata"]["name"]))
            case 4 if pods:
                name = chance.choice(pods)["metadata"]["name"]
                await self._to_pod(cluster.run_pod(name, phase="Failed", is_ready=False))
            case 5:
                await cluster.stop()
                cluster.start()
            case _:
                await cluster.run_all(most=chance.randrange(1, 4))
        for _ in range(chance.randrange(200)):
            await asyncio.sleep(0)

    async def _to_pod(self, write: Any) -> None:
        try:
            await write
        except (NotFound, Conflict):
            return

    async def end(self) -> list[Object]:
        """Let all come to rest; gives the pods that are left."""
        for one in self.lossy:
            one.is_lossy = False
        for _ in range(40):
            await self.cluster.wait(70.0)  # longer than any pause after a failure
            if not await self.cluster.run_all():
                break
        await self.cluster.stop()
        return [pod for pod in self.cluster.all("pods") if pod["status"]["phase"] == "Running"]


def played(chance: Random, given: Object, resource: str, nodes: int = 0) -> tuple[Story, list[Object]]:
    """A whole story, and the pods at its end."""

    async def story() -> tuple[Story, list[Object]]:
        one = Story(chance, resource)
        for number in range(nodes):
            await one.cluster.add_node(f"n{number}")
        await one.begin(given)
        for _ in range(15):
            await one.step()
        return one, await one.end()

    return asyncio.run(story())


def images(pods: list[Object]) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in pods}


@pytest.mark.prove
def test_deployments_end_as_wished():
    def check(chance: Random) -> None:
        strategy = {"type": "Recreate"} if chance.random() < 0.3 else {"type": "RollingUpdate"}
        given = workload("Deployment", replicas=1, strategy=strategy, minReadySeconds=chance.choice([0, 0, 30]))
        story, pods = played(chance, given, DEPLOYMENTS)
        wanted = story.cluster.get(DEPLOYMENTS, "a")["spec"]["replicas"]
        assert len(pods) == wanted
        assert images(pods) <= {
            story.cluster.get(DEPLOYMENTS, "a")["spec"]["template"]["spec"]["containers"][0]["image"]
        }
        status = story.cluster.get(DEPLOYMENTS, "a")["status"]
        assert status.get("availableReplicas", 0) == status.get("updatedReplicas", 0) == wanted, status
        sets = story.cluster.all(SETS)
        assert sum(one["spec"]["replicas"] for one in sets) == wanted
        assert len({str(one["spec"]["template"]["spec"]) for one in sets}) == len(sets), "two sets of one template"

    assert_sound(check, range(proof_count(300)))


@pytest.mark.prove
def test_stateful_sets_end_as_wished():
    def check(chance: Random) -> None:
        policy = chance.choice(["OrderedReady", "Parallel"])
        claim = {"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
        claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
        given = workload("StatefulSet", replicas=1, podManagementPolicy=policy, volumeClaimTemplates=[claim])
        story, pods = played(chance, given, STATEFUL)
        owner = story.cluster.get(STATEFUL, "a")
        wanted = owner["spec"]["replicas"]
        assert sorted(pod["metadata"]["name"] for pod in pods) == [f"a-{number}" for number in range(wanted)]
        assert images(pods) <= {owner["spec"]["template"]["spec"]["containers"][0]["image"]}
        status = owner["status"]
        assert status.get("readyReplicas", 0) == status.get("updatedReplicas", 0) == wanted, status
        assert status["currentRevision"] == status["updateRevision"]
        claims = {one["metadata"]["name"] for one in story.cluster.all("persistentvolumeclaims")}
        assert claims >= {f"d-a-{number}" for number in range(wanted)}

    assert_sound(check, range(proof_count(300)))


@pytest.mark.prove
def test_daemon_sets_end_with_one_pod_on_each_node():
    def check(chance: Random) -> None:
        bounds = chance.choice([{"maxSurge": 1, "maxUnavailable": 0}, {"maxUnavailable": 1}, {"maxUnavailable": "60%"}])
        strategy = {"type": "RollingUpdate", "rollingUpdate": bounds}
        nodes = chance.randrange(1, 5)
        given = workload("DaemonSet", replicas=None, updateStrategy=strategy)
        story, pods = played(chance, given, DAEMON, nodes)
        assert len(pods) == nodes
        places = {str(pod["spec"]["affinity"]) for pod in pods}
        assert len(places) == nodes
        assert images(pods) == {story.image}
        status = story.cluster.get(DAEMON, "a")["status"]
        assert status["numberReady"] == status["updatedNumberScheduled"] == nodes, status

    assert_sound(check, range(proof_count(300)))
