"""Sound objects of the dialects' kinds, rich enough that every rule has something to say. Used by the comparisons."""

from __future__ import annotations

from typing import Any

from tests.dialects.kueue.objects import NOW, cluster_queue, condition, obj, pod_set, quota, workload
from tests.dialects.kueue.objects import flavor as quotas_of
from tests.dialects.kueue.objects import group as resource_group

Object = dict[str, Any]
VERSIONS = ("v1beta1", "v1beta2")

_TOLERATIONS = [
    {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"},
    {"operator": "Exists"},
    {"key": "b", "effect": "NoExecute", "tolerationSeconds": 5},
]


def kueue_objects() -> list[Object]:
    """Objects of Kueue's kinds in both versions."""
    return [one for version in VERSIONS for one in (*_queues(version), *_others(version), *_workloads(version))]


def _queues(version: str) -> list[Object]:
    two = resource_group(
        quotas_of(quota(borrowingLimit=5, lendingLimit="2"), quota("memory", "1Gi"), name="a"),
        quotas_of(quota(), quota("memory", 10), name="b"),
        covered=("cpu", "memory"),
    )
    rules = {
        "preemption": {
            "reclaimWithinCohort": "Any",
            "withinClusterQueue": "LowerPriority",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 5},
        },
        "flavorFungibility": {
            "whenCanBorrow": "TryNextFlavor",
            "whenCanPreempt": "TryNextFlavor",
            "preference": "BorrowingOverPreemption",
        },
        "fairSharing": {"weight": "1.5"},
    }
    usage = [{"name": "a", "resources": [{"name": "cpu", "total": 1, "borrowed": "0"}]}]
    status = {"conditions": [condition("Active")], "flavorsUsage": usage, "pendingWorkloads": 1}
    return [
        cluster_queue(two, version=version, **rules) | {"status": status},
        obj("Cohort", {"parentName": "up", "resourceGroups": [two]}, version=version)
        | {"status": {"fairSharing": {"weightedShare": 1}}},
        obj("LocalQueue", {"clusterQueue": "x", "stopPolicy": "Hold"}, version=version)
        | {"status": {"conditions": [condition("Active")], "pendingWorkloads": 1}},
    ]


