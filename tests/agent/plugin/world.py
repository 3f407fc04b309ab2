"""A node with an agent's plugin, a kubelet of our own and a scheduler that places pods. Used by tests of the plugin."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from muster.agent.plugin.containers import Places
from muster.agent.plugin.disk import Disk
from muster.agent.plugin.grants import Grant, Node
from muster.agent.plugin.service import PluginService, PluginSettings
from muster.agent.plugin.sockets import KubeletPods, PluginSocket
from muster.dialects.hami.claims import claimed
from muster.dialects.hami.filter import Extender, FilterState
from muster.model.device import Device
from muster.model.fields import Fields
from muster.store.clock import RealClock
from muster.vendors.nvidia import VENDOR, shares_of
from tests.agent.plugin.kubelet import FakeKubelet

RESOURCE = "nvidia.com/gpu"
WAIT_S = 60.0


def short_folder() -> Path:
    """A folder for sockets, whose paths may not be longer than a hundred characters or so; to be removed."""
    return Path(tempfile.mkdtemp(prefix="muster-"))


def cards(count: int = 4, memory_mib: int = 10_000) -> tuple[Device, ...]:
    return tuple(
        Device(
            uuid=f"GPU-{n}", index=n, vendor="NVIDIA", model="NVIDIA-H200", memory_mib=memory_mib, slots=10, numa=n // 2
        )
        for n in range(count)
    )


def container(name: str, count: int, memory: int, cores: int, **variables: str) -> dict[str, Any]:
    limits = {RESOURCE: str(count), "nvidia.com/gpumem": str(memory), "nvidia.com/gpucores": str(cores)}
    env = [{"name": key, "value": value} for key, value in variables.items()]
    return {"name": name, "resources": {"limits": limits if count else {}}, "env": env}


class AroundTable:
    """The API server as the plugin sees it: a table of pods."""

    def __init__(self, name: str = "n") -> None:
        self.name = name
        self.pods: dict[str, dict[str, Any]] = {}
        self.annotations: dict[str, str] = {}
        self.whole: list[str] = []
        self.delays: Any = None  # awaited with each look, to make it slow

    async def node(self, devices: tuple[Device, ...]) -> Node:
        if self.delays is not None:
            await self.delays()
        return Node(name=self.name, annotations=self.annotations, devices=devices, pods=list(self.pods.values()))

    async def served(self, grant: Grant, *, is_whole: bool) -> None:
        if is_whole:
            self.whole.append(grant.whose.uid)


class AgentWorld:
    """All of it, in one folder."""

    def __init__(self, folder: Path, mode: str, seed: int = 0, devices: tuple[Device, ...] = ()) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.plugins = short_folder()
        self.kubelet = FakeKubelet(self.plugins, self.chance)
        self.around = AroundTable()
        self.devices = devices or cards()
        self.settings = PluginSettings(mode=mode, places=Places(state=str(folder / "state")))
        self.extender = Extender(vendors=(VENDOR,))
        self._numbers = 0

    def begin_agent(self) -> None:
        """A new process of the agent, which knows only what the disk knows."""
        disk = Disk(self.folder / "state", self.folder / "cdi")
        self.pods = KubeletPods(RESOURCE, self.kubelet.pod_socket)
        self.service = PluginService(VENDOR, disk, self.pods, self.around, settings=self.settings)
        self.service.show(self.devices)
        self.socket = PluginSocket(self.service, RESOURCE, RealClock(), self.plugins)

    async def __aenter__(self) -> AgentWorld:
        await self.kubelet.start()
        self.begin_agent()
        await self.socket.settle()
        await self.known()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end_agent()
        await self.kubelet.stop()
        shutil.rmtree(self.plugins)

    async def end_agent(self) -> None:
        await self.socket.stop()
        await self.pods.close()

    async def known(self) -> None:
        """Wait until the kubelet knows of the cards."""
        async with asyncio.timeout(WAIT_S):
            await self.kubelet.registered.wait()
            await self.kubelet.knows_devices.wait()

    # Pods ------------------------------------------------------------------------------------------------------------

    def place(self, *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> str | None:
        """A pod that a scheduler has placed and bound; None where it does not fit."""
        self._numbers += 1
        name = f"p{self._numbers}"
        metadata = {"name": name, "namespace": "ns", "uid": f"uid-{self._numbers}"}
        spec: dict[str, Any] = {"containers": list(containers), **({"initContainers": list(init)} if init else {})}
        pod = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        held = [claimed(Fields.of(one), (VENDOR,), self.devices) for one in self.around.pods.values()]
        state = FilterState(nodes={"n": self.devices}, pods=tuple(one for one in held if one is not None))
        answer = self.extender.filter(Fields.of(pod), ["n"], state=state, now_s=0)
        if answer.refused:
            return None
        pod["metadata"]["annotations"] = dict(answer.annotations)
        pod["spec"]["nodeName"] = "n"
        self.around.pods[metadata["uid"]] = pod
        return f"ns/{name}"

    def pod(self, name: str) -> dict[str, Any]:
        return next(one for one in self.around.pods.values() if f"ns/{one['metadata']['name']}" == name)

    def asking(self, name: str) -> list[tuple[str, int]]:
        """The containers of a pod that ask for cards, and for how many."""
        spec = self.pod(name)["spec"]
        found = []
        for one in (*spec.get("initContainers", ()), *spec["containers"]):
            count = int(one["resources"]["limits"].get(RESOURCE, 0))
            if count:
                found.append((one["name"], count))
        return found

    def end(self, name: str) -> None:
        self.kubelet.end(name)
        del self.around.pods[self.pod(name)["metadata"]["uid"]]

    def wanted(self, name: str, container_name: str) -> tuple[list[str], list[int]]:
        """The cards and memory that the scheduler decided on for a container."""
        given = [shares for shares in shares_of(Fields.of(self.pod(name))) if shares]
        names = [one for one, _ in self.asking(name)]
        shares = given[names.index(container_name)]
        return [one.uuid for one in shares], [one.memory_mib for one in shares]

    def seen(self, answer: Any) -> tuple[list[str], list[int]]:
        """The cards and memory that a container sees which is created with what the kubelet was told."""
        variables, mounts = dict(answer["envs"]), {one["container_path"]: one["host_path"] for one in answer["mounts"]}
        for device in answer["cdi_devices"]:
            key = device["name"].partition("=")[2]
            [found] = json.loads((self.folder / "cdi" / f"muster-{key}.json").read_text())["devices"]
            assert found["name"] == key
            variables |= dict(one.split("=", 1) for one in found["containerEdits"]["env"])
            mounts |= {one["containerPath"]: one["hostPath"] for one in found["containerEdits"]["mounts"]}
        limits = dict(line.split("=", 1) for line in (Path(mounts["/etc/muster"]) / "limits").read_text().splitlines())
        for key, value in limits.items():  # whatever the variables say, they do not say otherwise
            assert variables.get(key, value) == value
        uuids = variables["NVIDIA_VISIBLE_DEVICES"].split(",")
        return uuids, [int(limits[f"CUDA_DEVICE_MEMORY_LIMIT_{n}"].removesuffix("m")) for n in range(len(uuids))]
