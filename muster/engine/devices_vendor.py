"""What most vendors of cards have in common: how cards are registered, asked for, admitted and written on pods.

A `Family` holds the facts in which they differ: names of resources and annotations, units, defaults. Here, below the
plugins, because they do not know each other. Called by the vendors' files, which add only what is their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from muster.engine.contracts import AdmittedContainer, Assigned, DeviceResources, Vendor
from muster.engine.devices import CardWishes, asked_share
from muster.engine.devices_text import allocation_text, read_allocation, read_old_register, read_register
from muster.model.device import AMOUNT_MAX, WHOLE_CORES, Card, ContainerShares, Device, DeviceRequest, Share
from muster.model.errors import InvalidObject
from muster.model.fields import INT64_MAX, Fields
from muster.model.quantity import Quantity

WHOLE_PERCENT = 100
CARDS_MOST = 1024  # of one node, where its capacity says how many there are
CORDON = "hami.io/device-cordon"
NANO = 10**9
FACTOR_MOST = 2**20  # MiB that one unit of memory may be


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The facts of one vendor's cards; an empty name means that there is no such thing."""

    name: str
    resources: DeviceResources
    register: str = ""  # the node's annotation that holds its cards
    is_register_json: bool = True  # else in the older form
    to_allocate: str = ""  # pod annotations: for the node's plugin, which uses it up
    allocated: str = ""  # and what the pod holds
    use_uuid: str = ""  # pod annotations that name cards or models
    avoid_uuid: str = ""
    use_model: str = ""
    avoid_model: str = ""
    default_cores: int = 0  # per cent of a card where the container does not say


def plain_vendor(family: Family) -> Vendor:
    """A vendor that does everything in the common way; those who do not replace what is their own."""
    names = (family.use_uuid, family.avoid_uuid, family.use_model, family.avoid_model)
    return Vendor(
        name=family.name,
        resources=family.resources,
        register=family.register,
        allocated=family.allocated,
        devices_of=partial(registered_devices, family=family),
        request_of=partial(plain_request, family=family),
        annotate=lambda _pod, containers, _assigned: plain_annotations(containers, family),
        shares_of=partial(plain_shares, family=family),
        wishes_of=partial(plain_wishes, family=family),
        wish_names=frozenset(name for name in names if name),
        admit=partial(plain_admission, family=family),
    )


def named(section: Fields, defaults: DeviceResources, **keys: str) -> DeviceResources:
    """The names that a section of a configuration gives a vendor's resources; `keys` are where it does so otherwise."""
    where = {"count": "resourceCountName", "memory": "resourceMemoryName", "cores": "resourceCoreName", **keys}
    names = {part: getattr(defaults, part) for part in where}
    for part, key in where.items():
        if names[part] and section.has(key):
            names[part] = section.text(key)
            if not names[part]:
                raise section.error(key, "is empty", "name a resource, or leave it out")
    factor = section.integer("memoryFactor", 0, least=0, most=FACTOR_MOST) or defaults.memory_factor
    return replace(defaults, **names, memory_factor=factor)


# Nodes ---------------------------------------------------------------------------------------------------------------


def registered_devices(node: Fields, family: Family) -> tuple[Device, ...]:
    """The cards that the node's annotation registers."""
    text, path = register_of(node, family.register)
    read = read_register if family.is_register_json else read_old_register
    return of_family(node, family.name, read(text, path))


def register_of(node: Fields, name: str) -> tuple[str, str]:
    """The text in which a node registers its cards, and where it stands."""
    metadata = node.child("metadata")
    annotations = metadata.text_map("annotations")
    path = f"{metadata.at('annotations')}[{name}]"
    if name not in annotations:
        raise InvalidObject(path, "is missing", "the node's device plugin writes it")
    return annotations[name], path


