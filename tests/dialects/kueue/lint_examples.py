"""Small sets of objects with one contradiction each, and what lint is to find in them. Used by the tests of lint."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from muster.app.manifests import read_manifests
from tests import support

KUEUE = "kueue.x-k8s.io/v1beta2"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
GPU, CORES, MEMORY = "nvidia.com/gpu", "nvidia.com/gpucores", "nvidia.com/gpumem"

Object = dict[str, Any]


# Builders: a clean set unless told otherwise ----------------------------------------------------------------------


def made(kind: str, name: str, version: str = "v1", **parts: Any) -> Object:
    namespace = parts.pop("namespace", None)
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **parts.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **parts}


def queue(name: str = "main-queue", cohort: str = "", **spec: Any) -> Object:
    quotas = spec.pop("quotas", {"plain": {"cpu": 8, "memory": "32Gi"}})
    limits = spec.pop("limits", {})
    covered = spec.pop("covered", list(next(iter(quotas.values()))))
    flavors = [
        {"name": flavor, "resources": [{"name": one, "nominalQuota": much, **limits} for one, much in lines.items()]}
        for flavor, lines in quotas.items()
    ]
    body = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": covered, "flavors": flavors}], **spec}
    if cohort:
        body["cohortName"] = cohort
    return made("ClusterQueue", name, KUEUE, spec=body)


def local(name: str = "todo", namespace: str = "team-a", to: str = "main-queue") -> Object:
    return made("LocalQueue", name, KUEUE, namespace=namespace, spec={"clusterQueue": to})


def flavor(name: str = "plain", **labels: str) -> Object:
    return made("ResourceFlavor", name, KUEUE, spec={"nodeLabels": labels} if labels else {})


def cohort(name: str, parent: str = "", **spec: Any) -> Object:
    return made("Cohort", name, KUEUE, spec={**({"parentName": parent} if parent else {}), **spec})


def namespace(name: str = "team-a", **labels: str) -> Object:
    return made("Namespace", name, metadata={"labels": labels})


def job(name: str = "train", namespace: str = "team-a", **changes: Any) -> Object:
    container = {"name": "main", "resources": changes.pop("resources", {"requests": {"cpu": 1}})}
    pod = {"restartPolicy": "Never", "containers": [container], **changes.pop("pod", {})}
    metadata = {"labels": {QUEUE_NAME: "todo"}, **changes.pop("metadata", {})}
    spec = {"template": {"spec": pod}, **changes}
    return made("Job", name, "batch/v1", namespace=namespace, metadata=metadata, spec=spec)


CLEAN = (namespace(), flavor(), queue(), local(), job())
LENDING = queue(limits={"lendingLimit": 2}, quotas={"plain": {"cpu": 8}})
CARDS = {"v100-32gb": {GPU: 4, CORES: 400, MEMORY: 4 * 32_000}}


def sourced(*objects: Object) -> list[tuple[str, Object]]:
    return [(f"{number}.yaml", copy.deepcopy(one)) for number, one in enumerate(objects)]


# Each row: the objects, and for each finding its code, a part of its path, and a part of what to write.
FINDINGS = [
    pytest.param(
        [queue(limits={"borrowingLimit": 2}, quotas={"plain": {"cpu": 8}}), flavor()],
        [("limit-without-cohort", "resources[0].borrowingLimit", "spec.cohortName: main")],
        id="borrowing from nobody",
    ),
    pytest.param(
        [LENDING, flavor()],
        [("limit-without-cohort", "resources[0].lendingLimit", "leave lendingLimit out")],
        id="lending to nobody",
    ),
    pytest.param(
        [{**LENDING, "apiVersion": "kueue.x-k8s.io/v1beta1"}, flavor()],
        [("limit-without-cohort", "lendingLimit", "spec.cohort: main")],
        id="the older version has another word",
    ),
    pytest.param(
        [cohort("root", resourceGroups=LENDING["spec"]["resourceGroups"]), flavor()],
        [("limit-without-cohort", "lendingLimit", "spec.parentName: root-parent")],
        id="a root cohort lends to nobody",
    ),
    pytest.param(
        [queue(preemption={"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}}), flavor()],
        [
            ("preemption-without-cohort", "borrowWithinCohort.policy", "spec.cohortName: main"),
            ("preemption-without-cohort", "reclaimWithinCohort", "spec.cohortName: main"),
        ],
        id="taking back from nobody",
    ),
    pytest.param(
        [queue(preemption={"reclaimWithinCohort": "Never"}), flavor()], [], id="never taking back is fine",
    ),
    pytest.param(
        [queue(quotas={"a": {"cpu": 8, "memory": "8Gi"}, "b": {"cpu": 4}}), flavor("a"), flavor("b")],
        [("flavor-lacks-resource", "flavors[1].resources", "{name: memory, nominalQuota: …} in b")],
        id="a flavor without a resource",
    ),
    pytest.param(
        [queue(quotas={"a": {GPU: 2, CORES: 200}, "b": {GPU: 4}}), flavor("a"), flavor("b")],
        [("flavor-lacks-resource", "flavors[1].resources", "{name: nvidia.com/gpucores, nominalQuota: 400} in b")],
        id="a flavor without a resource that follows from its cards",
    ),
    pytest.param(
        [queue(quotas={"a": {"cpu": 8, "memory": "8Gi"}}, covered=["cpu"]), flavor("a")],
        [("resource-not-covered", "flavors[0].resources", "memory in spec.resourceGroups[0].coveredResources")],
        id="a quota that the group does not cover",
    ),
    pytest.param(
        [queue(quotas={"a": {"cpu": 8, "memory": "8Gi"}}, covered=["memory", "cpu"]), flavor("a")],
        [("flavor-order", "flavors[0].resources", "memory, cpu")],
        id="another order",
    ),
    pytest.param(
        [queue(quotas={"a": {GPU: 4, CORES: 200}}), flavor("a")],
        [("quota-contradicts-cards", "resources[1].nominalQuota", "nominalQuota: 400")],
        id="half the cores of the cards",
    ),
    pytest.param(
        [queue(quotas={"a": {GPU: 40, CORES: 400}}), flavor("a"),
         made("ConfigMap", "device-config", data={"config.yaml": "deviceSplitCount: 10\n"})],
        [], id="cards counted in shares",
    ),
    pytest.param(
        [queue(quotas={"h100": {GPU: 4, MEMORY: 160_000}}), flavor("h100", product="H100-80GB")],
        [("quota-contradicts-cards", "resources[1].nominalQuota", f"nominalQuota: {4 * 80 * 1024}")],
        id="half the memory of the cards",
    ),
    pytest.param([queue(quotas=CARDS), flavor("v100-32gb")], [], id="memory in round numbers"),
    pytest.param(
        [queue(quotas={"a": {"": 4, CORES: 100, "cpu": 4}}), flavor("a")], [], id="a nameless resource counts no cards",
    ),
    pytest.param(
        [queue(quotas={"npu": {"huawei.com/Ascend910B": 2, "huawei.com/Ascend910B-cores": 100}}), flavor("npu")],
        [("quota-contradicts-cards", "resources[1]", "nominalQuota: 200")],
        id="another vendor's cores",
    ),
    pytest.param(
        [queue(namespaceSelector=None), flavor()],
        [("selector-absent", "spec.namespaceSelector", "namespaceSelector: {}")],
        id="no selector admits nobody",
    ),
    pytest.param(
        [queue(namespaceSelector={"matchLabels": {"team": "b"}}), flavor(), namespace(team="a"), local()],
        [("selector-shuts-out", "spec.namespaceSelector", "values: [team-a]")],
        id="a selector for another team",
    ),
    pytest.param(
        [queue(namespaceSelector={"matchLabels": {"team": "b"}}), flavor(), local()],
        [], id="labels of a namespace that is not given are unknown",
    ),
    pytest.param(
        [queue(namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "team-b"}}), flavor(), local()],
        [("selector-shuts-out", "spec.namespaceSelector", "matches team-a too")],
        id="but its name is known",
    ),
    pytest.param(
        [queue(), flavor(), local(to="mian-queue")],
        [("missing-cluster-queue", "spec.clusterQueue", "one of main-queue")],
        id="a queue that is not there",
    ),
    pytest.param(
        [queue(quotas={"a": {"cpu": 1}, "b": {"cpu": 1}}), flavor("a")],
        [("missing-flavor", "flavors[1].name", "one of a, or a ResourceFlavor named b")],
        id="a flavor that is not there",
    ),
    pytest.param(
        [queue(admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]}), flavor()],
        [("missing-check", "admissionChecks[0].name", "an AdmissionCheck named budget")],
        id="a check that is not there",
    ),
    pytest.param(
        [queue(admissionChecks=["budget"]), flavor(), made("AdmissionCheck", "budget", KUEUE)], [],
        id="a check that is there",
    ),
    pytest.param(
        [queue(), flavor(), flavor("spare")],
        [("unused-flavor", "metadata.name", "spare among the flavors")],
        id="a flavor nobody uses",
    ),
    pytest.param([flavor("spare")], [], id="a flavor without any queue is a part of a set"),
    pytest.param(
        [queue("shared-queue", quotas={"plain": {"cpu": 8}}, limits={"borrowingLimit": 1}), flavor(),
         local(to="shared-queue"), local(namespace="team-b", to="shared-queue")],
        [("shared-queue", "metadata.name", "shared-team-a and shared-team-b, all with spec.cohortName: shared"),
         ("limit-without-cohort", "borrowingLimit", "spec.cohortName: shared")],
        id="two teams in a queue that is to borrow",
    ),
    pytest.param(
        [queue(), flavor(), local(), local(namespace="team-b")], [], id="two teams in a plain queue are fine",
    ),
    pytest.param(
        [queue(cohort="all", limits={"borrowingLimit": 1}), flavor(), local(), local(namespace="team-b")], [],
        id="two namespaces in a queue that has others to borrow from",
    ),
    pytest.param(
        [queue(), flavor(), local(), local(namespace="team-b"), job(), job("serve", "team-b", metadata={
            "labels": {QUEUE_NAME: "todo", PRIORITY: "high"}}), made("WorkloadPriorityClass", "high", KUEUE, value=9)],
        [("shared-queue", "metadata.name", "a ClusterQueue for each")],
        id="two teams with priorities in a queue",
    ),
    pytest.param(
        [cohort("c", "a"), cohort("a", "b"), cohort("b", "c"), cohort("d", "a"), cohort("e", "e"), cohort("f")],
        [("cohort-cycle", "spec.parentName", "no parentName"), ("cohort-cycle", "spec.parentName", "no parentName")],
        id="cohorts in a circle",
    ),
    pytest.param(
        [flavor(), flavor()], [("repeated-object", "metadata.name", "another name")], id="one name twice",
    ),
    pytest.param(
        [*CLEAN[:4], job(metadata={"labels": None, "annotations": {QUEUE_NAME: "todo"}})],
        [("queue-in-annotation", f"annotations[{QUEUE_NAME}]", f"metadata.labels: {{{QUEUE_NAME}: todo}}")],
        id="the queue in an annotation",
    ),
    pytest.param(
        [*CLEAN[:4], job(namespace="team-b")],
        [("missing-local-queue", f"labels[{QUEUE_NAME}]", "a LocalQueue todo in namespace team-b")],
        id="a queue of another namespace",
    ),
    pytest.param(
        [*CLEAN[:4], local("urgent"), job(metadata={"labels": {QUEUE_NAME: "tood"}})],
        [("missing-local-queue", "queue-name", "one of todo, urgent, or a LocalQueue tood")],
        id="a queue that nobody made",
    ),
    pytest.param(
        [*CLEAN[:4], job(resources={"requests": {"cpu": 1}, "limits": {GPU: 2, "memory": "1Gi"}})],
        [("uncovered-resource", "spec.template.spec.containers", f"{GPU} in spec.resourceGroups[0].coveredResources")],
        id="a resource that the queue does not count",
    ),
    pytest.param(
        [*CLEAN[:2], queue(quotas={"plain": {GPU: 8}}), local(),
         job(resources={"requests": {"cpu": "1500m", "memory": "3Gi"}, "limits": {GPU: 2}})],
        [("uncovered-resource", "containers", "cpu: 6, memory: 12Gi in plain")],
        id="quotas proposed by the card",
    ),
    pytest.param(
        [*CLEAN[:2], {**queue(), "spec": {"namespaceSelector": {}}}, local(), job()],
        [("unused-flavor", "metadata.name", ""), ("uncovered-resource", "containers", "a resource group with cpu")],
        id="a queue without quota",
    ),
    pytest.param(
        [*CLEAN[:4], job(metadata={"labels": {QUEUE_NAME: "todo"}, "annotations": {PRIORITY: "high"}}),
         made("WorkloadPriorityClass", "high", KUEUE, value=9)],
        [("priority-in-annotation", f"annotations[{PRIORITY}]", f"metadata.labels: {{{PRIORITY}: high}}")],
        id="the priority class in an annotation",
    ),
    pytest.param(
        [*CLEAN[:4], job(metadata={"labels": {QUEUE_NAME: "todo", PRIORITY: "high"}}),
         made("PriorityClass", "high", "scheduling.k8s.io/v1", value=9)],
        [("wrong-priority-class", "labels[kueue", "kind: WorkloadPriorityClass, metadata: {name: high}, value: 9")],
        id="a class for pods where one for workloads is meant",
    ),
    pytest.param(
        [*CLEAN[:4], job(metadata={"labels": {QUEUE_NAME: "todo", PRIORITY: "high"}})],
        [("missing-priority-class", f"labels[{PRIORITY}]", "name: high")],
        id="no class of that name",
    ),
    pytest.param(
        [made("Workload", "w", KUEUE, spec={"queueName": "todo", "priorityClassRef": {
            "kind": "WorkloadPriorityClass", "name": "high"}}, namespace="team-a"), *CLEAN[:4]],
        [("missing-priority-class", "spec.priorityClassRef.name", "name: high")],
        id="no class of a workload's name",
    ),
    pytest.param(
        [*CLEAN[:4], job(pod={"priorityClassName": "fast"}), job("b", pod={"priorityClassName": "system-x"})],
        [("missing-pod-priority-class", "spec.template.spec.priorityClassName", "a PriorityClass named fast")],
        id="no class for pods of that name",
    ),
    pytest.param(
        [*CLEAN[:4], job(parallelism=4, completions=2), job("b", parallelism=4, completions=4)],
        [("completions-below-parallelism", "spec.completions", "completions: 4, or leave it out")],
        id="fewer completions than pods",
    ),
    pytest.param(
        [*CLEAN[:4], job(pod={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]})],
        [("missing-claim", "volumes[0].persistentVolumeClaim.claimName", "PersistentVolumeClaim data in")],
        id="a claim that is not there",
    ),
    pytest.param(
        [made("Pod", "p", spec={"containers": [{"resources": {"requests": {GPU: 1, "cpu": 1}}}]})],
        [("request-without-limit", f"spec.containers[0].resources.requests[{GPU}]", f"limits: {{{GPU}: 1}}")],
        id="cards requested without a limit",
    ),
    pytest.param(
        [*CLEAN[:4], job(pod={"restartPolicy": None}), job("b", pod={"restartPolicy": "Always"}),
         job("c", pod={"restartPolicy": "OnFailure"})],
        [("restart-policy", "spec.template.spec.restartPolicy", "restartPolicy: Never")] * 2,
        id="no restart policy for a job",
    ),
    pytest.param(
        [made("RayCluster", "r", "ray.io/v1", namespace="team-a", metadata={"labels": {QUEUE_NAME: "todo"}}, spec={
            "workerGroupSpecs": [{"template": {"spec": {"containers": [{"resources": {"limits": {GPU: 1}}}]}}}]}),
         *CLEAN[:4]],
        [("uncovered-resource", "spec.workerGroupSpecs[0].template.spec.containers", f"{GPU} in")],
        id="pods inside any kind of job",
    ),
]  # fmt: skip


def scenario() -> list[tuple[str, Object]]:
    files = sorted(support.shared("manifests").glob("scenario-*.yaml"))
    return [(one.source.rpartition("/")[2], one.value) for one in read_manifests(str(file) for file in files)]
