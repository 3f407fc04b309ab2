"""Enflame's cards that are cut by profiles. Called by the vendor's own file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial

from muster.engine.contracts import AdmittedContainer, Assigned, DeviceResources, Vendor
from muster.engine.devices import CardReason, CardRules, Choice, asked_share, choose_cards
from muster.engine.devices_text import read_json
from muster.engine.devices_vendor import (
    Family,
    asked,
    bounded,
    nano_text,
    of_family,
    plain_annotations,
    plain_vendor,
    register_of,
    whole,
    with_amounts,
)
from muster.model.device import AMOUNT_MAX, WHOLE_CORES, Card, Cards, ContainerShares, Device, DeviceRequest, Share
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown
from muster.vendors.enflame.profiles import Profile, profile_for, profile_of, read_profiles

CUT = "Enflame"
MINOR, PROFILES = "minor", "profiles"  # what is known of a card beyond the common
SIZE, NUMBER, INDEX = "enflame.com/gcu-request-size", "enflame.com/gcu-assigned-id", "enflame.com/gcu-assigned-index"
IS_DONE, AT_MINOR, TIME = "enflame.com/gcu-assigned", "enflame.com/gcu-assigned-minor", "enflame.com/gcu-assigned-time"
CONTAINERS = "assigned-containers"
CUT_RESOURCES = DeviceResources(
    count="enflame.com/drs-gcu", memory="enflame.com/gcu-memory", cores="enflame.com/gcu-core"
)


def cut_devices(node: Fields, family: Family) -> tuple[Device, ...]:
    """The cards that the node's annotation tells of, with the profiles by which all of them can be cut."""
    text, path = register_of(node, family.register)
    spec = Fields.of(read_json(text, path, "give an object with devices and profiles"), path)
    numbers = spec.text_map("profiles")
    profiles = read_profiles(numbers)
    if not profiles:
        raise InvalidObject(spec.at("profiles"), "hold no profile", "give some such as 3g.20gb")
    most_mib = max(profile.memory_mib for profile in profiles)
    known = json.dumps(numbers, sort_keys=True)
    name = node.child("metadata").text("name")
    devices = []
    for place, item in enumerate(spec.children("devices")):
        index = _index(item.text("index"), place)
        devices.append(
            Device(
                uuid=f"{name}-enflame-drs-{index}",
                index=index,
                model=CUT,
                memory_mib=most_mib,
                slots=_capacity(item),
                details={MINOR: item.text("minor").strip() or str(index), PROFILES: known},
            )
        )
    return of_family(node, CUT, tuple(devices))


def _index(text: str, place: int) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) < len(str(AMOUNT_MAX))
    return int(text) if is_number else place


def _capacity(item: Fields) -> int:
    """How many slices a card has; some plugins write the number as a text."""
    raw = item.raw("capacity")
    text = raw.strip() if isinstance(raw, str) else ""
    if text.isascii() and text.isdigit() and len(text) < len(str(AMOUNT_MAX)):
        item = Fields({**item.values, "capacity": int(text)}, item.path)
    elif isinstance(raw, float) and abs(raw) <= AMOUNT_MAX:
        item = Fields({**item.values, "capacity": int(raw)}, item.path)
    return item.integer("capacity", least=1, most=AMOUNT_MAX)


def cut_request(container: Fields, family: Family) -> DeviceRequest | None:
    """A part of one card: so many slices, or as much memory and as many cores as there are in one profile."""
    names = family.resources
    slices = asked(container, names.count)
    if slices is not None and (whole(slices) or 0) > 0:
        size = bounded(slices, least=1)
        return None if size is None else DeviceRequest(vendor=CUT, count=1, slices=size)
    if asked(container, names.memory) is None and asked(container, names.cores) is None:
        return None
    memory = bounded(asked(container, names.memory), default=0)
    cores = bounded(asked(container, names.cores), most=WHOLE_CORES, default=0)
    if memory is None or cores is None:
        return None
    return DeviceRequest(vendor=CUT, count=1, memory_mib=memory, cores=cores)


