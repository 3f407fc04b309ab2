"""Discovery: every module of a folder takes part, and what cannot be used stops the start."""

from __future__ import annotations

import importlib.metadata
import sys
from types import ModuleType

import pytest

import muster
from muster.app.plugins import PluginError, discover, integrations, job_kinds, vendors
from muster.dialects.kueue.configuration_frameworks import FRAMEWORKS
from muster.engine.contracts import Integration
from muster.jobs import job, pod


def test_the_job_kinds_of_the_package_are_found():
    found = integrations()
    assert (found["batch/job"], found["pod"]) == (job.INTEGRATION, pod.INTEGRATION)
    assert set(job_kinds()) - set(found) == {
        "batch.volcano.sh/job",
        "batch/cronjob",
        "deployment",
        "leaderworkerset.x-k8s.io/leaderworkerset",
        "replicaset",
        "statefulset",
    }, "what these make waits in their stead"
    assert set(FRAMEWORKS) <= set(job_kinds()), "whatever Kueue's configuration can name"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A plugin folder of the package, made for one test; returns how to write a module into it."""
    package = ModuleType("muster.trial")
    package.__path__ = [str(tmp_path)]
    monkeypatch.setitem(sys.modules, "muster.trial", package)
    monkeypatch.setattr(muster, "trial", package, raising=False)

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, f"muster.trial.{name}", raising=False)

    yield write
    for name in [name for name in sys.modules if name.startswith("muster.trial.")]:
        del sys.modules[name]


def test_a_module_without_the_constant_stops_the_start(folder):
    folder("empty", "")
    with pytest.raises(PluginError, match="empty does not define INTEGRATION as Integration"):
        discover("trial", "INTEGRATION", Integration)


def test_a_name_given_twice_stops_the_start(folder):
    for name in ("one", "two"):
        folder(name, "from muster.jobs.job import INTEGRATION")
    with pytest.raises(PluginError, match=r"two is a second plugin by the name batch/job"):
        discover("trial", "INTEGRATION", Integration)


class Point:
    """An entry point of an installed package."""

    value = "elsewhere.jobs"

    def __init__(self, record: object) -> None:
        self.record = record

    def load(self) -> object:
        return self.record


@pytest.mark.parametrize(
    ("points", "complaint"),
    [
        pytest.param([], "no installed package has an entry point extra in the group muster.trial", id="unknown"),
        pytest.param([Point(1), Point(2)], "several installed packages have", id="several"),
        pytest.param([Point("text")], "elsewhere.jobs does not define INTEGRATION", id="of the wrong kind"),
    ],
)
def test_a_plugin_of_another_package_that_cannot_be_used(folder, monkeypatch, points, complaint):
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: points)
    with pytest.raises(PluginError, match=complaint):
        discover("trial", "INTEGRATION", Integration, ["extra"])


def test_a_plugin_of_another_package_takes_part_only_when_it_is_named(folder, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [Point(job.INTEGRATION)])
    assert discover("trial", "INTEGRATION", Integration) == {}
    assert list(discover("trial", "INTEGRATION", Integration, ["extra"])) == ["batch/job"]


def test_a_module_may_hold_several(folder):
    folder("both", "from muster.jobs import job, pod\nINTEGRATIONS = (job.INTEGRATION, pod.INTEGRATION)")
    assert list(discover("trial", "INTEGRATION", Integration)) == ["batch/job", "pod"]
    folder("mixed", "INTEGRATIONS = (1,)")
    with pytest.raises(PluginError, match="mixed does not define INTEGRATION as Integration"):
        discover("trial", "INTEGRATION", Integration)


def test_vendors_are_found():
    found = vendors()
    assert {"NVIDIA", "AMD", "Ascend910B3", "Ascend310P", "DCU", "MLU", "MR-V100", "Mthreads", "Metax-SGPU"} <= set(
        found
    )
    assert {"kunlun", "XPU", "GCU", "Enflame", "Biren", "Vastai", "AWSNeuron"} <= set(found)
    assert [name for name, vendor in found.items() if vendor.is_counted] == ["NVIDIA"]
