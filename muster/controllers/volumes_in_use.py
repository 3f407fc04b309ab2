"""Claims and volumes that are deleted stay until nobody uses them. Called by `tidying`.

Admission gives each a finalizer; here it is taken off, in a write that sees that no pod needs the claim any more.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.store.kinds import Object
from muster.store.metadata import finalizers_of, is_deleting
from muster.store.objects import Objects, decode
from muster.store.port import Change, Store, Transaction
from muster.store.records import Action, Event, Key, Record, Scope
from muster.store.rules import without_finalizer

CLAIMS, VOLUMES, PODS = "persistentvolumeclaims", "persistentvolumes", "pods"
FINALIZERS = {CLAIMS: "kubernetes.io/pvc-protection", VOLUMES: "kubernetes.io/pv-protection"}
_DONE = ("Succeeded", "Failed")


def held_after(event: Event) -> Iterator[Key]:
    """The claims and volumes to look at after an event: those being deleted, and those that a pod has left."""
    record = event.record
    if record.key.resource in FINALIZERS and event.action is not Action.DELETED and _is_leaving(record):
        yield record.key
    elif record.key.resource == PODS and _may_have_claims(record):
        pod = decode(record)
        if event.action is Action.DELETED or _is_done(pod):
            yield from (Key(CLAIMS, record.key.namespace, name) for name in _claims_of(pod))


def _may_have_claims(record: Record) -> bool:
    # Looking for the words is much cheaper than reading every pod.
    return b'"persistentVolumeClaim"' in record.value or b'"ephemeral"' in record.value


def held_at_start(store: Store) -> Iterator[Key]:
    """All claims and volumes that are being deleted."""
    for resource in FINALIZERS:
        yield from (one.key for one in store.page(Scope(resource)).records if _is_leaving(one))


def released(objects: Objects, key: Key) -> Change[bool]:
    """A write that lets a claim or a volume go if nobody uses it."""

    def change(write: Transaction) -> bool:
        record = write.get(key)
        if record is None or not _is_leaving(record):
            return False
        held = decode(record)
        finalizer = FINALIZERS[key.resource]
        if is_deleting(held) and finalizer in finalizers_of(held) and not _is_used(write, key, held):
            objects.settle(write, key, without_finalizer(held, finalizer))
        return False

    return change


def _is_leaving(record: Record) -> bool:
    return b'"deletionTimestamp"' in record.value


def _is_used(write: Transaction, key: Key, held: Object) -> bool:
    if key.resource == VOLUMES:
        return bool((held.get("status") or {}).get("phase") == "Bound")
    for record in write.page(Scope(PODS, key.namespace), 0):
        if _may_have_claims(record):
            pod = decode(record)
            is_placed = bool((pod.get("spec") or {}).get("nodeName")) and not _is_done(pod)
            if is_placed and key.name in _claims_of(pod):
                return True
    return False


def _is_done(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _DONE


def _claims_of(pod: Object) -> Iterator[str]:
    """The names of the claims that a pod uses."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if volume.get("persistentVolumeClaim") is not None:
            yield volume["persistentVolumeClaim"].get("claimName") or ""
        elif volume.get("ephemeral") is not None:
            yield f"{pod['metadata']['name']}-{volume.get('name')}"
