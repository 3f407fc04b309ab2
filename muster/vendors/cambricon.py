"""Cambricon's MLUs: a node tells their number by its capacity of cores. Found by `app` through VENDOR."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from muster.engine.contracts import Assigned, DeviceResources, Vendor, VendorSettings
from muster.engine.devices_vendor import Family, capacity, counted, named, of_family, plain_annotations, plain_vendor
from muster.model.device import AMOUNT_MAX, WHOLE_CORES, ContainerShares, Device
from muster.model.fields import Fields

NAME = "MLU"
UNIT_MIB = 256  # of the memory resource
SHARERS = 100
MODEL_LABEL = "Model"
PROFILE, ASSIGNED = "CAMBRICON_DSMLU_PROFILE", "CAMBRICON_DSMLU_ASSIGNED"
RESOURCES = DeviceResources(
    count="cambricon.com/vmlu",
    memory="cambricon.com/mlu.smlu.vmemory",
    cores="cambricon.com/mlu.smlu.vcore",
    memory_factor=UNIT_MIB,
)


def devices_of(node: Fields, family: Family) -> tuple[Device, ...]:
    """A card for every hundred cores, each with the same part of the memory."""
    metadata = node.child("metadata")
    cores = capacity(node, family.resources.cores)
    count = counted(node, family.resources.cores, unit=WHOLE_CORES)
    memory = capacity(node, family.resources.memory) * UNIT_MIB * WHOLE_CORES // cores
    model = metadata.text_map("labels").get(MODEL_LABEL, "").strip()
    devices = (
        Device(
            uuid=f"{metadata.text('name')}-cambricon-mlu-{index}",
            index=index,
            model=model if NAME in model.upper() else NAME,
            memory_mib=min(max(0, memory), AMOUNT_MAX),
            slots=SHARERS,
        )
        for index in range(count)
    )
    return of_family(node, NAME, tuple(devices))


def annotate(_pod: Fields, containers: ContainerShares, _assigned: Assigned, *, family: Family) -> dict[str, str]:
    """What is written on a pod; the plugin goes by the first share alone."""
    written = plain_annotations(containers, family)
    if not written:
        return {}
    first = next((share for shares in containers for share in shares), None)
    profile = {} if first is None else {PROFILE: f"{first.index}_{first.cores}_{first.memory_mib // UNIT_MIB}"}
    return {**written, ASSIGNED: "false", **profile}


def vendor(resources: DeviceResources) -> Vendor:
    """Cambricon's record under an administrator's names."""
    family = Family(
        name=NAME,
        resources=resources,
        to_allocate="hami.io/cambricon-mlu-devices-to-allocate",
        allocated="hami.io/cambricon-mlu-devices-allocated",
        use_uuid="cambricon.com/use-gpuuuid",
        avoid_uuid="cambricon.com/nouse-gpuuuid",
        use_model="cambricon.com/use-mlutype",
        avoid_model="cambricon.com/nouse-mlutype",
        default_cores=WHOLE_CORES,
    )
    return replace(
        plain_vendor(family), devices_of=partial(devices_of, family=family), annotate=partial(annotate, family=family)
    )


VENDOR = vendor(RESOURCES)
SETTINGS = VendorSettings(name="cambricon", read=lambda given: (vendor(named(given.child("cambricon"), RESOURCES)),))
