"""Namespaces on their way out: one stays until what is in it is gone. Used by deletes and by `finalize`.

Kubernetes holds a namespace by `spec.finalizers`; the store holds objects by `metadata.finalizers`. So a namespace that
is being deleted gets one of these too, which goes when the other is empty.
"""

from __future__ import annotations

from muster.apiserver.statuses import forbidden
from muster.controllers.namespaces import CONTENT
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.metadata import finalizers_of, is_deleting
from muster.store.objects import By, Objects, Part, Written, decode
from muster.store.port import Change, Transaction
from muster.store.records import Key
from muster.store.rules import Deletion, check_meant, check_same, without_finalizer

_NEEDED = frozenset({"default", "kube-public", "kube-system"})


def delete_namespace(objects: Objects, key: Key, deletion: Deletion, by: By) -> Change[Written]:
    """A write that begins to delete a namespace."""

    def change(write: Transaction) -> Written:
        record = write.get(key)
        if record is not None:
            before = decode(record)
            if key.name in _NEEDED:
                raise forbidden(key, "this namespace may not be deleted")
            check_meant(key, before, deletion)
            if not is_deleting(before) and (before.get("spec") or {}).get("finalizers"):
                objects.modify(key, _held, by=by)(write)
                objects.modify(key, _terminating, part=Part.STATUS, by=by)(write)
        return objects.delete(key, Deletion(grace_s=deletion.grace_s, propagation=deletion.propagation), by=by)(write)

    return change


def _held(before: Object) -> Object:
    before["metadata"]["finalizers"] = [*finalizers_of(before), CONTENT]
    return before


def _terminating(before: Object) -> Object:
    return {**before, "status": {**before.get("status", {}), "phase": "Terminating"}}


def finalize(objects: Objects, key: Key, given: Object, by: By) -> Change[Written]:
    """A write that sets what a namespace waits for; with nothing left it goes."""
    finalizers = (given.get("spec") or {}).get("finalizers") or []

    def change(write: Transaction) -> Written:
        record = write.get(key)
        if record is None:
            raise NotFound(key)
        before = decode(record)
        check_same(key, before, uid="", revision=given["metadata"].get("resourceVersion"))
        spec = {name: value for name, value in (before.get("spec") or {}).items() if name != "finalizers"}
        after = {**before, "spec": {**spec, "finalizers": finalizers} if finalizers else spec}
        if is_deleting(before) and not finalizers:
            after = without_finalizer(after, CONTENT)
        # Not by the rules for updates, which leave the finalizers of the spec as they are.
        objects.settle(write, key, after, by=by)
        if by.is_dry_run:
            write.discard()
        left = write.get(key)
        return Written(left or record, is_gone=left is None)

    return change
