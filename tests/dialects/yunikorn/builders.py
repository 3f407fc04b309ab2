"""Pods and configurations with good defaults. Imported by the tests of YuniKorn's reading."""

from __future__ import annotations

import json
from typing import Any

import yaml

from muster.dialects.yunikorn.applications import PodOfApplication
from muster.dialects.yunikorn.read import Reading, Surroundings, assumed_configuration, read_pods
from muster.dialects.yunikorn.validate import read_configuration
from muster.model.fields import Fields

DOMAIN = "yunikorn.apache.org/"


def pod(name: str, *, at: float = 0.0, namespace: str = "default", cpu: str = "1", **said: Any) -> PodOfApplication:
    """A pod; `labels`, `annotations`, `node`, `queue`, `app`, `user` and `priority` are as given."""
    labels = {**said.get("labels", {})}
    annotations = {**said.get("annotations", {})}
    if "app" in said:
        labels["applicationId"] = said["app"]
    if "queue" in said:
        labels["queue"] = said["queue"]
    if "user" in said:
        annotations[f"{DOMAIN}user.info"] = json.dumps({"user": said["user"], "groups": said.get("groups", [])})
    if "group" in said:
        annotations[f"{DOMAIN}task-group-name"] = said["group"]
    spec: dict[str, Any] = {
        "schedulerName": "yunikorn",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu, **said.get("asks", {})}}}],
    }
    if "node" in said:
        spec["nodeName"] = said["node"]
    metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}
    return PodOfApplication(
        pod=Fields({"metadata": metadata, "spec": spec}),
        key=f"{namespace}/{name}",
        owner=f"Pod {namespace}/{name}",
        priority=said.get("priority", 0),
        created_at=at,
    )


def groups(*parts: tuple[str, int, str], parameters: str = "") -> dict[str, str]:
    """The annotations of a gang: name, number and cores of each task group."""
    listed = [{"name": name, "minMember": least, "minResource": {"cpu": cpu}} for name, least, cpu in parts]
    return {f"{DOMAIN}task-groups": json.dumps(listed), f"{DOMAIN}schedulingPolicyParameters": parameters}


def reading(*pods: PodOfApplication, root: dict[str, Any] | None = None, **surroundings: Any) -> Reading:
    """What pods come to under a root with these settings, or under none at all."""
    configuration = assumed_configuration()
    if root is not None:
        partition = {"queues": [{"name": "root", "submitacl": "*", **root}]}
        configuration = read_configuration(yaml.safe_dump({"partitions": [partition]}), "queues.yaml")
    return read_pods(pods, configuration, Surroundings(**surroundings))
