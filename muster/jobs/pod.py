"""A plain Pod: a workload of one pod, held back by a scheduling gate. Found by `app` through INTEGRATION."""

from __future__ import annotations

from collections.abc import Iterator

from muster.engine.contracts import Ending, GroupVersionKind, Integration, JobPodSet
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields, shown

ADMISSION_GATE = "kueue.x-k8s.io/admission"
POD_SET = "main"
RESTART_POLICIES = ("Always", "OnFailure", "Never")
TEMPLATE_METADATA = ("labels", "annotations", "finalizers")


def pod_sets(pod: Fields) -> tuple[JobPodSet, ...]:
    """The pod itself, as the one pod of its set."""
    problems = tuple(_problems(pod))
    if problems:
        raise InvalidObjects(problems)
    metadata = pod.child("metadata").values
    template = {
        "metadata": {name: metadata[name] for name in TEMPLATE_METADATA if metadata.get(name) is not None},
        "spec": pod.child("spec").values,
    }
    return (JobPodSet(name=POD_SET, count=1, template=template, template_path=""),)


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
        policy = spec.text("restartPolicy", "Always")
        if policy not in RESTART_POLICIES:
            hint = "give one of " + ", ".join(RESTART_POLICIES)
            yield spec.error("restartPolicy", f"is {shown(policy)}", hint)
        if not spec.items("containers"):
            yield spec.error("containers", "is missing", "give at least one container")
    except InvalidObject as problem:
        yield problem


INTEGRATION = Integration(
    name="pod",
    gvk=GroupVersionKind("", "v1", "Pod"),
    pod_sets=pod_sets,
    is_suspended=is_suspended,
    finished=finished,
)