def of_family(node: Fields, name: str, devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """The cards with their vendor's word, and those marked that the node keeps from new pods; none is a mistake."""
    metadata = node.child("metadata")
    if not devices:
        raise InvalidObject(metadata.at("annotations"), f"register no card of {name}", "leave out what is empty")
    owned = tuple(replace(device, vendor=name) for device in devices)
    return cordoned(owned, metadata.text_map("annotations"))


def cordoned(devices: tuple[Device, ...], annotations: Mapping[str, str]) -> tuple[Device, ...]:
    """The cards with those marked that the node's annotations keep from new pods."""
    named = frozenset(listed(annotations.get(CORDON, "")))
    return tuple(replace(device, is_cordoned=device.uuid in named) for device in devices)


def counted(node: Fields, resource: str, *, unit: int = 1) -> int:
    """How many cards a node has by its capacity, where so many of a resource stand for one; none is a mistake."""
    amount = capacity(node, resource)
    count = -(-amount // unit)
    path = f"{node.child('status').at('capacity')}[{resource}]"
    if count <= 0:
        raise InvalidObject(path, "tells of no card", "the node's device plugin reports it")
    if count > CARDS_MOST:
        raise InvalidObject(path, f"stands for {count} cards", f"a node has at most {CARDS_MOST}")
    return count


def capacity(node: Fields, resource: str) -> int:
    """How much of a resource a node has; 0 where it does not say, or not in whole numbers."""
    status = node.child("status")
    for part in ("capacity", "allocatable"):
        amount = whole(status.child(part).quantity(resource)) if resource else None
        if amount is not None:
            return amount
    return 0


def bare_devices(node: Fields, family: Family) -> tuple[Device, ...]:
    """The cards that the node registers, of a vendor who does not share them: cores are only there for scores."""
    return tuple(replace(device, cores=WHOLE_CORES) for device in registered_devices(node, family))


# Requests ------------------------------------------------------------------------------------------------------------


def plain_request(container: Fields, family: Family) -> DeviceRequest | None:
    """The cards that a container asks for; nothing where an amount is none that a card could have."""
    resources = family.resources
    factor = max(1, resources.memory_factor)
    count = bounded(asked(container, resources.count), least=1)
    memory = bounded(asked(container, resources.memory), most=AMOUNT_MAX // factor, default=0)
    cores = bounded(asked(container, resources.cores), default=family.default_cores)
    if count is None or memory is None or cores is None:
        return None
    return sized_request(family.name, count=count, memory_mib=memory * factor, cores=cores)


def sized_request(name: str, *, count: int, memory_mib: int = 0, cores: int = 0) -> DeviceRequest:
    """A request for so much memory of each card, or for all of it where none is named."""
    percent = 0 if memory_mib else WHOLE_PERCENT
    return DeviceRequest(vendor=name, count=count, memory_mib=memory_mib, memory_percent=percent, cores=cores)


def whole_cards(container: Fields, family: Family, *, cores: int = 0) -> DeviceRequest | None:
    """A request for a number of whole cards."""
    count = bounded(asked(container, family.resources.count), least=1)
    return None if count is None else sized_request(family.name, count=count, cores=cores)


def bare_share(card: Card, request: DeviceRequest) -> Share:
    """A whole card of a vendor who counts nothing of it but who is on it."""
    return replace(asked_share(card, request), memory_mib=0)


def asked(container: Fields, resource: str) -> Quantity | None:
    """The limit of a resource, or the request where there is no limit."""
    if not resource:
        return None
    resources = container.child("resources")
    limit = resources.child("limits").quantity(resource)
    return limit if limit is not None else resources.child("requests").quantity(resource)


def limited(container: Fields, resource: str) -> Quantity | None:
    """The limit of a resource."""
    return container.child("resources").child("limits").quantity(resource) if resource else None


def bounded(
    given: Quantity | None, *, least: int = 0, most: int = AMOUNT_MAX, default: int | None = None
) -> int | None:
    """An amount that is asked for; `None` where it is out of bounds, or not given and there is no default."""
    if given is None:
        return default
    amount = whole(given)
    return amount if amount is not None and least <= amount <= most else None


def whole(quantity: Quantity | None) -> int | None:
    """A quantity as a whole number; `None` where it is none or has a fraction."""
    if quantity is None or quantity.exponent < 0:
        return None
    return quantity.scaled(0, INT64_MAX)


def plain_wishes(annotations: Mapping[str, str], family: Family) -> CardWishes:
    """Which cards the pod's annotations name; a blank annotation names none."""
    return CardWishes(
        models=_lowered(annotations, family.use_model),
        models_not=_lowered(annotations, family.avoid_model),
        uuids=frozenset(listed(annotations.get(family.use_uuid, ""))),
        uuids_not=frozenset(listed(annotations.get(family.avoid_uuid, ""))),
    )


def _lowered(annotations: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(part.lower() for part in listed(annotations.get(name, "")))


def listed(text: str) -> tuple[str, ...]:
    """The parts of a list with commas, without blanks."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


# Admission -----------------------------------------------------------------------------------------------------------


def plain_admission(container: Fields, _annotations: Mapping[str, str], family: Family) -> AdmittedContainer:
    """The container as it came: it asks for cards where it has a limit on their number."""
    return AdmittedContainer(container.values, limited(container, family.resources.count) is not None)


def with_amounts(container: Fields, limits: Mapping[str, str], requests: Mapping[str, str]) -> dict[str, Any]:
    """The container with these limits and requests added or replaced."""
    changed = dict(container.values)
    resources = container.child("resources")
    parts = {
        name: {**resources.child(name).values, **amounts}
        for name, amounts in (("limits", limits), ("requests", requests))
        if amounts
    }
    if parts:
        changed["resources"] = {**resources.values, **parts}
    return changed


# What pods hold ------------------------------------------------------------------------------------------------------


def plain_annotations(containers: ContainerShares, family: Family) -> dict[str, str]:
    """What is written on a pod that got these shares; nothing where it got none."""
    if not containers:
        return {}
    text = allocation_text(containers)
    return {name: text for name in (family.to_allocate, family.allocated) if name}


def plain_shares(pod: Fields, family: Family) -> ContainerShares:
    """What the pod holds, as its annotation says."""
    metadata = pod.child("metadata")
    annotations = metadata.text_map("annotations")
    if family.allocated not in annotations:
        return ()
    return read_allocation(annotations[family.allocated], f"{metadata.at('annotations')}[{family.allocated}]")


def nano_text(assigned: Assigned) -> str:
    """The moment as some plugins want it: in billionths of a second."""
    return str(assigned.now_s * NANO)
