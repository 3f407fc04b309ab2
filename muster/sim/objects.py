"""Builders for the objects that simulated users write. Used by `mixes`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster.controllers.nodes.timing import EXIT_CODE, RUN
from muster.dialects.kueue.names import GROUP
from muster.store.kinds import Object

KUEUE = f"{GROUP}/v1beta2"
QUEUE_LABEL = f"{GROUP}/queue-name"
PRIORITY_LABEL = f"{GROUP}/priority-class"
NAMESPACE = "default"
GPU, GPU_MEMORY, GPU_CORES = "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpucores"
FLAVOR = "main"
LOAD = "metrics.muster.dev/load"  # on a deployment: what its autoscaler goes by
LOAD_OF_ONE, SCALED_MOST = 10, 3
TOUCHED = "example.com/touched"  # the annotation by which users edit what others write
PRIORITIES = {"low": 0, "mid": 100, "high": 1000}

Amounts = Mapping[str, str]


def an_object(kind: str, name: str, spec: Any, *, api: str = KUEUE, **metadata: Any) -> Object:
    """An object of the whole cluster, or of a namespace that its metadata names."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def cluster_queue(name: str, amounts: Mapping[str, Amounts], *, cohort: str = "", **spec: Any) -> Object:
    """A queue with one flavor; amounts are a quota's fields by resource."""
    resources = [{"name": resource, **fields} for resource, fields in amounts.items()]
    group = {"coveredResources": list(amounts), "flavors": [{"name": FLAVOR, "resources": resources}]}
    more = {"cohortName": cohort} if cohort else {}
    return an_object("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group], **more, **spec})


def cohort(name: str, parent: str) -> Object:
    """A group of queues below another."""
    return an_object("Cohort", name, {"parentName": parent})


def local_queue(name: str) -> Object:
    """The way into the cluster queue of the same name."""
    return an_object("LocalQueue", name, {"clusterQueue": name}, namespace=NAMESPACE)


def first_objects(queues: Iterable[Object]) -> list[Object]:
    """A flavor, priority classes of both kinds, and queues with the way into each."""
    made = [an_object("ResourceFlavor", FLAVOR, {})]
    for name, value in PRIORITIES.items():
        metadata = {"metadata": {"name": name}, "value": value}
        made.append({"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", **metadata})
        made.append({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **metadata})
    for queue in queues:
        made.append(queue)
        if queue["kind"] == "ClusterQueue":
            made.append(local_queue(queue["metadata"]["name"]))
    return made


def pod_template(asked: Amounts, *, run_s: float, exit_code: int = 0, **spec: Any) -> Object:
    """Pods that take some seconds; endless ones with 0."""
    annotations = {RUN: f"{run_s:g}s"} if run_s else {}
    if exit_code:
        annotations[EXIT_CODE] = str(exit_code)
    resources = {"requests": dict(asked), "limits": dict(asked)}
    container = {"name": "main", "image": "example.com/work:1", "resources": resources}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [container], **spec}
    return {"metadata": {"annotations": annotations, "labels": {}}, "spec": spec}


def job(name: str, pods: int, template: Object, **metadata: Any) -> Object:
    """A job that runs all its pods at once."""
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 2, "template": template}
    return an_object("Job", name, spec, api="batch/v1", namespace=NAMESPACE, **metadata)


def pod(name: str, template: Object, labels: Mapping[str, str]) -> Object:
    """A pod by itself."""
    metadata = {**template["metadata"], "name": name, "namespace": NAMESPACE, "labels": dict(labels)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def deployment(name: str, replicas: int, template: Object) -> Object:
    """Pods that run until they are replaced."""
    labels = {"app": name}
    template = {
        "metadata": {**template["metadata"], "labels": labels},
        "spec": {**template["spec"], "restartPolicy": "Always"},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return an_object("Deployment", name, spec, api="apps/v1", namespace=NAMESPACE)


def autoscaler(name: str, target: str) -> Object:
    """Keeps a deployment at one pod for each ten of the load that is written on it."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    metric = {
        "metric": {"name": "load"},
        "describedObject": reference,
        "target": {"type": "AverageValue", "averageValue": str(LOAD_OF_ONE)},
    }
    spec = {
        "scaleTargetRef": reference,
        "minReplicas": 1,
        "maxReplicas": SCALED_MOST,
        "metrics": [{"type": "Object", "object": metric}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},  # else it goes on for minutes after the storm
    }
    return an_object("HorizontalPodAutoscaler", name, spec, api="autoscaling/v2", namespace=NAMESPACE)


def cron_job(name: str, template: Object, **labels: str) -> Object:
    """A job each minute."""
    one = {"metadata": {"labels": labels}, "spec": {"backoffLimit": 1, "template": template}}
    spec = {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": one}
    return an_object("CronJob", name, spec, api="batch/v1", namespace=NAMESPACE)
