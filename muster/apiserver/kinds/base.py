"""How the rules of a built-in kind are put together: read into its type, fill in defaults, check, compare.

Each kind brings up to three functions: `fill` sets defaults in a fresh object, `check` says what is wrong with it, and
`change` what is wrong with it as the successor of another (it may also carry over what only the server sets).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.apiserver.facts import KINDS, Kind
from muster.apiserver.field_checks import read_body
from muster.apiserver.kinds.problems import Problems, invalid, raise_all
from muster.store.kinds import KindRules

Object = dict[str, Any]
Fill = Callable[[Object], None]
CheckObject = Callable[[Object], Problems]
Change = Callable[[Object, Object], Problems]
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_TAKE_ANY_FINALIZER = (
    "APIService",
    "Event",
    "Lease",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "PodDisruptionBudget",
    "RuntimeClass",
)
STATUS_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


def _fill_nothing(_given: Object) -> None:
    """Kinds without defaults of their own."""


def _accept(_given: Object) -> Problems:
    yield from ()


def _accept_change(_new: Object, _before: Object) -> Problems:
    yield from ()


def resource_of(kind: Kind) -> str:
    """What keys call the resource of a kind."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def is_new(given: Object) -> bool:
    """Whether an object is being created: only then has it no revision."""
    return not given["metadata"].get("resourceVersion")


def _finalizers(given: Object) -> Problems:
    """A finalizer without a domain is one of those that Kubernetes knows; a few kinds take any."""
    if given["kind"] in _TAKE_ANY_FINALIZER:
        return
    for index, one in enumerate(given["metadata"].get("finalizers") or ()):
        if "/" not in one and one not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"metadata.finalizers[{index}]", one, detail)


def kind_rules(
    names: tuple[str, str, str],
    *,
    fill: Fill = _fill_nothing,
    check: CheckObject = _accept,
    change: Change = _accept_change,
    **settings: Any,
) -> KindRules:
    """The rules of a kind by group, version and kind; further settings are those of `KindRules`."""
    kind = KINDS[names]
    type_name = kind.type_name
    settings.setdefault("status_metadata", STATUS_METADATA)

    def default(given: Object, before: Object | None) -> Object:
        value = read_body(given, type_name, known=before).value
        fill(value)
        return value

    def validate(new: Object, before: Object | None) -> None:
        changes = () if before is None else tuple(change(new, before))
        raise_all((*_finalizers(new), *check(new), *changes))

    return KindRules(
        resource=resource_of(kind),
        kind=kind.kind,
        api_version=f"{kind.group}/{kind.version}" if kind.group else kind.version,
        is_namespaced=kind.is_namespaced,
        has_status="status" in kind.subresources,
        default=default,
        validate=validate,
        **settings,
    )
