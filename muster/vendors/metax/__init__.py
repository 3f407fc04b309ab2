"""MetaX's cards: whole ones (Metax-GPU) and shared ones (Metax-SGPU). Found by `app` through VENDORS."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from muster.engine.contracts import AdmittedContainer, Assigned, DeviceResources, Vendor, VendorSettings
from muster.engine.devices import CardWishes
from muster.engine.devices_text import read_json_list
from muster.engine.devices_vendor import (
    Family,
    asked,
    bounded,
    counted,
    limited,
    named,
    nano_text,
    of_family,
    plain_annotations,
    plain_shares,
    plain_vendor,
    plain_wishes,
    register_of,
    sized_request,
    whole,
    whole_cards,
)
from muster.model.device import AMOUNT_MAX, WHOLE_CORES, ContainerShares, Device, DeviceRequest
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.vendors.metax.shared import BEST_EFFORT, CARD_QOS, CLASS, ONLINE, QOS, ZONE, check_words, choose, mark_of

WHOLE, SHARED = "Metax-GPU", "Metax-SGPU"
CARD_MIB = 65536
UNIT_MIB = 1024  # of the memory resource where it has no suffix
BYTES = 2**20
GIVEN, TIME = "metax-tech.com/gpu-devices-allocated", "metax-tech.com/predicate-time"
RESOURCES = DeviceResources(count="metax-tech.com/gpu")
SHARED_RESOURCES = DeviceResources(
    count="metax-tech.com/sgpu",
    memory="metax-tech.com/vmemory",
    cores="metax-tech.com/vcore",
    memory_factor=UNIT_MIB,
)


def devices_of(node: Fields, family: Family) -> tuple[Device, ...]:
    """The whole cards that the node's capacity counts."""
    name = node.child("metadata").text("name")
    devices = (
        Device(uuid=f"{name}-metax-{index}", index=index, model=WHOLE, memory_mib=CARD_MIB)
        for index in range(counted(node, family.resources.count))
    )
    return of_family(node, WHOLE, tuple(devices))


def shared_devices(node: Fields, family: Family) -> tuple[Device, ...]:
    """The cards that the node's annotation registers, in MetaX's own form."""
    text, path = register_of(node, family.register)
    items = (Fields.of(item, f"{path}[{index}]") for index, item in enumerate(read_json_list(text, path)))
    return of_family(node, SHARED, tuple(_shared_device(index, item) for index, item in enumerate(items)))


def _shared_device(index: int, fields: Fields) -> Device:
    if not fields.text("uuid"):
        raise fields.error("uuid", "is missing", "give each card its name")
    return Device(
        uuid=fields.text("uuid"),
        index=index,
        model=SHARED,
        memory_mib=fields.integer("totalVRam", least=0),
        cores=fields.integer("totalCompute", least=0),
        slots=fields.integer("totalDevCount", least=0),
        numa=fields.integer("numa"),
        is_healthy=fields.flag("healthy"),
        details={CARD_QOS: fields.text("qosPolicy"), ZONE: str(fields.integer("linkZone"))},
    )


# Shares --------------------------------------------------------------------------------------------------------------


def shared_request(container: Fields, family: Family) -> DeviceRequest | None:
    """Shares of so many cards, which only limits say; all cores where none are named."""
    count = bounded(limited(container, family.resources.count), least=1)
    cores = bounded(asked(container, family.resources.cores), default=WHOLE_CORES)
    memory = _memory(container, family)
    if count is None or cores is None or memory is None:
        return None
    return sized_request(SHARED, count=count, memory_mib=memory, cores=cores)


def _memory(container: Fields, family: Family) -> int | None:
    """Memory in MiB: a bare number is in GiB, one with a suffix in bytes; `None` where no card has so much."""
    given = limited(container, family.resources.memory)
    if given is None:
        return 0
    amount = whole(given)
    if amount is None or amount < 0:
        return None
    memory = amount // BYTES if any(letter.isalpha() for letter in given.canonical()) else amount * UNIT_MIB
    return memory if memory <= AMOUNT_MAX else None


