"""Vendors that share cards by memory and cores in the common way: Hygon, Cambricon, Iluvatar, AMD, Moore Threads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.engine.contracts import Assigned
from muster.engine.devices import CardWishes
from muster.model.device import DeviceRequest, DeviceUse, Share
from muster.model.errors import InvalidObject
from muster.vendors import amd, cambricon, hygon, iluvatar, mthreads
from tests.vendors.builders import cards, choose, container, names, node

DCU, MLU, AMD, MT = hygon.VENDOR, cambricon.VENDOR, amd.VENDOR, mthreads.VENDOR
MR = next(vendor for vendor in iluvatar.VENDORS if vendor.name == "MR-V100")


@pytest.mark.parametrize(
    ("vendor", "amounts", "want"),
    [
        pytest.param(DCU, (1,), (1, 0, 100, 100), id="all of a card"),
        pytest.param(DCU, (2, 500, 30), (2, 500, 0, 30), id="a part of two"),
        pytest.param(DCU, (1, 0), (1, 0, 100, 100), id="no memory is all of it"),
        pytest.param(MLU, (1, 10), (1, 2560, 0, 100), id="memory in units"),
        pytest.param(MR, (1, 10, 5), (1, 2560, 0, 5), id="units and cores"),
        pytest.param(MR, (1,), (1, 0, 100, 0), id="cores as they come"),
        pytest.param(AMD, (1,), (1, 0, 0, 100), id="all compute units"),
        pytest.param(AMD, (1, 512, 20), (1, 512, 0, 20), id="some of them"),
        pytest.param(MT, (2, 192, 32), (2, 49152, 0, 16), id="amounts of all cards together"),
    ],
)
def test_requests(vendor, amounts, want):
    resources = vendor.resources
    limits = dict(zip((resources.count, resources.memory, resources.cores), map(str, amounts), strict=False))
    got = vendor.request_of(container(limits))
    assert (got.count, got.memory_mib, got.memory_percent, got.cores) == want
    assert vendor.request_of(container({**limits, resources.memory: "16Gi"})) is None
    assert vendor.request_of(container({**limits, resources.cores: "-1"})) is None


def test_requests_count_where_there_are_no_limits():
    asked = {DCU.resources.count: "1", DCU.resources.memory: "7"}
    assert DCU.request_of(container({}, asked)).memory_mib == 7
    assert AMD.request_of(container({}, {AMD.resources.count: "1"})) is None


# Nodes ---------------------------------------------------------------------------------------------------------------


def test_cards_by_cores():
    capacity = {"cambricon.com/mlu.smlu.vcore": "200", "cambricon.com/mlu.smlu.vmemory": "192"}
    first, second = MLU.devices_of(node(capacity=capacity, labels={"Model": "MLU370-X8"}))
    assert (first.uuid, second.index, first.memory_mib, first.model) == ("n-cambricon-mlu-0", 1, 24576, "MLU370-X8")
    (card,) = MT.devices_of(node(capacity={"mthreads.com/sgpu-core": "16", "mthreads.com/sgpu-memory": "96"}))
    assert (card.uuid, card.memory_mib, card.cores) == ("n-mthreads-0", 49152, 16)


def test_a_register_without_json():
    notes = {"hami.io/node-dcu-register": "a,4,1000,100,DCU-K100,1,true:", "hami.io/device-cordon": "a"}
    (card,) = DCU.devices_of(node(notes))
    assert (card.vendor, card.slots, card.numa, card.is_cordoned) == ("DCU", 4, 1, True)


# Admission -----------------------------------------------------------------------------------------------------------


def test_several_cards_get_all_their_cores():
    admitted = MR.admit(container({"iluvatar.ai/MR-V100-vgpu": "2"}, name="c"), {})
    assert admitted.container["resources"]["limits"]["iluvatar.ai/MR-V100.vCore"] == "200"
    assert admitted.container["env"] == [{"name": "SOL_CONTINER_NAME", "value": "c"}]
    again = MR.admit(container({"iluvatar.ai/MR-V100-vgpu": "1"}, name="c", env=admitted.container["env"]), {})
    assert again.container["env"] == admitted.container["env"]


def test_sizes_of_memory():
    names_ = MT.resources
    whole = MT.admit(container({names_.count: "1"}), {})
    assert whole.container["resources"]["limits"] == {names_.count: "1", names_.memory: "96", names_.cores: "16"}
    several = MT.admit(container({names_.count: "3"}), {})
    assert several.annotations == {"mthreads.com/request-gpu-num": "3"}
    assert MT.admit(container({names_.count: "1", names_.memory: "8"}), {}).is_asking
    for mistake in ({names_.count: "0"}, {names_.count: "1", names_.memory: "5"}):
        with pytest.raises(InvalidObject, match=r"mthreads\.com"):
            MT.admit(container(mistake), {})


def test_percentages_of_compute_units():
    asking = {AMD.resources.count: "1", AMD.resources.cores: "101"}
    with pytest.raises(InvalidObject, match="gpu-core-pct"):
        AMD.admit(container(asking), {})
    assert AMD.admit(container({AMD.resources.memory: "5"}), {}).is_asking


# Choosing ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "want"),
    [
        pytest.param({"memory_mib": 100, "cores": 50}, (100, 32), id="a part of both"),
        pytest.param({"memory_mib": 0, "cores": 100}, (1000, 64), id="all of a card"),
        pytest.param({"memory_mib": 100, "cores": 1}, (100, 1), id="one unit at least"),
        pytest.param({"memory_mib": 100, "cores": 0}, (100, 0), id="whatever is left"),
    ],
)
def test_compute_units_of_an_amd_card(request_, want):
    asked = DeviceRequest(vendor="AMD", count=1, memory_percent=0, **request_)
    (share,) = choose(AMD, cards(AMD, 0, cores=64), asked).shares
    assert (share.memory_mib, share.cores) == want


@pytest.mark.parametrize(("model", "want"), [("AMD-MI300X", "AMD-MI300X"), ("", "AMD"), ("AMD,1:", "AMD")])
def test_shares_of_amd_go_by_the_model(model, want):
    asked = DeviceRequest(vendor="AMD", count=1, memory_mib=1, cores=1)
    (card,) = cards(AMD, 0, model=model)
    (share,) = choose(AMD, (card,), asked).shares
    written = AMD.annotate(None, ((replace(share, vendor="AMD"),),), Assigned(devices=(card.device,)))
    assert share.vendor == want
    assert written["hami.io/amd-devices-allocated"] == f"c0,{want},1,1:;"


def test_containers_of_a_pod_stay_on_one_card():
    asked = DeviceRequest(vendor="Mthreads", count=1, memory_mib=10, memory_percent=0)
    given = cards(MT, 0, 0)
    assert names(choose(MT, given, asked, held=(Share(uuid="c0"),))) == ["c0"]
    assert names(choose(MT, given[1:], asked, held=(Share(uuid="c0"),))) == "1/1 CardNotFoundCustomFilterRule"


def test_models():
    wishes = DCU.wishes_of({"hygon.com/use-dcutype": "K100", "hygon.com/nouse-gpuuuid": "a, b"})
    assert wishes == CardWishes(models=("k100",), uuids_not=frozenset("ab"))
    asked = DeviceRequest(vendor="DCU", count=1, memory_mib=10)
    assert names(choose(DCU, cards(DCU, 0), asked, wishes=wishes)) == "1/1 CardTypeMismatch"


def test_the_profile_that_cambricon_s_plugin_reads():
    notes = MLU.annotate(None, ((), (Share(uuid="a", vendor="MLU", index=3, memory_mib=2560, cores=7),)), None)
    assert notes["CAMBRICON_DSMLU_PROFILE"] == "3_7_10"


def test_a_full_card_gives_nothing():
    full = tuple(replace(card, use=DeviceUse(slots=1, memory_mib=1000)) for card in cards(DCU, 1))
    assert names(choose(DCU, full, DeviceRequest(vendor="DCU", count=1, memory_mib=1))) == "1/1 CardInsufficientMemory"
