"""Workload by itself: every rule with what it takes and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from muster.dialects.kueue.gates import DEFAULT_GATES, FeatureGates
from muster.dialects.kueue.kinds import OLDER
from muster.dialects.kueue.validate import problems_of
from tests.dialects.kueue.objects import NOW, condition, obj, pod_set, reserved, workload

TEMPLATE = "spec.podSets[0].template"
CONTAINER = f"{TEMPLATE}.spec.containers[0].resources"
K = "kueue.x-k8s.io"
GATED = f"metadata.annotations[{K}/admission-gated-by]"
BOOSTED = f"metadata.annotations[{K}/priority-boost]"
ELASTIC = {f"{K}/elastic-job": "true"}
BOOST = FeatureGates({"PriorityBoost": True})


def refused(made: Any, *, old: Any = None, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
    return [error.path for error in problems_of(made, old=old, gates=gates, strict=True)[0]]


def off(*names: str) -> FeatureGates:
    return FeatureGates(dict.fromkeys(names, False))


def labelled(**metadata: Any) -> Any:
    made = pod_set()
    made["template"]["metadata"] = metadata
    return made


def init(requests: Any) -> Any:
    container = {"name": "i", "resources": {"requests": requests}}
    return pod_set(pod={"initContainers": [container]})


def check(**more: Any) -> Any:
    return {"name": "c", "state": "Ready", "message": "", "lastTransitionTime": NOW} | more


def update(**more: Any) -> Any:
    return {"admissionChecks": [check(podSetUpdates=[{"name": "main"} | more])]}


UPDATE = "status.admissionChecks[0].podSetUpdates[0]"


@pytest.mark.parametrize(
    ("made", "want"),
    [
        pytest.param(workload(), [], id="the plain workload"),
        pytest.param(obj("Workload"), [], id="no spec"),
        pytest.param(workload(version=OLDER), [], id="an older workload"),
        pytest.param(obj("Workload", {"podSets": []}), ["spec.podSets"], id="no pod set"),
        pytest.param(obj("Workload", {}, version=OLDER), ["spec.podSets"], id="pod sets were due"),
        pytest.param(workload(*(pod_set(f"p{i}") for i in range(18))), [], id="18 pod sets"),
        pytest.param(workload(*(pod_set(f"p{i}") for i in range(19))), ["spec.podSets"], id="19 pod sets"),
        pytest.param(workload(pod_set(), pod_set()), ["spec.podSets[1].name"], id="a name twice"),
        pytest.param(workload({"template": {}}, {"template": {}}), ["spec.podSets[1].name"], id="two without a name"),
        pytest.param(workload(pod_set("A")), ["spec.podSets[0].name"], id="no name"),
        pytest.param(workload({"name": "a"}), [TEMPLATE], id="a template is due"),
        pytest.param(workload(pod_set(pod={"containers": None})), [f"{TEMPLATE}.spec.containers"], id="no containers"),
        pytest.param(workload(pod_set(count=0)), [], id="no pods"),
        pytest.param(workload(pod_set(count=-1)), ["spec.podSets[0].count"], id="fewer than none"),
        pytest.param(workload(pod_set(count=2**31)), ["spec.podSets[0].count"], id="more than 32 bits"),
        pytest.param(workload(queueName="A"), ["spec.queueName"], id="no queue"),
        pytest.param(workload(maximumExecutionTimeSeconds=0), ["spec.maximumExecutionTimeSeconds"], id="no time"),
        pytest.param(workload(active="yes"), ["spec.active"], id="no flag"),
        # templates
        pytest.param(workload(labelled(labels={"a": "b"}, annotations={"a": "b c"})), [], id="labels"),
        pytest.param(
            workload(labelled(labels={"a b": "c"}, annotations={"d e": "f"})),
            [f"{TEMPLATE}.metadata.labels", f"{TEMPLATE}.metadata.annotations"],
            id="no labels",
        ),
        pytest.param(workload(pod_set(requests={"pods": 1})), [f"{CONTAINER}.requests[pods]"], id="pods are ours"),
        pytest.param(
            workload(pod_set(pod={"resources": {"limits": {"pods": 1}}})),
            [f"{TEMPLATE}.spec.resources.limits[pods]"],
            id="for the whole pod too",
        ),
        pytest.param(workload(pod_set(requests={"cpu": "-1"})), [f"{CONTAINER}.requests[cpu]"], id="below zero"),
        pytest.param(
            workload(init({"cpu": -1})),
            [f"{TEMPLATE}.spec.initContainers[0].resources.requests[cpu]"],
            id="below zero before the start",
        ),
        pytest.param(workload(pod_set(requests={"cpu": "1e99"})), [], id="more than any node has"),
        pytest.param(workload(pod_set(requests={"cpu": 0.5})), [], id="half a core"),
        pytest.param(workload(pod_set(requests={"cpu": "x"})), [f"{CONTAINER}.requests[cpu]"], id="no quantity"),
        # topology requests
        pytest.param(
            workload(pod_set(topologyRequest={"podSetSliceSize": 2})),
            ["spec.podSets[0].topologyRequest.podSetSliceRequiredTopology"],
            id="a slice of nothing",
        ),
        pytest.param(
            workload(pod_set(topologyRequest={"podSetSliceRequiredTopology": "rack"})),
            ["spec.podSets[0].topologyRequest.podSetSliceSize"],
            id="a slice of no size",
        ),
        pytest.param(
            workload(pod_set(topologyRequest={"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2})),
            [],
            id="a slice",
        ),
        pytest.param(
            workload(pod_set(topologyRequest={"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 0})),
            ["spec.podSets[0].topologyRequest.podSetSliceSize"],
            id="a slice of size 0",
        ),
        pytest.param(
            workload(
                pod_set(topologyRequest={"podsetSliceRequiredTopologyConstraints": [{"topology": "r", "size": 0}]})
            ),
            ["spec.podSets[0].topologyRequest.podsetSliceRequiredTopologyConstraints[0].size"],
            id="a layer of size 0",
        ),
        # minimums
        pytest.param(workload(pod_set(minCount=1)), [], id="a minimum"),
        pytest.param(workload(pod_set(minCount=3)), ["spec.podSets[0].minCount"], id="above the count"),
        pytest.param(workload(pod_set(minCount=0)), ["spec.podSets[0].minCount"], id="a minimum of none"),
        pytest.param(
            workload(pod_set("a", minCount=1), pod_set("b", minCount=1)), ["spec.podSets[1].minCount"], id="two of them"
        ),
        pytest.param(
            workload(pod_set(minCount=1), annotations=ELASTIC), ["spec.podSets[0].minCount"], id="elastic and partial"
        ),
        # priority
        pytest.param(
            workload(priorityClassRef={"group": K, "kind": "WorkloadPriorityClass", "name": "a"}, priority=1),
            [],
            id="a class",
        ),
        pytest.param(
            workload(priorityClassRef={"group": K, "kind": "WorkloadPriorityClass", "name": "a"}),
            ["spec.priority"],
            id="a class without its value",
        ),
        pytest.param(
            workload(priorityClassRef={"group": K, "kind": "PriorityClass", "name": "a"}, priority=1),
            ["spec.priorityClassRef.kind"],
            id="a kind of another group",
        ),
        pytest.param(
            workload(
                priorityClassRef={"group": "scheduling.k8s.io", "kind": "WorkloadPriorityClass", "name": "a"},
                priority=1,
            ),
            ["spec.priorityClassRef.kind"],
            id="and the other way round",
        ),
        pytest.param(
            workload(priorityClassName="a", version=OLDER), ["spec.priority"], id="an older class without its value"
        ),
        pytest.param(workload(priorityClassName="a", priority=0, version=OLDER), [], id="an older class"),
        pytest.param(
            workload(priorityClassSource="x", version=OLDER), ["spec.priorityClassSource"], id="no source of classes"
        ),
        # annotations
        pytest.param(workload(annotations={f"{K}/admission-gated-by": "a.io/x,b.io/y"}), [], id="two gates"),
        pytest.param(workload(annotations={f"{K}/admission-gated-by": ""}), [], id="no gates"),
        pytest.param(workload(annotations={f"{K}/admission-gated-by": "a.io/x,"}), [GATED], id="an empty gate"),
        pytest.param(workload(annotations={f"{K}/admission-gated-by": "a.io/x,a.io/x"}), [GATED], id="a gate twice"),
        pytest.param(workload(annotations={f"{K}/admission-gated-by": "x"}), [GATED], id="a gate of no domain"),
        pytest.param(workload(annotations={f"{K}/admission-gated-by": "A.io/x"}), [GATED], id="a domain in capitals"),
        pytest.param(workload(annotations={f"{K}/admission-gated-by": f"a.io/{'x' * 59}"}), [GATED], id="a long gate"),
        pytest.param(workload(annotations={f"{K}/priority-boost": "x"}), [], id="a boost nobody reads"),
        # status
        pytest.param(workload(status=reserved()), [], id="with quota"),
        pytest.param(
            workload(status={"conditions": [condition("QuotaReserved")]}), ["status.admission"], id="quota from nowhere"
        ),
        pytest.param(
            workload(status={"conditions": [condition("QuotaReserved", "False")]}), [], id="quota no more"
        ),
        pytest.param(
            workload(status=reserved({"name": "other", "count": 2})),
            ["status.admission.podSetAssignments[0].name"],
            id="quota for a stranger",
        ),
        pytest.param(
            workload(pod_set("a"), pod_set("b"), status=reserved({"name": "a"})),
            ["status.admission.podSetAssignments"],
            id="quota for one of two",
        ),
        pytest.param(
            workload(status=reserved({"name": "main", "count": 2, "resourceUsage": {"cpu": "3", "memory": "4"}})),
            [],
            id="1500m for each of two",
        ),
        pytest.param(
            workload(status=reserved({"name": "main", "count": 2, "resourceUsage": {"cpu": "1m", "memory": "3"}})),
            [
                "status.admission.podSetAssignments[0].resourceUsage[cpu]",
                "status.admission.podSetAssignments[0].resourceUsage[memory]",
            ],
            id="what two cannot share",
        ),
        pytest.param(
            workload(status=reserved({"name": "main", "count": 0, "resourceUsage": {"gpu": 1}})), [], id="for no pods"
        ),
        pytest.param(workload(status={"conditions": [{"type": "x"}]}), [
            f"status.conditions[0].{name}" for name in ("lastTransitionTime", "message", "reason", "status")
        ], id="half a condition"),
        pytest.param(
            workload(status={"conditions": [condition("A"), condition("A")]}), ["status.conditions[1].type"],
            id="a condition twice",
        ),
        pytest.param(workload(status={"reclaimablePods": [{"name": "main", "count": 2}]}), [], id="two pods done"),
        pytest.param(
            workload(status={"reclaimablePods": [{"name": "main", "count": 3}]}), ["status.reclaimablePods[0].count"],
            id="more done than there were",
        ),
        pytest.param(
            workload(status={"reclaimablePods": [{"name": "other", "count": 0}]}), ["status.reclaimablePods[0].name"],
            id="done by a stranger",
        ),
        pytest.param(workload(status=update(labels={"a": "b"}, nodeSelector={"c": "d"})), [], id="a check's labels"),
        pytest.param(workload(status=update(name="other")), [f"{UPDATE}.name"], id="a check of a stranger"),
        pytest.param(
            workload(status=update(labels={"a b": ""}, nodeSelector={"a": "c d"}, annotations={"e f": ""})),
            [f"{UPDATE}.annotations", f"{UPDATE}.nodeSelector[a]", f"{UPDATE}.labels"],
            id="a check's bad labels",
        ),
        pytest.param(
            workload(status=update(tolerations=[{"key": "a", "operator": "Gt", "value": "1"}])),
            [f"{UPDATE}.tolerations[0].operator"],
            id="a check's bad toleration",
        ),
        pytest.param(
            workload(status={"clusterName": "a", "nominatedClusterNames": ["a"]}), ["status.clusterName"],
            id="chosen and nominated",
        ),
        pytest.param(workload(status={"clusterName": "a", "nominatedClusterNames": []}), [], id="chosen"),
    ],
)  # fmt: skip
def test_workloads(made: Any, want: list[str]) -> None:
    assert refused(made) == want


@pytest.mark.parametrize(
    ("made", "gates", "want"),
    [
        pytest.param(
            workload(labelled(labels={"a b": "c"})), off("WorkloadValidationForPodSetMetadata"), [], id="labels"
        ),
        pytest.param(
            workload(pod_set(requests={"cpu": "-1"})), off("WorkloadValidateResourcesAreNonNegative"), [], id="requests"
        ),
        pytest.param(
            workload(pod_set(requests={"pods": "-1"})),
            off("WorkloadValidateResourcesAreNonNegative"),
            [f"{CONTAINER}.requests[pods]"],
            id="pods are ours whatever the gate",
        ),
        pytest.param(
            workload(pod_set(topologyRequest={"podSetSliceSize": 2})),
            off("TASValidateWorkloadSliceSize"),
            [],
            id="slices",
        ),
        pytest.param(
            workload(annotations={f"{K}/admission-gated-by": "x"}), off("AdmissionGatedBy"), [], id="gates of admission"
        ),
        pytest.param(
            workload(pod_set(minCount=1), annotations=ELASTIC), off("ElasticJobsViaWorkloadSlices"), [], id="elastic"
        ),
        pytest.param(workload(annotations={f"{K}/priority-boost": "-5"}), BOOST, [], id="a boost"),
        pytest.param(workload(annotations={f"{K}/priority-boost": "+2147483647"}), BOOST, [], id="the largest boost"),
        pytest.param(workload(annotations={f"{K}/priority-boost": "-2147483648"}), BOOST, [], id="the smallest boost"),
        pytest.param(workload(annotations={f"{K}/priority-boost": "2147483648"}), BOOST, [BOOSTED], id="above it"),
        pytest.param(workload(annotations={f"{K}/priority-boost": ""}), BOOST, [BOOSTED], id="an empty boost"),
        pytest.param(workload(annotations={f"{K}/priority-boost": "1.5"}), BOOST, [BOOSTED], id="half a boost"),
        pytest.param(workload(annotations={f"{K}/priority-boost": "٣"}), BOOST, [BOOSTED], id="digits of a script"),
        pytest.param(workload(annotations={f"{K}/priority-boost": "9" * 5000}), BOOST, [BOOSTED], id="many digits"),
    ],
)
def test_gates_turn_rules_on_and_off(made: Any, gates: FeatureGates, want: list[str]) -> None:
    assert refused(made, gates=gates) == want


def assigned(version: str, topology: Any) -> Any:
    return workload(version=version, status=reserved({"name": "main", "count": 2, "topologyAssignment": topology}))


def piece(**more: Any) -> Any:
    whole = {"domainCount": 2, "valuesPerLevel": [{"universal": "a"}], "podCounts": {"universal": 1}} | more
    return {"levels": ["host"], "slices": [whole]}


AT = "status.admission.podSetAssignments[0].topologyAssignment"


@pytest.mark.parametrize(
    ("topology", "want"),
    [
        pytest.param(piece(), [], id="a slice"),
        pytest.param(piece(valuesPerLevel=[{"individual": {"roots": ["a", "b"]}}]), [], id="of two roots"),
        pytest.param(piece(podCounts={"individual": [1, 1]}), [], id="of two counts"),
        pytest.param(
            piece(valuesPerLevel=[{"universal": "a"}] * 2),
            [f"{AT}.slices[0].valuesPerLevel"],
            id="two values, one level",
        ),
        pytest.param(piece(valuesPerLevel=[{}]), [f"{AT}.slices[0].valuesPerLevel[0]"], id="no value"),
        pytest.param(
            piece(valuesPerLevel=[{"universal": "a", "individual": {"roots": ["a", "b"]}}]),
            [f"{AT}.slices[0].valuesPerLevel[0]"],
            id="both ways",
        ),
        pytest.param(
            piece(valuesPerLevel=[{"individual": {"roots": ["a"]}}]),
            [f"{AT}.slices[0].valuesPerLevel[0].individual.roots"],
            id="too few roots",
        ),
        pytest.param(piece(podCounts={}), [f"{AT}.slices[0].podCounts"], id="no counts"),
        pytest.param(
            piece(podCounts={"individual": [1]}), [f"{AT}.slices[0].podCounts.individual"], id="too few counts"
        ),
        pytest.param(piece(domainCount=0), [f"{AT}.slices[0].domainCount"], id="no domains"),
    ],
)
def test_topology_assignments(topology: Any, want: list[str]) -> None:
    assert refused(assigned("v1beta2", topology)) == want


def test_older_topology_assignments() -> None:
    good = {"levels": ["host"], "domains": [{"values": ["a"], "count": 2}]}
    assert refused(assigned(OLDER, good)) == []
    bad = {"levels": ["rack", "host"], "domains": [{"values": ["a"], "count": 2}]}
    assert refused(assigned(OLDER, bad)) == [f"{AT}.domains[0].values"]
