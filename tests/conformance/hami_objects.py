"""HAMi's recorded structs as this project's data, and back. Translation only: nothing here decides anything."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from muster.dialects.hami.filter import FilterState, HeldShares
from muster.dialects.hami.quota import QuotaLine, Quotas
from muster.dialects.hami.settings import HamiSettings
from muster.engine.devices_vendor import cordoned
from muster.model.device import (
    Card,
    ContainerShares,
    Device,
    DeviceRequest,
    DeviceUse,
    Partition,
    PartitionProfile,
    Placement,
    Share,
)
from muster.vendors.enflame.cut import CUT, PROFILES
from muster.vendors.metax.shared import BETWEEN, CLASS
from muster.vendors.nvidia.settings import NAME

Json = Mapping[str, Any]
PERCENT_NOT_GIVEN = 101
WIDEST = "6g.40gb"  # the profile of a whole card in the cases
BY_AMOUNTS = -1  # in place of a percentage: memory and cores are given instead of slices

# Cards and shares ----------------------------------------------------------------------------------------------------


def placement(body: Json) -> Placement:
    return Placement(body["Start"], body["Size"])


def profiles(items: list[Json] | None) -> tuple[PartitionProfile, ...]:
    return tuple(
        PartitionProfile(
            name=item["Name"],
            memory_mib=item["MemoryMB"],
            cores=item["Core"],
            slices=item["SliceCount"],
            instances=item["InstanceCount"],
            placements=tuple(placement(place) for place in item["Placements"] or ()),
        )
        for item in items or ()
    )


def registered(body: Json) -> Device:
    """A card of a node's register."""
    return Device(
        uuid=body["ID"],
        index=body["Index"],
        vendor=body["DeviceVendor"],
        model=body["Type"],
        memory_mib=body["Devmem"],
        cores=body["Devcore"],
        slots=body["Count"],
        numa=body["Numa"],
        mode=body["Mode"],
        is_healthy=body["Health"],
        profiles=profiles(body["MIGProfiles"]),
        pair_scores=body["DevicePairScore"]["Scores"] or {},
    )


def device_struct(device: Device) -> Json:
    """What a register tells of a card, as the cases write it."""
    return {
        "ID": device.uuid,
        "Index": device.index,
        "DeviceVendor": device.vendor,
        "Type": device.model,
        "Devmem": device.memory_mib,
        "Devcore": device.cores,
        "Count": device.slots,
        "Numa": device.numa,
        "Mode": device.mode,
        "Health": device.is_healthy,
        "MIGProfiles": device.profiles,
        "Scores": dict(device.pair_scores),
    }


def card(body: Json, node: Json | None, vendor: str = NAME) -> Card:
    """A card with its use; the links and the cordon are told by its node."""
    cached = ((node or {}).get("Devices") or {}).get(vendor) or ()
    links = {item["ID"]: item["DevicePairScore"]["Scores"] or {} for item in cached}
    device = Device(
        uuid=body["ID"],
        index=body["Index"],
        vendor=vendor,
        model=body["Type"],
        memory_mib=body["Totalmem"],
        cores=body["Totalcore"],
        slots=body["Count"],
        numa=body["Numa"],
        mode=body["Mode"],
        is_healthy=body["Health"],
        profiles=profiles(body["MigProfiles"]),
        pair_scores=links.get(body["ID"], {}),
        details=details(body["CustomInfo"]),
    )
    use = DeviceUse(
        slots=body["Used"],
        memory_mib=body["Usedmem"],
        cores=body["Usedcores"],
        partitions=tuple(
            Partition(item["Profile"], placement(item["Placement"])) for item in body["MigAllocationsInUse"] or ()
        ),
        marks=tuple(_class_of(item) for item in body.get("PodInfos") or ()),
    )
    return Card(cordoned((device,), node_annotations(node))[0], use)


def node_annotations(node: Json | None) -> Mapping[str, str]:
    return ((node or {}).get("Node") or {}).get("metadata", {}).get("annotations") or {}


def details(body: Json | None) -> dict[str, str]:
    """What only a vendor understands of its card."""
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in (body or {}).items()}
    return {name: text.removesuffix(".0") for name, text in texts.items()}


def _class_of(pod: Json) -> str:
    """What a pod on a card tells of itself; the policy of the card itself is among its details."""
    return (pod["Pod"]["metadata"].get("annotations") or {}).get(CLASS, "") + BETWEEN


