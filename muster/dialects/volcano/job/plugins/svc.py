"""svc: pods of a job reach each other by name. Volcano's plugin of that name.

A service without an address, a ConfigMap with all hosts, and a rule that lets in nobody but pods of the job.
"""

from __future__ import annotations

from muster.dialects.volcano.job.group import reference_to
from muster.dialects.volcano.job.plugins.contract import (
    Flags,
    JobPlugin,
    Object,
    PluginObject,
    add_variables,
    hosts,
)
from muster.dialects.volcano.job.pods import PodPlace, containers_of
from muster.dialects.volcano.job.spec import Task, VolcanoJob
from muster.dialects.volcano.job.words import JOB_NAME, JOB_NAMESPACE

MOUNT = "/etc/volcano"


def map_name(job: VolcanoJob) -> str:
    """The ConfigMap with the hosts of a job."""
    return f"{job.name}-svc"


def pods_of(job: VolcanoJob) -> dict[str, str]:
    """The labels that pods of a job have and no others."""
    return {JOB_NAME: job.name, JOB_NAMESPACE: job.namespace}


def _variable(task: Task) -> str:
    return task.name.upper().replace("-", "_")


def _hosts_of(job: VolcanoJob) -> dict[str, str]:
    found = {}
    for task in job.tasks:
        names = hosts(job, task)
        found[f"{task.name.replace('-', '_')}.host"] = "\n".join(names)
        found[f"VC_{_variable(task)}_HOSTS"] = ",".join(names)
        found[f"VC_{_variable(task)}_NUM"] = str(len(names))
    return found


def object_of(job: VolcanoJob, api_version: str, kind: str, name: str) -> Object:
    """An object that belongs to a job, without what it says."""
    metadata = {"name": name, "namespace": job.namespace, "ownerReferences": [reference_to(job)]}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _objects(job: VolcanoJob, flags: Flags) -> list[PluginObject]:
    hosts_map = {**object_of(job, "v1", "ConfigMap", map_name(job)), "data": _hosts_of(job)}
    service = {
        **object_of(job, "v1", "Service", job.name),
        "spec": {
            "clusterIP": "None",
            "selector": pods_of(job),
            "publishNotReadyAddresses": flags["publish-not-ready-addresses"] == "true",
        },
    }
    selector = {"matchLabels": pods_of(job)}
    guard = {
        **object_of(job, "networking.k8s.io/v1", "NetworkPolicy", job.name),
        "spec": {
            "podSelector": selector,
            "ingress": [{"from": [{"podSelector": selector}]}],
            "policyTypes": ["Ingress"],
        },
    }
    found = [
        PluginObject("configmaps", hosts_map),
        PluginObject("services", service, is_kept=True),
    ]
    if flags["disable-network-policy"] != "true":
        found.append(PluginObject("networkpolicies.networking.k8s.io", guard, is_kept=True))
    return found


def _add(pod: Object, place: PodPlace, flags: Flags) -> None:
    job, spec = place.job, pod["spec"]
    spec["hostname"] = spec.get("hostname") or pod["metadata"]["name"]
    spec["subdomain"] = spec.get("subdomain") or job.name
    name = map_name(job)
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "configMap": {"name": name}}]
    keys = [f"VC_{_variable(task)}_{what}" for task in job.tasks for what in ("HOSTS", "NUM")]
    variables = [{"name": key, "valueFrom": {"configMapKeyRef": {"name": name, "key": key}}} for key in keys]
    for container in containers_of(pod):
        if flags["inject-hosts-env"] == "true":
            add_variables(container, *variables)
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), {"name": name, "mountPath": MOUNT}]


PLUGIN = JobPlugin(
    name="svc",
    flags={"publish-not-ready-addresses": "false", "disable-network-policy": "false", "inject-hosts-env": "true"},
    add=_add,
    objects=_objects,
)
