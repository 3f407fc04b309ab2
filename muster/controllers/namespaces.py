"""Emptying a namespace that is being deleted, in steps that are one write each. Called by `tidying`.

A namespace on its way out is held by a finalizer for as long as something is in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from muster.model.times import moment_text
from muster.store.kinds import Object
from muster.store.metadata import finalizers_of, is_deleting
from muster.store.objects import NAMESPACES, Objects, Part, decode
from muster.store.port import Change, Transaction
from muster.store.records import Action, Event, Key, Record, Scope
from muster.store.rules import without_finalizer

CONTENT = "muster.dev/content"  # the finalizer that stands for what is in the namespace
_OBJECTS_A_STEP = 100
_WELL = (
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)


def namespace_after(event: Event) -> str:
    """The namespace to look at after an event: one that is being deleted, or that has lost an object."""
    key = event.record.key
    if key.resource == NAMESPACES:
        return key.name if b'"deletionTimestamp"' in event.record.value else ""
    return key.namespace if event.action is Action.DELETED else ""


def emptied(objects: Objects, name: str) -> Change[bool]:
    """One step: delete some of what is left, or let the namespace go; gives whether there is more to do now."""
    key = Key(NAMESPACES, "", name)

    def change(write: Transaction) -> bool:
        record = write.get(key)
        if record is None or b'"deletionTimestamp"' not in record.value:
            return False
        namespace = decode(record)
        if not is_deleting(namespace) or CONTENT not in finalizers_of(namespace):
            return False
        left = [one for resource in _namespaced(objects) for one in write.page(Scope(resource, name), 0)]
        new = [one for one in left if b'"deletionTimestamp"' not in one.value]
        for found in new[:_OBJECTS_A_STEP]:
            objects.delete(found.key)(write)
        if new:
            return True  # what is left then may be gone, or may stay for its own finalizers
        if left:
            _tell(objects, write, namespace, left)
            return False
        spec = {one: value for one, value in (namespace.get("spec") or {}).items() if one != "finalizers"}
        objects.settle(write, key, without_finalizer({**namespace, "spec": spec}, CONTENT))
        return False

    return change


def _namespaced(objects: Objects) -> Iterator[str]:
    return (resource for resource, rules in objects.kinds.items() if rules.is_namespaced)


def _tell(objects: Objects, write: Transaction, namespace: Object, left: Sequence[Record]) -> None:
    """Have the namespace say what it still waits for, unless it does."""
    conditions = waiting_conditions(namespace, left, moment_text(write.now_s))
    status = {**(namespace.get("status") or {}), "conditions": conditions}
    if status != namespace.get("status"):
        key = Key(NAMESPACES, "", namespace["metadata"]["name"])
        objects.modify(key, lambda before: {**before, "status": status}, part=Part.STATUS)(write)


def waiting_conditions(namespace: Object, left: Sequence[Record], now: str) -> list[Object]:
    """What a namespace says that waits for objects, in Kubernetes' words."""
    counts = Counter(one.key.resource for one in left)
    holds = Counter(hold for one in left for hold in finalizers_of(decode(one)))
    content = ", ".join(f"{_grouped(name)} has {count} resource instances" for name, count in sorted(counts.items()))
    holding = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(holds.items()))
    found = [(*one, "False") for one in _WELL]
    remaining = f"Some resources are remaining: {content}"
    found.append(("NamespaceContentRemaining", "SomeResourcesRemain", remaining, "True"))
    if holding:
        text = f"Some content in the namespace has finalizers remaining: {holding}"
        found.append(("NamespaceFinalizersRemaining", "SomeFinalizersRemain", text, "True"))
    else:
        text = "All content-preserving finalizers finished"
        found.append(("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", text, "False"))
    known = {one["type"]: one for one in (namespace.get("status") or {}).get("conditions") or ()}
    conditions = []
    for kind, reason, message, status in found:
        new = {"type": kind, "status": status, "reason": reason, "message": message}
        before = known.get(kind) or {}
        is_same = all(before.get(name) == value for name, value in new.items())
        conditions.append({**new, "lastTransitionTime": before["lastTransitionTime"] if is_same else now})
    return conditions


def _grouped(resource: str) -> str:
    """A resource as the conditions name it: with a dot before its group, even where it has none."""
    return resource if "." in resource else f"{resource}."
