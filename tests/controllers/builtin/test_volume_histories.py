"""Whatever is made, deleted and lost in whatever order, claims and volumes end in pairs, and nobody shares a volume."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from muster.controllers.builtin.volumes import Volumes
from muster.controllers.volume_matching import best_volume, mismatch
from muster.store.client import Client
from muster.store.errors import AlreadyExists, Conflict, NotFound
from tests.controllers.builtin.test_histories import LossyClient
from tests.controllers.builtin.volume_stories import CLAIMS, VOLUMES, claim, storage_class, volume
from tests.controllers.builtin.workload_cluster import AT_ONCE, Cluster
from tests.support import assert_sound, proof_count

SIZES = ("1Gi", "2Gi", "3Gi")
CLASSES = ("", "local", "static")


class Story:
    """Claims and volumes that come and go by chance."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.lossy: list[LossyClient] = []
        self.cluster = Cluster([Volumes], chance.randrange(10**6), wrap=self._wrapped)

    def _wrapped(self, client: Client) -> Client:
        self.lossy.append(LossyClient(client, self.chance))
        return self.lossy[-1]

    async def begin(self) -> None:
        local = storage_class("local", "muster.dev/local")[2]
        await self.cluster.create("storageclasses.storage.k8s.io", {**local, "parameters": {"path": "/v"}})
        static = storage_class("static", "kubernetes.io/no-provisioner")[2]
        await self.cluster.create("storageclasses.storage.k8s.io", static)

    async def step(self) -> None:
        """One thing happens."""
        chance = self.chance
        name, size, kind = f"n{chance.randrange(6)}", chance.choice(SIZES), chance.choice(CLASSES)
        try:
            match chance.randrange(7):
                case 0 | 1 | 2:
                    named = {"volumeName": f"n{chance.randrange(6)}"} if chance.random() < 0.2 else {}
                    await self.cluster.create(CLAIMS, claim(name, size, storageClassName=kind, **named)[2])
                case 3 | 4:
                    policy = chance.choice(["Retain", "Delete"])
                    more: dict[str, Any] = {"storageClassName": kind, "persistentVolumeReclaimPolicy": policy}
                    await self.cluster.create(VOLUMES, volume(name, size, **more)[2])
                case 5:
                    await self.cluster.delete(CLAIMS, name, AT_ONCE)
                case _:
                    await self.cluster.stop()
                    self.cluster.start()
        except (AlreadyExists, Conflict, NotFound):
            pass
        for _ in range(chance.randrange(100)):
            await asyncio.sleep(0)

    async def end(self) -> None:
        for one in self.lossy:
            one.is_lossy = False
        for _ in range(3):
            await self.cluster.wait(70.0)  # longer than any pause after a failure
        await self.cluster.stop()


def _check_end(cluster: Cluster) -> None:
    claims = {one["metadata"]["name"]: one for one in cluster.all(CLAIMS)}
    volumes = {one["metadata"]["name"]: one for one in cluster.all(VOLUMES)}
    for name, one in claims.items():
        if one["status"]["phase"] == "Bound":
            reference = volumes[one["spec"]["volumeName"]]["spec"]["claimRef"]
            assert (reference["name"], reference["uid"]) == (name, one["metadata"]["uid"])
            assert volumes[one["spec"]["volumeName"]]["status"]["phase"] == "Bound"
            assert not mismatch(volumes[one["spec"]["volumeName"]], one)
        else:
            assert one["status"]["phase"] == "Pending"
            assert one["spec"]["storageClassName"] != "local" or one["spec"].get("volumeName"), "it can be made"
            assert one["spec"].get("volumeName") or best_volume(one, volumes.values()) is None, "it waits in vain"
    for name, one in volumes.items():
        owner = claims.get((one["spec"].get("claimRef") or {}).get("name", ""))
        is_owned = owner is not None and owner["metadata"]["uid"] == one["spec"]["claimRef"].get("uid")
        is_bound = is_owned and owner is not None and owner["spec"].get("volumeName") == name
        assert (one["status"]["phase"] == "Bound") == is_bound, (name, one["status"])
        assert is_bound or not name.startswith("pvc-"), "a volume that was made is nobody's"


@pytest.mark.prove
def test_claims_and_volumes_end_in_pairs() -> None:
    def check(chance: Random) -> None:
        async def story() -> None:
            one = Story(chance)
            await one.begin()
            for _ in range(25):
                await one.step()
            await one.end()
            _check_end(one.cluster)

        asyncio.run(story())

    assert_sound(check, range(proof_count(300)))
