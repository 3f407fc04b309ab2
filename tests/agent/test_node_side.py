"""What a node says of its cards, how HAMi's ConfigMaps are read, and who uses more than it was given."""

from __future__ import annotations

import pytest

from muster.agent.cards import FoundCard
from muster.agent.figures import figures_text
from muster.agent.plugin.grants import Grant, Whose
from muster.agent.registering import HANDSHAKE, changed, label_text, node_annotations, node_labels
from muster.agent.settings import NodeSettings, read_node_settings
from muster.agent.watching import Line, Overuse, Use, compared, pod_of
from muster.dialects.hami.node_lock import AGENT
from muster.model.device import Share
from muster.model.documents import parse_value
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.vendors.nvidia import REGISTER, devices_of
from tests.support import shared

CARDS = tuple(
    FoundCard(
        uuid=f"GPU-{n}", index=n, vendor="NVIDIA", model="NVIDIA-H200", memory_mib=100, links={f"GPU-{1 - n}": 100}
    )
    for n in range(2)
)


# Settings ------------------------------------------------------------------------------------------------------------


def test_hami_s_own_config_map_is_read_as_it_is():
    text = shared("manifests/scenario-hami-config.yaml").read_text()
    settings = read_node_settings(parse_value(text, "x"), "n")
    assert (settings.resource, settings.split_count, settings.mode) == ("nvidia.com/gpu", 10, "hami-core")


def test_what_is_said_of_one_node_wins():
    data = {
        "device-config.yaml": "nvidia: {deviceSplitCount: 4, deviceMemoryScaling: 1.5, resourceCountName: a.b/gpu}",
        "config.json": '{"nodeconfig": [{"name": "other", "devicesplitcount": 9}, {"name": "n", "devicesplitcount": 2,'
        ' "devicecorescaling": 2, "operatingmode": "mps", "filterdevices": {"uuid": ["GPU-9"], "index": [1]}}]}',
    }
    settings = read_node_settings({"data": data}, "n")
    assert (settings.resource, settings.split_count, settings.mode) == ("a.b/gpu", 2, "mps")
    [only] = settings.given_out(CARDS)
    assert (only.uuid, only.memory_mib, only.cores, only.slots) == ("GPU-0", 150, 200, 2)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"config.json": "["}, "config.json"),
        ({"config.json": '{"nodeconfig": [{"name": "n", "devicesplitcount": 0}]}'}, "devicesplitcount"),
        ({"config.json": '{"nodeconfig": [{"name": "n", "devicememoryscaling": -1}]}'}, "devicememoryscaling"),
        ({"config.json": '{"nodeconfig": [{"name": "n", "operatingmode": "magic"}]}'}, "operatingmode"),
        ({"config.json": '{"nodeconfig": [{"name": "n", "filterdevices": {"index": ["x"]}}]}'}, "index"),
        ({"config.yaml": "deviceSplitCount: 100000"}, "deviceSplitCount"),
    ],
)
def test_mistakes_in_config_maps_are_named(data, problem):
    with pytest.raises(InvalidObject, match=problem):
        read_node_settings({"data": data}, "n")


# The node ------------------------------------------------------------------------------------------------------------


def test_what_a_node_registers_is_what_schedulers_read():
    devices = NodeSettings().given_out(CARDS)
    annotations = node_annotations(devices, mode="cdi", now_s=0)
    read = devices_of(Fields.of({"metadata": {"annotations": annotations}}))
    assert [(one.uuid, one.memory_mib, one.slots, dict(one.pair_scores)) for one in read] == [
        ("GPU-0", 100, 10, {"GPU-1": 100}),
        ("GPU-1", 100, 10, {"GPU-0": 100}),
    ]
    assert annotations[HANDSHAKE].startswith("Reported_1970") and annotations[AGENT] == "cdi"


def test_labels_that_flavors_select_on():
    labels = node_labels(NodeSettings().given_out(CARDS))
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H200-SHARED"
    assert (labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.memory"]) == ("2", "100")
    assert set(node_labels(()).values()) == {None} and node_labels(()).keys() == labels.keys()
    assert node_labels(NodeSettings(split_count=1).given_out(CARDS))["nvidia.com/gpu.product"] == "NVIDIA-H200"
    assert label_text("Tesla (T4) / 16 GB!") == "Tesla--T4----16-GB"


def test_only_what_differs_is_written():
    assert changed({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": None}) == {"b": "3"}
    assert changed({"c": "x"}, {"c": None}) == {"c": None}
    annotations = node_annotations((), mode="env", now_s=0)
    assert annotations[REGISTER] == "[]"


# Use -----------------------------------------------------------------------------------------------------------------

UID = "0f5c1f5e-1b2c-4d3e-8f90-a1b2c3d4e5f6"
GRANT = Grant(whose=Whose(UID, "c"), pod="ns/p", shares=(Share(uuid="GPU-0", memory_mib=1_000, cores=30),))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-x.scope", UID),
        (f"4:memory:/kubepods/besteffort/pod{UID}/abc", UID),
        ("0::/user.slice", ""),
        ("0::/podnobody", ""),
        ("pod" * 1_000_000, ""),
    ],
)
def test_whose_a_process_is(text, want):
    assert pod_of(text) == want


def test_use_beside_what_was_given():
    uses = [Use("GPU-0", 1, 600), Use("GPU-0", 2, 600), Use("GPU-1", 1, 50), Use("GPU-0", 9, 5_000)]
    lines = compared(uses, {1: UID, 2: UID, 9: ""}, [GRANT])
    assert lines == [Line("ns/p", UID, "GPU-0", 1_200, 1_000), Line("ns/p", UID, "GPU-1", 50, 0)]
    # A card that nobody gave it is used by somebody who came around the limits.
    assert [line.is_over for line in lines] == [True, True]
    assert not Line("ns/p", UID, "GPU-0", 1_100, 1_000).is_over


def test_only_who_stays_over_for_ten_seconds_is_told_of():
    over, fine = Line("ns/p", UID, "GPU-0", 1_200, 1_000), Line("ns/p", UID, "GPU-0", 1_000, 1_000)
    watch = Overuse()
    assert watch.lasting([over], 0) == []
    assert watch.lasting([over], 9) == []
    assert watch.lasting([over], 10) == [over]
    assert watch.lasting([fine], 11) == []
    assert watch.lasting([over], 20) == []


def test_figures_under_both_names():
    text = figures_text("n", CARDS, [Line('ns/p"', UID, "GPU-0", 5, 10)], 3)
    assert (
        'hami_vgpu_memory_used_bytes{nodeid="n",podnamespace="ns",podname="p\\"",deviceuuid="GPU-0"} 5242880\n' in text
    )
    assert 'muster_share_violations_total{nodeid="n"} 3\n' in text
    assert 'muster_card_healthy{nodeid="n",deviceuuid="GPU-1"} 1\n' in text
