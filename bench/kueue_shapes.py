"""The load shapes that Kueue publishes figures for: what is created, how often, and how long it runs.

`ANCHORS` has what Kueue itself took for each on a machine of two cores, with the API server beside it.
Used by the driver.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

Json = dict[str, Any]
GROUP = "/apis/kueue.x-k8s.io/v1beta2"
FLAVOR = "load"
TOPOLOGY = "load"
BLOCK, RACK, HOST = "load.example.com/block", "load.example.com/rack", "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """Workloads of one kind in each queue."""

    name: str
    count: int
    interval_s: float  # between one's creation and the next one's
    run_s: float
    priority: int
    cpus_milli: int  # of all its pods
    pods: int = 1
    near: str = ""  # how close its pods have to be: required, preferred or sliced
    slice_pods: int = 0

    @property
    def size(self) -> str:
        """Small, medium or large: what waits are told by."""
        return self.name.partition("-")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Cohorts of equal queues, each with the same workloads."""

    name: str
    cohorts: int
    queues: int  # of each cohort
    classes: tuple[Class, ...]
    nominal_cpus: int = 20
    borrowing_cpus: int = 100
    racks: int = 0
    nodes_of_a_rack: int = 0

    @property
    def workloads(self) -> int:
        return self.cohorts * self.queues * sum(one.count for one in self.classes)

    @property
    def quota_cpus(self) -> int:
        return self.cohorts * self.queues * self.nominal_cpus

    @property
    def work_s(self) -> float:
        """How long it takes when every queue always uses all of its own quota."""
        return sum(one.count * one.cpus_milli * one.run_s for one in self.classes) / 1000 / self.nominal_cpus

    def scaled(self, scale: float) -> Shape:
        """The same with fewer workloads in each queue, at least one of each class."""
        classes = tuple(replace(one, count=max(1, round(one.count * scale))) for one in self.classes)
        return replace(self, classes=classes)

    def queue_names(self) -> Iterator[tuple[str, str]]:
        """Each queue and its cohort; a queue has a namespace and a local queue of its name."""
        for cohort in range(self.cohorts):
            for queue in range(self.queues):
                yield f"queue-{cohort}-{queue}", f"cohort-{cohort}"


def _near(one: Class, counts: tuple[int, int, int], pods: int, slice_pods: int) -> Iterator[Class]:
    """A class in three parts, by how close the pods have to be."""
    for near, count in zip(("required", "preferred", "sliced"), counts, strict=True):
        parts = slice_pods if near == "sliced" else 0
        yield replace(one, name=f"{one.name}-{near}", count=count, pods=pods, near=near, slice_pods=parts)


_SMALL = Class(name="small", count=350, interval_s=0.1, run_s=0.2, priority=50, cpus_milli=1_000)
_MEDIUM = Class(name="medium", count=100, interval_s=0.5, run_s=0.5, priority=100, cpus_milli=5_000)
_LARGE = Class(name="large", count=50, interval_s=1.2, run_s=1.0, priority=200, cpus_milli=20_000)
BASELINE = Shape(name="baseline", cohorts=5, queues=6, classes=(_SMALL, _MEDIUM, _LARGE))
MANY = Shape(
    name="large",
    cohorts=10,
    queues=100,
    classes=(
        replace(_SMALL, count=35, interval_s=0.06, run_s=0.15),
        replace(_MEDIUM, count=11, interval_s=0.3, run_s=0.35),
        replace(_LARGE, count=4, interval_s=0.7, run_s=0.7),
    ),
)
NEAR = replace(
    BASELINE,
    name="topology",
    classes=(
        *_near(_SMALL, (120, 120, 110), 2, 1),
        *_near(_MEDIUM, (34, 33, 33), 4, 2),
        *_near(_LARGE, (17, 17, 16), 8, 4),
    ),
    racks=10,
    nodes_of_a_rack=64,
)
FEW = replace(
    BASELINE,
    name="few",  # shows in a moment whether all of it works
    cohorts=1,
    queues=2,
    classes=(replace(_SMALL, count=20, interval_s=0.02), replace(_MEDIUM, count=2), replace(_LARGE, count=1)),
)
SHAPES = {shape.name: shape for shape in (BASELINE, MANY, NEAR, FEW)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """What Kueue took; zero where it is not known."""

    wall_s: float = 0.0
    waits_s: tuple[float, float, float] = (0.0, 0.0, 0.0)  # large, medium, small
    usage: float = 0.0
    own_cpu_s: float = 0.0
    own_mb: float = 0.0
    server_cpu_s: float = 0.0
    server_mb: float = 0.0


ANCHORS = {
    "baseline": Anchor(wall_s=405, waits_s=(32.0, 106.9, 240.1), usage=0.51, own_cpu_s=110, server_cpu_s=523),
    "large": Anchor(wall_s=1_302, own_cpu_s=381, own_mb=2_500, server_cpu_s=1_774, server_mb=10_600),
    "topology": Anchor(wall_s=409),
    "few": Anchor(),
}


def surroundings(shape: Shape) -> Iterator[tuple[str, Json]]:
    """Where each object goes that has to be there before the workloads, in order."""
    spec: Json = {}
    if shape.racks:
        levels = [{"nodeLabel": label} for label in (BLOCK, RACK, HOST)]
        yield f"{GROUP}/topologies", _object("Topology", TOPOLOGY, {"levels": levels})
        for rack in range(shape.racks):
            for number in range(shape.nodes_of_a_rack):
                yield "/api/v1/nodes", _node(f"node-{rack}-{number}", f"rack-{rack}")
        spec = {"nodeLabels": {BLOCK: "block-0"}, "topologyName": TOPOLOGY}
    yield f"{GROUP}/resourceflavors", _object("ResourceFlavor", FLAVOR, spec)
    for queue, cohort in shape.queue_names():
        yield f"{GROUP}/clusterqueues", _object("ClusterQueue", queue, _queue_spec(shape, cohort))
        yield "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": queue}}
        yield f"{GROUP}/namespaces/{queue}/localqueues", _object("LocalQueue", queue, {"clusterQueue": queue})


def workload_body(one: Class, queue: str, name: str) -> bytes:
    """A workload as it is created."""
    requests = {"cpu": f"{one.cpus_milli // one.pods}m"}
    container = {"name": "main", "image": "example.com/load:1", "resources": {"requests": requests}}
    pod_set: Json = {
        "name": "main",
        "count": one.pods,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    if one.near == "sliced":
        pod_set["topologyRequest"] = {"podSetSliceRequiredTopology": RACK, "podSetSliceSize": one.slice_pods}
    elif one.near:
        pod_set["topologyRequest"] = {one.near: RACK}
    spec = {"queueName": queue, "priority": one.priority, "podSets": [pod_set]}
    return json.dumps(_object("Workload", name, spec), separators=(",", ":")).encode()


def _object(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _queue_spec(shape: Shape, cohort: str) -> Json:
    quota = {"name": "cpu", "nominalQuota": str(shape.nominal_cpus), "borrowingLimit": str(shape.borrowing_cpus)}
    return {
        "cohortName": cohort,
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": FLAVOR, "resources": [quota]}]}],
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
    }


def _node(name: str, rack: str) -> Json:
    room = {"cpu": "96", "memory": "256Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "Load", "message": "made by the driver"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {BLOCK: "block-0", RACK: rack, HOST: name}},
        "status": {"allocatable": room, "capacity": room, "conditions": [ready]},
    }
