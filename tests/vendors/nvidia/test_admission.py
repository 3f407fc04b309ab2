"""What becomes of containers that ask for NVIDIA's cards."""

from __future__ import annotations

import pytest

from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.vendors.nvidia.admission import admit
from muster.vendors.nvidia.settings import NvidiaSettings

GPU, MEM, PERCENT, CORES = (f"nvidia.com/{name}" for name in ("gpu", "gpumem", "gpumem-percentage", "gpucores"))


def limits_of(limits: dict[str, str], **settings: object) -> dict[str, str]:
    container = Fields({"name": "c", "resources": {"limits": limits}})
    return admit(container, {}, NvidiaSettings(**settings)).container["resources"]["limits"]


@pytest.mark.parametrize(
    ("limits", "settings", "want"),
    [
        pytest.param({GPU: "1"}, {}, {GPU: "1", CORES: "100"}, id="a whole card is for itself"),
        pytest.param({GPU: "1", PERCENT: "100"}, {}, {GPU: "1", PERCENT: "100", CORES: "100"}, id="all memory, too"),
        pytest.param({GPU: "1", PERCENT: "99"}, {}, {GPU: "1", PERCENT: "99"}, id="not all memory"),
        pytest.param({GPU: "1", MEM: "5"}, {}, {GPU: "1", MEM: "5"}, id="some memory"),
        pytest.param({GPU: "1", CORES: "7"}, {}, {GPU: "1", CORES: "7"}, id="cores as asked"),
        pytest.param({MEM: "5"}, {}, {GPU: "1", MEM: "5"}, id="a part of a card is of one card"),
        pytest.param({MEM: "5"}, {"default_count": 0}, {MEM: "5"}, id="no default count"),
        pytest.param({"cpu": "1"}, {}, {"cpu": "1"}, id="no card"),
    ],
)
def test_limits(limits, settings, want):
    assert limits_of(limits, **settings) == want


def test_environment():
    settings = NvidiaSettings(hides_cards=True, core_policy="force", runtime_class="nvidia")
    env = [{"name": "X", "value": "1"}]
    asking = admit(Fields({"env": env, "resources": {"limits": {GPU: "1", "nvidia.com/priority": "1"}}}), {}, settings)
    assert [one["name"] for one in asking.container["env"]] == [
        "X",
        "CUDA_TASK_PRIORITY",
        "GPU_CORE_UTILIZATION_POLICY",
    ]
    assert asking.runtime_class == "nvidia"
    other = admit(Fields({}), {}, settings)
    assert other.container["env"][-1] == {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}
    assert (other.is_asking, other.runtime_class) == (False, "")
    assert env == [{"name": "X", "value": "1"}], "the container given is not changed"


@pytest.mark.parametrize("percent", ["101", "-1", "1500m", "1e99"])
def test_percentages_that_are_refused(percent):
    with pytest.raises(InvalidObject, match="gpumem-percentage"):
        limits_of({GPU: "1", PERCENT: percent})
