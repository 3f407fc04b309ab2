"""Replays HAMi's cases on cards: annotation codecs, fitting, selection, links and partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from muster.dialects.hami.quota import amounts_of, fits_quota
from muster.dialects.hami.settings import ASSIGNED_NODE
from muster.engine.contracts import Assigned, Vendor
from muster.engine.devices import CardRules, CardWishes, choose_cards, is_model_wanted, is_uuid_wanted
from muster.engine.devices_links import best_combination, fullest_groups
from muster.engine.devices_order import MUTEX, TOPOLOGY, CardOrder
from muster.engine.devices_text import (
    allocation_text,
    old_register_text,
    read_allocation,
    read_old_register,
    read_register,
    read_shares,
    register_text,
    share_text,
    shares_text,
)
from muster.engine.devices_vendor import listed
from muster.model.device import Card, standing_shares
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.vendors.ascend import NODE_MODE, SOFT
from muster.vendors.ascend.choice import NETWORK
from muster.vendors.metax.shared import CARD_QOS
from muster.vendors.nvidia.mig import partition_for, partitions_text, placement_of, read_partitions, records_of
from muster.vendors.vastai import BOARD
from tests.conformance import hami_objects as objects
from tests.conformance import hami_vendors
from tests.conformance.cases import Case, Mismatch, expect_equal

Json = Mapping[str, Any]
MASKED_TIME = "<unix-time>"
UNNAMED = ""  # where a test left out the name of an annotation


def or_error(read: Callable[[], Any]) -> Any:
    """What a reader gives, or the word "error": texts of errors are each system's own."""
    try:
        return read()
    except InvalidObject:
        return "error"


def wanted_or_error(output: list[Any], value: Any) -> Any:
    return "error" if len(output) > 1 and output[1] else value


# Codecs --------------------------------------------------------------------------------------------------------------


def encode_shares(case: Case) -> None:
    shares = tuple(objects.share(item) for item in case.body["input"]["cd"])
    expect_equal("text", shares_text(shares), case.body["output"][0])


def encode_shares_of_type(case: Case) -> None:
    given = case.body["input"]
    shares = (objects.share(item) for item in given["cd"])
    expect_equal(
        "text", ":".join(share_text(one) for one in shares if one.vendor == given["t"]), case.body["output"][0]
    )


def decode_shares(case: Case) -> None:
    got = or_error(lambda: [objects.share_struct(one) for one in read_shares(case.body["input"]["str"])])
    wanted = [objects.share_struct(objects.share(item)) for item in case.body["output"][0] or ()]
    expect_equal("shares", got, wanted_or_error(case.body["output"], wanted))


def encode_allocation(case: Case) -> None:
    expect_equal("text", allocation_text(objects.containers(case.body["input"]["pd"])), case.body["output"][0])


def encode_allocations(case: Case) -> None:
    given = case.body["input"]
    got = {given["checklist"][name]: allocation_text(objects.containers(items)) for name, items in given["pd"].items()}
    expect_equal("annotations", got, case.body["output"][0])


def decode_allocations(case: Case) -> None:
    given = case.body["input"]
    annotations = given["annos"]
    got = or_error(
        lambda: {
            name: [[objects.share_struct(one) for one in shares] for shares in read_allocation(annotations[key])]
            for name, key in given["checklist"].items()
            if key in annotations
        }
    )
    wanted = {
        name: [[objects.share_struct(one) for one in shares] for shares in objects.containers(groups)]
        for name, groups in (case.body["output"][0] or {}).items()
    }
    expect_equal("shares", got, wanted_or_error(case.body["output"], wanted))


def encode_register(case: Case) -> None:
    expect_equal("text", register_text(map(objects.registered, case.body["input"]["dlist"])), case.body["output"][0])


def encode_old_register(case: Case) -> None:
    text = old_register_text(map(objects.registered, case.body["input"]["dlist"]))
    expect_equal("text", text, case.body["output"][0])


def decode_register(case: Case) -> None:
    _decode_register(case, read_register)


def decode_old_register(case: Case) -> None:
    _decode_register(case, read_old_register)


def _decode_register(case: Case, read: Callable[[str], Any]) -> None:
    got = or_error(lambda: [objects.device_struct(device) for device in read(case.body["input"]["str"])])
    wanted = [objects.device_struct(objects.registered(item)) for item in case.body["output"][0] or ()]
    expect_equal("cards", got, wanted_or_error(case.body["output"], wanted))


def encode_partitions(case: Case) -> None:
    text, has_any = case.body["output"]
    records = records_of(objects.containers(case.body["input"]["pd"]))
    expect_equal("partitions", (partitions_text(records) if records else "", bool(records)), (text, has_any))


