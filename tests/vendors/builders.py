"""What tests of vendors share: containers, nodes and cards in few words."""

from __future__ import annotations

from typing import Any

from muster.engine.contracts import Vendor
from muster.engine.devices import CardRules, Choice, choose_cards
from muster.model.device import Card, Device, DeviceRequest, DeviceUse
from muster.model.fields import Fields


def container(limits: dict[str, str], requests: dict[str, str] | None = None, **parts: Any) -> Fields:
    return Fields({"resources": {"limits": limits, **({"requests": requests} if requests else {})}, **parts})


def node(
    annotations: dict[str, str] | None = None,
    capacity: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
) -> Fields:
    metadata = {"name": "n", "annotations": annotations or {}, "labels": labels or {}}
    return Fields({"metadata": metadata, "status": {"capacity": capacity or {}}})


def cards(vendor: Vendor, *used: int, **parts: Any) -> tuple[Card, ...]:
    """Cards of a vendor, each with so many on it."""
    usual = {"vendor": vendor.name, "model": vendor.name, "memory_mib": 1000, "slots": 10}
    return tuple(
        Card(Device(uuid=f"c{index}", index=index, **{**usual, **parts}), DeviceUse(slots=slots))
        for index, slots in enumerate(used)
    )


def choose(vendor: Vendor, given: tuple[Card, ...], request: DeviceRequest, **rules: Any) -> Choice:
    return (vendor.choose or choose_cards)(given, request, CardRules(**rules))


def names(choice: Choice) -> list[str] | str:
    """The cards that were chosen, or why none were."""
    return [share.uuid for share in choice.shares] if choice.fits else choice.text
