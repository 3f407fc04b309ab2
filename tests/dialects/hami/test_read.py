"""Nodes and pods by their annotations, and quota by its objects."""

from __future__ import annotations

import pytest

from muster.dialects.hami.quota import read_limits
from muster.dialects.hami.read import held_shares, node_cards
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.vendors.nvidia import VENDOR

TEXT = "a,NVIDIA,300,0:;a,NVIDIA,100,0:;"


def held(text: str, *, status: dict | None = None, node: str = "x", init: int = 1):
    pod = {
        "metadata": {"uid": "u", "annotations": {"hami.io/vgpu-devices-allocated": text, "hami.io/vgpu-node": "y"}},
        "spec": {"nodeName": node, "initContainers": [{}] * init, "containers": [{}]},
        "status": status or {},
    }
    return held_shares(Fields(pod), (VENDOR,))


def memory(text: str, **parts: object) -> int:
    return sum(share.memory_mib for share in held(text, **parts).shares["NVIDIA"])


def test_init_containers_hold_their_peak_until_they_are_through():
    through = {"initContainerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}
    failed = {"initContainerStatuses": [{"state": {"terminated": {"exitCode": 1}}}]}
    assert (memory(TEXT), memory(TEXT, status=through), memory(TEXT, status=failed)) == (300, 100, 300)


def test_entries_of_unknown_containers_all_count():
    assert memory(TEXT, init=2) == 400


def test_whose_node():
    assert held(TEXT).node == "x", "the node that the pod is bound to goes before what its annotation says"
    assert held(TEXT, node="").node == "y"


def test_who_holds_nothing():
    assert held(TEXT, status={"phase": "Succeeded"}) is None
    assert held("") is None


def test_forged_amounts_are_refused():
    with pytest.raises(InvalidObject):
        held("a,NVIDIA,-5,0:;")


def test_nodes():
    register = '[{"id":"a","count":1,"devmem":5,"devcore":100,"type":"NVIDIA","health":true}]'
    good = node_cards(Fields({"metadata": {"annotations": {"hami.io/node-nvidia-register": register}}}), (VENDOR,))
    assert [device.uuid for device in good.devices] == ["a"]
    bad = node_cards(Fields({"metadata": {"annotations": {"hami.io/node-nvidia-register": "["}}}), (VENDOR,))
    assert bad.devices == ()
    assert bad.problems


def test_limits_of_a_quota():
    hard = {"limits.nvidia.com/gpumem": "2k", "limits.cpu": "5", "limits.nvidia.com/gpucores": "0"}
    limits = read_limits(Fields({"spec": {"hard": hard}}), (VENDOR,))
    assert limits == {"nvidia.com/gpumem": 2000, "nvidia.com/gpucores": 0}
