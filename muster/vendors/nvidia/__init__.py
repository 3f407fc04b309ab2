"""NVIDIA's cards: whole, shared by HAMi's slices, or cut into MIG partitions. Found by `app` through VENDOR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from muster.engine.contracts import Vendor
from muster.engine.devices_text import (
    allocation_text,
    read_allocation,
    read_pair_scores,
    read_register,
    with_pair_scores,
)
from muster.model.device import ContainerShares, Device
from muster.model.errors import InvalidObject
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
from muster.vendors.nvidia.requests import listed, request_of, wishes_of
from muster.vendors.nvidia.settings import NAME, NvidiaSettings

REGISTER, LINKS, CORDON = "hami.io/node-nvidia-register", "hami.io/node-nvidia-score", "hami.io/device-cordon"
TO_ALLOCATE, ALLOCATED = "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-devices-allocated"
PARTITIONS = "hami.io/vgpu-mig-allocations"


def devices_of(node: Fields) -> tuple[Device, ...]:
    """The cards that the node's annotations register."""
    metadata = node.child("metadata")
    annotations = metadata.text_map("annotations")
    path = metadata.at("annotations")
    if REGISTER not in annotations:
        raise InvalidObject(f"{path}[{REGISTER}]", "is missing", "the node's device plugin writes it")
    devices = tuple(
        replace(device, vendor=NAME) for device in read_register(annotations[REGISTER], f"{path}[{REGISTER}]")
    )
    if annotations.get(LINKS):
        devices = with_pair_scores(devices, read_pair_scores(annotations[LINKS], f"{path}[{LINKS}]"))
    return cordoned(devices, annotations)


def cordoned(devices: tuple[Device, ...], annotations: Mapping[str, str]) -> tuple[Device, ...]:
    """The cards with those marked that the node's annotations keep from new pods."""
    named = frozenset(listed(annotations.get(CORDON, "")))
    return tuple(replace(device, is_cordoned=device.uuid in named) for device in devices)


def annotate(_pod: Fields, containers: ContainerShares) -> Mapping[str, str]:
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
        wishes_of=wishes_of,
        admit=partial(admit, settings=settings),
        fit=fits_partition,
        settle=settle,
    )


VENDOR = vendor(NvidiaSettings())
