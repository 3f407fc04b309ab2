"""The rules of admission in their order. Used by writes: first `complete`, then the object's own rules, then `check`.

`complete` is on the way in: its rules see the objects there are when the request comes. `check` runs within the
transaction of every write, whoever makes it, so that what it allows is true of the state that is kept.
"""

from __future__ import annotations

import random
from typing import Any, Protocol

from muster.apiserver.admission import limits, pod_security, storage, volcano
from muster.apiserver.admission.accounts import with_account
from muster.apiserver.admission.cards import IGNORED, OPT_OUT, namespace_quota, with_cards
from muster.apiserver.admission.jobs import JobAdmission
from muster.apiserver.admission.runtime_classes import with_runtime
from muster.apiserver.admission.services import Addresses, Holdings, check_addresses
from muster.apiserver.kinds.pods import with_priority
from muster.controllers.quotas import QuotaKeeper
from muster.dialects.hami.webhook import Webhook
from muster.store.errors import NotFound
from muster.store.identities import Identities
from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.objects import NAMESPACES, decode
from muster.store.port import Store, Transaction
from muster.store.records import Key, Record, Scope

_RANGES, _QUOTAS, _RUNTIMES = "limitranges", "resourcequotas", "runtimeclasses.node.k8s.io"
_PRIORITIES, _CLASSES = "priorityclasses.scheduling.k8s.io", "storageclasses.storage.k8s.io"
_KEPT = 1_024  # objects that are read again and again


class Completion(Protocol):
    """What completes objects: all rules, or what webhooks have made of that."""

    def complete_new(self, resource: str, given: Object) -> Object: ...

    def complete(self, resource: str, given: Object, before: Object) -> Object: ...


class Admission:
    """Completes objects before they are checked."""

    def __init__(
        self,
        store: Store,
        chance: random.Random | None = None,
        *,
        jobs: JobAdmission | None = None,
        cards: Webhook | None = None,
        has_accounts: bool = False,
    ) -> None:
        self._store = store
        self._cards = cards  # None: pods that ask for cards are stored as they come
        self._jobs = jobs  # None: nobody holds jobs back
        self._addresses = Addresses(store, chance or random.SystemRandom())
        self._identities = Identities(chance)
        self._has_accounts = has_accounts  # whether each namespace has its service account
        self._read: dict[Key, tuple[int, Object]] = {}  # with the revision that was read

    def complete_new(self, resource: str, given: Object) -> Object:
        """A new object with what it gets from the state of others."""
        if self._jobs is not None:
            if resource == volcano.RESOURCE and _is_readable(given):
                given = volcano.complete_job(given)
            given = self._jobs.complete_new(resource, given)
        match resource:
            case "pods":
                return self._complete_pod(given)
            case "persistentvolumeclaims" | "persistentvolumes":
                if not _is_readable(given):
                    return given
                if resource == "persistentvolumeclaims":
                    given = storage.with_class(given, self._all(_CLASSES))
                return storage.protected(resource, given)
            case "services":
                return self._addresses.complete(given, None)
        return given

    def complete(self, resource: str, given: Object, before: Object) -> Object:
        """The same for an object that is there already."""
        if self._jobs is not None:
            given = self._jobs.complete(resource, given)
        return self._addresses.complete(given, before) if resource == "services" else given

    def _complete_pod(self, pod: Object) -> Object:
        if not _is_readable(pod):
            return pod  # its own rules say what is wrong with it
        metadata = pod["metadata"]
        key = Key("pods", metadata.get("namespace") or "", metadata.get("name") or metadata.get("generateName") or "")
        if self._cards is not None and not self._is_opted_out(key.namespace):
            pods = self._all("pods", key.namespace) if self._all(_QUOTAS, key.namespace) else ()
            quota = namespace_quota(self._cards, self._all(_QUOTAS, key.namespace), pods)
            pod = with_cards(key, pod, self._cards, quota)
        if ranges := self._all(_RANGES, key.namespace):
            pod = limits.with_defaults(pod, ranges)
        if self._has_accounts:
            pod = with_account(key, pod, lambda name: self._account(key.namespace, name), self._identities.suffix)
        pod = with_priority(pod, {one["metadata"]["name"]: one for one in self._all(_PRIORITIES)})
        return with_runtime(key, pod, lambda name: self._one(Key(_RUNTIMES, "", name)))

    def _is_opted_out(self, namespace: str) -> bool:
        """Whether the pods of a namespace are left alone where they ask for cards."""
        try:
            found = self._decoded(self._store.get(Key(NAMESPACES, "", namespace)))
        except NotFound:
            return False
        return (found["metadata"].get("labels") or {}).get(OPT_OUT) == IGNORED

    def _account(self, namespace: str, name: str) -> Object | None:
        try:
            return self._decoded(self._store.get(Key("serviceaccounts", namespace, name)))
        except NotFound:
            return None

    # What the rules look at ------------------------------------------------------------------------------------------

    def _all(self, resource: str, namespace: str = "") -> list[Object]:
        return [self._decoded(record) for record in self._store.page(Scope(resource, namespace)).records]

    def _one(self, key: Key) -> Object | None:
        return next((one for one in self._all(key.resource) if one["metadata"]["name"] == key.name), None)

    def _decoded(self, record: Record) -> Object:
        known = self._read.get(record.key)
        if known is None or known[0] != record.revision:
            if len(self._read) >= _KEPT:
                self._read.clear()
            known = self._read[record.key] = (record.revision, decode(record))
        return known[1]


