"""Cards and shares as annotations hold them: a node's register and a pod's allocation, read and written.

HAMi's forms, because its device plugins and monitors read them. Here, below the plugins, because every vendor writes
them and the dialect reads them. A text that is not of the form raises `InvalidObject`: what it says is unknown then,
and the caller decides whether that counts as nothing or as everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from muster.model.device import (
    AMOUNT_MAX,
    ContainerShares,
    Device,
    PartitionProfile,
    Placement,
    Share,
)
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown

DEVICE_END, CONTAINER_END, FIELD_END = ":", ";", ","
SHARE_FIELDS = 4
OLD_FIELDS, NEW_FIELDS = 7, 9  # of a card in the register without JSON; the older one lacks index and mode
OLD_MODE = "hami-core"
TRUE, FALSE = ("1", "t", "T", "true", "TRUE", "True"), ("0", "f", "F", "false", "FALSE", "False")
TEXT_MOST = 2**20  # Longer texts are refused; no object of the API is that large.


# Allocations of pods ----------------------------------------------------------------------------------------------


def shares_text(shares: Iterable[Share]) -> str:
    """The shares of one container."""
    return "".join(share_text(share) + DEVICE_END for share in shares)


def share_text(share: Share) -> str:
    """One share: card, vendor, memory, cores."""
    return FIELD_END.join((share.uuid, share.vendor, str(share.memory_mib), str(share.cores)))


def allocation_text(containers: ContainerShares) -> str:
    """The shares of all containers; a container without any keeps its place."""
    return "".join(shares_text(shares) + CONTAINER_END for shares in containers)


def read_shares(text: str, path: str = "") -> tuple[Share, ...]:
    """The shares of one container."""
    return tuple(_read_share(part, path) for part in text.split(DEVICE_END) if FIELD_END in part)


def read_allocation(text: str, path: str = "") -> ContainerShares:
    """The shares by container. The text ends each container, so the last entry is always empty."""
    _check_size(text, path)
    return tuple(read_shares(part, path) for part in text.split(CONTAINER_END))


def _read_share(text: str, path: str) -> Share:
    parts = text.split(FIELD_END)
    if len(parts) < SHARE_FIELDS:
        raise InvalidObject(path, f"holds the share {shown(text)}", "a share is card,vendor,memory,cores")
    uuid, vendor, memory, cores = parts[:SHARE_FIELDS]
    return Share(
        uuid=uuid,
        vendor=vendor,
        memory_mib=_number(memory, "memory", path=path),
        cores=_number(cores, "cores", path=path),
    )


# The register of a node -------------------------------------------------------------------------------------------


def register_text(devices: Iterable[Device]) -> str:
    """The cards as JSON, as NVIDIA's plugin registers them; fields at their zero are left out as Go leaves them out."""
    return json.dumps([_registered(device) for device in devices], separators=(",", ":"), ensure_ascii=False)


def _registered(device: Device) -> dict[str, Any]:
    optional: dict[str, Any] = {
        "id": device.uuid,
        "index": device.index,
        "count": device.slots,
        "devmem": device.memory_mib,
        "devcore": device.cores,
        "type": device.model,
        "numa": device.numa,
        "mode": device.mode,
        "health": device.is_healthy,
        "devicevendor": device.vendor,
        "custominfo": dict(device.details),
        "migProfiles": [_profile_object(profile) for profile in device.profiles],
    }
    return {name: value for name, value in optional.items() if value}


def _profile_object(profile: PartitionProfile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "memoryMB": profile.memory_mib,
        "core": profile.cores,
        "sliceCount": profile.slices,
        "instanceCount": profile.instances,
        "placements": [{"start": place.start, "size": place.size} for place in profile.placements],
    }


def read_register(text: str, path: str = "") -> tuple[Device, ...]:
    """The cards of a register in JSON."""
    items = read_json_list(text, path)
    return tuple(_read_device(_lowered(item, f"{path}[{index}]")) for index, item in enumerate(items))


