"""TrainJob and its runtime: what is kept of that on the job, and the pods that the two of them ask for."""

from __future__ import annotations

from typing import Any

import pytest

from muster.jobs.trainjob import INTEGRATION
from muster.jobs.trainjob.runtime import KEPT, STEP_LABEL
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

POD = {"spec": {"containers": [{"name": "node", "image": "old"}, {"name": "other"}]}}


def runtime(*jobs: Any, **policy: Any) -> dict[str, Any]:
    return {"spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": list(jobs)}}}}


def part(name: str, step: str = "", **spec: Any) -> dict[str, Any]:
    metadata = {"labels": {STEP_LABEL: step}} if step else {}
    return {"name": name, "template": {"metadata": metadata, "spec": {"template": POD, **spec}}}


def job(found: Any, **spec: Any) -> Fields:
    given = {"metadata": {"name": "train", "namespace": "team"}, "spec": {"runtimeRef": {"name": "torch"}, **spec}}
    return Fields(INTEGRATION.settle(Fields(given), lambda *_: found))


@pytest.mark.parametrize(
    ("found", "spec", "want"),
    [
        pytest.param(runtime(part("node", "trainer"), numNodes=2), {}, [("node", 2)], id="as the runtime says"),
        pytest.param(
            runtime(part("node", "trainer"), numNodes=2),
            {"trainer": {"numNodes": 5}},
            [("node", 5)],
            id="as the job says",
        ),
        pytest.param(
            runtime(part("dataset-initializer", "dataset-initializer"), part("node", "trainer")),
            {},
            [("dataset-initializer", 1), ("node", 1)],
            id="with a part before it",
        ),
        pytest.param(
            runtime(part("launcher", "trainer"), part("node"), numNodes=4, mpi={"runLauncherAsNode": True}),
            {},
            [("launcher", 1), ("node", 3)],
            id="the launcher is one of the nodes",
        ),
    ],
)
def test_pods(found, spec, want):
    assert [(one.name, one.count) for one in INTEGRATION.pod_sets(job(found, **spec))] == want


def test_what_the_job_says_of_its_trainers_counts():
    amounts = {"requests": {"nvidia.com/gpu": 8}}
    trainer = {"image": "new", "resourcesPerNode": amounts}
    (pod_set,) = INTEGRATION.pod_sets(job(runtime(part("node", "trainer")), trainer=trainer))
    assert pod_set.template["spec"]["containers"] == [
        {"name": "node", "image": "new", "resources": amounts},
        {"name": "other"},
    ]


def test_its_own_overrides_stay():
    mine = {"targetJobs": [{"name": "node"}], "serviceAccountName": "a"}
    value = job(runtime(part("node", "trainer")), podSpecOverrides=[mine], suspend=True)
    assert INTEGRATION.restore(value, ()) == value.values, "none was added, so none is taken out"


@pytest.mark.parametrize(
    ("reference", "want"),
    [
        pytest.param(
            {"name": "gone"}, r"spec\.runtimeRef\.name: names the ClusterTrainingRuntime 'gone'", id="not there"
        ),
        pytest.param({"name": "a", "kind": "Odd"}, r"spec\.runtimeRef\.kind", id="no runtime"),
    ],
)
def test_a_runtime_that_is_not_there_is_refused(reference, want):
    given = Fields({"metadata": {"name": "train"}, "spec": {"runtimeRef": reference}})
    with pytest.raises(InvalidObject, match=want):
        INTEGRATION.settle(given, lambda *_: None)


@pytest.mark.parametrize("text", ["", "{", "[" * 100, "none"])
def test_what_was_kept_has_to_be_readable(text):
    annotations = {KEPT: text}
    given = {"metadata": {"name": "a", "annotations": annotations}, "spec": {"runtimeRef": {"name": "torch"}}}
    with pytest.raises(InvalidObject, match=r"muster\.dev/runtime"):
        INTEGRATION.pod_sets(Fields(given))


def test_what_was_kept_stays():
    before, after = job(runtime(part("node", "trainer"))), job(runtime())
    assert [one.path for one in INTEGRATION.changes(after, before)] == [f"metadata.annotations[{KEPT}]"]
    assert not list(INTEGRATION.changes(before, before))
