"""The defaults of Kueue's kinds: those of the definitions, and those its webhooks add on create."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.dialects.kueue.gates import DEFAULT_GATES, FeatureGates
from muster.dialects.kueue.identity import identity_of
from muster.dialects.kueue.names import GROUP
from muster.model.fields import Fields
from muster.model.plain import without_nulls
from muster.model.shapes import with_defaults

IN_USE_FINALIZER = f"{GROUP}/resource-in-use"
DEFAULT_NAMESPACE = "default"
_KEPT_WHILE_IN_USE = frozenset({"ClusterQueue", "ResourceFlavor"})


def with_schema_defaults(obj: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with the defaults of the object's own version; nulls are gone, for they are the same as absent."""
    kind, version = identity_of(obj)
    return dict(with_defaults(kind.shapes[version], without_nulls(obj)))


def apply_defaults(
    obj: Mapping[str, Any],
    gates: FeatureGates = DEFAULT_GATES,
    *,
    creating: bool = True,
    known: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A copy with all defaults; those of the webhooks are for objects that are being created.

    A spec or status that is the same in `known`, an object with its defaults, is taken from there.
    """
    kind, _ = identity_of(obj)
    same = {
        name: known[name] for name in ("spec", "status") if known and name in known and known[name] == obj.get(name)
    }
    rest = with_schema_defaults({name: value for name, value in obj.items() if name not in same})
    order = dict.fromkeys((*(name for name in obj if name in same or name in rest), *rest))
    result = {name: same.get(name, rest.get(name)) for name in order}
    metadata = dict(Fields.of(result).child("metadata").values)
    if kind.is_namespaced and not metadata.get("namespace"):
        metadata["namespace"] = DEFAULT_NAMESPACE
    if creating and kind.name in _KEPT_WHILE_IN_USE:
        finalizers = Fields(metadata, "metadata").items("finalizers")
        if IN_USE_FINALIZER not in finalizers:
            metadata["finalizers"] = [*finalizers, IN_USE_FINALIZER]
    if metadata:
        result["metadata"] = metadata
    if creating and kind.name == "Workload" and not gates.is_on("PartialAdmission"):
        result = _without_min_counts(result)
    return result


def _without_min_counts(workload: dict[str, Any]) -> dict[str, Any]:
    """Kueue: without partial admission, pod sets start whole."""
    spec = Fields.of(workload).child("spec")
    if not spec.has("podSets"):
        return workload
    pod_sets = [
        {name: value for name, value in pod_set.values.items() if name != "minCount"}
        for pod_set in spec.children("podSets")
    ]
    return workload | {"spec": dict(spec.values) | {"podSets": pod_sets}}