def _others(version: str) -> list[Object]:
    levels = [{"nodeLabel": "block"}, {"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    parameters = {"apiGroup": "a.b", "kind": "Config", "name": "x"}
    source: Object = {"kubeConfig": {"location": "a", "locationType": "Secret"}}
    taints = [{"key": "a", "effect": "NoSchedule", "value": "b"}]
    flavor = {
        "nodeLabels": {"a": "b"},
        "nodeTaints": taints,
        "tolerations": _TOLERATIONS,
        "topologyName": "default",
    }
    retry = {"backoffLimitCount": 2}
    return [
        obj("AdmissionCheck", {"controllerName": "a.b/c", "parameters": parameters}, version=version)
        | {"status": {"conditions": [condition("Active")]}},
        obj("MultiKueueCluster", {"clusterSource": source} if version == "v1beta2" else source, version=version)
        | {"status": {"conditions": [condition("Active")]}},
        obj("MultiKueueConfig", {"clusters": ["a", "b"]}, version=version),
        obj("ProvisioningRequestConfig", {"provisioningClassName": "a.b", "retryStrategy": retry}, version=version),
        obj("ResourceFlavor", flavor, version=version),
        obj("Topology", {"levels": levels}, version=version),
        obj("Topology", {"levels": levels[:2]}, version=version),
        obj("WorkloadPriorityClass", version=version, value=5, description="a"),
    ]


def _workloads(version: str) -> list[Object]:
    is_hub = version == "v1beta2"
    sets = (pod_set("a", minCount=1), pod_set("b"))
    named: Object = {"priorityClassName": "high", "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"}
    of_pods: Object = {"priorityClassName": "high", "priorityClassSource": "scheduling.k8s.io/priorityclass"}
    if is_hub:
        own = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
        named = {"priorityClassRef": own}
        of_pods = {"priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}}
    limits = {"priority": 5, "maximumExecutionTimeSeconds": 60}
    return [
        workload(*sets, version=version, status=_status(is_hub=is_hub), **named, **limits),
        workload(*sets, version=version, status=_status(is_hub=is_hub), **of_pods, **limits),
        workload(*sets, version=version, status={"clusterName": "a", "conditions": [condition("Finished")]}),
    ]


def _status(*, is_hub: bool) -> Object:
    listed: Object = {"levels": ["host"], "domains": [{"values": ["n1"], "count": 2}]}
    sliced: Object = {
        "levels": ["rack", "host"],
        "slices": [
            {
                "domainCount": 2,
                "valuesPerLevel": [{"universal": "r"}, {"individual": {"roots": ["n1", "n2"]}}],
                "podCounts": {"individual": [1, 1]},
            },
            {"domainCount": 1, "valuesPerLevel": [{"universal": "r"}] * 2, "podCounts": {"universal": 2}},
        ],
    }
    assignments = [
        {"name": name, "count": 2, "flavors": {"cpu": "a"}, "topologyAssignment": sliced if is_hub else listed}
        for name in ("a", "b")
    ]
    update = {"name": "a", "tolerations": _TOLERATIONS, "labels": {"a": "b"}}
    check = {"name": "c", "state": "Ready", "message": "", "lastTransitionTime": NOW, "podSetUpdates": [update]}
    return {
        "conditions": [condition("QuotaReserved"), condition("Admitted")],
        "admission": {"clusterQueue": "x", "podSetAssignments": assignments},
        "admissionChecks": [check],
        "nominatedClusterNames": ["a"],
    }


# Volcano ----------------------------------------------------------------------------------------------------------


def volcano_objects() -> list[Object]:
    """Objects of Volcano's kinds."""
    topology = {"mode": "soft", "highestTierAllowed": 2}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}, "ports": [{"containerPort": 80}]}
    task = {
        "name": "worker",
        "replicas": 2,
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container], "restartPolicy": "Never"}},
        "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
        "partitionPolicy": {"partitionSize": 1, "totalPartitions": 2, "networkTopology": topology},
        "dependsOn": {"name": ["other"]},
        "topologyPolicy": "best-effort",
    }
    job = {
        "minAvailable": 2,
        "tasks": [task],
        "networkTopology": topology,
        "plugins": {"svc": []},
        "policies": [{"events": ["PodFailed", "PodEvicted"], "action": "RestartJob", "timeout": "1m", "exitCode": 3}],
        "volumes": [{"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}],
    }
    state = {"state": {"phase": "Running"}, "running": 1, "taskStatusCount": {"worker": {"phase": {"Running": 1}}}}
    members = [
        {"type": "Node", "selector": {"exactMatch": {"name": "n1"}}},
        {"type": "HyperNode", "selector": {"regexMatch": {"pattern": "^s"}}},
        {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"a": "b"}}}},
    ]
    probe = {"httpGetList": [{"port": 80, "path": "/"}], "tcpSocketList": [{"port": 80, "taskName": "a"}]}
    flow = {"name": "a", "dependsOn": {"targets": ["b"], "probe": probe}, "patch": {"jobSpec": job}}
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "x", "uid": "1"}
    queue = {"weight": 3, "capability": {"cpu": 4}, "guarantee": {"resource": {"cpu": "1"}}, "parent": "root"}
    group = {
        "minMember": 2,
        "minTaskMember": {"worker": 2},
        "networkTopology": topology,
        "subGroupPolicy": [{"name": "a", "labelSelector": {"matchLabels": {"a": "b"}}, "networkTopology": topology}],
    }
    detail = {"cpuDetail": {"0": {"core": 0, "numa": 0, "socket": 0}}, "numares": {"cpu": {"capacity": 2}}}
    return [
        _volcano("scheduling", "v1beta1", "Queue", spec=queue, status={"state": "Open", "running": 1}),
        _volcano("scheduling", "v1beta1", "PodGroup", spec=group, status={"phase": "Running", "running": 1}),
        _volcano("topology", "v1alpha1", "HyperNode", spec={"tier": 1, "members": members}, status={"nodeCount": 1}),
        _volcano("nodeinfo", "v1alpha1", "Numatopology", spec=detail),
        _volcano("bus", "v1alpha1", "Command", action="AbortJob", target=target),
        _volcano("batch", "v1alpha1", "Job", spec=job, status=state),
        _volcano(
            "batch",
            "v1alpha1",
            "CronJob",
            spec={"schedule": "* * * * *", "jobTemplate": {"spec": job}},
            status={"active": [{"kind": "Job", "name": "x"}]},
        ),
        _volcano("flow", "v1alpha1", "JobTemplate", spec=job, status={"jobDependsOnList": ["a"]}),
        _volcano("flow", "v1alpha1", "JobFlow", spec={"flows": [flow]}, status={"state": {"phase": "Running"}}),
    ]


def _volcano(group: str, version: str, kind: str, **parts: Any) -> Object:
    return {"apiVersion": f"{group}.volcano.sh/{version}", "kind": kind, "metadata": {"name": "x"}, **parts}