def decode_partitions(case: Case) -> None:
    got = or_error(lambda: [_record(one) for one in read_partitions(case.body["input"]["raw"])])
    expect_equal("partitions", got, wanted_or_error(case.body["output"], case.body["output"][0] or []))


def _record(one: Any) -> Json:
    place = one.partition.placement
    return {
        "ContainerIndex": one.container,
        "DeviceIndex": one.number,
        "GPUUUID": one.card,
        "Profile": one.partition.profile,
        "Placement": {"Start": place.start, "Size": place.size},
        "MigUUID": one.uuid,
        "GPUInstanceID": one.instance,
        "ComputeInstanceID": one.compute,
    }


def annotate(case: Case) -> None:
    given = case.body["input"]
    vendor = hami_vendors.of_function(case.body)
    groups = given["pd"].get(vendor.name) or []
    before = given.get("annoinput", given.get("annoInput")) or {}
    assigned = Assigned(node=before.get(ASSIGNED_NODE, ""), devices=tuple(objects.told_devices(groups)))
    got = {**before, **vendor.annotate(Fields(given["pod"]), objects.containers(groups), assigned)}
    wanted = dict(case.body["output"][0])
    if UNNAMED in wanted:  # the test had not named the annotations that every vendor writes
        text = wanted.pop(UNNAMED)
        wanted |= dict.fromkeys(name for name in got if name not in before and got[name] == text)
        wanted = {name: text if value is None else value for name, value in wanted.items()}
    masked = {name: MASKED_TIME if wanted.get(name) == MASKED_TIME else value for name, value in got.items()}
    expect_equal("annotations", masked, wanted)


def node_devices(case: Case) -> None:
    vendor = hami_vendors.of_function(case.body)
    node = dict(case.body["input"]["n"])
    annotations = node["metadata"].get("annotations") or {}
    if UNNAMED in annotations:  # the test had not named the annotation
        named = {vendor.register if name == UNNAMED else name: text for name, text in annotations.items()}
        node["metadata"] = {**node["metadata"], "annotations": named}
    got = or_error(lambda: [objects.device_struct(device) for device in vendor.devices_of(Fields(node))])
    wanted = [objects.device_struct(objects.registered(item)) for item in case.body["output"][0] or ()]
    expect_equal("cards", got, wanted_or_error(case.body["output"], wanted))


# Fitting -------------------------------------------------------------------------------------------------------------


def fit(case: Case) -> None:
    given = case.body["input"]
    vendor = hami_vendors.of_function(case.body)
    pod = Fields(given["pod"])
    metadata, init = pod.child("metadata"), len(pod.child("spec").items("initContainers"))
    config = case.body["_config"]
    # The order of the cards is given, so only the words that are rules for single cards matter here.
    policy = metadata.text_map("annotations").get("hami.io/gpu-scheduler-policy", config.get("gpuSchedulerPolicy", ""))
    order = CardOrder(policy)
    wishes = vendor.wishes_of(metadata.text_map("annotations"))
    wishes = replace(wishes, is_alone=order.has(MUTEX), is_by_links=order.has(TOPOLOGY))
    held = objects.containers((given["allocated"] or {}).get(vendor.name) or [])
    quota = objects.quotas(case.body.get("quotas")).get(metadata.text("namespace"), {})

    def is_within_quota(found: tuple[Any, ...]) -> bool:
        amounts = amounts_of(standing_shares((*held, found), init))
        return fits_quota(quota, vendor.resources, amounts)

    cards = tuple(_card(item, case, vendor) for item in given["devices"])
    rules = CardRules(wishes, is_within_quota, vendor.fit, tuple(one for shares in held for one in shares))
    choice = (vendor.choose or choose_cards)(cards, objects.request(given["request"]), rules)
    fits, shares, reason = case.body["output"]
    wanted = [objects.chosen_struct(objects.share(item)) for item in (shares or {}).get(given["request"]["Type"]) or ()]
    expect_equal("fits", choice.fits, fits)
    expect_equal("reason", choice.text, reason)
    expect_equal("shares", [objects.chosen_struct(one) for one in choice.shares], wanted)


def _card(item: Json, case: Case, vendor: Vendor) -> Card:
    """A card as its vendor would have read it: with what its node and what the vendor itself remembers say of it."""
    given, receiver = case.body["input"], case.body.get("receiver") or {}
    node = given.get("nodeInfo", given.get("nodeinfo"))
    card = objects.card(item, node, vendor.name)
    device = card.device
    said = objects.node_annotations(node).get(NODE_MODE)
    if said == "true" or (said is None and receiver.get("hamiVnpuCore")):
        device = replace(device, mode=SOFT)
    remembered = ((receiver.get("jqCache") or {}).get("cache") or {}).get(device.uuid)
    if remembered is not None:
        device = replace(device, details={**device.details, CARD_QOS: remembered})
    return replace(card, device=device)


