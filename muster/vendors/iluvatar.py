"""Iluvatar's cards: each chip is a vendor of its own, shared by memory and cores. Found by `app` through VENDORS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from muster.engine.contracts import AdmittedContainer, DeviceResources, Vendor, VendorSettings
from muster.engine.devices_vendor import Family, limited, named, plain_vendor, with_amounts
from muster.model.device import AMOUNT_MAX, WHOLE_CORES
from muster.model.fields import Fields

CHIPS = ("MR-V100", "MR-V50", "BI-V150", "BI-V100")
UNIT_MIB = 256  # of the memory resource
NAME_VARIABLE = "SOL_CONTINER_NAME"  # as the plugin spells it


def resources_of(chip: str) -> DeviceResources:
    """The names by which containers ask for a chip."""
    prefix = f"iluvatar.ai/{chip}"
    return DeviceResources(
        count=f"{prefix}-vgpu", memory=f"{prefix}.vMem", cores=f"{prefix}.vCore", memory_factor=UNIT_MIB
    )


def admit(container: Fields, _annotations: Mapping[str, str], family: Family) -> AdmittedContainer:
    """The container with all cores of several cards, and with its own name for the plugin."""
    count = limited(container, family.resources.count)
    if count is None:
        return AdmittedContainer(container.values, False)
    cards = count.scaled(0, AMOUNT_MAX)
    limits = {family.resources.cores: str(cards * WHOLE_CORES)} if cards > 1 else {}
    changed = with_amounts(container, limits, {})
    name = container.text("name")
    if name and all(variable.text("name") != NAME_VARIABLE for variable in container.children("env")):
        changed["env"] = [*container.items("env"), {"name": NAME_VARIABLE, "value": name}]
    return AdmittedContainer(changed, True)


def vendor(chip: str, resources: DeviceResources) -> Vendor:
    """A chip's record under an administrator's names."""
    family = Family(
        name=chip,
        resources=resources,
        register=f"hami.io/node-{chip}-register",
        is_register_json=False,
        to_allocate=f"hami.io/{chip}-devices-to-allocate",
        allocated=f"hami.io/{chip}-devices-allocated",
        use_uuid=f"hami.io/use-{chip}-uuid",
        avoid_uuid=f"hami.io/no-use-{chip}-uuid",
    )
    return replace(plain_vendor(family), admit=partial(admit, family=family))


VENDORS = tuple(vendor(chip, resources_of(chip)) for chip in CHIPS)


def read_settings(given: Fields) -> tuple[Vendor, ...]:
    """The chips that an administrator lists, under his names; all of them where he lists none."""
    found = []
    for item in given.children("iluvatars"):
        chip = item.text("commonWord") or item.text("chipName")
        if not chip:
            raise item.error("commonWord", "is missing", "name the chip")
        found.append(vendor(chip, named(item, resources_of(chip))))
    return tuple(found) or VENDORS


SETTINGS = VendorSettings(name="iluvatars", read=read_settings)
