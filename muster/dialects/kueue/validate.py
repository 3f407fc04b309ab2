"""Whether one of Kueue's objects may be created, or may replace another: everything wrong with it, and what is odd.

The embedded server and the webhook ask `problems_of` for every write; `muster lint` asks it for files. The order is
Kubernetes': first the shape, and only where that is right the rules between fields. Unknown fields are apart
(`unknown_fields_of`), because how much they matter is for each request to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from muster.dialects.kueue.forgiving import forgive
from muster.dialects.kueue.gates import DEFAULT_GATES, FeatureGates
from muster.dialects.kueue.identity import identity_of
from muster.dialects.kueue.kinds import Kind
from muster.dialects.kueue.rules import Problems, Rule, Subject
from muster.dialects.kueue.validate_metadata import METADATA, metadata_problems
from muster.dialects.kueue.validate_others import (
    ADMISSION_CHECK_RULES,
    MULTIKUEUE_CLUSTER_RULES,
    MULTIKUEUE_CONFIG_RULES,
    RESOURCE_FLAVOR_RULES,
    TOPOLOGY_RULES,
    kubeconfig_path_problem,
)
from muster.dialects.kueue.validate_queues import CLUSTER_QUEUE_RULES, COHORT_RULES, LOCAL_QUEUE_RULES
from muster.dialects.kueue.validate_updates import WORKLOAD_UPDATE_RULES
from muster.dialects.kueue.validate_workload import WORKLOAD_RULES
from muster.dialects.kueue.versions import to_version
from muster.dialects.kueue.warning import ObjectWarning
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields
from muster.model.plain import without_nulls
from muster.model.shapes import Struct, shape_problems, unknown_fields, with_defaults

Errors = tuple[InvalidObject, ...]
Warnings = tuple[ObjectWarning, ...]

_RULES: Mapping[str, tuple[Rule, ...]] = {
    "AdmissionCheck": ADMISSION_CHECK_RULES,
    "ClusterQueue": CLUSTER_QUEUE_RULES,
    "Cohort": COHORT_RULES,
    "LocalQueue": LOCAL_QUEUE_RULES,
    "MultiKueueCluster": MULTIKUEUE_CLUSTER_RULES,
    "MultiKueueConfig": MULTIKUEUE_CONFIG_RULES,
    "ResourceFlavor": RESOURCE_FLAVOR_RULES,
    "Topology": TOPOLOGY_RULES,
    "Workload": (*WORKLOAD_RULES, *WORKLOAD_UPDATE_RULES),
}


def problems_of(
    obj: Mapping[str, Any],
    *,
    old: Mapping[str, Any] | None = None,
    gates: FeatureGates = DEFAULT_GATES,
    strict: bool = False,
    is_filled: bool = False,
) -> tuple[Errors, Warnings]:
    """All errors and warnings of an object; `old` is what it replaces, in either version. Nothing is raised.

    `is_filled` says that it has its defaults and no nulls. Of what is the same in both, the shape is not looked at.
    """
    try:
        kind, version = identity_of(obj)
    except InvalidObject as problem:
        return (problem,), ()
    plain: dict[str, Any] = dict(obj) if is_filled else without_nulls(obj)
    read_as, warnings = forgive(plain)
    if strict:
        # Kueue says nothing of a queue that admits nobody, and neither refuses it; the rest it refuses.
        read_as, warnings = plain, tuple(w for w in warnings if w.path == "spec.namespaceSelector")
    shape = kind.shapes[version]
    filled = read_as if is_filled else with_defaults(shape, read_as)
    same = _same_parts(filled, old)
    errors = (*_replicas(plain, kind, strict=strict), *metadata_problems(Fields.of(filled), kind))
    errors += tuple(shape_problems(_without(shape, same), filled, ""))
    if errors:
        return errors, warnings
    replaced = _replaced(old, kind, version, same)
    subject = Subject(obj=Fields.of(filled), old=replaced, version=version, gates=gates, is_strict=strict)
    return tuple(_broken_rules(subject, kind)), (*warnings, *_oddities(subject, kind))


def check(
    obj: Mapping[str, Any],
    *,
    old: Mapping[str, Any] | None = None,
    gates: FeatureGates = DEFAULT_GATES,
    strict: bool = False,
    is_filled: bool = False,
) -> Warnings:
    """The warnings of an object that may be written; raises `InvalidObjects` for one that may not."""
    errors, warnings = problems_of(obj, old=old, gates=gates, strict=strict, is_filled=is_filled)
    if errors:
        raise InvalidObjects(errors)
    return warnings


def unknown_fields_of(obj: Mapping[str, Any], *, strict: bool = False) -> Errors:
    """The fields that the object's version does not have, each with the name that comes nearest."""
    try:
        kind, version = identity_of(obj)
    except InvalidObject:
        return ()
    plain: dict[str, Any] = without_nulls(obj)
    read_as = plain if strict else forgive(plain)[0]
    shape = kind.shapes[version]
    return (
        *unknown_fields(METADATA, read_as.get("metadata"), "metadata"),
        *unknown_fields(shape, read_as, ""),
    )


