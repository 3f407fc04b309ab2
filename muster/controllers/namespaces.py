"""Emptying a namespace that is being deleted, in steps that are one write each. Called by `tidying`.

A namespace on its way out is held by a finalizer for as long as something is in it.
"""

from __future__ import annotations

from muster.store.metadata import finalizers_of, is_deleting
from muster.store.objects import NAMESPACES, Objects, decode
from muster.store.port import Change, Transaction
from muster.store.records import Action, Event, Key, Scope
from muster.store.rules import without_finalizer

CONTENT = "muster.dev/content"  # the finalizer that stands for what is in the namespace
_OBJECTS_A_STEP = 100


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
        left = 0
        for resource, rules in objects.kinds.items():
            if rules.is_namespaced:
                for found in write.page(Scope(resource, name), _OBJECTS_A_STEP):
                    left += 1
                    if b'"deletionTimestamp"' not in found.value:
                        objects.delete(found.key)(write)
            if left >= _OBJECTS_A_STEP:
                return True
        if not left:
            spec = {one: value for one, value in (namespace.get("spec") or {}).items() if one != "finalizers"}
            objects.settle(write, key, without_finalizer({**namespace, "spec": spec}, CONTENT))
        return False

    return change