def share(body: Json) -> Share:
    info = body["CustomInfo"] or {}
    place = info.get("migPlacement")
    return Share(
        uuid=body["UUID"],
        vendor=body["Type"],
        index=body["Idx"],
        memory_mib=body["Usedmem"],
        cores=body["Usedcores"],
        slots=body["Slots"] or 1,
        partitions=(Partition(info["migProfile"], placement(place)),) if place else (),
    )


def containers(items: list[list[Json] | None]) -> ContainerShares:
    return tuple(tuple(share(item) for item in group or ()) for group in items)


def told_devices(groups: list[list[Json] | None]) -> Iterator[Device]:
    """The cards of shares as far as the shares themselves tell of them."""
    for item in (item for group in groups for item in group or ()):
        info = item["CustomInfo"] or {}
        known = (
            {PROFILES: json.dumps({info["profileName"]: info["profileID"], WIDEST: ""})} if "profileID" in info else {}
        )
        yield Device(uuid=item["UUID"], index=item["Idx"], details={**details(info), **known})


def share_struct(one: Share) -> Json:
    """A share as an annotation tells it."""
    return {"UUID": one.uuid, "Type": one.vendor, "Usedmem": one.memory_mib, "Usedcores": one.cores}


def chosen_struct(one: Share) -> Json:
    """A share as the choice of cards tells it."""
    return {**share_struct(one), "Idx": one.index}


def request(body: Json) -> DeviceRequest:
    percent = body["MemPercentagereq"]
    if body["Type"] == CUT:  # slices and memory share a field there; the percentage tells which is meant
        is_sliced = percent == 0
        amounts = {"slices": body["Memreq"]} if is_sliced else {"memory_mib": body["Memreq"]}
        return DeviceRequest(vendor=CUT, count=body["Nums"], cores=body["Coresreq"], **amounts)
    return DeviceRequest(
        vendor=body["Type"],
        count=body["Nums"],
        memory_mib=body["Memreq"],
        memory_percent=None if percent == PERCENT_NOT_GIVEN else percent,
        cores=body["Coresreq"],
    )


def request_struct(one: DeviceRequest | None) -> Json:
    if one is None:
        return {"Type": "", "Nums": 0, "Memreq": 0, "MemPercentagereq": 0, "Coresreq": 0}
    percent = PERCENT_NOT_GIVEN if one.memory_percent is None else one.memory_percent
    if one.vendor == CUT:
        percent = 0 if one.slices else BY_AMOUNTS
    return {
        "Type": one.vendor,
        "Nums": one.count,
        "Memreq": one.slices or one.memory_mib,
        "MemPercentagereq": percent,
        "Coresreq": one.cores,
    }


# Settings ------------------------------------------------------------------------------------------------------------


def settings(config: Json) -> HamiSettings:
    scheduler = config["config"]
    return HamiSettings(
        scheduler=scheduler["schedulerName"],
        node_policy=scheduler["nodeSchedulerPolicy"],
        card_policy=config["gpuSchedulerPolicy"],
        is_default_scheduler_replaced=scheduler["forceOverwriteDefaultScheduler"],
    )


# The cluster ---------------------------------------------------------------------------------------------------------


def quotas(body: Json | None) -> Quotas:
    return {
        namespace: {
            name: QuotaLine(line["Used"], line["Limit"] if line["LimitSet"] else None) for name, line in lines.items()
        }
        for namespace, lines in (body or {}).items()
    }


def node_devices(body: Json) -> tuple[Device, ...]:
    """The cards of a cached node, with its cordon."""
    annotations = (body["Node"] or {}).get("metadata", {}).get("annotations") or {}
    # The cache knows the vendor by the key under which it keeps the cards; not every recorded card repeats it.
    found = tuple(replace(registered(item), vendor=name) for name, items in body["Devices"].items() for item in items)
    return cordoned(found, annotations)


def held(body: Json) -> HeldShares:
    metadata = body["Pod"]["metadata"]
    return HeldShares(
        uid=metadata.get("uid", ""),
        namespace=metadata.get("namespace", ""),
        node=body["NodeID"],
        shares={
            name: tuple(one for group in containers(groups) for one in group)
            for name, groups in body["Devices"].items()
        },
    )


def filter_state(body: Json) -> FilterState:
    receiver = body["receiver"]
    return FilterState(
        nodes={name: node_devices(node) for name, node in receiver["nodes"].items()},
        pods=tuple(held(pod) for pod in receiver["pods"]),
        quotas=quotas(body.get("quotas")),
    )
