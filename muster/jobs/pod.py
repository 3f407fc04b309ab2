"""A plain Pod: a workload of one pod, held back by a scheduling gate. Found by `app` through INTEGRATION.

A pod of a group is held back here too; with what follows for the group the controller of groups deals.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from muster.engine.contracts import Ending, GroupVersionKind, Integration, JobPodSet, PodSetStart
from muster.engine.job_forms import has_true_condition
from muster.engine.pod_groups import group_name, group_of, with_role
from muster.engine.pod_templates import started
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields

ADMISSION_GATE = "kueue.x-k8s.io/admission"
TOPOLOGY_GATE = "kueue.x-k8s.io/topology"  # opened when it is known which node
TOPOLOGY_ANNOTATIONS = frozenset(
    f"kueue.x-k8s.io/podset-{way}-topology" for way in ("required", "preferred", "unconstrained")
)
MANAGED = "kueue.x-k8s.io/managed"  # a label, and a finalizer
RESTART_POLICIES = ("Always", "OnFailure", "Never")
TEMPLATE_METADATA = ("labels", "annotations", "finalizers")


def pod_sets(pod: Fields) -> tuple[JobPodSet, ...]:
    """The pod itself, as the one pod of its set."""
    if problems := tuple(_problems(pod)):
        raise InvalidObjects(problems)
    metadata = pod.child("metadata").values
    template = {
        "metadata": {name: metadata[name] for name in TEMPLATE_METADATA if metadata.get(name) is not None},
        "spec": pod.child("spec").values,
    }
    return (JobPodSet(name="main", count=1, template=template, template_path=""),)


def is_suspended(pod: Fields) -> bool:
    """Whether a gate keeps it from being scheduled."""
    return any(gate.text("name") == ADMISSION_GATE for gate in pod.child("spec").children("schedulingGates"))


def finished(pod: Fields) -> Ending | None:
    """How the pod ended, as its phase says."""
    status = pod.child("status")
    phase = status.text("phase")
    return Ending(phase == "Succeeded", status.text("message")) if phase in ("Succeeded", "Failed") else None


def _problems(pod: Fields) -> Iterator[InvalidObject]:
    try:
        spec = pod.child("spec")
        spec.choice("restartPolicy", RESTART_POLICIES)
        if not spec.items("containers"):
            yield spec.error("containers", "is missing", "give at least one container")
    except InvalidObject as problem:
        yield problem


def hold(pod: Fields) -> dict[str, Any]:
    """A new pod behind its gate. It is kept until its end was seen, and its label says that it went this way."""
    if group_of(pod) is not None:
        pod = Fields(with_role(pod))
    metadata, spec = pod.child("metadata"), pod.child("spec")
    finalizers, gates = metadata.items("finalizers"), spec.items("schedulingGates")
    held = {
        **metadata.values,
        "labels": {**metadata.text_map("labels"), MANAGED: "true"},
        "finalizers": finalizers if MANAGED in finalizers else [*finalizers, MANAGED],
    }
    has_place = not TOPOLOGY_ANNOTATIONS.isdisjoint(metadata.text_map("annotations"))
    wanted = [{"name": name} for name in ((ADMISSION_GATE, TOPOLOGY_GATE) if has_place else (ADMISSION_GATE,))]
    closed = [*gates, *(gate for gate in wanted if gate not in gates)]
    return {**pod.values, "metadata": held, "spec": {**spec.values, "schedulingGates": closed}}


def is_marked(pod: Fields) -> bool:
    """Whether it was held back when it was made, and waits for itself: one that was not is none of ours."""
    return pod.child("metadata").text_map("labels").get(MANAGED) == "true" and not group_name(pod)


def start(pod: Fields, starts: tuple[PodSetStart, ...]) -> dict[str, Any]:
    """A pod that looks for a node, among those that were assigned; gates it has not had cannot be added."""
    (given,) = starts
    gates = pod.child("spec").items("schedulingGates")
    there = tuple(name for name in given.gates if {"name": name} in gates)
    begun = started(pod, replace(given, gates=there))
    left = [gate for gate in gates if gate.get("name") != ADMISSION_GATE]
    spec = {name: value for name, value in begun["spec"].items() if name != "schedulingGates"}
    return {**begun, "spec": {**spec, **({"schedulingGates": left} if left else {})}}


def is_active(pod: Fields) -> bool:
    """Whether it may be on a node."""
    return finished(pod) is None and not is_suspended(pod)


def is_ready(pod: Fields) -> bool:
    """Whether it is ready, or has done its work."""
    status = pod.child("status")
    return has_true_condition(status, "Ready") or status.text("phase") == "Succeeded"


INTEGRATION = Integration(
    name="pod",
    gvk=GroupVersionKind("", "v1", "Pod"),
    plural="pods",
    pod_sets=pod_sets,
    is_suspended=is_suspended,
    finished=finished,
    hold=hold,
    start=start,
    is_active=is_active,
    is_ready=is_ready,
    finalizer=MANAGED,
    is_marked=is_marked,
)