class Checks:
    """What every write has to pass within its transaction: limits, pod security, growth of claims, quotas last."""

    def __init__(self, jobs: JobAdmission | None = None) -> None:
        self._quotas = QuotaKeeper()
        self._services = Holdings()
        self._jobs = jobs  # None: jobs change as they like

    def check(self, write: Transaction, key: Key, new: Object | None, before: Record | None) -> None:
        """Refuse a write by raising, and count it."""
        if new is not None and not is_deleting(new):
            if key.resource == "pods" and before is None:  # what a pod asks for cannot change
                limits.check_pod(key, new, _ranges(write, key.namespace))
                _check_security(write, key, new)
            elif key.resource == "services" and before is None:
                check_addresses(write, key, new, self._services)
            elif key.resource == "persistentvolumeclaims":
                _check_claim(write, key, new, decode(before) if before is not None else None)
            if self._jobs is not None:
                if key.resource == volcano.RESOURCE:
                    volcano.check_job(write, new, before)
                if before is not None:
                    self._jobs.check(key.resource, new, before)
        if not write.is_discarded:  # a rehearsal for webhooks that judge: quotas have the last word
            self._quotas.check(write, key, new, before)


def _ranges(write: Transaction, namespace: str) -> list[Object]:
    return [decode(record) for record in write.page(Scope(_RANGES, namespace), 0)]


def _check_security(write: Transaction, key: Key, pod: Object) -> None:
    namespace = write.get(Key(NAMESPACES, "", key.namespace))
    # Few namespaces have the label, and looking for it is much cheaper than reading the object.
    if namespace is not None and pod_security.ENFORCE.encode() in namespace.value:
        pod_security.check_pod(key, pod, decode(namespace)["metadata"].get("labels") or {})


def _check_claim(write: Transaction, key: Key, claim: Object, before: Object | None) -> None:
    if before is not None and before.get("spec") == claim.get("spec"):
        return
    limits.check_claim(key, claim, _ranges(write, key.namespace))
    if before is not None:
        storage.check_growth(key, claim, before, lambda name: _class_named(write, name))


def _class_named(write: Transaction, name: str) -> Object | None:
    record = write.get(Key(_CLASSES, "", name))
    return decode(record) if record is not None else None


def _is_readable(given: Any) -> bool:
    """Whether an object has the parts that the rules look into."""
    return isinstance(given.get("metadata"), dict) and isinstance(given.get("spec"), dict)
