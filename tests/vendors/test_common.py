"""What all vendors beside NVIDIA have in common: absurd amounts, registers that are none, and texts that come back."""

from __future__ import annotations

import pytest

from muster.app.plugins import vendors
from muster.engine.contracts import Assigned, Vendor
from muster.model.device import Share
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from tests.stopwatch import is_done_within
from tests.vendors.builders import container, node

NAMED = [vendor for vendor in vendors().values() if not vendor.is_counted]
IDS = [vendor.name for vendor in NAMED]
ABSURD = ("-1", "0.5", "1e300", "2147483648", "9" * 100_000)

every_vendor = pytest.mark.parametrize("vendor", NAMED, ids=IDS)


@every_vendor
def test_names_are_its_own(vendor: Vendor):
    others = [one for one in vendors().values() if one is not vendor]
    assert vendor.resources.names and all(vendor.resources.names.isdisjoint(one.resources.names) for one in others)
    assert vendor.allocated and all(vendor.allocated != one.allocated for one in others)
    assert not vendor.register or all(vendor.register != one.register for one in others)


@every_vendor
@pytest.mark.parametrize("amount", ABSURD, ids=["negative", "a fraction", "huge", "above 32 bits", "long"])
def test_an_absurd_number_of_cards_asks_for_nothing(vendor: Vendor, amount: str):
    asking = container({vendor.resources.count: amount})
    assert is_done_within(2.0, lambda: vendor.request_of(asking))
    assert vendor.request_of(asking) is None


@every_vendor
def test_a_container_that_names_others_is_left_as_it_is(vendor: Vendor):
    plain = container({"cpu": "1"})
    assert vendor.request_of(plain) is None
    admitted = vendor.admit(plain, {})
    assert (admitted.container, admitted.is_asking, admitted.annotations) == (plain.values, False, {})


@every_vendor
@pytest.mark.parametrize("text", ["", "[", "[]", "{}", "null", "[1]", "a,b:", ":", "[" * 10_000, '[{"id": 3}]'])
def test_a_register_that_is_none_gives_no_cards(vendor: Vendor, text: str):
    with pytest.raises(InvalidObject):
        vendor.devices_of(node({vendor.register: text}))


@every_vendor
def test_a_node_without_cards(vendor: Vendor):
    with pytest.raises(InvalidObject):
        vendor.devices_of(node())


@pytest.mark.parametrize("vendor", [one for one in NAMED if not one.register], ids=lambda vendor: vendor.name)
def test_a_node_with_more_cards_than_there_are(vendor: Vendor):
    amounts = dict.fromkeys(vendor.resources.names, "1e18")
    with pytest.raises(InvalidObject, match="at most 1024"):
        vendor.devices_of(node(capacity=amounts))


@every_vendor
def test_what_a_pod_holds_comes_back(vendor: Vendor):
    shares = ((), (Share(uuid="a", vendor=vendor.name, memory_mib=5, cores=1),))
    notes = vendor.annotate(Fields({"spec": {"containers": [{}, {}]}}), shares, Assigned(node="n", now_s=3))
    read = vendor.shares_of(Fields({"metadata": {"annotations": dict(notes)}}))
    assert [[(one.uuid, one.memory_mib, one.cores) for one in some] for some in read] == [[], [("a", 5, 1)], []]
    assert vendor.annotate(Fields({}), (), Assigned()) == {}


@pytest.mark.parametrize(
    ("name", "cores", "want"),
    [
        ("NVIDIA", 30, "30 % of cores"),
        ("AMD", 30, "30 compute units"),
        ("AWSNeuron", 0b10, "core 1"),
        ("AWSNeuron", 0b11, "cores 0, 1"),
    ],
)
def test_people_are_told_of_cores_in_the_vendors_words(name: str, cores: int, want: str):
    assert vendors()[name].cores_text(cores) == want