def admit_shared(container: Fields, annotations: Mapping[str, str], family: Family) -> AdmittedContainer:
    """The container as it came, and its pod with a policy where it needs one and names none."""
    count = limited(container, family.resources.count)
    if count is None:
        return AdmittedContainer(container.values, False)
    check_words(annotations)
    if CLASS in annotations and count.scaled(0, AMOUNT_MAX) != 1:
        path = f"{container.at('resources.limits')}[{family.resources.count}]"
        raise InvalidObject(path, f"is {count}", f"a pod with {CLASS} gets one card")
    needs_policy = annotations.get(CLASS) != ONLINE and QOS not in annotations
    return AdmittedContainer(container.values, True, annotations={QOS: BEST_EFFORT} if needs_policy else {})


def wishes_of(annotations: Mapping[str, str], family: Family) -> CardWishes:
    """Which cards the pod's annotations name, and what its shares tell of it."""
    check_words(annotations)
    return replace(plain_wishes(annotations, family), mark=mark_of(annotations))


def annotate(_pod: Fields, containers: ContainerShares, assigned: Assigned, *, family: Family) -> dict[str, str]:
    """What is written on a pod with shares, also in MetaX's own form."""
    written = plain_annotations(containers, family)
    if not written:
        return {}
    given = [[_given(share.uuid, share.cores, share.memory_mib) for share in shares] for shares in containers]
    return {**written, GIVEN: json.dumps(given, separators=(",", ":")), TIME: nano_text(assigned)}


def _given(uuid: str, cores: int, memory_mib: int) -> dict[str, object]:
    amounts = {"compute": cores, "vRam": memory_mib}
    return {"uuid": uuid, **{name: amount for name, amount in amounts.items() if amount}}


def shares_of(pod: Fields, family: Family) -> ContainerShares:
    """What the pod holds, with what its annotations tell of it."""
    mark = mark_of(pod.child("metadata").text_map("annotations"))
    return tuple(tuple(replace(share, mark=mark) for share in shares) for shares in plain_shares(pod, family))


def whole_vendor(resources: DeviceResources) -> Vendor:
    """The record of whole cards under an administrator's names."""
    family = Family(
        name=WHOLE,
        resources=resources,
        to_allocate="hami.io/metax-gpu-devices-to-allocate",
        allocated="hami.io/metax-gpu-devices-allocated",
    )
    return replace(
        plain_vendor(family),
        devices_of=partial(devices_of, family=family),
        request_of=partial(whole_cards, family=family, cores=WHOLE_CORES),
    )


def shared_vendor(resources: DeviceResources) -> Vendor:
    """The record of shared cards under an administrator's names."""
    family = Family(
        name=SHARED,
        resources=resources,
        register="metax-tech.com/node-gpu-devices",
        to_allocate="hami.io/metax-sgpu-devices-to-allocate",
        allocated="hami.io/metax-sgpu-devices-allocated",
        use_uuid="metax-tech.com/use-gpuuuid",
        avoid_uuid="metax-tech.com/nouse-gpuuuid",
    )
    return replace(
        plain_vendor(family),
        devices_of=partial(shared_devices, family=family),
        request_of=partial(shared_request, family=family),
        admit=partial(admit_shared, family=family),
        wishes_of=partial(wishes_of, family=family),
        wish_names=frozenset((family.use_uuid, family.avoid_uuid, CLASS, QOS)),
        annotate=partial(annotate, family=family),
        shares_of=partial(shares_of, family=family),
        choose=choose,
    )


VENDORS = (whole_vendor(RESOURCES), shared_vendor(SHARED_RESOURCES))


def read_settings(given: Fields) -> tuple[Vendor, ...]:
    """Both kinds under an administrator's names."""
    section = given.child("metax")
    parts = {"count": "resourceVCountName", "memory": "resourceVMemoryName", "cores": "resourceVCoreName"}
    return whole_vendor(named(section, RESOURCES)), shared_vendor(named(section, SHARED_RESOURCES, **parts))


SETTINGS = VendorSettings(name="metax", read=read_settings)
