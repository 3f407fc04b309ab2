"""All kinds that the embedded server serves: Kubernetes' own and the dialects'. Put together once, at start."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from muster.apiserver import metrics, visibility
from muster.apiserver.definitions.checks import DEFINITIONS, RULES
from muster.apiserver.definitions.kinds import definition_of, served_of
from muster.apiserver.facts import Kind, Subresource
from muster.apiserver.kinds import BUILTIN
from muster.apiserver.kinds.kueue import KUEUE
from muster.apiserver.served import Catalog, Served, builtin, resource_of
from muster.dialects.kueue import check_kinds
from muster.dialects.kueue import kinds as kueue
from muster.dialects.kueue.names import GROUP

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_OF_PARTS = ("get", "patch", "update")


def catalog(*, has_metrics: bool = False) -> Catalog:
    """What is served; what is in use where there are nodes to say it."""
    measured = metrics.KINDS if has_metrics else ()
    # Of kinds with the same name the first is meant by whoever says no group.
    own = (*_dialect_kinds(), *_check_kinds(), *visibility.KINDS)
    return Catalog([*builtin({**BUILTIN, DEFINITIONS: RULES}), *own, *measured])


def _check_kinds() -> Iterator[Served]:
    """What admission checks use, as if somebody had defined it."""
    for given in check_kinds.served():
        yield from served_of(given, definition_of(given))


def _dialect_kinds() -> Iterator[Served]:
    # Of two versions the newer comes first: clients that have no preference take that.
    for version in (kueue.HUB, kueue.OLDER):
        for kind in kueue.KINDS.values():
            yield Served(_served_kind(kind, version), KUEUE[resource_of(GROUP, kind.plural)])


def _served_kind(kind: kueue.Kind, version: str) -> Kind:
    status = Subresource(group=GROUP, version=version, kind=kind.name, verbs=_OF_PARTS)
    return Kind(
        group=GROUP,
        version=version,
        kind=kind.name,
        type_name="",
        plural=kind.plural,
        singular=kind.name.lower(),
        is_namespaced=kind.is_namespaced,
        verbs=_VERBS,
        short_names=kind.short_names,
        subresources=MappingProxyType({"status": status} if kind.has_status else {}),
        field_selectors=("metadata.name", "metadata.namespace"),
    )
