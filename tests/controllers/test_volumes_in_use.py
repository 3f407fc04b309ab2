"""Claims and volumes that are deleted stay while somebody uses them, and go as soon as nobody does."""

from __future__ import annotations

from typing import Any

from muster.controllers.tidying import Tidying
from muster.store.errors import NotFound
from muster.store.records import Key, Scope
from tests.apiserver.admission.test_rows import everything
from tests.apiserver.world import World, in_world

Json = dict[str, Any]
NS = "/api/v1/namespaces/default"
VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "disk"},
    "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}},
}


def claim(name: str) -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def user(name: str, claim_name: str, node: str) -> Json:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}
    spec: Json = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume], "nodeName": node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def tidied(world: World, since: int) -> None:
    """Let the collector see all that has happened since a revision."""
    tidying = Tidying(world.front, world.objects, world.clock)
    watch = world.store.watch(Scope(), since, lambda: None)
    while events := watch.take().events:
        for event in events:
            tidying.note(event)
        while await tidying.step():
            pass
    watch.close()


def is_there(world: World, resource: str, namespace: str, name: str) -> bool:
    try:
        world.store.get(Key(resource, namespace, name))
    except NotFound:
        return False
    return True


def test_a_claim_stays_while_a_pod_that_is_placed_uses_it() -> None:
    async def story(world: World) -> None:
        start = world.store.revision
        for name in ("used", "waited-for", "free"):
            await world.request("POST", f"{NS}/persistentvolumeclaims", claim(name))
        await world.request("POST", f"{NS}/pods", user("runs", "used", "node"))
        await world.request("POST", f"{NS}/pods", user("waits", "waited-for", ""))
        for name in ("used", "waited-for", "free"):
            assert (await world.request("DELETE", f"{NS}/persistentvolumeclaims/{name}")).status == 200
        await tidied(world, start)
        there = [
            one for one in ("used", "waited-for", "free") if is_there(world, "persistentvolumeclaims", "default", one)
        ]
        assert there == ["used"]
        await world.request("DELETE", f"{NS}/pods/runs", {"gracePeriodSeconds": 0})
        await tidied(world, start)
        assert not is_there(world, "persistentvolumeclaims", "default", "used")

    in_world(story, catalog=everything())


def test_a_volume_stays_while_it_is_bound() -> None:
    async def story(world: World) -> None:
        start = world.store.revision
        place = "/api/v1/persistentvolumes"
        made = (await world.request("POST", place, VOLUME)).json
        await world.request("PUT", f"{place}/disk/status", {**made, "status": {"phase": "Bound"}})
        await world.request("DELETE", f"{place}/disk")
        await tidied(world, start)
        assert is_there(world, "persistentvolumes", "", "disk")
        bound = (await world.get(f"{place}/disk")).json
        await world.request("PUT", f"{place}/disk/status", {**bound, "status": {"phase": "Released"}})
        await tidied(world, start)
        assert not is_there(world, "persistentvolumes", "", "disk")

    in_world(story, catalog=everything())


def test_a_claim_grows_only_where_its_class_lets_it() -> None:
    async def story(world: World) -> None:
        for name, grows in (("firm", False), ("elastic", True)):
            body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
            body |= {"provisioner": "example.com/disks", "allowVolumeExpansion": grows}
            await world.request("POST", "/apis/storage.k8s.io/v1/storageclasses", body)
            given = claim(name)
            given["spec"]["storageClassName"] = name
            made = (await world.request("POST", f"{NS}/persistentvolumeclaims", given)).json
            path = f"{NS}/persistentvolumeclaims/{name}"
            await world.request("PUT", f"{path}/status", {**made, "status": {"phase": "Bound"}})
            merge = {"content-type": "application/merge-patch+json"}
            wanted = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
            answer = await world.request("PATCH", path, wanted, headers=merge)
            assert answer.status == (200 if grows else 403), answer.body

    in_world(story, catalog=everything())
