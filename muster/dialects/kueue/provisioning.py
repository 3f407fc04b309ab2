"""ProvisioningRequests of workloads: which are made, and what their conditions mean for the check. Pure.

Used by the check `kueue.x-k8s.io/provisioning-request`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from muster.dialects.kueue.check_kinds import AUTOSCALING
from muster.dialects.kueue.gates import FeatureGates
from muster.dialects.kueue.job_starts import starts_of
from muster.dialects.kueue.job_workloads import PROVISIONING_PREFIX
from muster.dialects.kueue.names import GROUP
from muster.dialects.kueue.read_workloads import NO_CONDITION, read_conditions
from muster.engine.pod_templates import started
from muster.model.fields import Fields

NAME = f"{GROUP}/provisioning-request"
MANAGED = f"{GROUP}/managed"
CONSUMES, CLASS = f"{AUTOSCALING}/consume-provisioning-request", f"{AUTOSCALING}/provisioning-class-name"
_NAME_MOST = 240
_DOUBLINGS_MOST = 30
_SCHEDULING = ("nodeSelector", "tolerations", "affinity", "resourceClaims", "priorityClassName", "runtimeClassName")
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for on behalf of a workload: a request, and the templates that it names."""

    request: Object
    templates: tuple[Object, ...]
    pod_sets: tuple[str, ...]  # those that it is about


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a request has come to."""

    state: str
    message: str
    requeue_after_s: int = 0
    details: Mapping[str, str] | None = None


def request_name(workload: str, check: str, attempt: int) -> str:
    """The name of the request of one try; a long one is cut, and still nobody else's."""
    name = f"{workload}-{check}-{attempt}"
    if len(name) <= _NAME_MOST:
        return name
    digest = blake2b(name.encode(), digest_size=6).hexdigest()
    return f"{name[:_NAME_MOST]}-{digest}"


def wanted_of(
    workload: Fields, config: Fields, name: str, *, flavors: Mapping[str, Fields], gates: FeatureGates
) -> Wanted | None:
    """What is asked for; `None` where no pod set needs anything of it."""
    sets = list(_needed(workload, config))
    if not sets:
        return None
    starts = {one.name: one for one in starts_of(workload, flavors, gates)}
    policy = config.child("spec").text("podSetMergePolicy")
    groups: dict[str, list[tuple[Fields, int]]] = {}
    for number, pod_set in enumerate(sets):
        groups.setdefault(_alike(pod_set, policy) or str(number), []).append(
            (pod_set, starts[pod_set.text("name", "main")].count)
        )
    namespace = workload.child("metadata").text("namespace")
    templates: list[Object] = []
    asked: list[Object] = []
    for members in groups.values():
        first = members[0][0]
        pods = sum(count for _, count in members)
        template_name = f"ppt-{name}-{first.text('name', 'main')}"[:253]
        template = started(first.child("template"), replace(starts[first.text("name", "main")], gates=()))
        templates.append(_object("v1", "PodTemplate", template_name, namespace) | {"template": template})
        asked.append({"count": pods, "podTemplateRef": {"name": template_name}})
    spec: Object = {
        "provisioningClassName": config.child("spec").text("provisioningClassName"),
        "podSets": [one for one in asked if one["count"] > 0],
    }
    if parameters := _parameters(workload, config):
        spec["parameters"] = parameters
    if not spec["podSets"]:
        return None
    request = _object(f"{AUTOSCALING}/v1", "ProvisioningRequest", name, namespace) | {"spec": spec}
    return Wanted(request, tuple(templates), tuple(one.text("name", "main") for one in sets))


def outcome_of(request: Fields, config: Fields, attempt: int, *, is_admitted: bool) -> Outcome:
    """How the check stands by the conditions of its request."""
    conditions = read_conditions(request.child("status"))

    def said(kind: str) -> str:
        found = (one for one in request.child("status").children("conditions") if one.text("type") == kind)
        return next((one.text("message") or one.text("reason") for one in found), "")

    def holds(kind: str) -> bool:
        return conditions.get(kind, NO_CONDITION).is_true

    if holds("CapacityRevoked"):
        # The nodes are gone for good; pods that are made anew would wait for ever.
        return Outcome("Rejected", f"Capacity was revoked: {said('CapacityRevoked')}")
    if holds("Failed") or (holds("BookingExpired") and not is_admitted):
        kind = "Failed" if holds("Failed") else "BookingExpired"
        return _failed(config, attempt, said(kind) or kind)
    if holds("Provisioned"):
        details = request.child("status").text_map("provisioningClassDetails")
        return Outcome("Ready", said("Provisioned") or "Provisioned", details=details)
    return Outcome("Pending", said("Provisioned") or said("Accepted") or "Waiting for nodes")


def updates_of(wanted: Iterable[str], request: Fields, config: Fields, details: Mapping[str, str]) -> list[Object]:
    """What the pods get that use what was provided."""
    name, spec = request.child("metadata").text("name"), config.child("spec")
    annotations = {CONSUMES: name, CLASS: spec.text("provisioningClassName")}
    selector = {
        one.text("key"): details[source]
        for one in spec.child("podSetUpdates").children("nodeSelector")
        if (source := one.text("valueFromProvisioningClassDetail")) in details
    }
    more = {"nodeSelector": selector} if selector else {}
    return [{"name": pod_set, "annotations": annotations, **more} for pod_set in wanted]


def _failed(config: Fields, attempt: int, why: str) -> Outcome:
    strategy = config.child("spec").child("retryStrategy")
    if attempt > strategy.integer("backoffLimitCount", 3, least=0):
        return Outcome("Rejected", f"Failed {attempt} times: {why}")
    base_s, most_s = strategy.integer("backoffBaseSeconds", 60, least=0), strategy.integer("backoffMaxSeconds", 1800)
    wait_s = min(most_s, base_s * 2 ** min(attempt - 1, _DOUBLINGS_MOST))
    return Outcome("Retry", f"Retrying after failure: {why}", requeue_after_s=wait_s)


def _needed(workload: Fields, config: Fields) -> Iterator[Fields]:
    """The pod sets that ask for anything that has to be provided."""
    managed = set(config.child("spec").texts("managedResources"))
    usage = {
        one.text("name", "main"): one.child("resourceUsage").values
        for one in workload.child("status").child("admission").children("podSetAssignments")
    }
    for pod_set in workload.child("spec").children("podSets"):
        if not managed or managed & usage.get(pod_set.text("name", "main"), {}).keys():
            yield pod_set


def _alike(pod_set: Fields, policy: str) -> str:
    """The same text for pod sets that are asked for together; empty: for itself."""
    template = pod_set.child("template")
    if policy == "IdenticalPodTemplates":
        return json.dumps(template.values, sort_keys=True)
    if policy == "IdenticalWorkloadSchedulingRequirements":
        spec = template.child("spec").values
        containers = [one.get("resources") for name in ("initContainers", "containers") for one in spec.get(name) or ()]
        return json.dumps([{name: spec.get(name) for name in _SCHEDULING}, containers], sort_keys=True)
    return ""


def _parameters(workload: Fields, config: Fields) -> dict[str, str]:
    annotations = workload.child("metadata").text_map("annotations")
    passed = {
        key.removeprefix(PROVISIONING_PREFIX): text
        for key, text in annotations.items()
        if key.startswith(PROVISIONING_PREFIX)
    }
    return {**config.child("spec").text_map("parameters"), **passed}


def _object(api_version: str, kind: str, name: str, namespace: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": {MANAGED: "true"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
