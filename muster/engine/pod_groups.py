"""Pods that start together: the labels and annotations that say so, and the roles that equal pods have.

Used by `jobs`, where pods and the kinds that make them are, and by the dialect that makes one workload of a group.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from muster.engine.contracts import Carried
from muster.engine.pod_templates import labelled
from muster.model.errors import InvalidObject
from muster.model.fields import INT32_MAX, Fields, shown
from muster.model.labels import dns1123_subdomain_problem

PREFIX = "kueue.x-k8s.io"
GROUP_NAME = f"{PREFIX}/pod-group-name"  # an annotation, or a label as it was before
TOTAL_COUNT = f"{PREFIX}/pod-group-total-count"
FAST_ADMISSION = f"{PREFIX}/pod-group-fast-admission"  # the first pod stands for all
SERVING = f"{PREFIX}/pod-group-serving"  # it goes on until somebody ends it
RETRIABLE = f"{PREFIX}/retriable-in-group"
ROLE = f"{PREFIX}/role-hash"
# Labels whose value ends the name of a pod's group: one template serves several groups.
PARTS = "muster.dev/pod-group-part-labels"
# What of a pod, beside its containers, makes another role of it.
SHAPE = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "topologySpreadConstraints",
    "overhead",
    "resourceClaims",
)
ROLE_LENGTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """The group that a pod says it is in."""

    name: str
    total: int
    is_fast: bool  # whether its workload is made when the first pod is there
    is_serving: bool


def group_of(pod: Fields) -> PodGroup | None:
    """The group of a pod; `None`: it is on its own. Raises where it says so only by half."""
    for problem in group_problems(pod):
        raise problem
    annotations = pod.child("metadata").text_map("annotations")
    if not (name := group_name(pod)):
        return None
    return PodGroup(
        name=name,
        total=int(annotations[TOTAL_COUNT]),
        is_fast=annotations.get(FAST_ADMISSION) == "true",
        is_serving=annotations.get(SERVING) == "true",
    )


def group_name(pod: Fields) -> str:
    """The name of a pod's group; empty when it has none."""
    metadata = pod.child("metadata")
    return metadata.text_map("annotations").get(GROUP_NAME) or metadata.text_map("labels").get(GROUP_NAME, "")


def group_problems(pod: Fields) -> Iterator[InvalidObject]:
    """What is wrong with what a pod says of its group."""
    metadata, name = pod.child("metadata"), group_name(pod)
    total = metadata.text_map("annotations").get(TOTAL_COUNT, "")
    at = f"{metadata.at('annotations')}[{TOTAL_COUNT}]"
    if name and (problem := dns1123_subdomain_problem(name)):
        where = f"{metadata.at('annotations')}[{GROUP_NAME}]"
        yield InvalidObject(where, f"is {shown(name)}, which {problem}", "give a name such as train-1")
    if bool(name) != bool(total):
        missing, there = (TOTAL_COUNT, GROUP_NAME) if name else (GROUP_NAME, TOTAL_COUNT)
        yield InvalidObject(f"{metadata.at('annotations')}[{missing}]", "is missing", f"give it beside {there}")
    elif total and not (total.isascii() and total.isdigit() and len(total) <= 10 and 1 <= int(total) <= INT32_MAX):
        yield InvalidObject(at, f"is {shown(total)}", "give the number of pods in the group, from 1 on")


def role_of(pod: Fields) -> str:
    """The role of a pod in its group: the one it names, else one for all pods of its shape."""
    named = pod.child("metadata").text_map("annotations").get(ROLE, "")
    if named:
        return named
    spec = pod.child("spec")
    shape: dict[str, Any] = {name: spec.raw(name) for name in SHAPE if spec.raw(name)}
    for kind in ("initContainers", "containers"):
        shape[kind] = [
            {"requests": one.child("resources").raw("requests"), "ports": one.raw("ports")}
            for one in spec.children(kind)
        ]
    return sha256(json.dumps(shape, sort_keys=True).encode()).hexdigest()[:ROLE_LENGTH]


def with_role(pod: Fields) -> dict[str, Any]:
    """A new pod of a group with its role, and with the name of its own group where one template serves several."""
    metadata = pod.child("metadata")
    annotations, labels = metadata.text_map("annotations"), metadata.text_map("labels")
    for label in annotations.pop(PARTS, "").split(","):
        if labels.get(label):
            annotations[GROUP_NAME] = f"{group_name(pod)}-{labels[label]}"
            break
    annotations[ROLE] = role_of(pod)
    return {**pod.values, "metadata": {**metadata.values, "annotations": annotations}}


def grouped(template: Fields, carried: Carried, total: int, more: Mapping[str, str]) -> dict[str, Any]:
    """A template whose pods wait together, with further annotations."""
    if not carried.group:
        raise InvalidObject("metadata.name", "is missing", "name it: its pods wait together under that name")
    annotations = {GROUP_NAME: carried.group, TOTAL_COUNT: str(max(1, total)), **more}
    return labelled(template, carried.labels, annotations)
