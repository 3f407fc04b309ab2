"""Moore Threads' cards: shared by memory in fixed sizes and by sixteenths. Found by `app` through VENDOR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from muster.engine.contracts import AdmittedContainer, Assigned, DeviceResources, Vendor, VendorSettings
from muster.engine.devices import CardReason, CardRules, Choice, choose_cards
from muster.engine.devices_vendor import (
    Family,
    asked,
    capacity,
    counted,
    limited,
    named,
    nano_text,
    of_family,
    plain_annotations,
    plain_request,
    plain_vendor,
    whole,
    with_amounts,
)
from muster.model.device import AMOUNT_MAX, Card, Cards, ContainerShares, Device, DeviceRequest, Share
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

NAME = "Mthreads"
UNIT_MIB = 512  # of the memory resource
CARD_CORES, CARD_UNITS = 16, 96  # of one card
SIZES = (2, 4, 8, 16, 32, 64, 96)  # units of memory that a share may have
SHARERS = 100
COUNT_NOTE = "mthreads.com/request-gpu-num"
INDEX, NODE, TIME = "mthreads.com/gpu-index", "mthreads.com/predicate-node", "mthreads.com/predicate-time"
RESOURCES = DeviceResources(
    count="mthreads.com/vgpu",
    memory="mthreads.com/sgpu-memory",
    cores="mthreads.com/sgpu-core",
    memory_factor=UNIT_MIB,
)


def devices_of(node: Fields, family: Family) -> tuple[Device, ...]:
    """A card for every sixteen cores, each with the same part of the memory."""
    name = node.child("metadata").text("name")
    cores = capacity(node, family.resources.cores)
    count = counted(node, family.resources.cores, unit=CARD_CORES)
    memory = capacity(node, family.resources.memory) * UNIT_MIB * CARD_CORES // cores
    devices = (
        Device(
            uuid=f"{name}-mthreads-{index}",
            index=index,
            model=NAME,
            memory_mib=min(max(0, memory), AMOUNT_MAX),
            cores=CARD_CORES,
            slots=SHARERS,
        )
        for index in range(count)
    )
    return of_family(node, NAME, tuple(devices))


def request_of(container: Fields, family: Family) -> DeviceRequest | None:
    """The cards that a container asks for; memory and cores are those of all its cards together."""
    request = plain_request(container, family)
    if request is None:
        return None
    return replace(request, memory_mib=request.memory_mib // request.count, cores=request.cores // request.count)


def admit(container: Fields, _annotations: Mapping[str, str], family: Family) -> AdmittedContainer:
    """The container with all memory and cores of several cards, or of one where it names no memory."""
    names = family.resources
    count = asked(container, names.count)
    if count is None:
        return AdmittedContainer(container.values, False)
    cards, limits = count.scaled(0, AMOUNT_MAX), container.at("resources.limits")
    if cards <= 0:
        raise InvalidObject(f"{limits}[{names.count}]", f"is {count}", "give 1 or more")
    memory = limited(container, names.memory)
    if cards == 1 and memory is not None:
        if whole(memory) not in SIZES:
            hint = "give one of " + ", ".join(map(str, SIZES))
            raise InvalidObject(f"{limits}[{names.memory}]", f"is {memory}", hint)
        return AdmittedContainer(container.values, True)
    all_of_them = {names.cores: str(cards * CARD_CORES), names.memory: str(cards * CARD_UNITS)}
    notes = {COUNT_NOTE: str(cards)} if cards > 1 else {}
    return AdmittedContainer(with_amounts(container, all_of_them, {}), True, annotations=notes)


def choose(cards: Cards, request: DeviceRequest, rules: CardRules) -> Choice:
    """One card after the other; all containers of a pod share one card."""
    elsewhere = {share.uuid for share in rules.held}

    def is_same(card: Card, _memory_mib: int, _here: Sequence[Share]) -> CardReason | None:
        return CardReason.OTHER_CARD if elsewhere - {card.device.uuid} else None

    return choose_cards(cards, request, replace(rules, vendor_rule=is_same))


def annotate(_pod: Fields, containers: ContainerShares, assigned: Assigned, *, family: Family) -> dict[str, str]:
    """What is written on a pod: which cards its last container has, where and since when."""
    written = plain_annotations(containers, family)
    last = next((shares for shares in reversed(containers) if shares), ())
    if not last:
        return written
    numbers = ",".join(str(share.index) for share in last)
    return {**written, INDEX: numbers, NODE: assigned.node, TIME: nano_text(assigned)}


def vendor(resources: DeviceResources) -> Vendor:
    """The record of Moore Threads under an administrator's names."""
    family = Family(
        name=NAME,
        resources=resources,
        allocated="hami.io/mthreads-vgpu-devices-allocated",
        use_uuid="mthreads.ai/use-gpuuuid",
        avoid_uuid="mthreads.ai/nouse-gpuuuid",
    )
    return replace(
        plain_vendor(family),
        devices_of=partial(devices_of, family=family),
        request_of=partial(request_of, family=family),
        admit=partial(admit, family=family),
        choose=choose,
        annotate=partial(annotate, family=family),
    )


VENDOR = vendor(RESOURCES)
SETTINGS = VendorSettings(name="mthreads", read=lambda given: (vendor(named(given.child("mthreads"), RESOURCES)),))
