"""Enflame's profiles, and MetaX's classes and policies of work on one card."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from muster.engine.contracts import Assigned
from muster.model.device import DeviceRequest, DeviceUse, Share
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.vendors import enflame, metax
from tests.vendors.builders import cards, choose, container, names, node

GCU, CUT = enflame.VENDORS
GPU, SGPU = metax.VENDORS
PROFILES = {"1g.6gb": "0", "3g.20gb": "1", "6g.40gb": "2", "nonsense": "9"}
CLASS, QOS = "metax-tech.com/sgpu-app-class", "metax-tech.com/sgpu-qos-policy"


# Enflame -------------------------------------------------------------------------------------------------------------


def cut_node(**parts):
    spec = {"devices": [{"index": "0", "minor": "5", "capacity": 6}], "profiles": PROFILES, **parts}
    return node({"enflame.com/gcu-drs-capacity": json.dumps(spec)})


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        pytest.param({"drs-gcu": "3"}, (20480, 50), id="slices"),
        pytest.param({"gcu-memory": "7"}, (20480, 50), id="memory in GB"),
        pytest.param({"gcu-memory": "20480"}, (20480, 50), id="memory in MiB"),
        pytest.param({"gcu-core": "51"}, (40960, 100), id="cores"),
        pytest.param({"gcu-core": "10", "gcu-memory": "1"}, (6144, 16), id="the smallest"),
        pytest.param({"drs-gcu": "2"}, "1/1 ModeNotFit", id="no such profile"),
        pytest.param({"gcu-memory": "41"}, "1/1 ModeNotFit", id="more than a card"),
    ],
)
def test_profiles(limits, want):
    asked = CUT.request_of(container({f"enflame.com/{name}": amount for name, amount in limits.items()}))
    given = cards(CUT, 0)
    known = tuple(replace(card, device=CUT.devices_of(cut_node())[0]) for card in given)
    choice = choose(CUT, known, asked)
    assert (names(choice) if not choice.fits else (choice.shares[0].memory_mib, choice.shares[0].cores)) == want


def test_all_slices_of_a_card_can_be_had():
    (device,) = CUT.devices_of(cut_node())
    assert (device.uuid, device.memory_mib, device.slots, device.index) == ("n-enflame-drs-0", 40960, 6, 0)
    asked = CUT.request_of(container({"enflame.com/drs-gcu": "1"}))
    (card,) = (replace(one, device=device) for one in cards(CUT, 0))
    for _ in range(6):
        (share,) = choose(CUT, (card,), asked).shares
        card = card.plus(share)
    assert names(choose(CUT, (card,), asked)) == "1/1 CardTimeSlicingExhausted"


@pytest.mark.parametrize(
    "parts",
    [{"profiles": {}}, {"devices": []}, {"devices": [{"capacity": 0}]}, {"devices": [{"capacity": "x"}]}],
    ids=["no profiles", "no cards", "no slices", "slices that are no number"],
)
def test_capacities_that_are_none(parts):
    with pytest.raises(InvalidObject):
        CUT.devices_of(cut_node(**parts))


def test_limits_and_requests_are_alike():
    both = CUT.admit(container({}, {"enflame.com/drs-gcu": "3"}), {}).container["resources"]
    assert both["limits"] == both["requests"] == {"enflame.com/drs-gcu": "3"}
    for limits in ({"drs-gcu": "0"}, {"gcu-memory": "0"}, {"gcu-core": "101"}):
        with pytest.raises(InvalidObject, match="enflame"):
            CUT.admit(container({f"enflame.com/{name}": amount for name, amount in limits.items()}), {})


def test_what_enflame_s_plugin_is_told():
    pod = Fields({"spec": {"containers": [{"name": "idle"}, {"name": "main"}]}})
    share = Share(uuid="n-enflame-drs-0", vendor="Enflame", memory_mib=20480, cores=50)
    written = CUT.annotate(pod, ((), (share,)), Assigned(now_s=1, devices=CUT.devices_of(cut_node())))
    assert json.loads(written["assigned-containers"]) == {
        "main": {"allocated": False, "request": 3, "profileID": "1", "profileName": "3g.20gb"}
    }
    assert (written["enflame.com/gcu-assigned-minor"], written["enflame.com/gcu-request-size"]) == ("5", "3")


def test_whole_cards_are_for_one_pod():
    asked = GCU.request_of(container({"enflame.com/gcu": "2"}))
    given = GCU.devices_of(node(capacity={"enflame.com/gcu": "2"}))
    idle = tuple(replace(card, device=device) for card, device in zip(cards(GCU, 0, 0), given, strict=True))
    assert names(choose(GCU, idle, asked)) == ["n-GCU-1", "n-GCU-0"]
    busy = tuple(replace(card, use=DeviceUse(slots=1)) for card in idle)
    assert names(choose(GCU, busy, asked)) == "2/2 ExclusiveDeviceAllocateConflict"


# MetaX ---------------------------------------------------------------------------------------------------------------


def on(*marks, **parts):
    """A card with pods of these marks."""
    (card,) = cards(SGPU, len(marks), **parts)
    return (replace(card, use=replace(card.use, marks=marks, cores=10 * len(marks))),)


@pytest.mark.parametrize(
    ("marks", "notes", "want"),
    [
        pytest.param((), {CLASS: "online"}, ["c0"], id="an empty card takes anybody"),
        pytest.param(("/best-effort",), {CLASS: "online"}, "1/1 CardAppClassMismatch", id="online beside plain"),
        pytest.param(("online/",), {}, "1/1 CardAppClassMismatch", id="plain beside online"),
        pytest.param(("online/",), {CLASS: "offline"}, "1/1 CardAppClassMismatch", id="offline beside online"),
        pytest.param(("offline/best-effort",), {CLASS: "online"}, ["c0"], id="online beside offline"),
        pytest.param(("/best-effort",), {}, ["c0"], id="the usual policy"),
        pytest.param(("/best-effort",), {QOS: "fixed-share"}, "1/1 CardQosPolicyMismatch", id="another policy"),
        pytest.param(("/fixed-share",), {QOS: "fixed-share"}, ["c0"], id="the same policy"),
    ],
)
def test_work_that_goes_together(marks, notes, want):
    asked = DeviceRequest(vendor=SGPU.name, count=1, memory_mib=10, memory_percent=0, cores=50)
    choice = choose(SGPU, on(*marks), asked, wishes=SGPU.wishes_of(notes))
    assert names(choice) == want
    assert all(share.mark == SGPU.wishes_of(notes).mark for share in choice.shares)


def test_a_sick_card():
    asked = DeviceRequest(vendor=SGPU.name, count=1, memory_mib=10, memory_percent=0)
    assert names(choose(SGPU, on(is_healthy=False), asked)) == "1/1 CardUnhealthy"


def test_online_work_needs_no_cores_of_its_own():
    asked = DeviceRequest(vendor=SGPU.name, count=1, memory_mib=10, memory_percent=0, cores=100)
    busy = on(*["offline/best-effort"] * 9)
    (share,) = choose(SGPU, busy, asked, wishes=SGPU.wishes_of({CLASS: "online"})).shares
    assert share.cores == 0


def test_whole_cards_of_one_zone():
    zones = ("1", "2", "2", "0")
    given = tuple(
        replace(card, device=replace(card.device, details={"LinkZone": zone}))
        for card, zone in zip(cards(SGPU, 0, 0, 0, 0), zones, strict=True)
    )
    asked = DeviceRequest(vendor=SGPU.name, count=2, memory_percent=100, cores=100)
    assert names(choose(SGPU, given, asked)) == ["c2", "c1"]
    assert names(choose(SGPU, given, replace(asked, count=3))) == ["c0", "c2", "c1"]


@pytest.mark.parametrize(("memory", "want"), [("16", 16384), ("16Gi", 16384), ("512Mi", 512), ("", 0)])
def test_units_of_memory(memory, want):
    limits = {"metax-tech.com/sgpu": "1", **({"metax-tech.com/vmemory": memory} if memory else {})}
    got = SGPU.request_of(container(limits))
    assert (got.memory_mib, got.memory_percent, got.cores) == (want, 0 if want else 100, 100)


def test_words_that_are_none():
    asking = container({"metax-tech.com/sgpu": "1"})
    assert SGPU.admit(asking, {}).annotations == {QOS: "best-effort"}
    assert SGPU.admit(asking, {CLASS: "online", QOS: "any"}).annotations == {}
    for notes in ({CLASS: "Online"}, {QOS: "any"}):
        with pytest.raises(InvalidObject, match="give one of"):
            SGPU.admit(asking, notes)
        with pytest.raises(InvalidObject, match="give one of"):
            SGPU.wishes_of(notes)
    with pytest.raises(InvalidObject, match="one card"):
        SGPU.admit(container({"metax-tech.com/sgpu": "2"}), {CLASS: "offline"})


def test_the_register_of_shared_cards():
    card = {"uuid": "a", "totalDevCount": 16, "totalCompute": 100, "totalVRam": 65536, "numa": -1, "healthy": True}
    (device,) = SGPU.devices_of(node({"metax-tech.com/node-gpu-devices": json.dumps([{**card, "linkZone": 2}])}))
    assert (device.slots, device.memory_mib, device.numa, device.details["LinkZone"]) == (16, 65536, -1, "2")
    (whole,) = GPU.devices_of(node(capacity={"metax-tech.com/gpu": "1"}))
    assert (whole.memory_mib, whole.slots) == (65536, 1)


def test_what_metax_s_plugin_is_told():
    share = Share(uuid="a", vendor=SGPU.name, memory_mib=10)
    written = SGPU.annotate(None, ((share,),), Assigned(now_s=2))
    assert json.loads(written["metax-tech.com/gpu-devices-allocated"]) == [[{"uuid": "a", "vRam": 10}]]
    assert written["metax-tech.com/predicate-time"] == "2000000000"
