"""MIG: partitions of NVIDIA's cards: which profile a request gets, where it lies, how a pod's annotation tells it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from muster.engine.devices import CardReason
from muster.engine.devices_text import read_json_list
from muster.model.device import Card, ContainerShares, Partition, PartitionProfile, Placement, Share
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

# Partitions of one and of three slices leave the most room for others at the high end of the card.
FROM_THE_TOP = ("1g.", "3g.")


def placement_of(profile: PartitionProfile, occupied: Sequence[Placement]) -> Placement | None:
    """Where a partition of this profile fits; `None`: nowhere."""
    free = [place for place in profile.placements if not any(place.overlaps(taken) for taken in occupied)]
    if not free:
        return None
    pick = max if profile.name.startswith(FROM_THE_TOP) else min
    return pick(free, key=lambda place: place.start)


def partition_for(
    memory_mib: int, profiles: Iterable[PartitionProfile], occupied: Sequence[Placement]
) -> tuple[PartitionProfile, Placement] | None:
    """The smallest profile with enough memory that has a free place, and the place; `None`: there is none."""
    enough = (profile for profile in profiles if profile.memory_mib >= memory_mib)
    for profile in sorted(enough, key=lambda profile: (profile.memory_mib, profile.slices)):
        place = placement_of(profile, occupied)
        if place is not None:
            return profile, place
    return None


def fits_partition(card: Card, memory_mib: int, here: Sequence[Share]) -> CardReason | None:
    """Whether the card has a place for one more partition after those that the same container got already."""
    if not card.device.is_partitioned:
        return None
    for share in here:
        card = card.plus(settle(card, share))
    occupied = [part.placement for part in card.use.partitions]
    return None if partition_for(memory_mib, card.device.profiles, occupied) else CardReason.PARTITION


def settle(card: Card, share: Share) -> Share:
    """The share with its partition chosen; the partition's own memory and cores are what is charged."""
    if not card.device.is_partitioned or share.partitions:
        return share
    occupied = [part.placement for part in card.use.partitions]
    chosen = partition_for(share.memory_mib, card.device.profiles, occupied)
    if chosen is None:
        return share
    profile, place = chosen
    return replace(
        share,
        memory_mib=profile.memory_mib,
        cores=profile.cores,
        partitions=(Partition(profile.name, place),),
    )


# The annotation ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition that a pod's container holds; the node's agent fills in the last three when it has made it."""

    container: int
    number: int  # of the share within its container
    card: str
    partition: Partition
    uuid: str = ""
    instance: int | None = None  # None: not made yet
    compute: int | None = None


def partitions_text(records: Iterable[PartitionRecord]) -> str:
    """The partitions of a pod as JSON."""
    return json.dumps([_record_object(record) for record in records], separators=(",", ":"))


def _record_object(record: PartitionRecord) -> dict[str, object]:
    place = record.partition.placement
    made: dict[str, object] = {}
    if record.uuid:
        made = {"migUUID": record.uuid, "gpuInstanceID": record.instance, "computeInstanceID": record.compute}
    return {
        "containerIndex": record.container,
        "deviceIndex": record.number,
        "gpuUUID": record.card,
        "profile": record.partition.profile,
        "placement": {"start": place.start, "size": place.size},
        **made,
    }


def read_partitions(text: str, path: str = "") -> tuple[PartitionRecord, ...]:
    """The partitions of a pod; two for one share, or one that is half made, are mistakes."""
    items = read_json_list(text, path)
    records = tuple(_read_record(Fields.of(item, f"{path}[{index}]")) for index, item in enumerate(items))
    seen = set()
    for index, record in enumerate(records):
        if (record.container, record.number) in seen:
            raise InvalidObject(f"{path}[{index}]", "is the second partition of one share", "give each share one")
        seen.add((record.container, record.number))
    return records


def _read_record(fields: Fields) -> PartitionRecord:
    place = fields.child("placement")
    made = [fields.has("gpuInstanceID"), fields.has("computeInstanceID"), bool(fields.text("migUUID"))]
    if any(made) and not all(made):
        raise fields.error("migUUID", "is given without its instances, or they without it", "give all three or none")
    return PartitionRecord(
        container=fields.integer("containerIndex", least=0),
        number=fields.integer("deviceIndex", least=0),
        card=fields.text("gpuUUID"),
        partition=Partition(
            fields.text("profile"),
            Placement(place.integer("start", least=0), place.integer("size", least=0)),
        ),
        uuid=fields.text("migUUID"),
        instance=fields.integer("gpuInstanceID") if made[0] else None,
        compute=fields.integer("computeInstanceID") if made[1] else None,
    )


def records_of(containers: ContainerShares) -> tuple[PartitionRecord, ...]:
    """The partitions among a pod's shares."""
    return tuple(
        PartitionRecord(container=container, number=number, card=share.uuid, partition=partition)
        for container, shares in enumerate(containers)
        for number, share in enumerate(shares)
        for partition in share.partitions
    )


def with_partitions(containers: ContainerShares, records: Iterable[PartitionRecord]) -> ContainerShares:
    """The shares with the partitions that the other annotation tells of."""
    places = {(record.container, record.number, record.card): record.partition for record in records}
    return tuple(
        tuple(
            replace(share, partitions=(places[container, number, share.uuid],))
            if (container, number, share.uuid) in places
            else share
            for number, share in enumerate(shares)
        )
        for container, shares in enumerate(containers)
    )
