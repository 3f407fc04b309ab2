"""Huawei's Ascend chips: whole, cut by templates, or shared by memory and cores. Found by `app` through VENDORS."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from muster.engine.contracts import AdmittedContainer, Assigned, Vendor, VendorSettings
from muster.engine.devices import CardWishes
from muster.engine.devices_vendor import (
    asked,
    limited,
    plain_annotations,
    plain_vendor,
    plain_wishes,
    registered_devices,
    with_amounts,
)
from muster.model.device import AMOUNT_MAX, WHOLE_CORES, ContainerShares, Device, Share
from muster.model.errors import InvalidObject
from muster.model.fields import INT64_MAX, Fields
from muster.vendors.ascend.chips import CHIPS, Chip, read_chip
from muster.vendors.ascend.choice import MODULE, choose, score

MODE, SOFT = "huawei.com/vnpu-mode", "hami-core"
NODE_MODE = "hami-vnpu-core"  # a node's annotation: whether it shares chips without templates
TIME = "predicate-time"
PREFIX = "huawei.com/"
FAMILY_PREFIX = "huawei.com/Ascend"
VISIBLE_VARIABLE = "ASCEND_VISIBLE_DEVICES"


def devices_of(node: Fields, *, chip: Chip) -> tuple[Device, ...]:
    """The chips that the node registers; where they are shared without templates, cores count in per cent."""
    devices = registered_devices(node, chip.family)
    said = node.child("metadata").text_map("annotations").get(NODE_MODE)
    if said != "true" if said is not None else not chip.is_soft:
        return devices
    return tuple(replace(device, mode=SOFT, cores=WHOLE_CORES) for device in devices)


def wishes_of(annotations: Mapping[str, str], *, chip: Chip) -> CardWishes:
    """Which chips the pod's annotations name, and whether it wants to share without templates."""
    modes = SOFT if annotations.get(MODE) == SOFT else None
    return replace(plain_wishes(annotations, chip.family), modes=modes)


def admit(container: Fields, annotations: Mapping[str, str], *, chip: Chip) -> AdmittedContainer:
    """The container with the memory that it gets: that of a template, or of a whole chip."""
    names = chip.resources
    count = limited(container, names.count)
    if count is None:
        return AdmittedContainer(_hidden(container) if chip.hides_chips else container.values, False)
    chips = count.scaled(0, AMOUNT_MAX)
    changed = Fields(_whole_modules(container, chips, chip), container.path)
    is_soft = annotations.get(MODE) == SOFT
    cores = asked(container, names.cores)
    limits = container.at("resources.limits")
    if not is_soft and cores is not None and cores.scaled(0, INT64_MAX) > 0:
        hint = f"cores go with {MODE}: {SOFT}; a template brings its own"
        raise InvalidObject(f"{limits}[{names.cores}]", f"is {cores}", hint)
    memory = _memory(container, chip, is_soft=is_soft)
    if chips > 1 and not is_soft and memory != chip.memory_mib:
        raise InvalidObject(
            f"{limits}[{names.memory}]", "is a part of each", "only one chip can be cut for a container"
        )
    amounts = {names.memory: str(memory)} if names.memory else {}
    return AdmittedContainer(with_amounts(changed, amounts, amounts), True, chip.runtime_class)


def _memory(container: Fields, chip: Chip, *, is_soft: bool) -> int:
    """The memory of each chip that a container gets."""
    given = limited(container, chip.resources.memory)
    if given is None:
        return chip.memory_mib
    amount = given.scaled(0, INT64_MAX)
    if is_soft:
        return amount
    template = chip.cut(amount)
    if template is None:
        path = f"{container.at('resources.limits')}[{chip.resources.memory}]"
        raise InvalidObject(path, f"is {given}", f"a chip has {chip.capacity_mib} MiB")
    return template.memory_mib


def _whole_modules(container: Fields, chips: int, chip: Chip) -> Mapping[str, object]:
    """The container with both chips of a module where one is asked for, and only modules are given out."""
    if not chip.is_paired or not chip.is_super_pod or chips % MODULE == 0:
        return container.values
    name = chip.resources.count
    if chips != 1:
        raise InvalidObject(f"{container.at('resources.limits')}[{name}]", f"is {chips}", "give 1 or an even number")
    amounts = {name: str(MODULE)}
    has_request = container.child("resources").child("requests").has(name)
    return with_amounts(container, amounts, amounts if has_request else {})


def _hidden(container: Fields) -> Mapping[str, object]:
    """The container without sight of chips, unless it asks for some of another kind."""
    limits = container.child("resources").child("limits").values
    is_hidden = any(variable.text("name") == VISIBLE_VARIABLE for variable in container.children("env"))
    if is_hidden or any(name.startswith(FAMILY_PREFIX) for name in limits):
        return container.values
    return {**container.values, "env": [*container.items("env"), {"name": VISIBLE_VARIABLE}]}


def annotate(pod: Fields, containers: ContainerShares, assigned: Assigned, *, chip: Chip) -> dict[str, str]:
    """What is written on a pod: also what the plugin cuts off which chip."""
    written = plain_annotations(containers, chip.family)
    if not written:
        return {}
    is_soft = pod.child("metadata").text_map("annotations").get(MODE) == SOFT
    parts = [_part(share, chip, is_soft=is_soft) for shares in containers for share in shares]
    text = json.dumps(parts, separators=(",", ":"))
    return {**written, TIME: str(assigned.now_s), PREFIX + chip.name: text}


def _part(share: Share, chip: Chip, *, is_soft: bool) -> dict[str, object]:
    template = None if is_soft else chip.cut(share.memory_mib)
    parts = {
        "UUID": share.uuid,
        "temp": template.name if template is not None else "",
        "memory": share.memory_mib,
        "core": share.cores,
    }
    return {name: value for name, value in parts.items() if value}


def vendor(chip: Chip) -> Vendor:
    """The record of one kind of chip."""
    family = chip.family
    return replace(
        plain_vendor(family),
        devices_of=partial(devices_of, chip=chip),
        wishes_of=partial(wishes_of, chip=chip),
        wish_names=frozenset((family.use_uuid, family.avoid_uuid, MODE)),
        admit=partial(admit, chip=chip),
        annotate=partial(annotate, chip=chip),
        choose=partial(choose, chip=chip),
        score=partial(score, chip=chip),
    )


VENDORS = tuple(vendor(chip) for chip in CHIPS)


def read_settings(given: Fields) -> tuple[Vendor, ...]:
    """The chips that an administrator lists, with his templates; all of them where he lists none."""
    return tuple(vendor(read_chip(item)) for item in given.children("vnpus")) or VENDORS


SETTINGS = VendorSettings(name="vnpus", read=read_settings)
