"""RayJob: the cluster's pods and the submitter's, and what cannot wait in a queue."""

from __future__ import annotations

from typing import Any

import pytest

from muster.engine.contracts import Ending
from muster.jobs.rayjob import INTEGRATION
from muster.model.errors import InvalidObjects
from muster.model.fields import Fields

POD = {"spec": {"containers": [{"name": "main", "image": "example.com/ray:1"}]}}
CLUSTER = {
    "headGroupSpec": {"template": POD},
    "workerGroupSpecs": [{"groupName": "Small", "replicas": 2, "numOfHosts": 3, "template": POD}],
}


def job(status: Any = None, **spec: Any) -> Fields:
    given = {"shutdownAfterJobFinishes": True, "rayClusterSpec": CLUSTER, **spec}
    return Fields({"metadata": {"name": "train"}, "spec": given, "status": status})


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, [("head", 1), ("small", 6), ("submitter", 1)], id="submitted by a pod of its own"),
        pytest.param({"submissionMode": "HTTPMode"}, [("head", 1), ("small", 6)], id="by a request"),
        pytest.param({"submissionMode": "SidecarMode"}, [("head", 1), ("small", 6)], id="beside the head"),
    ],
)
def test_pods(spec, want):
    sets = INTEGRATION.pod_sets(job(**spec))
    assert [(one.name, one.count) for one in sets] == want
    containers = sets[0].template["spec"]["containers"]
    assert len(containers) == (2 if spec.get("submissionMode") == "SidecarMode" else 1)


def test_a_submitter_of_which_nothing_is_said_has_the_image_of_the_head():
    (container,) = INTEGRATION.pod_sets(job())[-1].template["spec"]["containers"]
    assert container["image"] == "example.com/ray:1"
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "200Mi"}


def test_a_job_on_somebody_elses_cluster_does_not_wait():
    value = job(rayClusterSpec=None, clusterSelector={"ray.io/cluster": "shared"})
    assert INTEGRATION.pod_sets(value) == () and INTEGRATION.hold(value) == value.values
    assert not INTEGRATION.is_marked(value)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"shutdownAfterJobFinishes": False}, "spec.shutdownAfterJobFinishes", id="a cluster that stays"),
        pytest.param({"rayClusterSpec": None}, "spec.rayClusterSpec", id="no cluster"),
        pytest.param({"clusterSelector": {"a": "b"}}, "spec.clusterSelector", id="two clusters"),
        pytest.param(
            {"rayClusterSpec": {**CLUSTER, "enableInTreeAutoscaling": True}},
            "spec.rayClusterSpec.enableInTreeAutoscaling",
            id="one that grows",
        ),
        pytest.param(
            {"rayClusterSpec": {**CLUSTER, "workerGroupSpecs": [{"groupName": "head", "template": POD}]}},
            "spec.rayClusterSpec.workerGroupSpecs[0].groupName",
            id="workers called head",
        ),
        pytest.param(
            {"rayClusterSpec": {**CLUSTER, "workerGroupSpecs": [{"groupName": f"g{n}"} for n in range(17)]}},
            "spec.rayClusterSpec.workerGroupSpecs",
            id="too many groups",
        ),
    ],
)
def test_mistakes(spec, want):
    with pytest.raises(InvalidObjects) as caught:
        INTEGRATION.pod_sets(job(**spec))
    assert [one.path for one in caught.value.problems] == [want]


@pytest.mark.parametrize(
    ("status", "is_active", "ending"),
    [
        ({}, False, None),
        ({"jobDeploymentStatus": "Initializing"}, True, None),
        ({"jobDeploymentStatus": "Suspending"}, True, None),
        ({"jobDeploymentStatus": "Suspended"}, False, None),
        ({"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "message": "no"}, True, Ending(False, "no")),
    ],
)
def test_how_it_stands(status, is_active, ending):
    assert (INTEGRATION.is_active(job(status)), INTEGRATION.finished(job(status))) == (is_active, ending)
