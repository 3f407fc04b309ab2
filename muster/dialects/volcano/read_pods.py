"""Pods as members of groups: joined by annotation, with what policies of groups ask about. Called by `read`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muster.dialects.volcano.names import GROUP_NAMES, PREEMPTABLE, TASK_PRIORITY, TASK_SPEC
from muster.engine.reading import PlacementReader
from muster.model.fields import INT32_MAX, Fields
from muster.model.groups import GroupPod, PodStatus
from muster.model.pod_rules import read_pod_rules
from muster.model.podspec import pod_shape, total_limits
from muster.model.resources import CPU, PODS, amount_of
from muster.model.times import moment
from muster.model.topology import Node

_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
MILLI = 1000
_SYSTEM_NAMESPACE = "kube-system"
_SYSTEM_CLASSES = frozenset(("system-cluster-critical", "system-node-critical"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReader:
    """What reading a pod needs to know."""

    placement: PlacementReader | None
    open_claims: frozenset[str]  # of volumes, that are not bound yet
    nodes: Mapping[str, Node]


def group_of(pod: Fields) -> str:
    """The name of the group that a pod names; empty: none."""
    annotations = pod.child("metadata").text_map("annotations")
    return next((annotations[name] for name in GROUP_NAMES if annotations.get(name)), "")


def read_pod(pod: Fields, reader: PodReader) -> GroupPod | None:
    """A Pod object; `None` for one of no group."""
    metadata, spec, status = pod.child("metadata"), pod.child("spec"), pod.child("status")
    name = group_of(pod)
    if not name:
        return None
    namespace = metadata.text("namespace")
    labels, annotations = metadata.text_map("labels"), metadata.text_map("annotations")
    node = spec.text("nodeName")
    placement = reader.placement
    shape = pod_shape(spec, limits_as_requests=False) if placement is None else pod_shape(spec)
    parts = placement.card_parts if placement is not None else frozenset()
    # Volcano: memory and cores of cards are for whoever gives out cards; queues do not count them.
    requests = {key: amount for key, amount in shape.requests.items() if key not in parts}
    devices = reader.nodes[node].devices if node in reader.nodes else ()
    return GroupPod(
        key=f"{namespace}/{metadata.text('name')}",
        uid=metadata.text("uid"),
        group=f"{namespace}/{name}",
        status=status_of(pod),
        role=annotations.get(TASK_SPEC) or labels.get(TASK_SPEC, ""),
        node=node,
        requests={**requests, PODS: 1},
        limits={key: amount_of(key, amount) for key, amount in total_limits(spec).items()},
        cores_alone=_cores_alone(spec),
        rules=read_pod_rules(pod) if placement is None else placement.rules_of(pod),
        cards=None if placement is None else placement.cards_of(pod),
        slices=None if placement is None or not node else placement.slices_of(pod, devices),
        priority=_priority(spec, annotations),
        created_at=moment(metadata, "creationTimestamp") or 0.0,
        is_preemptable=_is_preemptable(annotations, labels),
        may_preempt=spec.text("preemptionPolicy") != "Never",
        is_gated=bool(spec.items("schedulingGates")),
        is_critical=namespace == _SYSTEM_NAMESPACE or spec.text("priorityClassName") in _SYSTEM_CLASSES,
        nominated_node=status.text("nominatedNodeName"),
        labels=labels,
        annotations=annotations,
        waits_for_volumes=_waits_for_volumes(spec, namespace, reader.open_claims),
        claims=tuple(
            claim.text("resourceClaimName") or claim.text("name") for claim in spec.children("resourceClaims")
        ),
        scheduled_at=_scheduled_at(status),
    )


def status_of(pod: Fields) -> PodStatus:
    """Where a pod stands, as its phase and node tell."""
    phase = pod.child("status").text("phase")
    is_leaving = pod.child("metadata").has("deletionTimestamp")
    if phase in ("Running", "Pending", "") and is_leaving:
        return PodStatus.RELEASING
    if phase in ("Pending", ""):
        return PodStatus.BOUND if pod.child("spec").text("nodeName") else PodStatus.PENDING
    known = {"Running": PodStatus.RUNNING, "Succeeded": PodStatus.SUCCEEDED, "Failed": PodStatus.FAILED}
    return known.get(phase, PodStatus.UNKNOWN)


def _priority(spec: Fields, annotations: Mapping[str, str]) -> int:
    """Volcano: a pod that says nothing has priority 1."""
    text = annotations.get(TASK_PRIORITY, "").removeprefix("+")
    if text.removeprefix("-").isdecimal() and len(text) <= len(str(INT32_MAX)):
        return int(text)
    return spec.integer("priority", 1)


def _is_preemptable(annotations: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Volcano: a pod that says nothing may be preempted; what is no truth value means no."""
    text = annotations.get(PREEMPTABLE, labels.get(PREEMPTABLE))
    return text is None or text in _TRUE


def _cores_alone(spec: Fields) -> tuple[int, ...]:
    """The cores of containers that get whole ones: of pods whose containers all have what they ask for at most."""
    found = []
    for container in spec.children("containers"):
        resources = container.child("resources")
        limits, requests = resources.quantities("limits"), resources.quantities("requests")
        if any(name not in limits or requests.get(name, limits[name]) != limits[name] for name in (CPU, "memory")):
            return ()
        milli = amount_of(CPU, limits[CPU])
        if milli and milli % MILLI == 0:
            found.append(milli // MILLI)
    return tuple(found)


def _waits_for_volumes(spec: Fields, namespace: str, open_claims: frozenset[str]) -> bool:
    names = (volume.child("persistentVolumeClaim").text("claimName") for volume in spec.children("volumes"))
    return any(f"{namespace}/{name}" in open_claims for name in names if name)


def _scheduled_at(status: Fields) -> float | None:
    for condition in status.children("conditions"):
        if condition.text("type") == "PodScheduled" and condition.text("status") == "True":
            return moment(condition, "lastTransitionTime")
    return None
