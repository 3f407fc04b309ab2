"""AMD's cards: shared by memory and by a percentage of their compute units. Found by `app` through VENDOR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from muster.engine.contracts import AdmittedContainer, Assigned, DeviceResources, Vendor, VendorSettings
from muster.engine.devices import CardRules, Choice, asked_share, choose_cards
from muster.engine.devices_text import CONTAINER_END, DEVICE_END, FIELD_END
from muster.engine.devices_vendor import Family, asked, bounded, limited, named, plain_annotations, plain_vendor
from muster.model.device import WHOLE_CORES, Card, Cards, ContainerShares, Device, DeviceRequest, Share
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

NAME = "AMD"
ENDS = {DEVICE_END, CONTAINER_END, FIELD_END}  # no model may hold these in the text of a share
RESOURCES = DeviceResources(count="amd.com/gpu", memory="amd.com/gpu-mem", cores="amd.com/gpu-core-pct")


def request_of(container: Fields, family: Family) -> DeviceRequest | None:
    """The cards that a container asks for, which only limits say; all compute units where it does not say otherwise."""
    names = family.resources
    count = bounded(limited(container, names.count), least=1)
    memory = bounded(limited(container, names.memory), default=0)
    cores = bounded(asked(container, names.cores), least=1, most=WHOLE_CORES, default=WHOLE_CORES)
    if count is None or memory is None or cores is None:
        return None
    return DeviceRequest(vendor=family.name, count=count, memory_mib=memory, memory_percent=0, cores=cores)


def admit(container: Fields, _annotations: Mapping[str, str], family: Family) -> AdmittedContainer:
    """The container as it came; a percentage that is none is a mistake where cards are asked for."""
    names = family.resources
    cores = limited(container, names.cores)
    is_part = bounded(cores, least=1, most=WHOLE_CORES, default=WHOLE_CORES) is not None
    if limited(container, names.count) is not None and not is_part:
        path = f"{container.at('resources.limits')}[{names.cores}]"
        raise InvalidObject(path, f"is {cores}", f"give a whole number from 1 to {WHOLE_CORES}")
    is_asking = any(limited(container, name) is not None for name in (names.count, names.memory, names.cores))
    return AdmittedContainer(container.values, is_asking)


def offer(card: Card, request: DeviceRequest) -> Share:
    """The share of one card: no memory named is all of it, and cores are a part of the card's compute units."""
    device = card.device
    memory = request.memory_mib or device.memory_mib
    if request.cores:
        units = max(1, min(device.cores, device.cores * request.cores // WHOLE_CORES))
    else:
        units = device.cores if memory >= device.memory_mib else 0
    return replace(asked_share(card, request), vendor=word_of(device), memory_mib=memory, cores=units)


def word_of(device: Device) -> str:
    """What shares of a card go by: its model, which those who report on workloads read from the pod."""
    return device.model if device.model and not set(device.model) & ENDS else NAME


def choose(cards: Cards, request: DeviceRequest, rules: CardRules) -> Choice:
    """One card after the other."""
    return choose_cards(cards, request, replace(rules, offer=offer))


def annotate(_pod: Fields, containers: ContainerShares, assigned: Assigned, *, family: Family) -> dict[str, str]:
    """What is written on a pod, with the models of its cards as far as they are known."""
    words = {device.uuid: word_of(device) for device in assigned.devices}
    named = tuple(
        tuple(replace(share, vendor=words.get(share.uuid, share.vendor)) for share in shares) for shares in containers
    )
    return plain_annotations(named, family)


def vendor(resources: DeviceResources) -> Vendor:
    """AMD's record under an administrator's names."""
    family = Family(
        name=NAME,
        resources=resources,
        register="hami.io/node-amd-register",
        to_allocate="hami.io/amd-devices-to-allocate",
        allocated="hami.io/amd-devices-allocated",
        use_uuid="amd.com/use-gpu-uuid",
        avoid_uuid="amd.com/nouse-gpu-uuid",
        use_model="amd.com/use-gputype",
        avoid_model="amd.com/nouse-gputype",
    )
    return replace(
        plain_vendor(family),
        request_of=partial(request_of, family=family),
        admit=partial(admit, family=family),
        choose=choose,
        annotate=partial(annotate, family=family),
        cores_text=lambda cores: f"{cores} compute units",
    )


VENDOR = vendor(RESOURCES)
SETTINGS = VendorSettings(name="amd", read=lambda given: (vendor(named(given.child("amd"), RESOURCES)),))