def best_groups(case: Case) -> None:
    """Cards out of as few groups as possible: Ascend's networks, Vastai's boards."""
    given = case.body["input"]
    shares = [objects.share(item) for item in given["containerDevices"]]
    known = {item["UUID"]: objects.details(item["CustomInfo"]) for item in given["containerDevices"]}
    for devices in ((given.get("nodeInfo") or {}).get("Devices") or {}).values():
        known |= {item["ID"]: objects.details(item["CustomInfo"]) for item in devices}
    groups = {uuid: said[name] for uuid, said in known.items() for name in (NETWORK, BOARD) if name in said}
    got = [one.uuid for one in fullest_groups(shares, given["reqNum"], groups)]
    expect_equal("cards", got, [item["UUID"] for item in case.body["output"][0]])


def check_uuid(case: Case) -> None:
    given = case.body["input"]
    wishes = CardWishes(
        uuids=frozenset(listed(given["annos"].get(given["useKey"], ""))),
        uuids_not=frozenset(listed(given["annos"].get(given["noUseKey"], ""))),
    )
    expect_equal("wanted", is_uuid_wanted(given["id"], wishes), case.body["output"][0])


def check_type(case: Case) -> None:
    given = case.body["input"]
    wishes = CardWishes(
        models=tuple(part.lower() for part in listed(given["annos"].get(given["useKey"], ""))),
        models_not=tuple(part.lower() for part in listed(given["annos"].get(given["noUseKey"], ""))),
    )
    expect_equal("wanted", is_model_wanted(given["cardType"], wishes), case.body["output"][0])


def best_links(case: Case) -> None:
    given = case.body["input"]
    scores = {item["ID"]: item["DevicePairScore"]["Scores"] or {} for item in given["nodeInfo"]["Devices"]["NVIDIA"]}
    choices = [tuple(objects.share(item) for item in choice) for choice in given["combinations"]]
    got = [one.uuid for one in best_combination(choices, scores)]
    expect_equal("cards", got, [item["UUID"] for item in case.body["output"][0]])


def choose_partition(case: Case) -> None:
    given = case.body["input"]
    occupied = [objects.placement(item) for item in given["occupied"] or ()]
    got = partition_for(given["memory"], objects.profiles(given["profiles"]), occupied)
    profile, place, found = case.body["output"]
    wanted = (profile["Name"], objects.placement(place)) if found else None
    expect_equal("partition", got and (got[0].name, got[1]), wanted)


def choose_place(case: Case) -> None:
    given = case.body["input"]
    occupied = [objects.placement(item) for item in given["occupied"] or ()]
    named = [profile for profile in objects.profiles(given["profiles"]) if profile.name == given["profileName"]]
    if len(named) != 1:
        raise Mismatch(f"{len(named)} profiles are called {given['profileName']}")
    place, found = case.body["output"]
    expect_equal("place", placement_of(named[0], occupied), objects.placement(place) if found else None)


DRIVERS: Mapping[str, Callable[[Case], None]] = {
    "pkg/device:EncodeContainerDevices": encode_shares,
    "pkg/device:EncodeContainerDeviceType": encode_shares_of_type,
    "pkg/device:DecodeContainerDevices": decode_shares,
    "pkg/device:EncodePodSingleDevice": encode_allocation,
    "pkg/device:EncodePodDevices": encode_allocations,
    "pkg/device:DecodePodDevices": decode_allocations,
    "pkg/device:MarshalNodeDevices": encode_register,
    "pkg/device:UnMarshalNodeDevices": decode_register,
    "pkg/device:EncodeNodeDevices": encode_old_register,
    "pkg/device:DecodeNodeDevices": decode_old_register,
    "pkg/device/nvidia:EncodeMigAllocations": encode_partitions,
    "pkg/device/nvidia:DecodeMigAllocations": decode_partitions,
    "pkg/device:CheckUUID": check_uuid,
    "pkg/device:CheckType": check_type,
    "pkg/device/nvidia:computeBestCombination": best_links,
    "pkg/device/ascend:Devices.computeBestCombination": best_groups,
    "pkg/device/vastai:VastaiDevices.computeBestCombination": best_groups,
    "pkg/device/nvidia:selectMigCandidate": choose_partition,
    "pkg/device/nvidia:selectMigPlacement": choose_place,
}

# Those that every vendor has, by what comes after its name.
VENDOR_DRIVERS: Mapping[str, Callable[[Case], None]] = {
    "PatchAnnotations": annotate,
    "GetNodeDevices": node_devices,
    "Fit": fit,
}
