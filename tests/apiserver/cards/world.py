"""A cluster of nodes with cards and pods that ask for them, as a table with revisions. Used by tests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from muster.app.plugins import vendors
from muster.dialects.hami.claims import claimed
from muster.dialects.hami.filter import FilterState
from muster.dialects.hami.node_lock import AGENT
from muster.dialects.hami.read import node_cards
from muster.engine.devices_text import register_text
from muster.model.device import Device
from muster.model.fields import Fields
from muster.store.binding import Binding
from muster.store.errors import Conflict, NotFound
from muster.store.records import Key
from muster.vendors.nvidia import REGISTER

Json = dict[str, Any]
VENDORS = tuple(one for one in vendors().values() if one.name == "NVIDIA")


def a_node(name: str = "n", cards: int = 2, agent: str = "", **more: str) -> Json:
    """A node whose cards have 10,000 MiB and ten slots each."""
    devices = [
        Device(uuid=f"GPU-{name}-{number}", index=number, model="NVIDIA-H200", memory_mib=10_000, slots=10)
        for number in range(cards)
    ]
    annotations = {REGISTER: register_text(devices), **({AGENT: agent} if agent else {}), **more}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "annotations": annotations}, "spec": {}, "status": {}}


def a_pod(name: str = "p", *, cards: int = 1, memory: int = 4_000, cores: int = 20, namespace: str = "ns") -> Json:
    """A pod with one container that asks for so much of so many cards."""
    limits = {"nvidia.com/gpu": str(cards), "nvidia.com/gpumem": str(memory), "nvidia.com/gpucores": str(cores)}
    container = {"name": "main", "image": "a", "resources": {"limits": limits}}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}, "status": {}}


class TableCards:
    """Nodes and pods by their names; the filter sees them as late as `refresh` says."""

    def __init__(self, nodes: Sequence[Json] = (), pods: Sequence[Json] = ()) -> None:
        self.objects: dict[Key, Json] = {}
        self.bound: list[Binding] = []
        self.before_node_write: Any = None  # called once, to be faster than a write
        self._revision = 0
        for one in nodes:
            self.put(Key("nodes", "", one["metadata"]["name"]), one)
        for one in pods:
            self.put(Key("pods", one["metadata"]["namespace"], one["metadata"]["name"]), one)
        self.refresh()

    def put(self, key: Key, given: Json) -> None:
        self._revision += 1
        kept = deepcopy(given)
        kept["metadata"]["resourceVersion"] = str(self._revision)
        self.objects[key] = kept

    def refresh(self) -> None:
        """Let the filter see everything."""
        nodes = {
            k.name: node_cards(Fields.of(o), VENDORS).devices for k, o in self.objects.items() if k.resource == "nodes"
        }
        bound = [o for k, o in self.objects.items() if k.resource == "pods" and o["spec"].get("nodeName")]
        held = [claimed(Fields.of(one), VENDORS, nodes[one["spec"]["nodeName"]]) for one in bound]
        self._state = FilterState(nodes=nodes, pods=tuple(one for one in held if one is not None))

    def state(self) -> FilterState:
        return self._state

    async def pod(self, key: Key) -> Json | None:
        await asyncio.sleep(0)
        return deepcopy(self.objects.get(key))

    async def node(self, name: str) -> Json | None:
        return await self.pod(Key("nodes", "", name))

    async def pods_on(self, node: str) -> list[Json]:
        await asyncio.sleep(0)
        return [
            deepcopy(o) for k, o in self.objects.items() if k.resource == "pods" and o["spec"].get("nodeName") == node
        ]

    async def annotate_pod(self, key: Key, uid: str, annotations: Mapping[str, str]) -> None:
        await asyncio.sleep(0)
        pod = self.objects.get(key)
        if pod is None:
            raise NotFound(key)
        if pod["metadata"]["uid"] != uid:
            raise Conflict(key, "Precondition failed: UID")
        self._annotate(key, annotations)

    async def annotate_node(self, name: str, revision: str, annotations: Mapping[str, str | None]) -> None:
        await asyncio.sleep(0)
        key = Key("nodes", "", name)
        if self.before_node_write is not None:
            once, self.before_node_write = self.before_node_write, None
            once()
        if self.objects[key]["metadata"]["resourceVersion"] != revision:
            raise Conflict(key, "it has changed")
        self._annotate(key, annotations)

    def _annotate(self, key: Key, annotations: Mapping[str, str | None]) -> None:
        found = deepcopy(self.objects[key])
        merged = {**(found["metadata"].get("annotations") or {}), **annotations}
        found["metadata"]["annotations"] = {name: text for name, text in merged.items() if text is not None}
        self.put(key, found)

    async def bind(self, binding: Binding) -> None:
        await asyncio.sleep(0)
        pod = deepcopy(self.objects[binding.key])
        if pod["spec"].get("nodeName") or pod["metadata"]["uid"] != binding.uid:
            raise Conflict(binding.key, "it is bound already, or another")
        pod["spec"]["nodeName"] = binding.node
        self.put(binding.key, pod)
        self.bound.append(binding)

    def annotations(self, resource: str, name: str, namespace: str = "") -> Json:
        return self.objects[Key(resource, namespace, name)]["metadata"].get("annotations") or {}
