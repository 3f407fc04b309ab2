"""Putting a pod on a node: the one write by which a pod gets its node. Used by the API server and by clients.

Not by the rules for updates: nobody else may change the node of a pod, and nobody owns it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.model.times import moment_text
from muster.store.errors import Conflict, NotFound
from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.objects import Objects, decode
from muster.store.port import Change, Transaction
from muster.store.records import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Which pod goes where, and what is written on it on the way."""

    key: Key
    node: str
    uid: str = ""  # that the pod must have; empty: any
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    is_dry_run: bool = False


def bound(objects: Objects, binding: Binding) -> Change[int]:
    """A write that puts a pod on a node; gives the revision that it leaves."""

    def change(write: Transaction) -> int:
        record = write.get(binding.key)
        if record is None:
            raise NotFound(binding.key)
        pod = decode(record)
        _check_bindable(binding, pod)
        metadata = dict(pod["metadata"])
        for name, given in (("labels", binding.labels), ("annotations", binding.annotations)):
            if given:
                metadata[name] = {**metadata.get(name, {}), **given}
        status = pod.get("status") or {}
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
        scheduled["lastTransitionTime"] = moment_text(write.now_s)
        others = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
        new: Object = {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": binding.node}}
        new["status"] = {**status, "conditions": [*others, scheduled]}
        objects.settle(write, binding.key, new, by=None)
        if binding.is_dry_run:
            write.discard()
        return int(new["metadata"]["resourceVersion"])

    return change


def _check_bindable(binding: Binding, pod: Object) -> None:
    key = binding.key
    at = Key("pods/binding", key.namespace, key.name)
    uid = pod["metadata"]["uid"]
    if binding.uid and binding.uid != uid:
        raise Conflict(at, f"Precondition failed: UID in precondition: {binding.uid}, UID in object meta: {uid}")
    if is_deleting(pod):
        raise Conflict(at, f"pod {key.name} is being deleted, cannot be assigned to a host")
    if node := pod["spec"].get("nodeName"):
        raise Conflict(at, f'pod {key.name} is already assigned to node "{node}"')
    if pod["spec"].get("schedulingGates"):
        raise Conflict(at, f"pod {key.name} has non-empty .spec.schedulingGates")
