"""Which pod of a workload has which of its slots. Pure: the cache charges by it, and the binder binds by it.

A bound pod has the slot that was written on it when it was bound; one that others have bound takes any slot of its
node. Pods that wait get what is left: by their index where they are numbered, else in the order of their names. A pod
that was bound before its workload was given other cards has none of the new slots: it still holds the old ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from muster.controllers.belonging import INDEX_LABELS
from muster.dialects.kueue.names import GROUP
from muster.dialects.pods import SCHEDULERS, Pod, is_over, waits_for_node
from muster.model.workload import Slot

POD_SET_LABEL = f"{GROUP}/podset"
SLOT_ANNOTATION = "muster.dev/slot"  # pod set, number and cards of the slot, written by the binding


@dataclass(slots=True)
class Seating:
    """The pods of a workload by what they have."""

    seated: set[str] = field(default_factory=set)  # bound pods that have a slot, by namespace/name
    to_bind: list[tuple[Pod, str, Slot]] = field(default_factory=list)  # with what is written on the pod
    without_slot: list[Pod] = field(default_factory=list)  # they wait, and no slot is left for them
    bound_count: int = 0  # pods that had a slot or have one, those included that are over


class _Free:
    """The slots of a pod set that nobody has yet."""

    def __init__(self, slots: tuple[Slot, ...]) -> None:
        self.by_number = dict(enumerate(slots))
        self._on_node: dict[str, list[int]] = {}  # numbers that may be free, the first one last
        for number in range(len(slots) - 1, -1, -1):
            if _names_cards(slots[number]):
                continue  # nobody knows that a stranger holds just these
            self._on_node.setdefault(slots[number].node, []).append(number)

    def first_on(self, node: str) -> int | None:
        numbers = self._on_node.get(node, [])
        while numbers and numbers[-1] not in self.by_number:
            numbers.pop()
        return numbers[-1] if numbers else None


def seat(
    slots: Mapping[str, tuple[Slot, ...]], pods: Iterable[Pod], schedulers: Collection[str] = SCHEDULERS
) -> Seating:
    """Give the slots of a workload, by pod set, to its pods; those of other schedulers are not to be bound here."""
    free = {name: _Free(given) for name, given in slots.items()}
    seating = Seating()
    known = sorted(((_order(pod), pod) for pod in pods), key=lambda one: one[0])
    strangers = []
    for _, pod in known:
        if not pod["spec"].get("nodeName"):
            continue
        if is_over(pod):
            seating.bound_count += 1
        elif _take_own(pod, free):
            seating.seated.add(key_of(pod))
        else:
            strangers.append(pod)
    seating.seated.update(key_of(pod) for pod in strangers if _take_any(pod, free))
    seating.bound_count += len(seating.seated)
    for (index, _), pod in known:
        if not waits_for_node(pod, schedulers):
            continue
        name = _pod_set_of(pod, slots)
        left = free[name].by_number if name in free else {}
        if not left:
            seating.without_slot.append(pod)
            continue
        number = index if index in left else next(iter(left))
        slot = left.pop(number)
        seating.to_bind.append((pod, slot_note(name, number, slot), slot))
    return seating


def slot_note(name: str, number: int, slot: Slot) -> str:
    """What is written on the pod that gets a slot of a pod set: where it names cards, which they are too."""
    if not _names_cards(slot):
        return f"{name}/{number}"
    shares = slot.slices.shares if slot.slices is not None else ()
    cards = [*((share.uuid, share.memory_mib, share.cores) for share in shares), *slot.names]
    return f"{name}/{number}/{sha256(repr(cards).encode()).hexdigest()[:8]}"


def number_of(note: str) -> tuple[str, int]:
    """The pod set and the number of the slot that was written on a pod; -1 where it is none."""
    name, _, rest = note.partition("/")
    number = rest.partition("/")[0]
    return name, int(number) if _is_number(number) else -1


def _names_cards(slot: Slot) -> bool:
    return slot.slices is not None or bool(slot.names)


def key_of(pod: Pod) -> str:
    """The namespace and the name of a pod."""
    metadata = pod["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}"


def _take_own(pod: Pod, free: Mapping[str, _Free]) -> bool:
    """Let a bound pod have the slot that is written on it; whether that is one of its node and its cards, and free."""
    written = (pod["metadata"].get("annotations") or {}).get(SLOT_ANNOTATION) or ""
    name, number = number_of(written)
    slot = free[name].by_number.get(number) if name in free else None
    if slot is None or slot.node != pod["spec"]["nodeName"] or slot_note(name, number, slot) != written:
        return False
    del free[name].by_number[number]
    return True


def _take_any(pod: Pod, free: Mapping[str, _Free]) -> bool:
    """Let a bound pod have any slot of its node; whether there is one."""
    own = free.get(_pod_set_of(pod, free))
    number = own.first_on(pod["spec"]["nodeName"]) if own is not None else None
    if own is None or number is None:
        return False
    del own.by_number[number]
    return True


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _pod_set_of(pod: Pod, pod_sets: Mapping[str, object]) -> str:
    """The pod set that a pod's label names; without a label the only one there is."""
    only = next(iter(pod_sets)) if len(pod_sets) == 1 else ""
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    return labels.get(POD_SET_LABEL, only)


def _order(pod: Pod) -> tuple[int, str]:
    labels = pod["metadata"].get("labels") or {}
    text = next((labels[name] for name in INDEX_LABELS if name in labels), "")
    return int(text) if _is_number(text) else 2**31, key_of(pod)
