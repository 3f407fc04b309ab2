"""NVIDIA's record: registers, settings and oversubscription."""

from __future__ import annotations

import pytest

from muster.engine.contracts import Assigned
from muster.model.device import Device, Share
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.vendors.nvidia import ALLOCATED, VENDOR
from muster.vendors.nvidia.settings import NvidiaSettings, read_settings, registered

REGISTER = '[{"id":"a","count":10,"devmem":8192,"devcore":100,"type":"NVIDIA-A100","health":true}]'


def node(**annotations: str) -> Fields:
    names = {"register": "hami.io/node-nvidia-register", "score": "hami.io/node-nvidia-score"}
    known = {names.get(key, f"hami.io/device-{key}"): value for key, value in annotations.items()}
    return Fields({"metadata": {"annotations": known}})


def test_devices_of_a_node():
    (device,) = VENDOR.devices_of(node(register=REGISTER, score='[{"uuid":"a","score":{"b":50}}]', cordon="x, a"))
    assert (device.vendor, device.memory_mib, device.is_cordoned) == ("NVIDIA", 8192, True)
    assert device.pair_scores == {"b": 50}


def test_a_node_that_registers_nothing():
    with pytest.raises(InvalidObject, match="node-nvidia-register"):
        VENDOR.devices_of(node())


def test_annotations_go_both_ways():
    shares = ((Share(uuid="a", vendor="NVIDIA", memory_mib=5, cores=1),), ())
    annotations = VENDOR.annotate(Fields({}), shares, Assigned())
    assert annotations[ALLOCATED] == "a,NVIDIA,5,1:;;"
    assert VENDOR.shares_of(Fields({"metadata": {"annotations": annotations}})) == (*shares, ())
    assert VENDOR.annotate(Fields({}), (), Assigned()) == {}


def test_oversubscription():
    settings = NvidiaSettings(memory_scaling=1.5, core_scaling=2.0, split_count=4)
    card = registered(Device(uuid="a", memory_mib=1001), settings)
    assert (card.memory_mib, card.cores, card.slots) == (1501, 200, 4)
    partitioned = registered(Device(uuid="a", memory_mib=1001, mode="mig"), settings)
    assert (partitioned.memory_mib, partitioned.cores) == (1001, 100)


def test_settings():
    assert read_settings(Fields({})) == NvidiaSettings()
    assert read_settings(Fields({"defaultGPUNum": 0, "deviceMemoryScaling": 1.5})).memory_scaling == 1.5
    with pytest.raises(InvalidObject, match="deviceMemoryScaling"):
        read_settings(Fields({"deviceMemoryScaling": -1}))
