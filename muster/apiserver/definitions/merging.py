"""How objects of custom kinds merge when they are applied: by the schemas of definitions. Given to `Ownership`."""

from __future__ import annotations

from muster.apiserver.apply.schema import MapOf, type_from_schema
from muster.apiserver.served import Catalog


class MergeTypes:
    """The types of custom kinds, each made when it is first asked for. Threads may ask at the same time."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: tuple[int, dict[tuple[str, str], MapOf | None]] = (0, {})  # of one state of the catalog

    def __call__(self, api_version: str, kind: str) -> MapOf | None:
        """The type of a kind; `None` where no definition describes it."""
        epoch, known = self._known
        if epoch != self._catalog.epoch:
            epoch, known = self._known = (self._catalog.epoch, {})
        if (api_version, kind) not in known:
            known[api_version, kind] = self._made(api_version, kind)
        return known[api_version, kind]

    def _made(self, api_version: str, kind: str) -> MapOf | None:
        for one in self._catalog.all:
            if one.custom is not None and (one.api_version, one.kind.kind) == (api_version, kind):
                return type_from_schema(one.custom.open_api)
        return None
