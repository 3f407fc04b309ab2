"""Pods, nodes and an extender for HAMi's tests; a row shows only what matters."""

from __future__ import annotations

from typing import Any

from muster.dialects.hami.filter import Extender, FilterState
from muster.dialects.hami.settings import HamiSettings
from muster.model.device import Device
from muster.model.fields import Fields
from muster.vendors.nvidia import VENDOR

GPU, MEM, PERCENT, CORES = (f"nvidia.com/{name}" for name in ("gpu", "gpumem", "gpumem-percentage", "gpucores"))


def limits(gpus: int = 0, mem: int = 0, percent: int = 0, cores: int = 0) -> dict[str, str]:
    """Limits of a container; what is 0 is not named."""
    amounts = {GPU: gpus, MEM: mem, PERCENT: percent, CORES: cores}
    return {name: str(amount) for name, amount in amounts.items() if amount}


def pod(
    *containers: dict[str, str], uid: str = "u", init: tuple[dict[str, str], ...] = (), **annotations: str
) -> Fields:
    """A pod of containers with these limits; annotations are named by the last part of their key."""
    keys = {
        "node_policy": "hami.io/node-scheduler-policy",
        "card_policy": "hami.io/gpu-scheduler-policy",
        "weights": "hami.io/device-scoring-weights",
        "uuids": "nvidia.com/use-gpuuuid",
    }
    spec = {"containers": [_container(one) for one in containers], "initContainers": [_container(one) for one in init]}
    metadata = {"uid": uid, "namespace": "n", "annotations": {keys[key]: value for key, value in annotations.items()}}
    return Fields({"metadata": metadata, "spec": spec})


def _container(given: dict[str, str]) -> dict[str, Any]:
    return {"name": "c", "resources": {"limits": given}}


def device(name: str, **parts: Any) -> Device:
    fields = {"vendor": "NVIDIA", "model": "NVIDIA A100", "memory_mib": 1000, "slots": 10, **parts}
    return Device(uuid=name, **fields)


def state(**nodes: str) -> FilterState:
    """Nodes with cards of one letter each."""
    return FilterState(nodes={name: tuple(device(letter) for letter in letters) for name, letters in nodes.items()})


def extender(**settings: Any) -> Extender:
    return Extender(vendors=(VENDOR,), settings=HamiSettings(**settings))
