"""Which pods belong to which workload, as owners and annotations say. Used by the cache and the binder.

A pod belongs to the workload of its owner, or to its own, or to the one that it names in an annotation: a pod of a job
within a job does not say who its owner's owner is.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.controllers.view import Seen, Terms, View
from muster.dialects.kueue.names import GROUP
from muster.dialects.pods import is_over
from muster.store.kinds import Object
from muster.store.metadata import owners_of
from muster.store.records import Key, Record

WORKLOADS, PODS = f"workloads.{GROUP}", "pods"
INDEX_LABELS = ("batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index")  # of numbered pods
_PLACING = ("uid", "labels", "annotations", "ownerReferences", "deletionTimestamp", "generation")  # of the metadata
WORKLOAD_ANNOTATION = f"{GROUP}/workload"


def _named_workload(pod: Object) -> Iterable[str]:
    name = (pod["metadata"].get("annotations") or {}).get(WORKLOAD_ANNOTATION)
    return (f"{pod['metadata'].get('namespace')}/{name}",) if isinstance(name, str) else ()


INDEXES: dict[tuple[str, str], Terms] = {(PODS, "workload"): _named_workload}  # what the view has to be made with


def object_key(resource: str, obj: Object) -> Key:
    """The key of an object of a resource."""
    return Key(resource, obj["metadata"].get("namespace") or "", obj["metadata"]["name"])


def workload_of(pod: Object, view: View) -> Key | None:
    """The workload that a pod belongs to."""
    metadata = pod["metadata"]
    key = _owned_workload((metadata["uid"], *owners_of(pod)), metadata["namespace"], view)
    if key is not None:
        return key
    for named in _named_workload(pod):
        key = Key(WORKLOADS, *named.split("/", 1))
        if view.record(key) is not None:
            return key
    return None


def workload_of_record(pod: Record, view: View) -> Key | None:
    """The same of a pod that need not be read for it, as long as an owner says enough."""
    key = _owned_workload((pod.uid, *pod.owners), pod.key.namespace, view)
    if key is not None:
        return key
    obj = view.get(pod.key)
    return None if obj is None else workload_of(obj, view)


def _owned_workload(uids: Iterable[str], namespace: str, view: View) -> Key | None:
    """The workload that one of these owns, the first who owns any; one that has not finished if there is one."""
    for uid in uids:
        owned = [one for one in view.owned(uid, WORKLOADS) if one["metadata"].get("namespace") == namespace]
        if owned:
            live = [one for one in owned if not has_condition(one, "Finished")]
            return object_key(WORKLOADS, (live or owned)[0])
    return None


def pods_of(key: Key, obj: Object, view: View) -> dict[Key, Object]:
    """The pods of a workload."""
    found: dict[Key, Object] = {}
    for owner in obj["metadata"].get("ownerReferences") or ():
        uid = owner.get("uid") or ""
        if owner.get("kind") == "Pod" and owner.get("apiVersion") == "v1":
            own = Key(PODS, key.namespace, owner.get("name") or "")
            pod = view.get(own)
            if pod is not None and pod["metadata"].get("uid") == uid:
                found[own] = pod
        found.update((object_key(PODS, pod), pod) for pod in view.owned(uid, PODS))
    named = view.with_term(PODS, "workload", f"{key.namespace}/{key.name}")
    found.update((object_key(PODS, pod), pod) for pod in named)
    return {one: pod for one, pod in found.items() if workload_of(pod, view) == key}


def is_placed_alike(seen: Seen) -> bool:
    """Whether a pod is as before to whoever gives pods places: most changes only say how it runs."""
    before, now = seen.before, seen.now
    if before is None or now is None or is_over(before) != is_over(now) or before["spec"] != now["spec"]:
        return False
    had, has = before["metadata"], now["metadata"]
    return all(had.get(name) == has.get(name) for name in _PLACING)


def has_condition(obj: Object, type_: str) -> bool:
    """Whether a condition of an object is true."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == type_ and one.get("status") == "True" for one in conditions)
