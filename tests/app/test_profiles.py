"""What a profile changes in a cluster that lives: whether a job waits for nodes as a whole, or its pods one by one."""

from __future__ import annotations

import pytest

from muster.app.config import Configuration
from muster.app.node_pools import pools_of
from muster.app.simulation import simulated_world
from muster.model.documents import parse_documents
from tests.app.test_plan import QUEUES

FIVE_PODS = """
apiVersion: batch/v1
kind: Job
metadata: {name: j, namespace: default, labels: {kueue.x-k8s.io/queue-name: jobs}}
spec:
  parallelism: 5
  completions: 5
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: i, resources: {requests: {cpu: "1"}}}]
"""
ROOM_FOR_TWO = {"pools": [{"name": "n", "count": 2, "capacity": {"cpu": "1", "memory": "4Gi"}, "runTime": "1h"}]}
LONG_S = 60.0


@pytest.fixture
def world(request):
    configuration = Configuration().with_profile(request.param, "profile")
    made = simulated_world(pools_of(ROOM_FOR_TWO), configuration=configuration)
    for document in parse_documents(f"{QUEUES}---{FIVE_PODS}", "objects"):
        if document.value["kind"] == "LocalQueue":
            document.value["metadata"]["namespace"] = "default"
        made.create(document.value)
    made.run(LONG_S)
    yield made
    made.close()


def admitted(world):
    (workload,) = world.all("workloads.kueue.x-k8s.io")
    return {one["type"]: one["status"] for one in workload["status"]["conditions"]}.get("Admitted")


@pytest.mark.parametrize("world", ["muster"], indirect=True)
def test_a_job_waits_whole_until_all_its_pods_have_nodes(world):
    assert admitted(world) == "False"
    assert world.all("pods") == []


@pytest.mark.parametrize("world", ["kueue", "kube-default"], indirect=True)
def test_a_job_with_quota_starts_and_its_pods_find_nodes_one_by_one(world):
    assert admitted(world) == "True"
    on = sorted(pod["spec"].get("nodeName") or "" for pod in world.all("pods"))
    assert on == ["", "", "", "n-0", "n-1"]
