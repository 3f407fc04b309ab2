"""JobSet: what its replicated jobs amount to, and the pods that nobody needs again."""

from __future__ import annotations

from typing import Any

import pytest

from muster.jobs.jobset import INTEGRATION
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields

POD = {"spec": {"containers": [{"name": "main"}]}}


def job_set(*jobs: Any, status: Any = None) -> Fields:
    return Fields({"metadata": {"name": "train"}, "spec": {"replicatedJobs": list(jobs)}, "status": status})


def replicated(name: str, replicas: int = 1, **spec: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "template": {"spec": {"template": POD, **spec}}}


def test_as_many_pods_as_run_at_once_in_all_replicas():
    sets = INTEGRATION.pod_sets(job_set(replicated("a"), replicated("b", 3, parallelism=4, completions=2)))
    assert [(one.name, one.count, one.group_count) for one in sets] == [("a", 1, 1), ("b", 6, 3)]
    assert sets[1].template_path == "spec.replicatedJobs[1].template.spec.template"
    assert sets[1].group_label == "jobset.sigs.k8s.io/job-index"


def test_pods_of_jobs_that_have_succeeded_are_given_back():
    status = {"replicatedJobsStatus": [{"name": "b", "succeeded": 2}, {"name": "a", "succeeded": 0}]}
    value = job_set(replicated("a"), replicated("b", 3, parallelism=2), status=status)
    assert INTEGRATION.reclaimable(value) == {"b": 4}


@pytest.mark.parametrize(
    ("jobs", "want"),
    [
        pytest.param((), "spec.replicatedJobs", id="none"),
        pytest.param((replicated(""),), "spec.replicatedJobs[0].name", id="without a name"),
        pytest.param(
            (replicated("a"), replicated("a")), "spec.replicatedJobs[0].template.spec.template", id="a name twice"
        ),
        pytest.param(tuple(replicated(f"a{n}") for n in range(19)), "spec", id="too many"),
    ],
)
def test_mistakes(jobs, want):
    with pytest.raises(InvalidObjects) as caught:
        INTEGRATION.pod_sets(job_set(*jobs))
    assert caught.value.problems[0].path == want


def test_a_count_that_is_none_is_named():
    with pytest.raises(InvalidObject, match=r"spec\.replicatedJobs\[0\]\.replicas"):
        INTEGRATION.pod_sets(job_set({**replicated("a"), "replicas": -1}))
