"""Cluster roles that are made of others: whatever has the right labels is part of them. A part of `following`."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from muster.model.fields import Fields
from muster.model.labels import read_selector, selects
from muster.store.kinds import Object
from muster.store.metadata import is_deleting
from muster.store.objects import Objects, decode
from muster.store.port import Change, Store, Transaction
from muster.store.records import Event, Key, Scope

RESOURCE = "clusterroles.rbac.authorization.k8s.io"
_ALL = Key(RESOURCE, "", "")  # any of them may be part of any other
_MOST = 100_000
_encode = msgspec.json.Encoder(order="sorted").encode


class Aggregation:
    """Keeps the rules of roles that are made of others what those others have."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._read: dict[str, tuple[int, Object]] = {}  # by name, with the revision that was read

    def first(self, _store: Store) -> Iterable[Key]:
        return (_ALL,)

    def after(self, event: Event) -> Iterable[Key]:
        return (_ALL,) if event.record.key.resource == RESOURCE else ()

    def change(self, _key: Key) -> Change[None]:
        return self._settle_all

    def _settle_all(self, write: Transaction) -> None:
        roles: dict[str, Object] = {}
        for record in write.page(Scope(RESOURCE), _MOST):
            known = self._read.get(record.key.name)
            if known is None or known[0] != record.revision:
                known = (record.revision, decode(record))
            roles[record.key.name] = known[1]
            self._read[record.key.name] = known
        self._read = {name: self._read[name] for name in roles}
        for name, role in roles.items():
            if role.get("aggregationRule") and not is_deleting(role):
                rules = _gathered(name, role, roles)
                if rules != (role.get("rules") or []):
                    self._objects.update(Key(RESOURCE, "", name), {**role, "rules": rules})(write)


def _gathered(name: str, role: Object, roles: dict[str, Object]) -> list[Object]:
    """The rules of all others that are selected, each once."""
    found: dict[bytes, Object] = {}
    aggregation = Fields.of(role["aggregationRule"], "aggregationRule")
    for selector in aggregation.items("clusterRoleSelectors"):
        wanted = read_selector(Fields.of({"selector": selector}), "selector")
        for other_name, other in roles.items():
            if other_name == name or not selects(wanted, other["metadata"].get("labels") or {}):
                continue
            for rule in other.get("rules") or ():
                found.setdefault(_encode(rule), rule)
    return list(found.values())
