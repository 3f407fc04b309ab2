"""The vendors of a recorded case, built from the configuration that was recorded with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from muster.engine.contracts import DeviceResources, Vendor
from muster.model.fields import Fields
from muster.vendors import (
    amd,
    ascend,
    awsneuron,
    biren,
    cambricon,
    enflame,
    hygon,
    iluvatar,
    kunlun,
    metax,
    mthreads,
    vastai,
)
from muster.vendors import nvidia as nvidia_vendor
from muster.vendors.ascend.chips import PAIRED, Chip, Template
from muster.vendors.nvidia.settings import NvidiaSettings
from tests.conformance import hami_objects as objects
from tests.conformance.cases import Skip

Json = Mapping[str, Any]


def of_function(body: Json) -> Vendor:
    """The vendor whose function a case records."""
    package, _, function = body["function"].partition(":")
    names = body.get("vars") or body["_config"].get("allvars", {}).get(package) or {}
    return _built(function.partition(".")[0], body.get("receiver") or {}, names)


def of_config(body: Json) -> tuple[Vendor, ...]:
    """The vendors that a case's shared configuration registers."""
    config = body["_config"]
    found = []
    for name, device in (config.get("devices") or {}).items():
        package, _, kind = device["type"].removeprefix("*").partition(".")
        if package in ("device", "scheduler"):
            found.append(_stand_in(name, device))
        else:
            names = config["allvars"].get(f"pkg/device/{package}") or {}
            found.append(_built(kind, device["fields"], names))
    return tuple(found)


def _built(kind: str, fields: Json, names: Json) -> Vendor:
    if kind not in BUILDERS:
        raise Skip(f"nobody knows the vendor {kind}")
    return BUILDERS[kind](fields, names)


def _stand_in(name: str, device: Json) -> Vendor:
    """A vendor that upstream's tests made up: whoever asks for a card by NVIDIA's name gets the same request."""
    if "resourceRequest" not in device["fields"]:
        raise Skip("the case registers a stand-in for a vendor that does nothing")
    request = objects.request(device["fields"]["resourceRequest"])

    def request_of(container: Fields) -> Any:
        return request if container.child("resources").child("limits").values else None

    return Vendor(
        name=name,
        resources=DeviceResources(count="nvidia.com/gpu"),
        devices_of=lambda _node: (),
        request_of=request_of,
        annotate=lambda _pod, _containers, _assigned: {},
        shares_of=lambda _pod: (),
    )


def nvidia(config: Json) -> Vendor:
    """NVIDIA under a recorded configuration of it."""
    return nvidia_vendor.vendor(
        NvidiaSettings(
            count_resource=config["ResourceCountName"],
            memory_resource=config["ResourceMemoryName"],
            memory_percent_resource=config["ResourceMemoryPercentageName"],
            cores_resource=config["ResourceCoreName"],
            priority_resource=config["ResourcePriority"],
            memory_factor=config["MemoryFactor"],
            default_memory_mib=config["DefaultMemory"],
            default_cores=config["DefaultCores"],
            default_count=config["DefaultGPUNum"],
            core_policy=config["GPUCorePolicy"],
            hides_cards=config["OverwriteEnv"],
            runtime_class=config["RuntimeClassName"],
        )
    )


def _ascend(fields: Json, _names: Json) -> Vendor:
    config = fields["config"]
    return ascend.vendor(
        Chip(
            name=config["CommonWord"],
            resources=DeviceResources(
                count=config["ResourceName"],
                memory=config["ResourceMemoryName"],
                cores=config["ResourceCoreName"],
                memory_factor=config["MemoryFactor"],
            ),
            memory_mib=config["MemoryAllocatable"],
            capacity_mib=config["MemoryCapacity"],
            templates=tuple(Template(item["Name"], item["Memory"]) for item in config["Templates"] or ()),
            is_paired=config["CommonWord"] == PAIRED,
            is_super_pod=config["SuperPod"],
            is_soft=fields["hamiVnpuCore"],
            hides_chips=config["OverwriteEnv"],
            runtime_class=config["RuntimeClassName"],
        )
    )


def _iluvatar(fields: Json, _names: Json) -> Vendor:
    config = fields["config"]
    resources = DeviceResources(
        count=config["ResourceCountName"],
        memory=config["ResourceMemoryName"],
        cores=config["ResourceCoreName"],
        memory_factor=iluvatar.UNIT_MIB,
    )
    return iluvatar.vendor(config["CommonWord"], resources)


def _named(build: Callable[[DeviceResources], Vendor], factor: int = 1, **keys: str) -> Callable[[Json, Json], Vendor]:
    """A builder of a vendor that only needs to know the names of its resources, and where those are recorded."""

    def built(fields: Json, names: Json) -> Vendor:
        known = {**names, **fields}
        found = {part: known.get(key, "") for part, key in keys.items()}
        return build(DeviceResources(**{"count": "", "memory_factor": known.get("MemoryFactor") or factor, **found}))

    return built


BUILDERS: Mapping[str, Callable[[Json, Json], Vendor]] = {
    "NvidiaGPUDevices": lambda fields, _names: nvidia(fields["config"]),
    "Devices": _ascend,
    "IluvatarDevices": _iluvatar,
    "AMDDevices": _named(amd.vendor, count="resourceCountName", memory="resourceMemoryName", cores="resourceCoreName"),
    "AWSNeuronDevices": _named(awsneuron.vendor, count="resourceCountName", cores="resourceCoreName"),
    "BirenDevices": _named(biren.vendor, count="BirenResourceCount"),
    "CambriconDevices": _named(
        cambricon.vendor, 256, count="MLUResourceCount", memory="MLUResourceMemory", cores="MLUResourceCores"
    ),
    "DCUDevices": _named(
        hygon.vendor, count="HygonResourceCount", memory="HygonResourceMemory", cores="HygonResourceCores"
    ),
    "MthreadsDevices": _named(
        mthreads.vendor,
        512,
        count="MthreadsResourceCount",
        memory="MthreadsResourceMemory",
        cores="MthreadsResourceCores",
    ),
    "VastaiDevices": _named(vastai.vendor, count="VastaiResourceCount"),
    "KunlunDevices": _named(kunlun.whole_vendor, count="KunlunResourceCount"),
    "KunlunVDevices": _named(kunlun.shared_vendor, count="KunlunResourceVCount", memory="KunlunResourceVMemory"),
    "MetaxDevices": _named(metax.whole_vendor, count="MetaxResourceCount"),
    "MetaxSDevices": _named(
        metax.shared_vendor,
        1024,
        count="MetaxResourceNameVCount",
        memory="MetaxResourceNameVMemory",
        cores="MetaxResourceNameVCore",
    ),
    "GCUDevices": _named(enflame.whole_vendor, count="EnflameResourceNameGCU"),
    "EnflameDevices": _named(
        enflame.cut_vendor,
        count="EnflameResourceNameDRSGCU",
        memory="EnflameResourceNameGCUMemory",
        cores="EnflameResourceNameGCUCore",
    ),
}
