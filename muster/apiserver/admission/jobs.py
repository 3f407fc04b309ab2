"""Jobs on their way in: a managed one is held back from its creation on, as Kueue's webhooks do. Used by the chain.

`complete_new` is asked about every new object, `complete` and `check` about every changed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.dialects.kueue.job_admission import Around, JobRules, admitted, check_change, is_managed
from muster.dialects.kueue.job_workloads import DEFAULT_NAME
from muster.dialects.kueue.names import GROUP, QUEUE_NAME
from muster.engine.contracts import Carrier, Integration, JobKind
from muster.model.fields import Fields
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.port import Store
from muster.store.records import Key, Record

_QUEUES, _CLASSES = f"localqueues.{GROUP}", f"workloadpriorityclasses.{GROUP}"
_QUEUE_NAME = QUEUE_NAME.encode()
_OWNERS_MOST = 10  # how far up a job is looked for that a new one is a part of


class JobAdmission:
    """The rules of managed jobs, on what is stored."""

    def __init__(self, store: Store, kinds: Iterable[JobKind], rules: JobRules) -> None:
        self._store = store
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
        around = Around(
            namespace_labels=self._labels_of(namespace),
            has_managed_owner=any(isinstance(one, Integration) and self._is_managed(obj) for one, obj in owners),
            has_default_queue=self._has_default_queue(namespace),
            has_default_class=self._found(Key(_CLASSES, "", DEFAULT_NAME)) is not None,
            find=self._object,
        )
        return admitted(Fields(given), kind, self._rules, around)

    def complete(self, resource: str, given: Object) -> Object:
        """A changed object: what carries its queue to others goes on doing so."""
        kind = self._by_resource.get(resource)
        return self.complete_new(resource, given) if isinstance(kind, Carrier) else given

    def check(self, resource: str, new: Object, before: Record) -> None:
        """Raise `InvalidObjects` where a managed job changes as it must not."""
        kind = self._by_resource.get(resource)
        if kind is None or (_QUEUE_NAME not in before.value and not self._rules.manages_without_queue):
            return  # One that had no queue may be given one: it is held back by the reconciler then.
        had = decode(before)
        is_ours = not isinstance(kind, Integration) or kind.is_marked(Fields(had))
        if not is_ours or not self._is_managed(had):
            return
        namespace = had["metadata"].get("namespace") or ""
        check_change(Fields(new), Fields(had), kind, has_default_queue=self._has_default_queue(namespace))

    def _is_managed(self, job: Object) -> bool:
        return is_managed(Fields(job), self._rules, self._labels_of(job["metadata"].get("namespace") or ""))

    def _has_default_queue(self, namespace: str) -> bool:
        return self._found(Key(_QUEUES, namespace, DEFAULT_NAME)) is not None

    def _labels_of(self, namespace: str) -> dict[str, str]:
        record = self._found(Key("namespaces", "", namespace))
        return {} if record is None else decode(record)["metadata"].get("labels") or {}

    def _object(self, resource: str, namespace: str, name: str) -> Object | None:
        record = self._found(Key(resource, namespace, name))
        return None if record is None else decode(record)

    def _found(self, key: Key) -> Record | None:
        try:
            return self._store.get(key)
        except NotFound:
            return None

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
            record = self._found(Key(kind.resource, namespace, owner.text("name")))
            if record is not None and record.uid == owner.text("uid"):
                yield kind, decode(record)


def _is_readable(given: Object) -> bool:
    """Whether an object has the parts that the rules look into; what is wrong with others its own rules say."""
    return isinstance(given.get("metadata"), dict) and isinstance(given.get("spec"), dict)
