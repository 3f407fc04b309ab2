"""NVIDIA's cards: whole, shared by HAMi's slices, or cut into MIG partitions. Found by `app` through VENDOR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from muster.engine.contracts import Assigned, Vendor, VendorSettings
from muster.engine.devices_text import (
    allocation_text,
    read_allocation,
    read_pair_scores,
    read_register,
    with_pair_scores,
)
from muster.engine.devices_vendor import cordoned, register_of
from muster.model.device import ContainerShares, Device
from muster.model.fields import Fields
from muster.vendors.nvidia.admission import admit
from muster.vendors.nvidia.mig import (
    fits_partition,
    partitions_text,
    read_partitions,
    records_of,
    settle,
    with_partitions,
)
from muster.vendors.nvidia.requests import WISHES, request_of, wishes_of
from muster.vendors.nvidia.settings import NAME, NvidiaSettings, read_settings

REGISTER, LINKS = "hami.io/node-nvidia-register", "hami.io/node-nvidia-score"
TO_ALLOCATE, ALLOCATED = "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-devices-allocated"
PARTITIONS = "hami.io/vgpu-mig-allocations"


def devices_of(node: Fields) -> tuple[Device, ...]:
    """The cards that the node's annotations register."""
    metadata = node.child("metadata")
    annotations = metadata.text_map("annotations")
    path = metadata.at("annotations")
    devices = tuple(replace(device, vendor=NAME) for device in read_register(*register_of(node, REGISTER)))
    if annotations.get(LINKS):
        devices = with_pair_scores(devices, read_pair_scores(annotations[LINKS], f"{path}[{LINKS}]"))
    return cordoned(devices, annotations)


def annotate(_pod: Fields, containers: ContainerShares, _assigned: Assigned) -> Mapping[str, str]:
    """What is written on a pod that got these shares; nothing where it got none."""
    if not containers:
        return {}
    text = allocation_text(containers)
    records = records_of(containers)
    partitions = {PARTITIONS: partitions_text(records)} if records else {}
    return {TO_ALLOCATE: text, ALLOCATED: text, **partitions}


def shares_of(pod: Fields) -> ContainerShares:
    """What the pod holds, as its annotations say."""
    metadata = pod.child("metadata")
    annotations = metadata.text_map("annotations")
    path = metadata.at("annotations")
    if ALLOCATED not in annotations:
        return ()
    containers = read_allocation(annotations[ALLOCATED], f"{path}[{ALLOCATED}]")
    records = read_partitions(annotations[PARTITIONS], f"{path}[{PARTITIONS}]") if PARTITIONS in annotations else ()
    return with_partitions(containers, records)


def vendor(settings: NvidiaSettings) -> Vendor:
    """NVIDIA's record under an administrator's settings."""
    return Vendor(
        name=NAME,
        resources=settings.resources,
        devices_of=devices_of,
        request_of=partial(request_of, settings=settings),
        annotate=annotate,
        shares_of=shares_of,
        register=REGISTER,
        allocated=ALLOCATED,
        wishes_of=wishes_of,
        wish_names=WISHES,
        admit=partial(admit, settings=settings),
        fit=fits_partition,
        settle=settle,
        is_counted=True,
    )


VENDOR = vendor(NvidiaSettings())
SETTINGS = VendorSettings(name="nvidia", read=lambda given: (vendor(read_settings(given.child("nvidia"))),))
