"""What the store keeps that decides which webhooks and policies a write meets. Used by `dispatch` and by `policies`."""

from __future__ import annotations

from muster.apiserver.served import Catalog, Served
from muster.apiserver.webhooks.attributes import labels_of
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.port import Store
from muster.store.records import Key, Scope


class Kept:
    """Configurations, read again only where they have changed, and namespaces."""

    def __init__(self, store: Store, catalog: Catalog) -> None:
        self.store = store
        self._catalog = catalog
        self._read: dict[str, tuple[list[int], list[Object]]] = {}  # by resource, with their revisions

    def has_any(self, resource: str) -> bool:
        return bool(self.store.page(Scope(resource), limit=1).records)

    def all(self, resource: str) -> list[Object]:
        """All objects of a resource in the order of their names."""
        records = self.store.page(Scope(resource)).records
        if not records:
            return []
        revisions = [record.revision for record in records]
        known = self._read.get(resource)
        if known is None or known[0] != revisions:
            known = self._read[resource] = (revisions, [decode(record) for record in records])
        return known[1]

    def versions(self, served: Served) -> list[Served]:
        """The other versions of a kind."""
        return [one for one in self._catalog.all if one.resource == served.resource and one is not served]

    def namespace(self, name: str) -> Object | None:
        """A namespace by its name; None where there is none."""
        try:
            return decode(self.store.get(Key("namespaces", "", name))) if name else None
        except NotFound:
            return None

    def namespace_labels(self, name: str) -> dict[str, str]:
        return labels_of(self.namespace(name))
