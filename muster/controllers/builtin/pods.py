"""What controllers ask about pods: whether they run, are ready and stay so, and how they are made from a template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

from muster.controllers.builtin.names import free_name
from muster.controllers.builtin.owners import reference_to
from muster.model.times import parse_moment
from muster.store.kinds import Object
from muster.store.metadata import is_deleting

PODS = "pods"
ENDED = ("Succeeded", "Failed")
_GRACE = 1e-6  # seconds that a sum of floats may be off


def _never(_name: str) -> bool:
    return False


def phase_of(pod: Object) -> str:
    """How far a pod has come."""
    return str((pod.get("status") or {}).get("phase") or "")


def is_active(pod: Object) -> bool:
    """Whether a pod has not ended and is not on its way out."""
    return phase_of(pod) not in ENDED and not is_deleting(pod)


def is_terminating(pod: Object) -> bool:
    """Whether a pod is on its way out and has not ended."""
    return phase_of(pod) not in ENDED and is_deleting(pod)


def ready_since_s(pod: Object) -> float | None:
    """Since when a pod is ready; `None` when it is not."""
    for one in (pod.get("status") or {}).get("conditions") or ():
        if one.get("type") == "Ready" and one.get("status") == "True":
            return moment_s(one.get("lastTransitionTime")) or 0.0
    return None


def is_ready(pod: Object) -> bool:
    return ready_since_s(pod) is not None


def available_in_s(pod: Object, least_s: float, now_s: float) -> float | None:
    """How long until a pod counts as available, 0 when it does; `None` when it is not ready."""
    since_s = ready_since_s(pod)
    if since_s is None or (least_s and not since_s):
        return None
    left_s = since_s + least_s - now_s
    return left_s if least_s and left_s > _GRACE else 0.0


def is_available(pod: Object, least_s: float, now_s: float) -> bool:
    """Whether a pod has been ready for long enough."""
    return available_in_s(pod, least_s, now_s) == 0.0


def soonest_s(pods: Iterable[Object], least_s: float, now_s: float) -> float | None:
    """How long until the next of some pods becomes available by waiting alone."""
    waits = (available_in_s(pod, least_s, now_s) for pod in pods)
    return min((wait for wait in waits if wait), default=None)


def moment_s(text: Any) -> float | None:
    """A moment in a stored object, which was checked when it was written."""
    return parse_moment(text, "") if text else None


def created_s(given: Object) -> float:
    """When an object was made."""
    return moment_s(given["metadata"].get("creationTimestamp")) or 0.0


def pod_from(template: Object, owner: Object, *, name: str = "", labels: Mapping[str, str] | None = None) -> Object:
    """A pod as a template describes it, that belongs to an owner; without a name it gets one that starts as its."""
    given = template.get("metadata") or {}
    metadata: Object = {"namespace": owner["metadata"]["namespace"], "ownerReferences": [reference_to(owner)]}
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = f"{owner['metadata']['name']}-"
    if all_labels := {**(given.get("labels") or {}), **(labels or {})}:
        metadata["labels"] = all_labels
    for part in ("annotations", "finalizers"):
        if given.get(part):
            metadata[part] = deepcopy(given[part])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": deepcopy(template.get("spec") or {})}


def named_anew(
    pods: Iterable[Object], owner: Object, known: Iterable[Object], is_taken: Callable[[str], bool] = _never
) -> list[Object]:
    """New pods with names that follow from their owner and its pods so far.

    When the pods have changed the names have too, so that a pod that takes another's place is not taken for it.
    """
    uids = sorted(one["metadata"]["uid"] for one in known)
    named = []
    for number, pod in enumerate(pods):
        name = free_name(pod["metadata"]["generateName"], [owner["metadata"]["uid"], uids, number], is_taken)
        named.append({**pod, "metadata": {**pod["metadata"], "name": name}})
    return named
