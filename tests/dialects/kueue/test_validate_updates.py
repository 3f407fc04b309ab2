"""Workload: what may change once it holds quota, and what may not."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dialects.kueue.gates import DEFAULT_GATES, FeatureGates
from muster.dialects.kueue.kinds import HUB, OLDER
from muster.dialects.kueue.validate import problems_of
from muster.dialects.kueue.versions import to_version
from tests.dialects.kueue.objects import NOW, condition, pod_set, reserved, workload

K = "kueue.x-k8s.io"
ELASTIC = {f"{K}/elastic-job": "true"}
REPLACEMENT = ELASTIC | {f"{K}/workload-slice-replacement-for": "team/old"}
ADMITTED = (condition("Admitted"),)
NOT_ELASTIC = FeatureGates({"ElasticJobsViaWorkloadSlices": False})
NO_TOPOLOGY = FeatureGates(
    dict.fromkeys(
        [
            "TopologyAwareScheduling",
            "TASProfileMixed",
            "TASMultiLayerTopology",
            "TASHandleOverlappingFlavors",
            "TASRecomputeAssignmentWithinSchedulingCycle",
            "TASFailedNodeReplacement",
            "TASFailedNodeReplacementFailFast",
            "TASReplaceNodeOnPodTermination",
            "TASReplaceNodeOnNodeTaints",
        ],
        False,
    )
)


def refused(old: Any, new: Any, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
    return [error.path for error in problems_of(new, old=old, gates=gates, strict=True)[0]]


def held(*pod_sets: Any, more: tuple[Any, ...] = (), status: Any = None, annotations: Any = None, **spec: Any) -> Any:
    """A workload with quota for two pods of "main"."""
    return workload(*pod_sets, annotations=annotations, status=reserved(more=more) | (status or {}), **spec)


def reclaim(count: int, name: str = "main") -> Any:
    return {"reclaimablePods": [{"name": name, "count": count}]}


def shrunk(count: int, status: Any, annotations: Any = ELASTIC) -> Any:
    return held(pod_set(count=count), status=status, annotations=annotations)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        # pod sets
        pytest.param(workload(), workload(pod_set(count=5)), [], id="without quota pod sets may change"),
        pytest.param(held(), held(), [], id="nothing changed"),
        pytest.param(held(), held(pod_set(count=3)), ["spec.podSets[0]"], id="no more pods with quota"),
        pytest.param(held(), held(pod_set(count=1)), [], id="fewer pods are fine"),
        pytest.param(
            held(), held(pod_set(count=1, requests={"cpu": 2})), ["spec.podSets[0]"], id="fewer pods of another size"
        ),
        pytest.param(held(), held(pod_set(requests={"cpu": "1000m"})), [], id="the same size in other words"),
        pytest.param(held(), held(pod_set(requests={"cpu": 2})), ["spec.podSets[0]"], id="another size"),
        pytest.param(held(), workload(pod_set(), pod_set("b")), ["spec.podSets"], id="one more pod set"),
        pytest.param(held(), workload(pod_set(count=9)), ["spec.podSets[0]"], id="and not while losing it"),
        # queue and time
        pytest.param(workload(), workload(queueName="r"), [], id="without quota another queue"),
        pytest.param(held(), held(queueName="r"), ["spec.queueName"], id="with quota the same queue"),
        pytest.param(held(), held(queueName=None), ["spec.queueName"], id="and not none"),
        pytest.param(held(), workload(queueName="r"), [], id="another queue while losing quota"),
        pytest.param(held(), held(maximumExecutionTimeSeconds=5), [], id="time may change before admission"),
        pytest.param(
            held(more=ADMITTED),
            held(more=ADMITTED, maximumExecutionTimeSeconds=5),
            ["spec.maximumExecutionTimeSeconds"],
            id="and not after",
        ),
        # reclaimable pods
        pytest.param(held(status=reclaim(1)), held(status=reclaim(2)), [], id="more done"),
        pytest.param(
            held(status=reclaim(2)), held(status=reclaim(1)), ["status.reclaimablePods[main].count"], id="less done"
        ),
        pytest.param(held(status=reclaim(1)), held(), ["status.reclaimablePods[main]"], id="forgotten"),
        pytest.param(held(status=reclaim(1)), workload(), [], id="forgotten with the quota"),
        pytest.param(shrunk(2, reclaim(2)), shrunk(1, reclaim(1)), [], id="an elastic workload shrank"),
        pytest.param(shrunk(2, reclaim(2)), shrunk(1, {}), [], id="and forgot"),
        pytest.param(shrunk(2, reclaim(2)), shrunk(1, reclaim(2)), [], id="or kept what it had"),
        pytest.param(
            shrunk(2, reclaim(1)), shrunk(1, reclaim(2)), ["status.reclaimablePods[0].count"], id="but not more"
        ),
        pytest.param(
            held(status=reclaim(2)),
            held(pod_set(count=1), status=reclaim(1)),
            ["status.reclaimablePods[main].count"],
            id="others did not shrink",
        ),
        # admission
        pytest.param(workload(), held(), [], id="admission is given"),
        pytest.param(held(), workload(), [], id="and taken"),
        pytest.param(
            held(),
            workload(status=reserved({"name": "main", "count": 2, "flavors": {"cpu": "other"}})),
            ["status.admission"],
            id="and not changed",
        ),
        pytest.param(
            workload(status={"conditions": [condition("QuotaReserved")]}),
            workload(status={"conditions": [condition("QuotaReserved")]}),
            [],
            id="an admission that was missing may be missing",
        ),
        pytest.param(
            held(), workload(status={"conditions": [condition("QuotaReserved")]}), ["status.admission"], id="not lost"
        ),
        # clusters
        pytest.param(
            workload(status={"nominatedClusterNames": ["a", "b"]}), workload(status={"clusterName": "a"}), [],
            id="one of the nominated",
        ),
        pytest.param(
            workload(status={"nominatedClusterNames": ["b"]}), workload(status={"clusterName": "a"}),
            ["status.clusterName"], id="none of the nominated",
        ),
        pytest.param(
            workload(annotations=REPLACEMENT), workload(annotations=REPLACEMENT, status={"clusterName": "a"}), [],
            id="a replacement goes where its predecessor was",
        ),
        pytest.param(
            workload(status={"clusterName": "a"}), workload(status={"clusterName": "b"}), ["status.clusterName"],
            id="a cluster stays",
        ),
        pytest.param(workload(status={"clusterName": "a"}), workload(), [], id="or goes"),
    ],
)  # fmt: skip
def test_updates(old: Any, new: Any, want: list[str]) -> None:
    assert refused(old, new) == want


def test_without_elastic_jobs_pod_sets_do_not_shrink() -> None:
    assert refused(held(), held(pod_set(count=1)), NOT_ELASTIC) == ["spec.podSets[0]"]


def placed(host: str, **more: Any) -> Any:
    piece = {"domainCount": 1, "valuesPerLevel": [{"universal": host}], "podCounts": {"universal": 2}}
    topology = {"levels": ["host"], "slices": [piece]}
    return workload(status=reserved({"name": "main", "count": 2, "topologyAssignment": topology} | more))


def test_places_may_be_amended_where_topology_counts() -> None:
    assert refused(placed("a"), placed("b")) == []
    assert refused(placed("a", delayedTopologyRequest="Pending"), placed("b", delayedTopologyRequest="Ready")) == []
    assert refused(placed("a"), placed("b", flavors={"cpu": "f"})) == ["status.admission"]
    assert refused(placed("a"), placed("b"), NO_TOPOLOGY) == ["status.admission"]


def checked(state: str, **labels: str) -> Any:
    update = {"name": "main", "labels": labels}
    check = {"name": "c", "state": state, "message": "", "lastTransitionTime": NOW, "podSetUpdates": [update]}
    return workload(status={"admissionChecks": [check]})


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(checked("Ready", a="b"), checked("Ready", a="b"), [], id="unchanged"),
        pytest.param(
            checked("Ready", a="b"), checked("Ready", a="c"), ["status.admissionChecks[0].podSetUpdates"], id="changed"
        ),
        pytest.param(checked("Pending", a="b"), checked("Ready", a="c"), [], id="not ready before"),
        pytest.param(checked("Ready", a="b"), checked("Retry", a="c"), [], id="not ready after"),
        pytest.param(checked("Ready", a="b"), workload(), [], id="gone"),
    ],
)
def test_updates_of_ready_checks(old: Any, new: Any, want: list[str]) -> None:
    assert refused(old, new) == want


def gated(value: str | None) -> Any:
    return workload(annotations=None if value is None else {f"{K}/admission-gated-by": value})


@pytest.mark.parametrize(
    ("before", "after", "is_refused"),
    [
        pytest.param("a.io/x,a.io/y", "a.io/x", False, id="one gate opens"),
        pytest.param("a.io/x", None, False, id="the last one opens"),
        pytest.param("a.io/x", "a.io/y", True, id="another gate"),
        pytest.param(None, "a.io/x", True, id="a gate after creation"),
        pytest.param("", "a.io/x", True, id="a gate in place of none"),
        pytest.param(None, None, False, id="no gates"),
    ],
)
def test_gates_of_admission_only_open(before: str | None, after: str | None, is_refused: bool) -> None:
    path = f"metadata.annotations[{K}/admission-gated-by]"
    assert refused(gated(before), gated(after)) == ([path] if is_refused else [])
    assert refused(gated(before), gated(after), FeatureGates({"AdmissionGatedBy": False})) == []


def ranked(group: str, kind: str, name: str) -> Any:
    return held(priorityClassRef={"group": group, "kind": kind, "name": name}, priority=1)


OURS = (K, "WorkloadPriorityClass")
THEIRS = ("scheduling.k8s.io", "PriorityClass")


@pytest.mark.parametrize(
    ("old", "new", "newer", "older"),
    [
        pytest.param(ranked(*OURS, "a"), ranked(*OURS, "b"), [], [], id="another class of Kueue's"),
        pytest.param(
            ranked(*THEIRS, "a"),
            ranked(*THEIRS, "b"),
            ["spec.priorityClassRef.name"],
            ["spec.priorityClassName"],
            id="another class of Kubernetes'",
        ),
        pytest.param(
            ranked(*OURS, "a"),
            ranked(*THEIRS, "a"),
            ["spec.priorityClassRef.group", "spec.priorityClassRef.kind"],
            ["spec.priorityClassSource"],
            id="a class of the other kind",
        ),
        pytest.param(
            held(), ranked(*OURS, "a"), ["spec.priorityClassRef"], ["spec.priorityClassSource"], id="a first class"
        ),
        pytest.param(
            ranked(*OURS, "a"), held(), ["spec.priorityClassRef"], ["spec.priorityClassSource"], id="no class any more"
        ),
    ],
)
def test_priority_classes_with_quota(old: Any, new: Any, newer: list[str], older: list[str]) -> None:
    assert refused(old, new) == newer
    assert refused(old, to_version(new, OLDER)) == older
    without_quota = {key: value for key, value in old.items() if key != "status"}
    assert refused(without_quota, new) == []


@pytest.mark.parametrize("version", [OLDER, HUB])
def test_what_is_replaced_may_be_of_either_version(version: str) -> None:
    old = to_version(held(), version)
    assert refused(old, held(queueName="r")) == ["spec.queueName"]
    assert refused(old, to_version(held(queueName="r"), OLDER)) == ["spec.queueName"]


def test_what_cannot_be_read_holds_nothing_up() -> None:
    assert refused({"kind": "Workload"}, workload()) == []
    assert refused(workload() | {"spec": 5}, workload()) == []
    assert refused(workload(pod_set(count=-1)), workload()) == []
