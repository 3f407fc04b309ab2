"""Ascend chips: templates, sharing without templates, networks and modules."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from muster.engine.contracts import Assigned
from muster.engine.devices import CardWishes
from muster.model.device import DeviceRequest, Share
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.vendors.ascend import MODE, SOFT, VENDORS, vendor
from muster.vendors.ascend.chips import CHIPS
from tests.vendors.builders import cards, choose, container, names, node

KNOWN = {one.name: one for one in VENDORS}
B3, C, P = KNOWN["Ascend910B3"], KNOWN["Ascend910C"], KNOWN["Ascend310P"]
SOFTLY = CardWishes(modes=SOFT)


def asked(vendor_, count=1, **parts):
    return DeviceRequest(vendor=vendor_.name, count=count, **{"memory_mib": 100, "memory_percent": 0, **parts})


def admitted(vendor_, count, memory="", cores="", **annotations):
    names_ = vendor_.resources
    given = {names_.count: count, names_.memory: memory, names_.cores: cores}
    limits = {name: amount for name, amount in given.items() if amount}
    result = vendor_.admit(container(limits), annotations).container["resources"]
    assert result["limits"][names_.memory] == result["requests"][names_.memory]
    return result["limits"][names_.memory]


@pytest.mark.parametrize(
    ("vendor_", "memory", "want"),
    [
        pytest.param(B3, "", "65536", id="a whole chip"),
        pytest.param(B3, "1", "16384", id="the smallest template"),
        pytest.param(B3, "16384", "16384", id="just a template"),
        pytest.param(B3, "16385", "32768", id="the next one"),
        pytest.param(B3, "40k", "65536", id="more than any template"),
        pytest.param(P, "24576", "21527", id="a whole chip has less than is on it"),
    ],
)
def test_memory_is_rounded_up_to_a_template(vendor_, memory, want):
    assert admitted(vendor_, "1", memory) == want


def test_what_cannot_be_cut_is_refused():
    for count, memory, cores in (("1", "65537", ""), ("2", "16384", ""), ("1", "16384", "10")):
        with pytest.raises(InvalidObject, match=r"huawei\.com/Ascend910B3"):
            admitted(B3, count, memory, cores)


def test_sharing_without_templates_keeps_amounts():
    assert admitted(B3, "2", "15000", "10", **{MODE: SOFT}) == "15000"


def test_whole_modules():
    chip = next(one for one in CHIPS if one.is_paired)
    strict = vendor(replace(chip, is_super_pod=True))
    one = strict.admit(container({chip.resources.count: "1"}, {chip.resources.count: "1"}), {})
    assert one.container["resources"]["limits"][chip.resources.count] == "2"
    assert one.container["resources"]["requests"][chip.resources.count] == "2"
    with pytest.raises(InvalidObject, match="even"):
        strict.admit(container({chip.resources.count: "3"}), {})


def test_containers_without_chips_can_be_kept_from_seeing_any():
    hiding = vendor(replace(CHIPS[0], hides_chips=True))
    assert hiding.admit(container({}), {}).container["env"] == [{"name": "ASCEND_VISIBLE_DEVICES"}]
    assert "env" not in hiding.admit(container({CHIPS[1].resources.count: "1"}), {}).container


# Nodes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("said", "want"), [({}, ("", 20)), ({"hami-vnpu-core": "true"}, (SOFT, 100))])
def test_nodes_that_share_without_templates(said, want):
    text = json.dumps([{"id": "a", "count": 4, "devmem": 1, "devcore": 20, "type": "x", "health": True}])
    (card,) = B3.devices_of(node({"hami.io/node-register-Ascend910B3": text, **said}))
    assert (card.mode, card.cores) == want


def test_pods_that_share_without_templates_need_such_a_node():
    wishes = B3.wishes_of({MODE: SOFT})
    assert names(choose(B3, cards(B3, 0, 0), asked(B3), wishes=wishes)) == "1/2 ModeNotFit"
    soft = cards(B3, 0, mode=SOFT, cores=20)
    assert names(choose(B3, soft, asked(B3, cores=60), wishes=wishes)) == ["c0"]
    assert names(choose(B3, soft, asked(B3))) == ["c0"]


# Choosing ------------------------------------------------------------------------------------------------------------


def networked(*networks):
    given = cards(B3, *(0 for _ in networks))
    return tuple(
        replace(card, device=replace(card.device, details={"NetworkID": str(network)}))
        for card, network in zip(given, networks, strict=True)
    )


@pytest.mark.parametrize(
    ("networks", "count", "want"),
    [
        pytest.param((0, 1, 1), 2, ["c2", "c1"], id="one network"),
        pytest.param((0, 0, 1, 1, 1), 4, ["c4", "c3", "c2", "c1"], id="the larger first"),
        pytest.param((0, 1), 2, ["c1", "c0"], id="no choice"),
        pytest.param((0, 1, 1), 1, ["c2"], id="one chip"),
    ],
)
def test_chips_of_one_network(networks, count, want):
    assert names(choose(B3, networked(*networks), asked(B3, count))) == want


def test_a_node_is_the_better_the_fewer_networks():
    given = networked(0, 1, 1)
    shares = tuple(Share(uuid=name) for name in ("c1", "c2"))
    assert B3.score(given, (shares,)) == 10
    assert B3.score(given, ((Share(uuid="c0"), Share(uuid="c1")),)) == 5
    assert P.score(given, (shares,)) == 0


def test_modules_are_given_out_whole():
    assert names(choose(C, cards(C, 0, 0, 0), asked(C, 2))) == ["c1", "c0"]
    assert names(choose(C, cards(C, 0, 0, 0)[::2], asked(C, 2))) == "0/2 AllocatedCardsInsufficientRequest"
    assert names(choose(C, cards(C, 0, 0, 0), asked(C, 3))) == "2/3 AllocatedCardsInsufficientRequest"
    assert names(choose(C, cards(C, 0, 0, 0), asked(C, 1))) == ["c2"]


@pytest.mark.parametrize(
    ("notes", "want"),
    [
        pytest.param({}, {"UUID": "a", "temp": "vir05_1c_16g", "memory": 16384}, id="a template"),
        pytest.param({MODE: SOFT}, {"UUID": "a", "memory": 16384}, id="without"),
    ],
)
def test_what_the_plugin_is_told(notes, want):
    pod = Fields({"metadata": {"annotations": notes}})
    written = B3.annotate(pod, ((Share(uuid="a", vendor=B3.name, memory_mib=16384),),), Assigned(now_s=5))
    assert json.loads(written["huawei.com/Ascend910B3"]) == [want]
    assert written["predicate-time"] == "5"
