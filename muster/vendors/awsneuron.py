"""Amazon's Neuron chips: whole ones or single cores, several only side by side. Found by `app` through VENDOR.

Cores are told apart, so what is asked, held and left of a chip is a set of bits, one for each core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from muster.engine.contracts import AdmittedContainer, Assigned, DeviceResources, Vendor, VendorSettings
from muster.engine.devices import CardReason, CardRules, Choice, asked_share, choose_cards, is_uuid_wanted
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
    plain_vendor,
    whole,
)
from muster.model.device import AMOUNT_MAX, Card, Cards, ContainerShares, Device, DeviceRequest, Share
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.quantity import Quantity

NAME = "AWSNeuron"
CHIP_CORES = 2  # that can be told apart
TYPE_LABEL, TYPE = "node.kubernetes.io/instance-type", "AWSNodeType"
RING_SIZES = (4, 8, 16)  # how many chips of one node stand together where they are not in a chain
IDS, IS_DONE, TIME = "AWS_NEURON_IDS", "NEURON_ALLOCATED", "NEURON_ALLOC_TIME"
KIND, NODE = "NEURON_RESOURCE_TYPE", "aws.amazon.com/predicate-node"
RESOURCES = DeviceResources(count="aws.amazon.com/neuron", cores="aws.amazon.com/neuroncore")


def devices_of(node: Fields, family: Family) -> tuple[Device, ...]:
    """The chips that the node's capacity counts."""
    metadata = node.child("metadata")
    count = counted(node, family.resources.count)
    cores = max(0, capacity(node, family.resources.cores)) // count or CHIP_CORES
    devices = (
        Device(
            uuid=f"{metadata.text('name')}-{NAME}-{index}",
            index=index,
            model=NAME,
            cores=2 ** min(CHIP_CORES, cores) - 1,
            slots=min(cores, AMOUNT_MAX),
            details={TYPE: metadata.text_map("labels").get(TYPE_LABEL, "")},
        )
        for index in range(count)
    )
    return of_family(node, NAME, tuple(devices))


# Requests ------------------------------------------------------------------------------------------------------------


def request_of(container: Fields, family: Family) -> DeviceRequest | None:
    """The chips that a container asks for, or the cores; nothing where the numbers make no sense."""
    try:
        return _request(container, family)
    except InvalidObject:
        return None


def _request(container: Fields, family: Family) -> DeviceRequest | None:
    names = family.resources
    chips, cores = asked(container, names.count), asked(container, names.cores)
    limits = container.at("resources.limits")
    if chips is not None:
        count = _checked(chips, f"{limits}[{names.count}]", AMOUNT_MAX)
        return DeviceRequest(vendor=NAME, count=count, memory_percent=0, cores=CHIP_CORES)
    if cores is None:
        return None
    path = f"{limits}[{names.cores}]"
    number = _checked(cores, path, AMOUNT_MAX * CHIP_CORES)
    if number > CHIP_CORES and number % CHIP_CORES:
        raise InvalidObject(path, f"is {number}", f"give 1 or a multiple of {CHIP_CORES}")
    count = max(1, number // CHIP_CORES)
    return DeviceRequest(vendor=NAME, count=count, memory_percent=0, cores=min(number, CHIP_CORES))


def _checked(given: Quantity, path: str, most: int) -> int:
    number = whole(given)
    if number is None or not 0 < number <= most:
        raise InvalidObject(path, f"is {given}", f"give a whole number from 1 to {most}")
    return number


def admit(container: Fields, _annotations: Mapping[str, str], family: Family) -> AdmittedContainer:
    """The container as it came, if its numbers make sense."""
    return AdmittedContainer(container.values, _request(container, family) is not None)


# Choosing ------------------------------------------------------------------------------------------------------------


def offer(card: Card, request: DeviceRequest) -> Share:
    """The cores of one chip that a container gets; more than are free where there are too few."""
    free = card.device.cores & ~card.use.cores
    bits = (free & -free or 1) if request.cores == 1 else 2 ** min(request.cores, CHIP_CORES) - 1
    return replace(asked_share(card, request), memory_mib=0, cores=bits)


def choose(cards: Cards, request: DeviceRequest, rules: CardRules) -> Choice:
    """A single chip as any other card; several whole ones that stand side by side."""
    if request.count <= 1:
        return choose_cards(cards, request, replace(rules, offer=offer))
    run = _run(sorted(cards, key=lambda card: card.device.index), request.count, rules)
    if run:
        shares = (replace(asked_share(card, request), memory_mib=0, cores=card.device.cores) for card in run)
        return Choice(fits=True, shares=tuple(shares), card_count=len(cards))
    return Choice(fits=False, counts={CardReason.NUMA: 1}, card_count=len(cards))


def _run(cards: list[Card], count: int, rules: CardRules) -> list[Card]:
    """The first free chips in a row; none where there are not so many."""
    kind = cards[0].device.details.get(TYPE, "") if cards else ""
    is_chain = "inf" in kind.lower()
    if not is_chain and (count not in RING_SIZES or not kind):
        return []
    for first in range(0, len(cards) - count + 1, 1 if is_chain else count):
        run = cards[first : first + count]
        if all(_is_free(card, rules) for card in run):
            return run
    return []


def _is_free(card: Card, rules: CardRules) -> bool:
    device = card.device
    is_usable = device.is_healthy and not device.is_cordoned and not card.use.slots
    return is_usable and is_uuid_wanted(device.uuid, rules.wishes)


# What pods hold ------------------------------------------------------------------------------------------------------


def annotate(pod: Fields, containers: ContainerShares, assigned: Assigned, *, family: Family) -> dict[str, str]:
    """What is written on a pod: its chips by number, or its cores where it asked for those."""
    written = plain_annotations(containers, family)
    spec = pod.child("spec")
    asking = (*spec.children("initContainers"), *spec.children("containers"))
    numbers: list[int] = []
    for container, shares in zip(asking, containers, strict=False):
        is_by_chip = limited(container, family.resources.count) is not None
        for share in shares:
            cores = [share.index * CHIP_CORES + bit for bit in range(CHIP_CORES) if share.cores >> bit & 1]
            numbers += [share.index] if is_by_chip else cores
            if not is_by_chip and cores:
                written[KIND] = family.resources.cores
    if numbers:
        ids = ",".join(map(str, numbers))
        written |= {IDS: ids, IS_DONE: "false", TIME: nano_text(assigned), NODE: assigned.node}
    return written


def cores_text(bits: int) -> str:
    """The cores of a chip that a share is of, by their numbers."""
    numbers = [str(bit) for bit in range(CHIP_CORES) if bits >> bit & 1]
    return f"{'core' if len(numbers) == 1 else 'cores'} {', '.join(numbers)}"


def vendor(resources: DeviceResources) -> Vendor:
    """The record of Neuron chips under an administrator's names."""
    family = Family(
        name=NAME,
        resources=resources,
        allocated="hami.io/aws-neuron-devices-allocated",
        use_uuid="aws.amazon.com/use-neuron-uuid",
        avoid_uuid="aws.amazon.com/nouse-neuron-uuid",
    )
    return replace(
        plain_vendor(family),
        devices_of=partial(devices_of, family=family),
        request_of=partial(request_of, family=family),
        admit=partial(admit, family=family),
        choose=choose,
        annotate=partial(annotate, family=family),
        cores_text=cores_text,
    )


VENDOR = vendor(RESOURCES)
SETTINGS = VendorSettings(name="awsneuron", read=lambda given: (vendor(named(given.child("awsneuron"), RESOURCES)),))
