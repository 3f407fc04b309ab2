"""Claims are folders that containers find below their mounts, and that go with their volumes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from muster.agent.local.volumes import tidy_volumes
from muster.store.objects import Part
from muster.store.records import Key
from tests.agent.local.machine import WAIT_S, Machine, on_machine, shell, state

MOUNT = [{"name": "v", "mountPath": "/data"}]


async def add_claim(machine: Machine, name: str, source: dict[str, Any]) -> None:
    """A claim that is bound to a volume of the same name."""
    modes, sizes = ["ReadWriteOnce"], {"storage": "1Gi"}
    by = {"pv.kubernetes.io/provisioned-by": "muster.dev/local"}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "annotations": by}}
    await machine.client.create(
        "persistentvolumes", {**volume, "spec": {"accessModes": modes, "capacity": sizes, **source}}
    )
    spec = {"accessModes": modes, "resources": {"requests": sizes}, "volumeName": name, "storageClassName": ""}
    metadata = {"name": name, "namespace": "default"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    kept = await machine.client.create("persistentvolumeclaims", claim)
    key = Key("persistentvolumeclaims", "default", name)
    await machine.client.update(key, {**kept, "status": {"phase": "Bound"}}, Part.STATUS)


def uses(claim: str) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}], "restartPolicy": "Never"}


def test_what_one_pod_writes_another_reads(tmp_path: Path) -> None:
    folder = tmp_path / "volumes" / "disk"

    async def story(machine: Machine) -> None:
        await add_claim(machine, "disk", {"hostPath": {"path": str(folder), "type": "DirectoryOrCreate"}})
        first = await machine.create("a", shell("echo hello > /data/file", volumeMounts=MOUNT), **uses("disk"))
        await machine.phase(first, "Succeeded")
        second = await machine.create("b", shell("cat /data/file", volumeMounts=MOUNT), **uses("disk"))
        await machine.phase(second, "Succeeded")
        assert await machine.log(second) == "hello\n"
        await machine.client.delete(Key("persistentvolumes", "", "disk"))
        async with asyncio.timeout(WAIT_S):
            while folder.exists():
                await asyncio.sleep(0.01)

    on_machine(story, tmp_path / "node")


@pytest.mark.parametrize(
    ("claim", "source", "why"),
    [
        pytest.param(
            "none",
            None,
            'failed to fetch PVC from API server: persistentvolumeclaims "none" not found',
            id="not there",
        ),
        pytest.param("far", {"nfs": {"server": "s", "path": "/"}}, "volume far is no folder of this machine", id="far"),
    ],
)
def test_a_claim_that_cannot_be_mounted(claim: str, source: Any, why: str, tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        if source is not None:
            await add_claim(machine, claim, source)
        key = await machine.create("p", shell("true", volumeMounts=MOUNT), **uses(claim))
        pod = await machine.until(key, lambda pod: state(pod)["state"].get("waiting", {}).get("message"))
        waiting = state(pod)["state"]["waiting"]
        assert waiting["reason"] == "ContainerCreating"
        assert waiting["message"].endswith(why)

    on_machine(story, tmp_path)


def test_folders_of_volumes_that_are_gone_are_removed_at_the_start(tmp_path: Path) -> None:
    for name in ("kept", "gone"):
        (tmp_path / name / "inside").mkdir(parents=True)
    tidy_volumes(tmp_path, {"kept"})
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]
    tidy_volumes(tmp_path / "not-there", set())
