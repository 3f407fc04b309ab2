"""Enflame's cards: whole ones (GCU) here, and parts cut by profiles in `cut`. Found by `app` through VENDORS."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from muster.engine.contracts import DeviceResources, Vendor, VendorSettings
from muster.engine.devices import CardRules, Choice, choose_cards
from muster.engine.devices_vendor import Family, asked, bounded, counted, named, of_family, plain_vendor
from muster.model.device import WHOLE_CORES, Cards, Device, DeviceRequest
from muster.model.fields import Fields
from muster.vendors.enflame.cut import CUT_RESOURCES, cut_vendor

WHOLE = "GCU"
WHOLE_MIB = 100  # nobody tells how much memory a whole card has: counted in per cent
RESOURCES = DeviceResources(count="enflame.com/gcu")


def devices_of(node: Fields, family: Family) -> tuple[Device, ...]:
    """The whole cards that the node's capacity counts."""
    name = node.child("metadata").text("name")
    devices = (
        Device(uuid=f"{name}-{WHOLE}-{index}", index=index, model=WHOLE, memory_mib=WHOLE_MIB)
        for index in range(counted(node, family.resources.count))
    )
    return of_family(node, WHOLE, tuple(devices))


def whole_request(container: Fields, family: Family) -> DeviceRequest | None:
    """A number of whole cards."""
    count = bounded(asked(container, family.resources.count), least=1)
    if count is None:
        return None
    return DeviceRequest(vendor=WHOLE, count=count, memory_mib=WHOLE_MIB, memory_percent=100, cores=WHOLE_CORES)


def choose_whole(cards: Cards, request: DeviceRequest, rules: CardRules) -> Choice:
    """One card after the other that nobody is on, which is all that counts."""
    free = tuple(replace(card, device=replace(card.device, slots=card.use.slots + 1)) for card in cards)
    return choose_cards(free, request, replace(rules, wishes=replace(rules.wishes, is_alone=True)))


def whole_vendor(resources: DeviceResources) -> Vendor:
    """The record of whole cards under an administrator's names."""
    family = Family(
        name=WHOLE,
        resources=resources,
        to_allocate="hami.io/enflame-gcu-devices-to-allocate",
        allocated="hami.io/enflame-gcu-devices-allocated",
    )
    return replace(
        plain_vendor(family),
        devices_of=partial(devices_of, family=family),
        request_of=partial(whole_request, family=family),
        choose=choose_whole,
    )


VENDORS = (whole_vendor(RESOURCES), cut_vendor(CUT_RESOURCES))


def read_settings(given: Fields) -> tuple[Vendor, ...]:
    """Both kinds under an administrator's names."""
    section = given.child("enflame")
    parts = {"count": "resourceNameDRSGCU", "memory": "resourceNameMemory", "cores": "resourceNameCore"}
    return (
        whole_vendor(named(section, RESOURCES, count="resourceNameGCU")),
        cut_vendor(named(section, CUT_RESOURCES, **parts)),
    )


SETTINGS = VendorSettings(name="enflame", read=read_settings)
