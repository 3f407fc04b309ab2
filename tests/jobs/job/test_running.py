"""A Job that is held back, started and stopped: what changes of it, and that all of it goes back."""

from __future__ import annotations

from typing import Any

import pytest

from muster.engine.contracts import JobPodSet, PodSetStart
from muster.engine.job_forms import STOPPING
from muster.jobs.job import INTEGRATION
from muster.jobs.job.counts import COMPLETIONS_EQUAL_PARALLELISM, MIN_PARALLELISM
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

TOLERATION = {"key": "spot", "operator": "Exists"}
START = PodSetStart(
    name="main",
    count=2,
    node_labels={"instance": "spot"},
    tolerations=(TOLERATION,),
    labels={"kueue.x-k8s.io/podset": "main"},
    annotations={"kueue.x-k8s.io/workload": "job-train-1"},
    gates=("kueue.x-k8s.io/topology",),
)


def job(annotations: dict[str, str] | None = None, status: Any = None, pod: Any = None, **spec: Any) -> Fields:
    template = {
        "metadata": {"labels": {"app": "train", "controller-uid": "u1"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main"}], **(pod or {})},
    }
    metadata = {"name": "train", **({"annotations": annotations} if annotations else {})}
    given = {"metadata": metadata, "spec": {"parallelism": 4, "suspend": True, "template": template, **spec}}
    return Fields({**given, "status": status or {}})


def originals(value: Fields) -> tuple[JobPodSet, ...]:
    return INTEGRATION.pod_sets(value)


def test_a_start_adds_what_was_assigned():
    begun = INTEGRATION.start(job(pod={"nodeSelector": {"zone": "a"}}), (START,))
    assert (begun["spec"]["suspend"], begun["spec"]["parallelism"]) == (False, 4), "without the annotation all start"
    template = begun["spec"]["template"]
    assert template["spec"]["nodeSelector"] == {"zone": "a", "instance": "spot"}
    assert template["spec"]["tolerations"] == [TOLERATION]
    assert template["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/topology"}]
    assert template["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "main"
    assert template["metadata"]["annotations"] == {"kueue.x-k8s.io/workload": "job-train-1"}


def test_a_second_start_changes_nothing():
    begun = INTEGRATION.start(job(), (START,))
    assert INTEGRATION.start(Fields(begun), (START,)) == begun


@pytest.mark.parametrize(
    ("annotations", "spec", "want"),
    [
        pytest.param({MIN_PARALLELISM: "1"}, {}, (2, None), id="as many as were admitted"),
        pytest.param(
            {MIN_PARALLELISM: "1", COMPLETIONS_EQUAL_PARALLELISM: "true"},
            {"completions": 4, "completionMode": "Indexed"},
            (2, 2),
            id="and as many complete",
        ),
    ],
)
def test_a_start_with_fewer_pods_is_undone_by_a_stop(annotations, spec, want):
    value = job(annotations, **spec)
    begun = INTEGRATION.start(value, (START,))
    assert (begun["spec"]["parallelism"], begun["spec"].get("completions")) == want
    assert INTEGRATION.restore(Fields({**begun, "spec": {**begun["spec"], "suspend": True}}), originals(value)) == (
        value.values
    )


def test_a_stopped_job_is_what_it_was():
    value = job(pod={"nodeSelector": {"zone": "a"}})
    running = Fields(INTEGRATION.start(value, (START,)))
    stopping = Fields(INTEGRATION.suspend(running))
    assert stopping.values["metadata"]["annotations"] == {STOPPING: "true"}
    assert not INTEGRATION.is_suspended(stopping), "it still has its places"
    assert INTEGRATION.suspend(stopping) == stopping.values
    restored = Fields(INTEGRATION.restore(stopping, originals(value)))
    assert restored.values == value.values
    assert INTEGRATION.is_suspended(restored)
    assert INTEGRATION.restore(restored, originals(value)) == restored.values


def test_what_is_not_known_is_left_as_it_is():
    running = Fields(INTEGRATION.suspend(Fields(INTEGRATION.start(job(), (START,)))))
    restored = INTEGRATION.restore(running, ())
    assert restored["spec"]["template"] == running.values["spec"]["template"]
    assert "annotations" not in restored["metadata"]


def test_contradictions_are_named():
    with pytest.raises(InvalidObject, match=r"spec.template.spec.nodeSelector\[instance\]: is 'large'"):
        INTEGRATION.start(job(pod={"nodeSelector": {"instance": "large"}}), (START,))


def test_the_time_of_the_start_goes_before_the_template_changes():
    status = {"startTime": "2026-01-01T00:00:00Z", "failed": 1}
    assert INTEGRATION.reset(job(status=status))["status"] == {"failed": 1}
    assert INTEGRATION.reset(job(status={"failed": 1}))["status"] == {"failed": 1}


@pytest.mark.parametrize(
    ("spec", "status", "want"),
    [
        pytest.param({}, {"ready": 3}, False, id="one is missing"),
        pytest.param({}, {"ready": 3, "succeeded": 1}, True, id="one is done"),
        pytest.param({"completions": 2}, {"ready": 2}, True, id="no more have to complete"),
    ],
)
def test_ready(spec, status, want):
    assert INTEGRATION.is_ready(job(status=status, **spec)) is want


@pytest.mark.parametrize(
    ("spec", "succeeded", "want"),
    [
        pytest.param({"completions": 4}, 0, {}, id="none is done"),
        pytest.param({"completions": 4}, 3, {"main": 3}, id="one is left"),
        pytest.param({"completions": 9}, 3, {}, id="all are needed again"),
        pytest.param({"completions": 9}, 6, {"main": 1}, id="three are left for four"),
        pytest.param({}, 1, {"main": 1}, id="without completions each is its own"),
        pytest.param({"parallelism": 1, "completions": 2}, 1, {}, id="a single one"),
        pytest.param({"completions": 4}, 9, {"main": 4}, id="never more than there are"),
    ],
)
def test_reclaimable(spec, succeeded, want):
    assert INTEGRATION.reclaimable(job(status={"succeeded": succeeded}, **spec)) == want


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param({"suspend": True}, {"suspend": True, "parallelism": 9}, 0, id="while it waits"),
        pytest.param({"suspend": False}, {"suspend": False, "parallelism": 9}, 1, id="while it runs"),
        pytest.param({"suspend": True}, {"suspend": False, "parallelism": 2}, 0, id="as it starts"),
    ],
)
def test_the_number_of_pods_stays_where_it_was_decided(before, after, want):
    annotations = {MIN_PARALLELISM: "1"}
    assert len(list(INTEGRATION.changes(job(annotations, **after), job(annotations, **before)))) == want
