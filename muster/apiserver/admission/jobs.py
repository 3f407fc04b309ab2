"""Jobs on their way in: a managed one is held back from its creation on, as Kueue's webhooks do.

Used by the chain of the embedded server, and by `hooks` for a real one. `complete_new` is asked about every new object,
`complete` and `check` about every changed one; what else there is in the cluster they look up as they need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from muster.dialects.kueue.forgiving import queue_name_of_job
from muster.dialects.kueue.job_admission import (
    Around,
    JobRules,
    admitted,
    check_change,
    is_managed,
    is_placed_elsewhere,
    is_sent_elsewhere,
)
from muster.dialects.kueue.job_workloads import DEFAULT_NAME
from muster.dialects.kueue.names import GROUP, QUEUE_NAME
from muster.engine.contracts import Carrier, Integration, JobKind
from muster.model.fields import Fields
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.port import Store
from muster.store.records import Key, Record

QUEUES, WORKLOADS = f"localqueues.{GROUP}", f"workloads.{GROUP}"
_CLUSTER_QUEUES, _CLASSES = f"clusterqueues.{GROUP}", f"workloadpriorityclasses.{GROUP}"
_QUEUE_NAME = QUEUE_NAME.encode()
_OWNERS_MOST = 10  # how far up a job is looked for that a new one is a part of


Look = Callable[[Key], Object | None]  # an object of the cluster, where there is one


def stored_in(store: Store) -> Look:
    """Looks at what a store has."""

    def look(key: Key) -> Object | None:
        try:
            return decode(store.get(key))
        except NotFound:
            return None

    return look


class JobAdmission:
    """The rules of managed jobs, among what there is."""

    def __init__(self, look: Look, kinds: Iterable[JobKind], rules: JobRules) -> None:
        self._look = look
        self._by_resource = {kind.resource: kind for kind in kinds}
        self._by_kind = {(kind.gvk.group, kind.gvk.kind): kind for kind in self._by_resource.values()}
        self._rules = rules

    def complete_new(self, resource: str, given: Object) -> Object:
        """A new object, held back where it is a managed job."""
        kind = self._by_resource.get(resource)
        if kind is None or not _is_readable(given):
            return given
        namespace = given["metadata"].get("namespace") or ""
        owners = list(self._owners(given, namespace))
        if isinstance(kind, Carrier) and any(isinstance(one, Carrier) for one, _ in owners):
            return given  # a part of it, as a Deployment's ReplicaSet is: it has what it needs from that
        has_default_queue = self._has_default_queue(namespace)
        queue = self._queue_of(given) or DEFAULT_NAME * has_default_queue
        around = Around(
            namespace_labels=self._labels_of(namespace),
            has_managed_owner=self._has_managed_owner(given, namespace),
            has_default_queue=has_default_queue,
            has_default_class=self._look(Key(_CLASSES, "", DEFAULT_NAME)) is not None,
            is_placed_elsewhere=bool(self._rules.scheduler) and self._is_placed_elsewhere(namespace, queue),
            is_sent_elsewhere=self._is_sent_elsewhere(namespace, queue),
            find=self._find,
        )
        return admitted(Fields(given), kind, self._rules, around)

    def complete(self, resource: str, given: Object) -> Object:
        """A changed object: what carries its queue to others goes on doing so."""
        kind = self._by_resource.get(resource)
        return self.complete_new(resource, given) if isinstance(kind, Carrier) else given

    def check(self, resource: str, new: Object, before: Record) -> None:
        """Raise `InvalidObjects` where a managed job changes as it must not."""
        if resource not in self._by_resource:
            return
        if _QUEUE_NAME in before.value or self._rules.manages_without_queue:
            self.check_change(resource, new, decode(before))

    def check_change(self, resource: str, new: Object, before: Object) -> None:
        """The same for an object that is read already."""
        kind = self._by_resource.get(resource)
        if kind is None or not self._is_ours(kind, before) or not self._is_managed(before):
            return  # One that had no queue may be given one: it is held back by the reconciler then.
        namespace = before["metadata"].get("namespace") or ""
        check_change(Fields(new), Fields(before), kind, has_default_queue=self._has_default_queue(namespace))

    def is_loose(self, resource: str, given: Object) -> bool:
        """Whether a new job would start although it is a managed one: something has let it go after `complete_new`."""
        kind = self._by_resource.get(resource)
        if not isinstance(kind, Integration) or not _is_readable(given) or kind.is_suspended(Fields(given)):
            return False
        return kind.is_suspended(Fields(self.complete_new(resource, given)))

    def queue_asked_for(self, resource: str, new: Object, before: Object | None) -> str:
        """The LocalQueue that somebody submits to by a write; empty where nothing is submitted, or not by them."""
        if resource == WORKLOADS:
            queue, had = (_queue_of_workload(one) for one in (new, before or {}))
            return queue if queue != had else ""
        if resource not in self._by_resource or not _is_readable(new):
            return ""
        queue = self._queue_of(new)
        if not queue or not self._is_managed(new) or (before is not None and queue == self._queue_of(before)):
            return ""
        return "" if self._has_managed_owner(new, new["metadata"].get("namespace") or "") else queue

    def _queue_of(self, job: Object) -> str:
        return queue_name_of_job(job, strict=self._rules.is_strict)[0]

    def _has_managed_owner(self, job: Object, namespace: str) -> bool:
        owners = self._owners(job, namespace)
        return any(isinstance(kind, Integration) and self._is_managed(owner) for kind, owner in owners)

    def _is_ours(self, kind: JobKind, job: Object) -> bool:
        return not isinstance(kind, Integration) or kind.is_marked(Fields(job))

    def _is_placed_elsewhere(self, namespace: str, queue: str) -> bool:
        return is_placed_elsewhere(*self._queues(namespace, queue))

    def _is_sent_elsewhere(self, namespace: str, queue: str) -> bool:
        if not queue or not self._rules.gates.is_on("MultiKueue"):
            return False
        return is_sent_elsewhere(self._queues(namespace, queue)[1], self._find)

    def _queues(self, namespace: str, name: str) -> tuple[Fields, Fields]:
        """A LocalQueue and the ClusterQueue above it, each empty where there is none."""
        found = Fields((self._look(Key(QUEUES, namespace, name)) if name else None) or {})
        above = found.child("spec").text("clusterQueue")
        return found, Fields((self._look(Key(_CLUSTER_QUEUES, "", above)) if above else None) or {})

    def _is_managed(self, job: Object) -> bool:
        return is_managed(Fields(job), self._rules, self._labels_of(job["metadata"].get("namespace") or ""))

    def _has_default_queue(self, namespace: str) -> bool:
        return self._look(Key(QUEUES, namespace, DEFAULT_NAME)) is not None

    def _labels_of(self, namespace: str) -> dict[str, str]:
        found = self._look(Key("namespaces", "", namespace))
        return {} if found is None else found["metadata"].get("labels") or {}

    def _find(self, resource: str, namespace: str, name: str) -> Object | None:
        return self._look(Key(resource, namespace, name))

    def _owners(self, job: Object, namespace: str) -> Iterator[tuple[JobKind, Object]]:
        for _ in range(_OWNERS_MOST):
            found = next(self._controllers(job, namespace), None)
            if found is None:
                return
            yield found
            _, job = found

    def _controllers(self, job: Object, namespace: str) -> Iterator[tuple[JobKind, Object]]:
        for owner in Fields(job).child("metadata").children("ownerReferences"):
            kind = self._by_kind.get((owner.text("apiVersion").rpartition("/")[0], owner.text("kind")))
            if kind is None or not owner.flag("controller"):
                continue
            found = self._look(Key(kind.resource, namespace, owner.text("name")))
            if found is not None and found["metadata"].get("uid") == owner.text("uid"):
                yield kind, found


def _is_readable(given: Object) -> bool:
    """Whether an object has the parts that the rules look into; what is wrong with others its own rules say."""
    return isinstance(given.get("metadata"), dict) and isinstance(given.get("spec"), dict)


def _queue_of_workload(workload: Object) -> str:
    spec = workload.get("spec")
    queue = spec.get("queueName") if isinstance(spec, dict) else ""
    return queue if isinstance(queue, str) else ""
