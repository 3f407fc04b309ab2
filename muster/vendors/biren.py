"""Biren's cards: whole ones, of which nothing is counted but who is on them. Found by `app` through VENDOR."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from muster.engine.contracts import DeviceResources, Vendor, VendorSettings
from muster.engine.devices import CardRules, Choice, choose_cards
from muster.engine.devices_vendor import Family, bare_devices, bare_share, named, plain_vendor, whole_cards
from muster.model.device import Cards, DeviceRequest

NAME = "Biren"
RESOURCES = DeviceResources(count="birentech.com/gpu")


def choose(cards: Cards, request: DeviceRequest, rules: CardRules) -> Choice:
    """One card after the other."""
    return choose_cards(cards, request, replace(rules, offer=bare_share))


def vendor(resources: DeviceResources) -> Vendor:
    """Biren's record under an administrator's names."""
    family = Family(
        name=NAME,
        resources=resources,
        register="hami.io/node-biren-register",
        to_allocate=f"hami.io/{NAME}-devices-to-allocate",
        allocated=f"hami.io/{NAME}-devices-allocated",
        use_uuid="birentech.com/use-gpuuuid",
        avoid_uuid="birentech.com/nouse-gpuuuid",
    )
    return replace(
        plain_vendor(family),
        devices_of=partial(bare_devices, family=family),
        request_of=partial(whole_cards, family=family),
        choose=choose,
    )


VENDOR = vendor(RESOURCES)
SETTINGS = VendorSettings(name="biren", read=lambda given: (vendor(named(given.child("biren"), RESOURCES)),))