def read_json(text: str, path: str, hint: str) -> Any:
    """A text that must be JSON."""
    _check_size(text, path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidObject(path, "is not JSON", hint) from None


def read_json_list(text: str, path: str) -> list[Any]:
    """A text that must be a list in JSON; a bare null is an empty one."""
    items = read_json(text, path, "give a list of objects")
    if items is None:
        return []
    if not isinstance(items, list):
        raise InvalidObject(path, f"is {shown(items)}", "give a list of objects")
    return items


def _lowered(item: object, path: str) -> Fields:
    """Go reads the names of fields in any case, and so do we; the exact name wins."""
    fields = Fields.of(item, path)
    values = {name.lower(): value for name, value in fields.values.items()}
    return Fields({**values, **{name: value for name, value in fields.values.items() if name == name.lower()}}, path)


def _amount(fields: Fields, name: str) -> int:
    return fields.integer(name, least=0, most=AMOUNT_MAX)


def _read_device(fields: Fields) -> Device:
    return Device(
        uuid=fields.text("id"),
        index=_amount(fields, "index"),
        vendor=fields.text("devicevendor"),
        model=fields.text("type"),
        memory_mib=_amount(fields, "devmem"),
        cores=_amount(fields, "devcore"),
        slots=_amount(fields, "count"),
        numa=fields.integer("numa"),
        mode=fields.text("mode"),
        is_healthy=fields.flag("health"),
        details=_read_details(fields.child("custominfo")),
        profiles=tuple(
            _read_profile(_lowered(item, f"{fields.at('migProfiles')}[{index}]"))
            for index, item in enumerate(fields.items("migprofiles"))
        ),
    )


def _read_details(fields: Fields) -> dict[str, str]:
    """What only the vendor understands, as texts; Go reads every number as a fraction, 3 as 3.0."""
    return {name: _detail(value) for name, value in fields.values.items() if isinstance(value, (str, int, float))}


def _detail(value: str | float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _read_profile(fields: Fields) -> PartitionProfile:
    places = (
        _lowered(item, f"{fields.at('placements')}[{index}]") for index, item in enumerate(fields.items("placements"))
    )
    return PartitionProfile(
        name=fields.text("name"),
        memory_mib=_amount(fields, "memorymb"),
        cores=_amount(fields, "core"),
        slices=_amount(fields, "slicecount"),
        instances=_amount(fields, "instancecount"),
        placements=tuple(Placement(_amount(place, "start"), _amount(place, "size")) for place in places),
    )


def pair_scores_text(devices: Iterable[Device]) -> str:
    """The links between cards, as JSON."""
    items = [{"uuid": device.uuid, "score": dict(device.pair_scores)} for device in devices]
    return json.dumps(items, separators=(",", ":"))


def read_pair_scores(text: str, path: str = "") -> dict[str, Mapping[str, int]]:
    """The links by card."""
    result: dict[str, Mapping[str, int]] = {}
    for index, item in enumerate(read_json_list(text, path)):
        fields = Fields.of(item, f"{path}[{index}]")
        scores = fields.child("score")
        result[fields.text("uuid")] = {uuid: scores.integer(uuid) for uuid in scores.values}
    return result


def with_pair_scores(devices: Iterable[Device], scores: Mapping[str, Mapping[str, int]]) -> tuple[Device, ...]:
    """The cards with the links that another annotation tells of."""
    return tuple(replace(device, pair_scores=scores.get(device.uuid, {})) for device in devices)


# The older register -----------------------------------------------------------------------------------------------


def old_register_text(devices: Iterable[Device]) -> str:
    """The cards without JSON, as other vendors' plugins register them."""
    return "".join(_old_device_text(device) + DEVICE_END for device in devices)


def _old_device_text(device: Device) -> str:
    health = "true" if device.is_healthy else "false"
    numbers = (device.slots, device.memory_mib, device.cores)
    parts = (device.uuid, *numbers, device.model, device.numa, health, device.index, device.mode)
    return FIELD_END.join(str(part) for part in parts)


def read_old_register(text: str, path: str = "") -> tuple[Device, ...]:
    """The cards of a register without JSON, with or without index and mode."""
    _check_size(text, path)
    if DEVICE_END not in text:
        raise InvalidObject(path, f"is {shown(text)}", f"end each card with {DEVICE_END}")
    return tuple(_read_old_device(part, path) for part in text.split(DEVICE_END) if part)


def _read_old_device(text: str, path: str) -> Device:
    parts = text.split(FIELD_END)
    if len(parts) not in (OLD_FIELDS, NEW_FIELDS):
        problem = f"holds the card {shown(text)} of {len(parts)} fields"
        raise InvalidObject(path, problem, f"give {OLD_FIELDS} or {NEW_FIELDS}")
    uuid, count, memory, cores, model, numa, health = parts[:OLD_FIELDS]
    has_mode = len(parts) == NEW_FIELDS
    if health not in (*TRUE, *FALSE):
        raise InvalidObject(path, f"holds the health {shown(health)}", "give true or false")
    return Device(
        uuid=uuid,
        index=_number(parts[7], "index", path=path) if has_mode else 0,
        model=model,
        memory_mib=_number(memory, "memory", path=path),
        cores=_number(cores, "cores", path=path),
        slots=_number(count, "count", path=path),
        numa=_number(numa, "numa", path=path, least=-AMOUNT_MAX),
        mode=parts[8] if has_mode else OLD_MODE,
        is_healthy=health in TRUE,
    )


def _number(text: str, name: str, *, path: str, least: int = 0) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    number = int(text) if digits.isascii() and digits.isdigit() and len(digits) <= len(str(AMOUNT_MAX)) else None
    if number is None or not least <= number <= AMOUNT_MAX:
        hint = f"give a whole number from {least} to {AMOUNT_MAX}"
        raise InvalidObject(path, f"holds the {name} {shown(text)}", hint)
    return number


def _check_size(text: str, path: str) -> None:
    if len(text) > TEXT_MOST:
        raise InvalidObject(path, f"is a text of {len(text)} characters", f"give at most {TEXT_MOST}")
