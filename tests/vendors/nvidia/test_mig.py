"""MIG partitions: which profile, which place, and the annotation."""

from __future__ import annotations

import pytest

from muster.engine.devices import CardReason, CardRules, choose_cards
from muster.model.device import Card, Device, DeviceRequest, Partition, PartitionProfile, Placement, Share
from muster.model.errors import InvalidObject
from muster.vendors.nvidia.mig import (
    fits_partition,
    partition_for,
    partitions_text,
    read_partitions,
    records_of,
    settle,
    with_partitions,
)


def profile(name: str, memory: int, size: int, starts: range) -> PartitionProfile:
    places = tuple(Placement(start, size) for start in starts)
    return PartitionProfile(name=name, memory_mib=memory, cores=14 * size, slices=size, placements=places)


PROFILES = (
    profile("3g.20gb", 20480, 4, range(0, 8, 4)),
    profile("1g.5gb", 5120, 1, range(7)),
    profile("2g.10gb", 10240, 2, range(0, 6, 2)),
)
CARD = Card(Device(uuid="a", vendor="NVIDIA", memory_mib=40960, slots=7, mode="mig", profiles=PROFILES))


@pytest.mark.parametrize(
    ("memory", "occupied", "want"),
    [
        pytest.param(4000, [], ("1g.5gb", Placement(6, 1)), id="the smallest, from the top"),
        pytest.param(6000, [], ("2g.10gb", Placement(0, 2)), id="two slices from the bottom"),
        pytest.param(6000, [(0, 2), (2, 2), (4, 2)], None, id="no room for any with enough memory"),
        pytest.param(6000, [(0, 1), (2, 1), (4, 1)], None, id="single slices in the way"),
        pytest.param(6000, [(0, 2), (2, 1)], ("2g.10gb", Placement(4, 2)), id="the next free place"),
        pytest.param(11000, [(0, 1)], ("3g.20gb", Placement(4, 4)), id="three slices from the top"),
        pytest.param(30000, [], None, id="more than any profile"),
    ],
)
def test_partition_for(memory, occupied, want):
    got = partition_for(memory, PROFILES, [Placement(*one) for one in occupied])
    assert (got and (got[0].name, got[1])) == want


def test_one_card_serves_several_partitions():
    request = DeviceRequest(vendor="NVIDIA", count=7, memory_mib=4000)
    choice = choose_cards((CARD,), request, CardRules(vendor_rule=fits_partition))
    assert choice.fits
    card, places = CARD, []
    for share in choice.shares:
        settled = settle(card, share)
        assert (settled.memory_mib, settled.cores) == (5120, 14), "the partition is what is charged"
        card = card.plus(settled)
        places += settled.partitions
    assert sorted(place.placement.start for place in places) == list(range(7))


def test_a_full_card_refuses():
    request = DeviceRequest(vendor="NVIDIA", count=3, memory_mib=15000)
    choice = choose_cards((CARD,), request, CardRules(vendor_rule=fits_partition))
    assert choice.counts == {CardReason.PARTITION: 1, CardReason.TOO_FEW: 2}


def test_the_annotation_goes_both_ways():
    partition = Partition("1g.5gb", Placement(6, 1))
    plain = ((), (Share(uuid="a"), Share(uuid="b")))
    full = ((), (Share(uuid="a", partitions=(partition,)), Share(uuid="b")))
    text = partitions_text(records_of(full))
    assert with_partitions(plain, read_partitions(text)) == full


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="no JSON"),
        pytest.param('[{"migUUID":"x"}]', id="half made"),
        pytest.param('[{"gpuInstanceID":0,"computeInstanceID":0}]', id="made without a name"),
        pytest.param('[{"gpuUUID":"a"},{"gpuUUID":"b"}]', id="two for one share"),
        pytest.param('[{"containerIndex":-1}]', id="a container before the first"),
    ],
)
def test_annotations_that_are_refused(text):
    with pytest.raises(InvalidObject):
        read_partitions(text)
