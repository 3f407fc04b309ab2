"""Kueue's own kinds as the store's rules know them; what the dialect says of them is taken over as it is."""

from __future__ import annotations

from typing import Any

from muster.dialects.kueue.defaults import apply_defaults
from muster.dialects.kueue.identity import api_version
from muster.dialects.kueue.kinds import HUB, KINDS, Kind
from muster.dialects.kueue.names import GROUP
from muster.dialects.kueue.validate import check
from muster.dialects.kueue.versions import to_version
from muster.store.kinds import KindRules

Object = dict[str, Any]


def _convert(given: Object, version: str) -> Object:
    return to_version(given, version.rpartition("/")[2])


def _default(given: Object, before: Object | None) -> Object:
    is_creating = not (given.get("metadata") or {}).get("resourceVersion")
    return apply_defaults(given, creating=is_creating, known=before)


def _validate(new: Object, before: Object | None) -> None:
    check(new, old=before, is_filled=True)


def _rules(kind: Kind) -> KindRules:
    return KindRules(
        resource=f"{kind.plural}.{GROUP}",
        kind=kind.name,
        api_version=api_version(HUB),
        is_namespaced=kind.is_namespaced,
        has_status=kind.has_status,
        convert=_convert,
        default=_default,
        validate=_validate,
    )


KUEUE = {rules.resource: rules for rules in map(_rules, KINDS.values())}
