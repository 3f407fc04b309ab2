"""The workload of a job: its name, queue, priority and pod sets, and mistakes named by their place in the job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster.dialects.kueue import names
from muster.dialects.kueue.job_workloads import (
    Surroundings,
    queue_of,
    uid_of,
    unknown_metadata,
    with_generated_name,
    workload_name,
    workload_of,
)
from muster.dialects.kueue.validate import problems_of
from muster.engine.contracts import Ending, GroupVersionKind, Integration, JobPodSet
from muster.jobs.job import INTEGRATION as BATCH_JOB
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields

JOB = GroupVersionKind("batch", "v1", "Job")


def integration(ending: Ending | None = None, **pod_set: Any) -> Integration:
    """A kind of job with one pod set of three pods, whose template stands in spec.template."""

    def pod_sets(job: Fields) -> tuple[JobPodSet, ...]:
        template = job.child("spec").child("template")
        given = {"name": "main", "count": 3, "template": template.values, "template_path": template.path, **pod_set}
        return (JobPodSet(**given),)

    return replace(BATCH_JOB, pod_sets=pod_sets, is_suspended=lambda _job: True, finished=lambda _job: ending)


def job(metadata: dict[str, Any] | None = None, pod: dict[str, Any] | None = None, template: Any = None) -> Fields:
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/x:1"}], **(pod or {})}
    return Fields(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"namespace": "team-a", "name": "train", "uid": "u-1", **(metadata or {})},
            "spec": {"template": {"spec": spec, **(template or {})}},
        }
    )


def made(value: Fields, kind: Integration | None = None, **surroundings: Any) -> Any:
    return workload_of(value, kind or integration(), Surroundings(**surroundings))


def paths(value: Fields, kind: Integration | None = None, **surroundings: Any) -> list[str]:
    with pytest.raises(InvalidObject) as caught:
        made(value, kind, **surroundings)
    problem = caught.value
    return [one.path for one in problem.problems] if isinstance(problem, InvalidObjects) else [problem.path]


def test_a_workload_is_valid_and_belongs_to_its_job():
    workload = made(job({"labels": {names.QUEUE_NAME: "jobs"}}), now=1_767_254_400.0).obj
    assert problems_of(workload, strict=True) == ((), ())
    metadata = workload["metadata"]
    assert metadata["namespace"] == "team-a"
    assert metadata["creationTimestamp"] == "2026-01-01T08:00:00Z"
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("Job", "train", "u-1", True)
    assert metadata["labels"][names.JOB_UID] == "u-1"
    assert workload["spec"]["queueName"] == "jobs"
    assert workload["spec"]["podSets"][0]["count"] == 3
    assert "status" not in workload


def test_names_follow_from_the_job():
    # The rule: kind and name, then the first five digits of the SHA-1 of kind, group, name and uid, a line each.
    assert workload_name(JOB, "train", "u-1") == "job-train-d688a"
    assert workload_name(JOB, "train", "u-1") != workload_name(JOB, "train", "u-2")
    assert len(workload_name(JOB, "x" * 253, "u-1")) == 253


def test_generated_names_are_the_same_each_time_and_differ_by_number():
    value = {"metadata": {"generateName": "train-", "namespace": "team-a"}}
    first, again, second = (with_generated_name(value, number)["metadata"]["name"] for number in (1, 1, 2))
    assert first == again != second
    assert first.startswith("train-") and len(first) == len("train-") + 5
    assert len(with_generated_name({"metadata": {"generateName": "x" * 300}}, 1)["metadata"]["name"]) == 63


def test_a_job_that_was_never_stored_has_a_uid_all_the_same():
    without = Fields({"metadata": {"name": "train"}})
    assert uid_of(without, JOB) == uid_of(without, JOB) != uid_of(Fields({"metadata": {"name": "other"}}), JOB)
    assert uid_of(job(), JOB) == "u-1"


@pytest.mark.parametrize(
    ("metadata", "surroundings", "want", "warned"),
    [
        pytest.param({"labels": {names.QUEUE_NAME: "jobs"}}, {}, "jobs", 0, id="label"),
        pytest.param({"annotations": {names.QUEUE_NAME: "old"}}, {}, "old", 1, id="annotation, with a warning"),
        pytest.param({"annotations": {names.QUEUE_NAME: "old"}}, {"strict": True}, "", 1, id="not where strict"),
        pytest.param({}, {"local_queues": frozenset({"team-a/default"})}, "default", 0, id="the namespace's default"),
        pytest.param({}, {"local_queues": frozenset({"team-b/default"})}, "", 0, id="not another's default"),
        pytest.param({}, {}, "", 0, id="none"),
    ],
)
def test_queue_of(metadata, surroundings, want, warned):
    queue, warnings = queue_of(job(metadata), Surroundings(**surroundings))
    assert queue == want
    assert len(warnings) == warned


CLASSES = {"workload_classes": {"high": 1000}, "pod_classes": {"high": 7, "low": -5}}


@pytest.mark.parametrize(
    ("value", "surroundings", "priority", "kind"),
    [
        pytest.param(job(), {}, 0, "", id="none"),
        pytest.param(
            job({"labels": {names.PRIORITY_CLASS: "high"}}), CLASSES, 1000, "WorkloadPriorityClass", id="label"
        ),
        pytest.param(job(pod={"priorityClassName": "low"}), CLASSES, -5, "PriorityClass", id="pods"),
        pytest.param(
            job({"labels": {names.PRIORITY_CLASS: "high"}}, {"priorityClassName": "low"}),
            CLASSES,
            1000,
            "WorkloadPriorityClass",
            id="the label goes before the pods",
        ),
        pytest.param(
            job(), {"workload_classes": {"default": 50}}, 50, "WorkloadPriorityClass", id="the class called default"
        ),
        pytest.param(
            job(), {**CLASSES, "default_pod_class": "low"}, -5, "PriorityClass", id="the cluster's default for pods"
        ),
        pytest.param(
            job(pod={"priorityClassName": "system-node-critical"}), {}, 2_000_001_000, "PriorityClass", id="system"
        ),
    ],
)
def test_priority(value, surroundings, priority, kind):
    spec = made(value, **surroundings).obj["spec"]
    assert spec["priority"] == priority
    assert spec.get("priorityClassRef", {}).get("kind", "") == kind


def test_a_class_that_is_not_there_is_a_warning_or_a_refusal():
    value = job({"labels": {names.PRIORITY_CLASS: "typo"}})
    lenient = made(value)
    assert lenient.obj["spec"]["priority"] == 0
    assert [warning.path for warning in lenient.warnings] == [f"metadata.labels[{names.PRIORITY_CLASS}]"]
    assert paths(value, strict=True) == [f"metadata.labels[{names.PRIORITY_CLASS}]"]


def test_a_class_in_an_annotation_is_not_read():
    lenient = made(job({"annotations": {names.PRIORITY_CLASS: "high"}}), **CLASSES)
    assert lenient.obj["spec"]["priority"] == 0
    assert [warning.path for warning in lenient.warnings] == [f"metadata.annotations[{names.PRIORITY_CLASS}]"]


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param(
            job(pod={"containers": [{"name": "main", "resources": {"requests": {"cpu": "lots"}}}]}),
            ["spec.template.spec.containers[0].resources.requests[cpu]"],
            id="a quantity",
        ),
        pytest.param(
            job(pod={"containers": [{"name": "main", "command": "run"}]}),
            ["spec.template.spec.containers[0].command"],
            id="a text for a list",
        ),
        pytest.param(
            job({"labels": {names.QUEUE_NAME: "No Queue"}}), [f"metadata.labels[{names.QUEUE_NAME}]"], id="queue name"
        ),
        pytest.param(
            job({"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "0"}}),
            ["metadata.labels[kueue.x-k8s.io/max-exec-time-seconds]"],
            id="no time to run",
        ),
    ],
)
def test_mistakes_are_named_by_their_place_in_the_job(value, want):
    assert paths(value) == want


def test_a_field_that_pods_do_not_have_is_a_warning_or_a_refusal():
    value = job(pod={"nodeSelektor": {"zone": "a"}})
    assert [warning.path for warning in made(value).warnings] == ["spec.template.spec.nodeSelektor"]
    assert paths(value, strict=True) == ["spec.template.spec.nodeSelektor"]
    assert [one.path for one in unknown_metadata(job({"queue": "root"}))] == ["metadata.queue"]


def test_what_a_job_says_about_its_run_is_taken_over():
    labels = {"kueue.x-k8s.io/max-exec-time-seconds": "600", "team": "a", "app": "x"}
    annotations = {names.PREEMPTIBLE: "false", names.ADMISSION_GATED_BY: "example.com/ready", "note": "mine"}
    workload = made(job({"labels": labels, "annotations": annotations}), labels_to_copy=("team",)).obj
    assert workload["spec"]["maximumExecutionTimeSeconds"] == 600
    assert workload["metadata"]["labels"] == {"team": "a", names.JOB_UID: "u-1"}
    assert workload["metadata"]["annotations"] == {
        names.PREEMPTIBLE: "false",
        names.ADMISSION_GATED_BY: "example.com/ready",
    }


def test_a_finished_job_makes_a_finished_workload():
    workload = made(job(), integration(Ending(False))).obj
    (condition,) = workload["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("Finished", "True", "Failed")


K = "kueue.x-k8s.io/podset-"


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        pytest.param({}, None, id="nothing asked"),
        pytest.param({f"{K}required-topology": "rack"}, {"required": "rack"}, id="required"),
        pytest.param({f"{K}unconstrained-topology": "true"}, {"unconstrained": True}, id="unconstrained"),
        pytest.param(
            {
                f"{K}preferred-topology": "zone",
                f"{K}slice-required-topology": "rack",
                f"{K}slice-size": "3",
            },
            {"preferred": "zone", "podSetSliceRequiredTopology": "rack", "podSetSliceSize": 3},
            id="slices",
        ),
        pytest.param(
            {f"{K}slice-required-topology-constraints": '[{"topology":"rack","size":2},{"topology":"host","size":1}]'},
            {
                "podsetSliceRequiredTopologyConstraints": [
                    {"topology": "rack", "size": 2},
                    {"topology": "host", "size": 1},
                ]
            },
            id="layers",
        ),
    ],
)
def test_topology_requests(annotations, want):
    workload = made(job(template={"metadata": {"annotations": annotations}}), integration(index_label="index")).obj
    expected = None if want is None else {**want, "podIndexLabel": "index"}
    assert workload["spec"]["podSets"][0].get("topologyRequest") == expected


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({f"{K}required-topology": "rack", f"{K}preferred-topology": "zone"}, id="two ways"),
        pytest.param({f"{K}required-topology": "no label!"}, id="no label"),
        pytest.param({f"{K}unconstrained-topology": "perhaps"}, id="no truth value"),
        pytest.param({f"{K}slice-size": "2"}, id="a size without a level"),
        pytest.param({f"{K}slice-required-topology": "rack", f"{K}slice-size": "4"}, id="slices of more pods than are"),
        pytest.param({f"{K}slice-required-topology-constraints": "[1, 2"}, id="no JSON"),
        pytest.param({f"{K}slice-required-topology-constraints": "[]"}, id="no layers"),
        pytest.param({f"{K}slice-required-topology-constraints": '[{"topology":"rack"}]'}, id="a layer without a size"),
        pytest.param(
            {f"{K}slice-required-topology-constraints": '[{"topology":"r","size":3},{"topology":"h","size":2}]'},
            id="layers that do not divide",
        ),
        pytest.param(
            {f"{K}slice-required-topology-constraints": '[{"topology":"r","size":2},{"topology":"r","size":1}]'},
            id="a level twice",
        ),
    ],
)
def test_topology_mistakes(annotations):
    found = paths(job(template={"metadata": {"annotations": annotations}}))
    assert all(path.startswith("spec.template.metadata.annotations") for path in found)
