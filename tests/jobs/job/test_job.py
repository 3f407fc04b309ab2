"""Kubernetes' Job: how many pods run at once, how few it can start with, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from muster.engine.contracts import Ending
from muster.jobs.job import INTEGRATION
from muster.jobs.job.counts import COMPLETIONS_EQUAL_PARALLELISM, MIN_PARALLELISM
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields


def job(annotations: dict[str, str] | None = None, status: Any = None, **spec: Any) -> Fields:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/train:1"}]}}
    return Fields(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train", "annotations": annotations},
            "spec": {"template": template, **spec},
            "status": status,
        }
    )


def problems(value: Fields) -> list[str]:
    with pytest.raises(InvalidObject) as caught:
        INTEGRATION.pod_sets(value)
    assert isinstance(caught.value, InvalidObjects)
    assert all(one.hint for one in caught.value.problems)
    return [one.path for one in caught.value.problems]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, 1, id="one unless it says more"),
        pytest.param({"parallelism": 3}, 3, id="as many as run at once"),
        pytest.param({"parallelism": 3, "completions": 10}, 3, id="not as many as have to complete"),
        pytest.param({"parallelism": 4, "completions": 1}, 1, id="never more than have to complete"),
        pytest.param({"parallelism": 0}, 0, id="none"),
        pytest.param({"parallelism": None, "completions": None}, 1, id="null is absent"),
    ],
)
def test_pod_count(spec, want):
    (pod_set,) = INTEGRATION.pod_sets(job(**spec))
    assert pod_set.count == want
    assert pod_set.count_least is None


def test_the_annotation_lets_it_start_smaller():
    (pod_set,) = INTEGRATION.pod_sets(job({MIN_PARALLELISM: "2"}, parallelism=5))
    assert (pod_set.count, pod_set.count_least) == (5, 2)


def test_the_template_comes_without_what_the_controller_adds():
    labels = {"app": "train", "job-name": "train", "batch.kubernetes.io/controller-uid": "u1"}
    template = {"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]}}
    value = job(template=template)
    (pod_set,) = INTEGRATION.pod_sets(value)
    assert pod_set.template["metadata"]["labels"] == {"app": "train"}
    assert pod_set.template_path == "spec.template"
    assert "job-name" in template["metadata"]["labels"], "the job itself is left alone"


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(job(parallelism=-1), ["spec.parallelism"], id="below zero"),
        pytest.param(job(parallelism="3"), ["spec.parallelism"], id="text for a number"),
        pytest.param(job(completionMode="Sorted"), ["spec.completionMode"], id="unknown mode"),
        pytest.param(job(completionMode="Indexed"), ["spec.completions"], id="indexed without completions"),
        pytest.param(
            job(template={}),
            ["spec.template.spec.restartPolicy", "spec.template.spec.containers"],
            id="an empty template",
        ),
        pytest.param(job(template=3), ["spec.template"], id="no template"),
        pytest.param(
            job({MIN_PARALLELISM: "3"}, parallelism=3),
            [f"metadata.annotations[{MIN_PARALLELISM}]"],
            id="least is not below count",
        ),
        pytest.param(
            job({MIN_PARALLELISM: "٣"}, parallelism=9),
            [f"metadata.annotations[{MIN_PARALLELISM}]"],
            id="least in other digits",
        ),
        pytest.param(
            job({COMPLETIONS_EQUAL_PARALLELISM: "yes"}),
            [f"metadata.annotations[{COMPLETIONS_EQUAL_PARALLELISM}]"],
            id="no truth value",
        ),
        pytest.param(
            job({COMPLETIONS_EQUAL_PARALLELISM: "true"}, parallelism=2, completions=3, completionMode="Indexed"),
            [f"metadata.annotations[{COMPLETIONS_EQUAL_PARALLELISM}]"],
            id="not equal",
        ),
    ],
)
def test_mistakes(value, want):
    assert problems(value) == want


def test_completions_may_follow_parallelism():
    value = job({COMPLETIONS_EQUAL_PARALLELISM: "true"}, parallelism=3, completions=3, completionMode="Indexed")
    assert INTEGRATION.pod_sets(value)[0].count == 3


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(job(suspend=True), True, id="suspended"),
        pytest.param(job(), False, id="not"),
        pytest.param(job({"kueue.x-k8s.io/stopping": "true"}, suspend=True), False, id="still stopping"),
    ],
)
def test_is_suspended(value, want):
    assert INTEGRATION.is_suspended(value) is want


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param([], None, id="runs"),
        pytest.param([{"type": "Complete", "status": "False"}], None, id="a condition that does not hold"),
        pytest.param([{"type": "Suspended", "status": "True"}], None, id="another condition"),
        pytest.param([{"type": "Complete", "status": "True", "message": "done"}], Ending(True, "done"), id="complete"),
        pytest.param([{"type": "Failed", "status": "True"}], Ending(False), id="failed"),
    ],
)
def test_finished(conditions, want):
    assert INTEGRATION.finished(job(status={"conditions": conditions})) == want
