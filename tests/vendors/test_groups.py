"""Vendors whose cards belong together: Kunlunxin's wings, Vastai's boards, Neuron chips side by side; and Biren."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.engine.contracts import Assigned
from muster.engine.devices import CardWishes
from muster.model.device import DeviceRequest, DeviceUse, Share
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.vendors import awsneuron, biren, kunlun, vastai
from muster.vendors.kunlun.topology import choose_numbers, unevenness
from tests.vendors.builders import cards, choose, container, names, node

WHOLE, XPU = kunlun.VENDORS
AWS, BIREN, VASTAI = awsneuron.VENDOR, biren.VENDOR, vastai.VENDOR
ALONE = CardWishes(is_alone=True)


# Kunlunxin -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "count", "want"),
    [
        pytest.param("01234567", 8, "01234567", id="all"),
        pytest.param("0123456", 8, "", id="all but one"),
        pytest.param("01234567", 1, "0", id="one of a full wing"),
        pytest.param("0123456", 1, "4", id="one of a wing of three"),
        pytest.param("01234", 1, "4", id="a lone one first"),
        pytest.param("0145", 2, "01", id="two of one wing"),
        pytest.param("0156", 2, "01", id="two that are left of a wing"),
        pytest.param("37", 2, "37", id="two that face each other"),
        pytest.param("36", 2, "", id="two that do not"),
        pytest.param("4567", 4, "4567", id="a wing"),
        pytest.param("01245", 4, "0145", id="a ring"),
        pytest.param("013457", 4, "0145", id="a ring that leaves two linked"),
        pytest.param("01234567", 3, "", id="three"),
        pytest.param("", 1, "", id="none"),
    ],
)
def test_cards_that_belong_together(free, count, want):
    assert choose_numbers([int(one) for one in free], count) == [int(one) for one in want]


def test_wings_that_are_broken_up():
    assert [unevenness([int(one) for one in taken]) for taken in ("", "0", "01", "0123", "01234567")] == [1, 3, 2, 1, 0]
    idle = cards(WHOLE, *[0] * 8)
    assert WHOLE.score(idle, ((Share(uuid="c0", index=0),),)) == 0
    assert WHOLE.score(idle, (tuple(Share(uuid=f"c{n}", index=n) for n in range(4)),)) == 2000


def test_whole_cards_are_whole():
    asked = DeviceRequest(vendor="kunlun", count=1, memory_percent=100)
    choice = choose(WHOLE, cards(WHOLE, 1, 0, 0, 0, 0, 0, 0, 0), asked)
    assert [(one.uuid, one.memory_mib, one.cores) for one in choice.shares] == [("c1", 1000, 100)]
    assert names(choose(WHOLE, cards(WHOLE, *[1] * 8), asked)) == "1/8 NumaNotFit"
    assert names(choose(WHOLE, cards(WHOLE, 0, is_cordoned=True), asked)) == "1/1 CardCordoned"


def test_shares_of_one_size_share_a_card():
    asked = DeviceRequest(vendor="XPU", count=1, memory_mib=100, memory_percent=0, cores=10)
    first, second = cards(XPU, 1, 1)
    same = replace(first, use=DeviceUse(slots=1, memory_mib=100))
    other = replace(second, use=DeviceUse(slots=1, memory_mib=200))
    assert names(choose(XPU, (same, other), asked)) == ["c0"]
    assert names(choose(XPU, (other,), asked)) == "1/1 NumaNotFit"
    assert names(choose(XPU, (same,), asked, wishes=ALONE)) == "1/1 ExclusiveDeviceAllocateConflict"
    assert names(choose(XPU, (same,), asked, is_within_quota=lambda _shares: False)) == "1/1 ResourceQuotaNotFit"


def test_sizes():
    name = XPU.resources
    one = XPU.request_of(container({name.count: "1", name.memory: "30000"}))
    assert (one.memory_mib, one.memory_percent, one.cores) == (49152, 0, 50)
    whole = XPU.request_of(container({name.count: "1"}))
    assert (whole.memory_mib, whole.memory_percent, whole.cores) == (98304, 100, 100)
    limits = XPU.admit(container({name.count: "1", name.memory: "1"}), {}).container["resources"]
    assert limits["limits"][name.memory] == limits["requests"][name.memory] == "24576"


def test_cards_are_named_by_old_and_new_annotations():
    both = {"baidu.com/use-gpuuuid": "a,b", "hami.io/use-xpu-uuid": "b,c"}
    assert XPU.wishes_of(both).uuids == {"b"}
    assert WHOLE.wishes_of({"baidu.com/use-gpuuuid": "a", "hami.io/use-xpu-uuid": "c"}).uuids == {"-"}
    assert WHOLE.wishes_of({"baidu.com/nouse-gpuuuid": "a", "hami.io/no-use-xpu-uuid": "c"}).uuids_not == {"a", "c"}


def test_the_numbers_that_kunlunxin_s_plugin_reads():
    shares = tuple(Share(uuid=f"c{n}", vendor="kunlun", index=n) for n in (4, 5))
    assert WHOLE.annotate(None, (shares, ()), None)["BAIDU_COM_DEVICE_IDX"] == "4,5"
    assert [card.numa for card in WHOLE.devices_of(node(capacity={"kunlunxin.com/xpu": "4"}))] == [0, 0, 1, 1]


# Vastai and Biren ----------------------------------------------------------------------------------------------------


def boards(*numbers, used=()):
    given = cards(VASTAI, *(int(place in used) for place in range(len(numbers))))
    details = ({"AIC": str(number), "DeviceStrategy": "die"} for number in numbers)
    return tuple(
        replace(card, device=replace(card.device, details=one)) for card, one in zip(given, details, strict=True)
    )


def test_dies_of_one_board():
    asked = DeviceRequest(vendor="Vastai", count=2, memory_percent=100)
    assert names(choose(VASTAI, boards(1, 1, 2), asked)) == ["c1", "c0"]
    one = replace(asked, count=1)
    assert names(choose(VASTAI, boards(1, 1, 2), one)) == ["c2"]
    assert names(choose(VASTAI, boards(1, 1, used=[0]), one, wishes=ALONE)) == "2/2 ExclusiveDeviceAllocateConflict"
    assert VASTAI.score(boards(1, 1, 2), ((Share(uuid="c0"), Share(uuid="c2")),)) == 0.5


@pytest.mark.parametrize("vendor", [BIREN, VASTAI], ids=["Biren", "Vastai"])
def test_of_a_bare_card_nothing_is_counted(vendor):
    asked = vendor.request_of(container({vendor.resources.count: "1"}))
    assert asked == DeviceRequest(vendor=vendor.name, count=1, memory_percent=100)
    (share,) = choose(vendor, cards(vendor, 0, 0), asked).shares
    assert (share.uuid, share.memory_mib, share.cores) == ("c1", 0, 0)


# Neuron --------------------------------------------------------------------------------------------------------------


def chips(*used, kind="trn1"):
    given = cards(AWS, *used, cores=3, slots=2, memory_mib=0, details={"AWSNodeType": kind})
    return tuple(
        replace(card, use=DeviceUse(slots=bits.bit_count(), cores=bits)) for card, bits in zip(given, used, strict=True)
    )


def test_cores_are_told_apart():
    one = AWS.request_of(container({"aws.amazon.com/neuroncore": "1"}))
    assert [share.cores for share in choose(AWS, chips(1), one).shares] == [2]
    assert [share.cores for share in choose(AWS, chips(2), one).shares] == [1]
    assert names(choose(AWS, chips(3), one)) == "1/1 CardTimeSlicingExhausted"
    both = AWS.request_of(container({"aws.amazon.com/neuroncore": "2"}))
    assert names(choose(AWS, chips(1), both)) == "1/1 CardInsufficientCore"


@pytest.mark.parametrize(
    ("used", "kind", "count", "want"),
    [
        pytest.param((0, 1, 0, 0), "inf2.24xlarge", 2, ["c2", "c3"], id="anywhere in a chain"),
        pytest.param((0, 1, 0, 0), "trn1.32xlarge", 2, "1/4 NumaNotFit", id="no two of a ring"),
        pytest.param((0, 0, 0, 0), "trn1.32xlarge", 4, ["c0", "c1", "c2", "c3"], id="four of a ring"),
        pytest.param((1, *[0] * 7), "trn1.32xlarge", 4, ["c4", "c5", "c6", "c7"], id="the next four"),
        pytest.param((0, 0, 0, 0), "", 4, "1/4 NumaNotFit", id="nobody knows how they stand"),
    ],
)
def test_several_chips_stand_side_by_side(used, kind, count, want):
    asked = AWS.request_of(container({"aws.amazon.com/neuron": str(count)}))
    assert names(choose(AWS, chips(*used, kind=kind), asked)) == want


@pytest.mark.parametrize("cores", ["0", "-2", "3", "4294967296"])
def test_numbers_of_cores_that_make_no_sense(cores):
    asking = container({"aws.amazon.com/neuroncore": cores})
    assert AWS.request_of(asking) is None
    with pytest.raises(InvalidObject, match="neuroncore"):
        AWS.admit(asking, {})


def test_the_ids_that_neuron_s_plugin_reads():
    pod = Fields({"spec": {"containers": [{"resources": {"limits": {"aws.amazon.com/neuroncore": "1"}}}]}})
    written = AWS.annotate(pod, ((Share(uuid="a", index=3, cores=2),),), Assigned(node="n", now_s=1))
    assert (written["AWS_NEURON_IDS"], written["NEURON_RESOURCE_TYPE"]) == ("7", "aws.amazon.com/neuroncore")
    assert written["aws.amazon.com/predicate-node"] == "n"