def admit_cut(container: Fields, _annotations: Mapping[str, str], family: Family) -> AdmittedContainer:
    """The container with the same amounts as limits and as requests."""
    names = family.resources
    if asked(container, names.count) is not None:
        _check(container, names.count, least=1)
        return AdmittedContainer(_on_both_sides(container, (names.count,)), True)
    given = tuple(name for name in (names.memory, names.cores) if asked(container, name) is not None)
    if names.memory in given:
        _check(container, names.memory, least=1)
    if names.cores in given:
        _check(container, names.cores, least=0, most=WHOLE_CORES)
    return AdmittedContainer(_on_both_sides(container, given), bool(given))


def _check(container: Fields, name: str, *, least: int, most: int = AMOUNT_MAX) -> None:
    if bounded(asked(container, name), least=least, most=most) is None:
        path = f"{container.at('resources.limits')}[{name}]"
        raise InvalidObject(path, f"is {shown(str(asked(container, name)))}", f"give a number from {least} to {most}")


def _on_both_sides(container: Fields, names: tuple[str, ...]) -> dict[str, object]:
    resources = container.child("resources")
    sides = [resources.child(side).values for side in ("limits", "requests")]
    added = [
        {name: other[name] for name in names if name not in own and name in other}
        for own, other in (sides, reversed(sides))
    ]
    return with_amounts(container, *added)


@lru_cache(maxsize=64)  # nodes of one kind have the same profiles
def _profiles(text: str) -> tuple[Profile, ...]:
    return read_profiles(json.loads(text))


def choose_cut(cards: Cards, request: DeviceRequest, rules: CardRules) -> Choice:
    """One card after the other that has room for the profile."""
    texts = dict.fromkeys(card.device.details.get(PROFILES, "{}") for card in cards)
    profiles = tuple(profile for text in texts for profile in _profiles(text))
    profile = profile_for(request, profiles)
    if profile is None:
        return Choice(fits=False, counts={CardReason.MODE: 1}, card_count=len(cards))

    def offer(card: Card, asked_for: DeviceRequest) -> Share:
        return replace(asked_share(card, asked_for), memory_mib=profile.memory_mib, cores=profile.cores)

    # Cards whose cores nobody counts have enough of them.
    counted_cards = tuple(
        replace(card, device=replace(card.device, cores=card.device.cores or AMOUNT_MAX)) for card in cards
    )
    return choose_cards(counted_cards, request, replace(rules, offer=offer))


def annotate_cut(pod: Fields, containers: ContainerShares, assigned: Assigned, *, family: Family) -> dict[str, str]:
    """What is written on a pod: which profile each container has, and of which card the first."""
    written = plain_annotations(containers, family)
    if not written:
        return {}
    spec = pod.child("spec")
    names = [one.text("name") for one in (*spec.children("initContainers"), *spec.children("containers"))]
    devices = {device.uuid: device for device in assigned.devices}
    given: dict[str, dict[str, object]] = {}
    first: dict[str, str] = {}
    for number, shares in enumerate(containers):
        if not shares:
            continue
        device = devices.get(shares[0].uuid) or Device(uuid=shares[0].uuid)
        profile = profile_of(shares[0].memory_mib, shares[0].cores, _profiles(device.details.get(PROFILES, "{}")))
        size = profile.slices if profile is not None else 1
        told = {} if profile is None else {"profileID": profile.number, "profileName": profile.name}
        given[names[number] if number < len(names) else f"container-{number}"] = {
            "allocated": False,
            "request": size,
            **{name: value for name, value in told.items() if value},
        }
        index = str(device.index)
        first = first or {NUMBER: index, INDEX: index, AT_MINOR: device.details.get(MINOR, index), SIZE: str(size)}
    listed = {CONTAINERS: json.dumps(dict(sorted(given.items())), separators=(",", ":"))} if given else {}
    return {**written, IS_DONE: "false", TIME: nano_text(assigned), **first, **listed}


def cut_vendor(resources: DeviceResources) -> Vendor:
    """The record of cards that are cut under an administrator's names."""
    family = Family(
        name=CUT,
        resources=resources,
        register="enflame.com/gcu-drs-capacity",
        allocated="hami.io/enflame-vgpu-devices-allocated",
        use_uuid="enflame.com/use-gpuuuid",
        avoid_uuid="enflame.com/nouse-gpuuuid",
    )
    return replace(
        plain_vendor(family),
        devices_of=partial(cut_devices, family=family),
        request_of=partial(cut_request, family=family),
        admit=partial(admit_cut, family=family),
        choose=choose_cut,
        annotate=partial(annotate_cut, family=family),
    )
