"""Cards as Volcano's own device plugin registers and gives them out."""

from __future__ import annotations

import json

import pytest

from muster.app.plan import PlanOptions, plan_objects
from muster.engine.contracts import Assigned
from muster.model.device import Share
from muster.model.documents import Document
from muster.vendors.vgpu import VENDOR
from tests.app.test_groups import node as plain_node
from tests.app.test_groups import volcano_job
from tests.vendors.builders import container, node

REGISTER = "volcano.sh/node-vgpu-register"
CARD = {"id": "GPU-a", "index": 0, "count": 4, "devmem": 8192, "devcore": 100, "type": "NVIDIA-A10", "health": True}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("GPU-a,4,8192,NVIDIA-A10,true:", [("GPU-a", 0, 8192, 4, True)], id="five fields"),
        pytest.param(
            "GPU-a,4,8192,NVIDIA-A10,true,hami-core:GPU-b,4,8192,NVIDIA-A10,false,hami-core:",
            [("GPU-a", 0, 8192, 4, True), ("GPU-b", 1, 8192, 4, False)],
            id="six fields",
        ),
        pytest.param(json.dumps([CARD]), [("GPU-a", 0, 8192, 4, True)], id="JSON"),
    ],
)
def test_registers(text, want):
    found = VENDOR.devices_of(node({REGISTER: text}))
    assert [(one.uuid, one.index, one.memory_mib, one.slots, one.is_healthy) for one in found] == want
    assert all(one.model == "vGPU A10" and one.cores == 100 for one in found)


@pytest.mark.parametrize(
    ("limits", "want"),
    [
        pytest.param({"volcano.sh/vgpu-number": "2"}, (2, 0, 100, 0), id="whole cards"),
        pytest.param(
            {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "3000", "volcano.sh/vgpu-cores": "50"},
            (1, 3000, 0, 50),
            id="memory and cores",
        ),
        pytest.param(
            {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory-percentage": "25"}, (1, 0, 25, 0), id="a part"
        ),
    ],
)
def test_requests(limits, want):
    found = VENDOR.request_of(container(limits))
    assert found is not None
    assert (found.count, found.memory_mib, found.memory_percent, found.cores) == want


def test_what_is_written_is_volcanos():
    shares = ((Share(uuid="GPU-a", vendor="vGPU", index=0, memory_mib=3000, cores=50),),)
    written = VENDOR.annotate(container({}), shares, Assigned(node="n", now_s=7, devices=()))
    assert written["volcano.sh/vgpu-ids-new"] == written["volcano.sh/devices-to-allocate"]
    assert written["volcano.sh/vgpu-ids-new"].startswith("GPU-a,")
    assert (written["volcano.sh/vgpu-node"], written["volcano.sh/vgpu-time"]) == ("n", "7")


def test_a_group_shares_a_card():
    """Three of 3000 MiB each on two cards of 8192: two on one card, and nobody on HAMi's."""
    one = plain_node("n1", 0)
    one["metadata"]["annotations"] = {REGISTER: json.dumps([CARD, {**CARD, "id": "GPU-b", "index": 1}])}
    one["status"]["allocatable"] = {"cpu": "16", "pods": "110", "volcano.sh/vgpu-number": "8"}
    job = volcano_job("a", 5, 0)
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "3000"}
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]["limits"] = limits
    job["spec"]["minAvailable"] = 1
    [group] = plan_objects([Document(each, "x", 1) for each in (one, job)], PlanOptions(now=0.0)).groups
    cards = sorted(share.uuid for slot in group.slots.values() if slot.slices for share in slot.slices.shares)
    assert cards == ["GPU-a", "GPU-a", "GPU-b", "GPU-b"]
    assert group.waiting == 1
