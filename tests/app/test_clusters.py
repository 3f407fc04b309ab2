"""The clusters that workloads are sent to, as `muster clusters` shows them."""

from __future__ import annotations

from muster.app.clusters import ClusterLine, lines_of
from muster.model.times import moment_text
from muster.store.kinds import Object

NOW = 1_700_000_000.0


def cluster(name: str, status: str = "", message: str = "") -> Object:
    active = {"type": "Active", "status": status, "message": message, "lastTransitionTime": moment_text(NOW - 90)}
    return {"metadata": {"name": name}, "status": {"conditions": [active] if status else []}}


def workload(*conditions: str, **status: object) -> Object:
    listed = [{"type": name, "status": "True"} for name in conditions]
    return {"metadata": {"name": "w"}, "status": {"conditions": listed, **status}}


def test_each_cluster_has_a_line():
    clusters = [cluster("a", "True"), cluster("b", "False", "no answer"), cluster("c")]
    workloads = [
        workload(nominatedClusterNames=["a", "b"]),
        workload(clusterName="a"),
        workload("Finished", clusterName="a"),
        workload("Finished", clusterName="gone"),
        workload(),
    ]
    assert lines_of(clusters, workloads, NOW) == [
        ClusterLine(name="a", state="Connected", offered=1, running=1, finished=1),
        ClusterLine(name="b", state="away for 90 s", offered=1, problem="no answer"),
        ClusterLine(name="c", state=""),
    ]
