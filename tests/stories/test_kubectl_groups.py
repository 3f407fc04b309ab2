"""One node, three systems and a real kubectl: a Kueue job, a group of Volcano's and an application of YuniKorn's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.e2e.process import started
from tests.stories.stages import WAIT_S
from tests.stories.test_kubectl import kubectl_of, kubectls

__all__ = ["kubectls"]
POOLS = {
    "pools": [
        {"name": "worker", "count": 1, "runTime": "1h", "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"}}
    ]
}
QUEUES = """
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: shared}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: any, resources: [{name: cpu, nominalQuota: 4}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: shared, namespace: team}
spec: {clusterQueue: shared}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec: {weight: 1}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: first, namespace: team, labels: {kueue.x-k8s.io/queue-name: shared}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox, resources: {requests: {cpu: "2"}}}]
"""
GANG = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: gang, namespace: team}
spec: {minMember: 2, queue: research}
"""
MEMBER = """
---
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: team, annotations: {scheduling.k8s.io/group-name: gang}}
spec:
  schedulerName: volcano
  containers: [{name: main, image: busybox, resources: {requests: {cpu: "2"}}}]
"""
APPLICATION = """
apiVersion: v1
kind: Pod
metadata: {name: spark, namespace: team, labels: {applicationId: app-1, queue: root.analytics}}
spec:
  schedulerName: yunikorn
  containers: [{name: main, image: busybox, resources: {requests: {cpu: "3"}}}]
"""


@pytest.mark.parametrize("version", ["1.36", "1.32"])
def test_three_systems_share_a_node(version: str, kubectls: dict[str, list[str]], tmp_path: Path):
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump(POOLS))
    with started(tmp_path / "state", "--nodes", str(tmp_path / "nodes.yaml"), "--no-local-node") as muster:
        play(kubectl_of(kubectls[version], muster))
        assert muster.stop() == 0


def play(kubectl: Callable[..., str]) -> None:
    """All of it, as a user would type it."""

    def wait(name: str, wish: str) -> None:
        kubectl("wait", name, "-n", "team", f"--for={wish}", f"--timeout={WAIT_S}s")

    def why(pod: str) -> str:
        waits = "{.status.conditions[?(@.type=='PodScheduled')].message}"
        return kubectl("get", "pod", pod, "-n", "team", "-o", f"jsonpath={waits}")

    kubectl("create", "-f", "-", text=QUEUES)
    assert [line.split()[0] for line in kubectl("get", "queues.scheduling.volcano.sh").splitlines()] == [
        "NAME",
        "default",
        "research",
    ]
    kubectl("create", "-f", "-", text=JOB)
    wait("job/first", "jsonpath={.status.ready}=1")
    kubectl("create", "-f", "-", text=GANG + MEMBER.replace("NAME", "g0") + MEMBER.replace("NAME", "g1"))
    wait("pod/g0", "condition=PodScheduled=false")
    wait("podgroup/gang", "jsonpath={.status.phase}=Inqueue")
    assert "no node has room for team/g" in why("g0")
    kubectl("annotate", "pods", "-n", "team", "-l", "batch.kubernetes.io/job-name=first", "sim.muster.dev/run-time=0s")
    wait("job/first", "condition=Complete")
    wait("podgroup/gang", "jsonpath={.status.phase}=Running")
    assert kubectl("get", "podgroup", "gang", "-n", "team").splitlines()[1].split()[:4] == ["gang", "Running", "2", "2"]
    kubectl("create", "-f", "-", text=APPLICATION)
    wait("pod/spark", "condition=PodScheduled=false")
    assert "spark" not in on_nodes(kubectl)
    kubectl("delete", "-n", "team", "pod/g0", "pod/g1", "podgroup/gang")
    wait("pod/spark", "condition=PodScheduled")
    assert on_nodes(kubectl) == {"spark"}


def on_nodes(kubectl: Callable[..., str]) -> set[str]:
    """The pods that hold a node."""
    found = json.loads(kubectl("get", "pods", "-n", "team", "-o", "json"))["items"]
    return {
        one["metadata"]["name"]
        for one in found
        if one["spec"].get("nodeName") and one["status"].get("phase") not in ("Succeeded", "Failed")
    }
