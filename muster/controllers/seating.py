"""Which pod of a workload has which of its slots. Pure: the cache charges by it, and the binder binds by it.

A bound pod has the slot that was written on it when it was bound; one that others have bound takes any slot of its
node. Pods that wait get what is left: by their index where they are numbered, else in the order of their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.dialects.kueue.names import GROUP
from muster.dialects.pods import is_over, waits_for_node
from muster.model.fields import Fields
from muster.model.workload import Slot

POD_SET_LABEL = f"{GROUP}/podset"
SLOT_ANNOTATION = "muster.dev/slot"  # pod set and number of the slot, written by the binding
INDEX_LABELS = ("batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index")

Pod = Mapping[str, Any]


@dataclass(slots=True)
class Seating:
    """The pods of a workload by what they have."""

    seated: set[str] = field(default_factory=set)  # bound pods that have a slot, by namespace/name
    to_bind: list[tuple[Pod, str, Slot]] = field(default_factory=list)  # with what is written on the pod
    without_slot: list[Pod] = field(default_factory=list)  # they wait, and no slot is left for them
    bound_count: int = 0  # pods that had a slot or have one, those included that are over


def seat(slots: Mapping[str, tuple[Slot, ...]], pods: Iterable[Pod]) -> Seating:
    """Give the slots of a workload, by pod set, to its pods."""
    free = {name: dict(enumerate(given)) for name, given in slots.items()}
    seating = Seating()
    known = sorted(((_order(pod), pod) for pod in map(Fields, pods)), key=lambda one: one[0])
    for _, pod in known:
        if not pod.child("spec").text("nodeName"):
            continue
        if is_over(pod):
            seating.bound_count += 1
        elif _take_bound(pod, free):
            seating.bound_count += 1
            seating.seated.add(key_of(pod))
    for (index, _), pod in known:
        if not waits_for_node(pod):
            continue
        name = _pod_set_of(pod, slots)
        left = free.get(name, {})
        if not left:
            seating.without_slot.append(pod.values)
            continue
        number = index if index in left else next(iter(left))
        seating.to_bind.append((pod.values, f"{name}/{number}", left.pop(number)))
    return seating


def key_of(pod: Fields) -> str:
    """The namespace and the name of a pod."""
    metadata = pod.child("metadata")
    return f"{metadata.text('namespace')}/{metadata.text('name')}"


def _take_bound(pod: Fields, free: dict[str, dict[int, Slot]]) -> bool:
    """Let a bound pod have its slot; whether there is one."""
    node = pod.child("spec").text("nodeName")
    for name, number in _candidates(pod, free, node):
        slot = free.get(name, {}).get(number)
        if slot is not None and slot.node == node:
            del free[name][number]
            return True
    return False


def _candidates(pod: Fields, free: Mapping[str, Mapping[int, Slot]], node: str) -> Iterator[tuple[str, int]]:
    """The slots that a bound pod may have, the one written on it first."""
    name, _, number = pod.child("metadata").text_map("annotations").get(SLOT_ANNOTATION, "").rpartition("/")
    if number.isascii() and number.isdigit() and len(number) < 9:
        yield name, int(number)
    own = _pod_set_of(pod, free)
    yield from ((own, one) for one, slot in free.get(own, {}).items() if slot.node == node)


def _pod_set_of(pod: Fields, pod_sets: Mapping[str, object]) -> str:
    """The pod set that a pod's label names; without a label the only one there is."""
    only = next(iter(pod_sets)) if len(pod_sets) == 1 else ""
    return pod.child("metadata").text_map("labels").get(POD_SET_LABEL, only)


def _order(pod: Fields) -> tuple[int, str]:
    labels = pod.child("metadata").text_map("labels")
    text = next((labels[name] for name in INDEX_LABELS if name in labels), "")
    is_numbered = text.isascii() and text.isdigit() and len(text) < 10
    return int(text) if is_numbered else 2**31, key_of(pod)
