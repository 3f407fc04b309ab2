"""The group of a job, and what its pods look like."""

from __future__ import annotations

import pytest

from muster.dialects.volcano.job.group import group_name, group_of, least_resources
from muster.dialects.volcano.job.pods import PodPlace, claims_of, pod_of
from tests.dialects.volcano.job.objects import job, job_object, task

CLASSES = {"high": 100, "low": 1}


def asks(cpu, priority=""):
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"containers": [container], **({"priorityClassName": priority} if priority else {})}


@pytest.mark.parametrize(
    ("least", "want"),
    [
        pytest.param(0, "8", id="all that must start: 2 of one, 3 of the other"),
        pytest.param(5, "8", id="the same when said"),
        pytest.param(6, "10", id="one more of the highest priority"),
        pytest.param(7, "11", id="then of the next"),
        pytest.param(3, "6", id="fewer: the first by priority, whatever their tasks need"),
    ],
)
def test_what_the_pods_ask_for_that_must_start_together(least, want) -> None:
    of = job(
        task("low", 4, minAvailable=2, pod=asks("1", "low")),
        task("high", 4, minAvailable=3, pod=asks("2", "high")),
        minAvailable=least,
    )
    assert least_resources(of, CLASSES) == {"cpu": want}


def test_memory_and_cores_of_cards_are_no_matter_of_nodes() -> None:
    asked = {
        "nvidia.com/gpu": "1",
        "nvidia.com/gpumem-percentage": "50",
        "huawei.com/Ascend910B-memory": "1",
        "memory": "1",
    }
    container = {"name": "main", "image": "i", "resources": {"limits": asked, "requests": asked}}
    of = job(task("a", 2, pod={"containers": [container]}))
    assert least_resources(of, {}) == {"nvidia.com/gpu": "2", "memory": "2"}


def test_the_group_says_what_the_job_says() -> None:
    metadata = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    part = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1, "networkTopology": {"mode": "hard"}}
    of = job(
        task("a", 4, partitionPolicy=part),
        metadata=metadata,
        queue="q",
        priorityClassName="high",
        networkTopology={"mode": "soft", "highestTierAllowed": 2},
    )
    group = group_of(of, group_name(of), CLASSES)
    assert group["metadata"]["name"] == "j-u-1"
    assert {name: group["metadata"][name] for name in metadata} == metadata
    assert group["spec"] == {
        "minMember": 2,
        "minTaskMember": {"a": 2},
        "minResources": {},
        "queue": "q",
        "priorityClassName": "high",
        "networkTopology": {"mode": "soft", "highestTierAllowed": 2},
        "subGroupPolicy": [
            {
                "name": "a",
                "subGroupSize": 2,
                "minSubGroups": 1,
                "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "a"}},
                "matchLabelKeys": ["volcano.sh/partition-id"],
                "networkTopology": {"mode": "hard"},
            }
        ],
    }


def a_pod(of, name="a", index=3):
    return pod_of(PodPlace(of, of.task(name), index), group="g", version=2, retries=1)


def test_what_a_pod_is_called_and_told() -> None:
    inherited = {
        "volcano.sh/preemptable": "true",
        "volcano.sh/cooldown-time": "1m",
        "volcano.sh/revocable-zone": "z",
        "volcano.sh/jdb-min-available": "1",
        "volcano.sh/jdb-max-unavailable": "2",
        "other": "no",
    }
    labels = {"volcano.sh/preemptable": "true", "team": "a"}
    part = {"totalPartitions": 2, "partitionSize": 2}
    of = job(
        task("a", 4, partitionPolicy=part, topologyPolicy="restricted"),
        metadata={"annotations": inherited, "labels": labels},
        queue="q",
    )
    metadata = a_pod(of)["metadata"]
    assert metadata["name"] == "j-a-3"
    assert metadata["annotations"] == {
        "volcano.sh/task-index": "3",
        "volcano.sh/task-spec": "a",
        "scheduling.k8s.io/group-name": "g",
        "volcano.sh/job-name": "j",
        "volcano.sh/queue-name": "q",
        "volcano.sh/job-version": "2",
        "volcano.sh/template-uid": "j-a",
        "volcano.sh/job-retry-count": "1",
        "volcano.sh/numa-topology-policy": "restricted",
        "volcano.sh/preemptable": "true",
        "volcano.sh/cooldown-time": "1m",
        "volcano.sh/revocable-zone": "z",
        "volcano.sh/jdb-min-available": "1",
    }
    assert metadata["labels"] == {
        "volcano.sh/task-index": "3",
        "volcano.sh/job-name": "j",
        "volcano.sh/task-spec": "a",
        "volcano.sh/job-namespace": "x",
        "volcano.sh/queue-name": "q",
        "volcano.sh/partition-id": "1",
        "volcano.sh/preemptable": "true",
    }
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", "u-1", True)


@pytest.mark.parametrize(
    ("pod", "spec", "want"),
    [
        ({}, {}, ("volcano", None)),
        ({}, {"schedulerName": "mine", "priorityClassName": "high"}, ("mine", "high")),
        ({"schedulerName": "own", "priorityClassName": "low"}, {"priorityClassName": "high"}, ("own", "low")),
    ],
)
def test_what_the_template_says_holds(pod, spec, want) -> None:
    made = a_pod(job(task("a", 4, pod=pod), **spec))["spec"]
    assert (made["schedulerName"], made.get("priorityClassName")) == want


def test_volumes_are_mounted_in_containers_and_claimed() -> None:
    init = {"initContainers": [{"name": "first", "image": "i"}]}
    volumes = [
        {"mountPath": "/in", "volumeClaimName": "data"},
        {"mountPath": "/out", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
    ]
    of = job(task("a", 4, pod=init), volumes=volumes)
    spec = a_pod(of)["spec"]
    assert [one["persistentVolumeClaim"]["claimName"] for one in spec["volumes"]] == ["data", "j-pvc-u1-1"]
    assert [one["mountPath"] for one in spec["containers"][0]["volumeMounts"]] == ["/in", "/out"]
    assert "volumeMounts" not in spec["initContainers"][0]
    (claim,) = claims_of(of)
    assert claim["metadata"]["name"] == "j-pvc-u1-1" and claim["spec"] == {"accessModes": ["ReadWriteOnce"]}


def test_a_template_is_not_changed_by_its_pods() -> None:
    given = job_object(task("a"))
    of = job(task("a"), volumes=[{"mountPath": "/in", "volumeClaimName": "data"}])
    a_pod(of)
    assert of.tasks[0].template == given["spec"]["tasks"][0]["template"]
