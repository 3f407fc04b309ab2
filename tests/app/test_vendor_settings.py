"""HAMi's device configuration beside the objects: cards under other names, with other defaults and templates."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from muster.app.plan import Admitted, PlanOptions, PlanReport, plan_objects
from muster.app.plugins import discover, vendors
from muster.app.vendor_settings import KEY, known_vendors
from muster.engine.contracts import VendorSettings
from muster.model.documents import Document
from muster.model.fields import Fields


def config(value: object) -> Document:
    text = value if isinstance(value, str) else yaml.safe_dump(value)
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hami-scheduler-device"}, "data": {KEY: text}}
    return Document(made, "config.yaml", 1)


def planned(configuration: object, register: dict[str, object], limits: dict[str, str]) -> PlanReport:
    """A pod that asks for these limits, and a node that registers one card."""
    [(annotation, card)] = register.items()
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "annotations": {annotation: json.dumps([card])}},
        "status": {"allocatable": {"cpu": "8", "pods": "10", "acme.com/gpu": "4"}},
    }
    container = {"name": "c", "image": "x", "resources": {"limits": {"cpu": "1", **limits}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    documents = [config(configuration), Document(node, "n.yaml", 1), Document(pod, "p.yaml", 1)]
    return plan_objects(documents, PlanOptions(now=0.0))


def shares(report: PlanReport) -> list[tuple[int, int]]:
    """Memory and cores of all cards that were given."""
    slots = [slot for step in report.steps if isinstance(step, Admitted) for one in step.pod_sets for slot in one.slots]
    return [(one.memory_mib, one.cores) for slot in slots if slot.slices for one in slot.slices.shares]


CARD = {"id": "c0", "index": 0, "count": 4, "devmem": 32768, "devcore": 100, "type": "NVIDIA-A10", "health": True}
NVIDIA = "hami.io/node-nvidia-register"


def test_names_and_defaults_of_nvidia():
    section = {"resourceCountName": "acme.com/gpu", "resourceMemoryName": "acme.com/mem", "memoryFactor": 10}
    report = planned({"nvidia": section}, {NVIDIA: CARD}, {"acme.com/gpu": "1", "acme.com/mem": "300"})
    assert not report.refused
    assert shares(report) == [(3000, 0)]
    default = planned(
        {"nvidia": {**section, "defaultMemory": 500}},
        {NVIDIA: CARD},
        {"acme.com/gpu": "1", "nvidia.com/gpucores": "20"},
    )
    assert shares(default) == [(500, 20)]


def test_templates_of_ascend():
    chip = {
        "chipName": "910Z",
        "commonWord": "Ascend910Z",
        "resourceName": "huawei.com/Ascend910Z",
        "resourceMemoryName": "huawei.com/Ascend910Z-memory",
        "memoryAllocatable": 32768,
        "memoryCapacity": 32768,
        "aiCore": 20,
        "templates": [{"name": "third", "memory": 10000, "aiCore": 6}],
    }
    card = {**CARD, "type": "Ascend910Z"}
    limits = {"huawei.com/Ascend910Z": "1", "huawei.com/Ascend910Z-memory": "7000"}
    report = planned({"vnpus": [chip]}, {"hami.io/node-register-Ascend910Z": card}, limits)
    assert not report.refused
    assert [memory for memory, _ in shares(report)] == [10000]


SECTIONS: dict[str, dict[str, str]] = {
    "cambricon": {"resourceCountName": "x.com/a", "resourceMemoryName": "x.com/b", "resourceCoreName": "x.com/c"},
    "hygon": {"resourceCountName": "x.com/a", "resourceMemoryName": "x.com/b", "resourceCoreName": "x.com/c"},
    "mthreads": {"resourceCountName": "x.com/a", "resourceMemoryName": "x.com/b", "resourceCoreName": "x.com/c"},
    "amd": {"resourceCountName": "x.com/a", "resourceMemoryName": "x.com/b", "resourceCoreName": "x.com/c"},
    "awsneuron": {"resourceCountName": "x.com/a", "resourceCoreName": "x.com/c"},
    "vastai": {"resourceCountName": "x.com/a"},
    "biren": {"resourceCountName": "x.com/a"},
    "metax": {
        "resourceCountName": "x.com/w",
        "resourceVCountName": "x.com/a",
        "resourceVMemoryName": "x.com/b",
        "resourceVCoreName": "x.com/c",
    },
    "kunlun": {"resourceCountName": "x.com/w", "resourceVCountName": "x.com/a", "resourceVMemoryName": "x.com/b"},
    "enflame": {
        "resourceNameGCU": "x.com/w",
        "resourceNameDRSGCU": "x.com/a",
        "resourceNameMemory": "x.com/b",
        "resourceNameCore": "x.com/c",
    },
}


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_every_vendor_goes_by_other_names(name):
    found = known_vendors([config({name: SECTIONS[name]})])
    assert not found.refused
    named = {one for vendor in found.vendors for one in vendor.resources.names if one.startswith("x.com/")}
    assert named == set(SECTIONS[name].values())
    assert len(found.vendors) == len(vendors())


def test_chips_that_are_listed_are_all_there_are():
    listed = [{"chipName": "MR-V100", "resourceCountName": "x.com/a"}]
    found = known_vendors([config({"iluvatars": listed})])
    assert [one.name for one in found.vendors if "-V" in one.name] == ["MR-V100"]


def test_nothing_said_is_as_without_a_configuration():
    known = {one.name: one.resources for one in known_vendors([config({})]).vendors}
    assert known == {name: one.resources for name, one in vendors().items()}
    for section in discover("vendors", "SETTINGS", VendorSettings).values():
        assert section.read(Fields({}))


@pytest.mark.parametrize(
    ("given", "path", "problem"),
    [
        pytest.param("nvidia: [", KEY, "", id="no YAML"),
        pytest.param({"nvidia": 5}, "nvidia", "is 5", id="no object"),
        pytest.param({"hygon": {"resourceCountName": ""}}, "hygon.resourceCountName", "is empty", id="an empty name"),
        pytest.param({"hygon": {"resourceCountName": 7}}, "hygon.resourceCountName", "is 7", id="no name"),
        pytest.param({"hygon": {"memoryFactor": -1}}, "hygon.memoryFactor", "is -1", id="a factor below nothing"),
        pytest.param({"hygon": {"resourceCountName": "amd.com/gpu"}}, "DCU", "which is", id="another's name"),
        pytest.param({"vnpus": {"a": 1}}, "vnpus", "is ", id="chips that are no list"),
        pytest.param(
            {"vnpus": [{"commonWord": "X"}]}, "vnpus[0].memoryAllocatable", "is missing", id="a chip without memory"
        ),
        pytest.param({"iluvatars": [{}]}, "iluvatars[0].commonWord", "is missing", id="a chip without a name"),
        pytest.param({"acme": {}}, "acme", "is no section", id="a section that nobody knows"),
    ],
)
def test_mistakes_are_told_and_the_defaults_hold(given: Any, path: str, problem: str):
    found = known_vendors([config(given)])
    assert any(path in one.path and problem in one.problem for one in found.refused), found.refused
    assert len(found.vendors) == len(vendors())