def _replicas(plain: Mapping[str, Any], kind: Kind, *, strict: bool) -> Iterator[InvalidObject]:
    """Kueue has no such field; where meanings are not guessed it is named, for else one pod would run silently."""
    if strict and kind.name == "Workload":
        for warning in forgive(plain)[1]:
            yield InvalidObject(warning.path, "is not a known field", "did you mean count?")


def _same_parts(obj: Mapping[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
    """The spec and the status of an object, where it takes them over from the one before."""
    if old is None or old.get("apiVersion") != obj.get("apiVersion"):
        return {}
    return {name: obj[name] for name in ("spec", "status") if name in obj and obj[name] == old.get(name)}


def _without(shape: Struct, parts: Mapping[str, Any]) -> Struct:
    """The shape of the rest of an object; Kubernetes too lets pass what was stored before."""
    if not parts:
        return shape
    fields = {name: one for name, one in shape.fields.items() if name not in parts}
    return replace(shape, fields=fields, required=tuple(name for name in shape.required if name not in parts))


def _replaced(old: Mapping[str, Any] | None, kind: Kind, version: str, same: Mapping[str, Any]) -> Fields | None:
    """The object being replaced in the version of its successor; one that cannot be read holds nothing up."""
    if old is None:
        return None
    rest = {name: value for name, value in old.items() if name not in same}
    try:
        converted = to_version(forgive(without_nulls(rest))[0], version)
    except InvalidObject:
        return None
    shape = _without(kind.shapes[version], same)
    filled = with_defaults(shape, converted)
    is_sound = next(shape_problems(shape, filled, ""), None) is None
    return Fields.of({**filled, **same}) if is_sound else None


def _broken_rules(subject: Subject, kind: Kind) -> Problems:
    for rule in _RULES.get(kind.name, ()):
        try:
            yield from rule(subject)
        except InvalidObject as problem:
            yield problem


def _oddities(subject: Subject, kind: Kind) -> Iterator[ObjectWarning]:
    metadata = subject.obj.child("metadata")
    if not kind.is_namespaced and metadata.text("namespace"):
        yield ObjectWarning("metadata.namespace", f"has no effect: a {kind.name} has no namespace", "take it out")
    if kind.name == "MultiKueueCluster" and subject.gates.is_on("MultiKueueKubeConfigPathValidation"):
        source = subject.spec.child("clusterSource") if subject.is_hub else subject.spec
        config = source.child("kubeConfig")
        problem = kubeconfig_path_problem(config.text("location")) if config.text("locationType") == "Path" else ""
        if problem:
            yield ObjectWarning(config.at("location"), f"{problem}: the cluster stays inactive", "move the file there")
