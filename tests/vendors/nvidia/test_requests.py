"""What containers ask of NVIDIA's cards."""

from __future__ import annotations

import pytest

from muster.model.device import DeviceRequest
from muster.model.fields import Fields
from muster.vendors.nvidia.requests import request_of, wishes_of
from muster.vendors.nvidia.settings import NvidiaSettings

GPU, MEM, PERCENT, CORES = (f"nvidia.com/{name}" for name in ("gpu", "gpumem", "gpumem-percentage", "gpucores"))


def asked(limits: dict[str, object], requests: dict[str, object] | None = None, **settings: object):
    container = {"resources": {"limits": limits, "requests": requests or {}}}
    return request_of(Fields(container), NvidiaSettings(**settings))


def want(**parts: object) -> DeviceRequest:
    return DeviceRequest(vendor="NVIDIA", **{"count": 1, **parts})


@pytest.mark.parametrize(
    ("limits", "settings", "request_"),
    [
        pytest.param({}, {}, None, id="nothing"),
        pytest.param({GPU: "0"}, {}, None, id="no card"),
        pytest.param({GPU: "-1"}, {}, None, id="less than no card"),
        pytest.param({GPU: "1"}, {}, want(memory_percent=100), id="a whole card"),
        pytest.param({GPU: "1"}, {"default_memory_mib": 512}, want(memory_mib=512), id="the default memory"),
        pytest.param({GPU: "1"}, {"default_cores": 30}, want(memory_percent=100, cores=30), id="the default cores"),
        pytest.param({GPU: "2", MEM: "4k"}, {}, want(count=2, memory_mib=4000), id="memory"),
        pytest.param({GPU: "1", MEM: "4"}, {"memory_factor": 256}, want(memory_mib=1024), id="memory in large units"),
        pytest.param({GPU: "1", MEM: "-4"}, {}, None, id="negative memory drops the request"),
        pytest.param({GPU: "1", MEM: "1500m"}, {}, None, id="a part of a MiB drops the request"),
        pytest.param({GPU: "1", MEM: "16Gi"}, {}, None, id="bytes instead of MiB drop the request"),
        pytest.param({GPU: "1", PERCENT: "50"}, {}, want(memory_percent=50), id="half a card"),
        pytest.param({GPU: "1", PERCENT: "150"}, {}, want(memory_percent=100), id="more than a card"),
        pytest.param({GPU: "1", PERCENT: "0"}, {}, want(memory_percent=100), id="nothing of a card is all of it"),
        pytest.param({GPU: "1", CORES: "-5"}, {}, want(memory_percent=100), id="negative cores are none"),
        pytest.param({GPU: "1", CORES: "1e30"}, {}, want(memory_percent=100, cores=2**31 - 1), id="absurd cores"),
    ],
)
def test_request(limits, settings, request_):
    assert asked(limits, **settings) == request_


def test_limits_go_before_requests():
    assert asked({GPU: "1", MEM: "10"}, {GPU: "3", MEM: "30", CORES: "7"}) == want(memory_mib=10, cores=7)


def test_wishes():
    wishes = wishes_of(
        {
            "nvidia.com/use-gputype": "A100, ",
            "nvidia.com/nouse-gpuuuid": " x ,y",
            "nvidia.com/numa-bind": "1",
            "nvidia.com/vgpu-mode": "mig",
        }
    )
    assert wishes.models == ("a100",)
    assert wishes.uuids_not == {"x", "y"}
    assert wishes.is_on_one_numa
    assert wishes.modes == "mig"
    assert wishes_of({"nvidia.com/numa-bind": "yes"}) == wishes_of({}), "Go does not read yes as true"
