"""Documents on their way in: what is checked, what becomes a workload, what is left out and how it is named."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from muster.app.config import Configuration, parse_configuration
from muster.app.intake import Intake, latest_moment, take_in
from muster.model.documents import Document

NOW = 1_767_254_400.0  # 2026-01-01T08:00:00Z
POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/x:1"}]}


def obj(kind: str, name: str = "one", spec: Any = None, api: str = "kueue.x-k8s.io/v1beta2", **metadata: Any) -> Any:
    value = {"apiVersion": api, "kind": kind, "metadata": {"name": name, **metadata}}
    return value if spec is None else {**value, "spec": spec}


def job(name: str = "train", queue: str = "jobs", **metadata: Any) -> Any:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return obj("Job", name, {"template": {"spec": POD}}, "batch/v1", labels=labels, **metadata)


def local_queue(name: str = "jobs", namespace: str = "default") -> Any:
    return obj("LocalQueue", name, {"clusterQueue": "solo"}, namespace=namespace)


def taken(*values: Any, config: str = "") -> Intake:
    configuration = parse_configuration(config, "config") if config else Configuration()
    return take_in([Document(value, f"{number}.yaml", 1) for number, value in enumerate(values)], configuration, NOW)


def made(intake: Intake) -> list[dict[str, Any]]:
    return [one for one in intake.objects if one["kind"] == "Workload"]


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param({"waitForPodsReady": {}}, "--config", id="a part of a configuration"),
        pytest.param({"apiVersion": "v1", "kind": None}, "kind: is missing", id="no kind"),
        pytest.param({"apiVersion": 1, "kind": "Job"}, "apiVersion: is 1", id="a version that is no text"),
        pytest.param({"apiVersion": "v1", "kind": "Pod", "metadata": []}, "metadata: is a list", id="no metadata"),
        pytest.param(obj("Job", api="batch/v2"), "give batch/v1", id="a version that there is not"),
        pytest.param(obj("Queue"), "one: kind: is 'Queue'", id="a kind that Kueue does not have"),
        pytest.param(obj("LocalQueue", spec={"clusterQueue": "No!"}), "spec.clusterQueue", id="against the rules"),
        pytest.param(obj("PriorityClass", api="scheduling.k8s.io/v1"), "", id="a class without a value is 0"),
        pytest.param(
            {**obj("PriorityClass", api="scheduling.k8s.io/v1"), "value": "x"}, "value: is 'x'", id="a class of text"
        ),
        pytest.param(obj("Namespace", api="v1", labels={"a": 1}), "metadata.labels[a]", id="a label of a number"),
        pytest.param(obj("LimitRange", spec={"limits": 3}, api="v1"), "spec.limits", id="limits that are no list"),
    ],
)
def test_what_is_refused(value, want):
    intake = taken(value, local_queue())
    texts = [str(one) for one in intake.refused]
    assert len(texts) == (1 if want else 0)
    assert all(want in text and text.startswith("0.yaml: ") for text in texts)
    assert [one["kind"] for one in intake.objects][-1] == "LocalQueue", "the rest goes on"


def test_a_server_would_give_names_namespaces_and_times():
    generated = job(name="")
    generated["metadata"]["generateName"] = "train-"
    intake = taken(job(), generated, {**generated})
    names = [one["metadata"]["ownerReferences"][0]["name"] for one in made(intake)]
    assert names[0] == "train" and len(set(names)) == 3
    times = [one["metadata"]["creationTimestamp"] for one in made(intake)]
    assert times == sorted(times) and len(set(times)) == 3, "those without a time came one after the other"
    assert all(one["metadata"]["namespace"] == "default" for one in made(intake))


def test_of_two_by_the_same_name_the_later_counts():
    second = {**local_queue(), "spec": {"clusterQueue": "other"}}
    intake = taken(local_queue(), second)
    assert [one["spec"]["clusterQueue"] for one in intake.objects] == ["other"]
    assert "is given twice, first in 0.yaml" in intake.warnings[0].problem


def test_a_job_with_a_workload_of_its_own_gets_no_second():
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u1", "controller": True}
    spec = {"queueName": "jobs", "podSets": [{"name": "main", "count": 1, "template": {"spec": POD}}]}
    workload = obj("Workload", "mine", spec, namespace="default", ownerReferences=[owner])
    by_uid, by_name = taken(workload, job(name="other", uid="u1")), taken(workload, job())
    assert [one["metadata"]["name"] for one in made(by_uid)] == ["mine"]
    assert by_name.owners == {"default/mine": "Job default/train"}


def test_a_prebuilt_workload_is_the_jobs_own():
    spec = {"queueName": "jobs", "podSets": [{"name": "main", "count": 1, "template": {"spec": POD}}]}
    prebuilt = {"kueue.x-k8s.io/queue-name": "jobs", "kueue.x-k8s.io/prebuilt-workload-name": "ready"}
    value = job()
    value["metadata"]["labels"] = prebuilt
    assert taken(value, obj("Workload", "ready", spec)).owners == {"default/ready": "Job default/train"}
    (left,) = taken(value).not_managed
    assert left.why == "waits for its workload ready, which is not there"


OWNED = [{"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "u", "controller": True}]
QUEUED = {"kueue.x-k8s.io/queue-name": "jobs"}
GROUPED = {"kueue.x-k8s.io/pod-group-name": "group", **QUEUED}
STRICT = "kueue: {strictValidation: true}"


@pytest.mark.parametrize(
    ("value", "config", "want"),
    [
        pytest.param(job(queue=""), "", "names no queue", id="no queue"),
        pytest.param(job(deletionTimestamp="2026-01-01T00:00:00Z"), "", "is being deleted", id="going"),
        pytest.param(job(ownerReferences=OWNED), "", "is counted through its owner, Job x", id="owned"),
        pytest.param(job(namespace="kube-system"), "", "does not manage its namespace", id="a system namespace"),
        pytest.param(job(), "integrations: {frameworks: [pod]}", "does not turn batch/job on", id="not turned on"),
        pytest.param(obj("Pod", spec=POD, api="v1", labels=GROUPED), "", "part of the pod group group", id="a group"),
        pytest.param(
            obj("Widget", api="example.com/v1", labels={"kueue.x-k8s.io/queue-name": "jobs"}),
            "",
            "Widget",
            id="unknown kind",
        ),
        pytest.param(
            obj(
                "Job", spec={"template": {"spec": POD}}, api="batch/v1", annotations={"kueue.x-k8s.io/queue-name": "q"}
            ),
            STRICT,
            "the queue is named by a label",
            id="named the old way where that is refused",
        ),
    ],
)
def test_what_is_not_managed(value, config, want):
    intake = taken(value, config=config)
    assert not made(intake) and not intake.refused
    assert [want in one.why for one in intake.not_managed] == [True]


def test_jobs_without_a_queue_are_managed_where_the_configuration_says_so():
    (workload,) = made(taken(job(queue=""), config="manageJobsWithoutQueueName: true"))
    assert "queueName" not in workload["spec"]


def test_what_has_no_part_is_counted():
    intake = taken(obj("ConfigMap", api="v1"), obj("Deployment", api="apps/v1"), obj("Deployment", "b", api="apps/v1"))
    assert intake.passed_over == {"ConfigMap": 1, "Deployment.apps": 2}


def test_nodes_and_the_pods_on_them_are_seen():
    pods = [obj("Pod", name, {**POD, "nodeName": node}, "v1") for name, node in (("on", "n1"), ("off", ""))]
    intake = taken(obj("Node", "n1", api="v1"), *pods)
    assert [one["metadata"]["name"] for one in intake.objects] == ["n1", "on"]
    assert [one.why for one in intake.not_managed] == ["names no queue", "names no queue"]


def test_unknown_fields_are_a_warning_or_a_refusal():
    value = {**local_queue(), "spec": {"clusterQueue": "solo", "clusterQueues": ["x"]}}
    assert [one.path for one in taken(value).warnings] == ["spec.clusterQueues"]
    assert [one.path for one in taken(value, config=STRICT).refused] == ["spec.clusterQueues"]


def test_priorities_come_from_the_classes_among_the_objects():
    classes = [
        {**obj("PriorityClass", "usual", api="scheduling.k8s.io/v1"), "value": 10, "globalDefault": True},
        {**obj("PriorityClass", "lower", api="scheduling.k8s.io/v1"), "value": 5, "globalDefault": True},
    ]
    (workload,) = made(taken(job(), *classes))
    assert workload["spec"]["priority"] == 5


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("metadata: {}", None, id="none"),
        pytest.param("metadata: {creationTimestamp: 2026-01-01T08:00:00Z}", NOW, id="made"),
        pytest.param(
            "{metadata: {creationTimestamp: 2025-01-01T08:00:00Z}, "
            "status: {conditions: [{lastTransitionTime: 2026-01-01T08:00:00Z}]}}",
            NOW,
            id="changed",
        ),
        pytest.param("metadata: {creationTimestamp: tomorrow}", None, id="no time"),
        pytest.param("{metadata: 3, status: []}", None, id="no metadata"),
        pytest.param("status: {requeueState: {requeueAt: 2030-01-01T08:00:00Z}}", None, id="what is yet to come"),
    ],
)
def test_latest_moment(text, want):
    value = yaml.load(text, yaml.BaseLoader)
    assert latest_moment([Document(value, "x", 1)]) == want
