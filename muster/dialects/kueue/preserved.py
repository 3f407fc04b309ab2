"""What one version of an object says and the other has no field for, kept in an annotation across a conversion.

The places where that can happen are listed here (`_SITES`). A place is restored only if what the other version shows
there was not changed meanwhile, only where it is one of the listed places, and only with a value of the right shape:
an annotation is written by anybody. One that is malformed is as good as none. `versions` also makes sure that what is
restored is something that the other version cannot see.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from muster.model.fields import Fields
from muster.model.json_text import begins_as_json
from muster.model.plain import copied
from muster.model.shapes import ListOf, Schema, Struct, shape_problems

ANNOTATION = "muster.dev/preserved-fields"
MOST_BYTES = 64 * 1024
_MOST_DEPTH = 60

Path = tuple[str, ...]  # field names; "=main" is the item of a list whose name is main
Object = dict[str, Any]

# version, kind: groups of places that are restored together or not at all. "*" stands for every item of a list.
_SITES: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("v1beta1", "AdmissionCheck"): (("spec.retryDelayMinutes",),),
    ("v1beta1", "ClusterQueue"): (
        ("spec.admissionChecks", "spec.admissionChecksStrategy"),
        ("spec.flavorFungibility.whenCanBorrow",),
        ("spec.flavorFungibility.whenCanPreempt",),
        ("status.pendingWorkloadsStatus",),
        ("status.fairSharing.admissionFairSharingStatus",),
    ),
    ("v1beta1", "Cohort"): (("status.fairSharing.admissionFairSharingStatus",),),
    ("v1beta1", "LocalQueue"): (("status.flavors",),),
    ("v1beta1", "MultiKueueCluster"): (("spec.kubeConfig", "spec.clusterProfileRef"),),
    ("v1beta1", "Workload"): (("spec.priorityClassName", "spec.priorityClassSource"),),
    ("v1beta2", "ClusterQueue"): (("spec.concurrentAdmissionPolicy",),),
    ("v1beta2", "MultiKueueCluster"): (("spec.clusterSource",),),
    ("v1beta2", "MultiKueueConfig"): (("spec.quotaManagement",),),
    ("v1beta2", "Workload"): (
        ("spec.priorityClassRef",),
        ("spec.preemptionGates",),
        ("status.preemptionGates",),
        ("spec.podSets.*.topologyRequest.podsetSliceRequiredTopologyConstraints",),
        ("status.admission.podSetAssignments.*.topologyAssignment",),
    ),
}
# Empty text is the default of these, and as good as absent.
_EMPTY_MEANS_ABSENT = frozenset({"priorityClassName", "priorityClassSource"})


@dataclass(frozen=True, slots=True)
class KeptFields:
    """The places of one group, their values, and a digest of what the other version showed there."""

    at: tuple[Path, ...]
    values: tuple[Any, ...]  # `None`: absent
    seen: str


@dataclass(frozen=True, slots=True)
class Kept:
    """What an object brought along from an earlier conversion."""

    groups: tuple[KeptFields, ...] = ()


NOTHING = Kept()


def take_kept_fields(obj: Mapping[str, Any], version: str) -> tuple[Object, Kept]:
    """The object without its annotation, and what that kept for this version; the object is copied where it changes."""
    fields = Fields.of(obj)
    metadata = fields.child("metadata")
    text = metadata.child("annotations").raw(ANNOTATION)
    payload = _payload_of(text) if isinstance(text, str) else None
    if payload is None:
        return dict(obj), NOTHING
    annotations = {key: value for key, value in metadata.child("annotations").values.items() if key != ANNOTATION}
    bare = {key: value for key, value in metadata.values.items() if key != "annotations"}
    has_none = payload.get("addedAnnotations") is True and not annotations
    stripped = dict(obj) | {"metadata": bare if has_none else bare | {"annotations": annotations}}
    if payload.get("version") != version:
        return stripped, NOTHING
    return stripped, Kept(tuple(_groups_of(payload, version, fields.text("kind"))))


def _payload_of(text: str) -> Mapping[str, Any] | None:
    if len(text) > MOST_BYTES or not begins_as_json(text, _MOST_DEPTH):
        return None
    try:
        payload = json.loads(text)
    except ValueError:
        return None
    return payload if isinstance(payload, dict) else None


def _groups_of(payload: Mapping[str, Any], version: str, kind: str) -> Iterator[KeptFields]:
    groups = payload.get("fields")
    for group in groups if isinstance(groups, list) else []:
        if not isinstance(group, dict):
            continue
        at, values, seen = group.get("at"), group.get("values"), group.get("seen")
        if not (isinstance(at, list) and isinstance(values, list) and len(at) == len(values) and at):
            continue
        if not all(isinstance(path, list) and all(isinstance(step, str) for step in path) for path in at):
            continue
        paths = tuple(tuple(path) for path in at)
        if isinstance(seen, str) and _is_site(paths, version, kind):
            yield KeptFields(paths, tuple(values), seen)


def _is_site(paths: tuple[Path, ...], version: str, kind: str) -> bool:
    """Whether the places are one of the groups that may be kept."""
    general = tuple(".".join("*" if step.startswith("=") else step for step in path) for path in paths)
    return general in _SITES.get((version, kind), ())


def restore_kept_fields(obj: Object, kept: Kept, shape: Struct) -> Object:
    """The object with what was kept for it, where nothing changed meanwhile; a copy where there is something."""
    if not kept.groups:
        return obj
    result: Object = copied(obj)
    for group in kept.groups:
        parents = [_parent(result, path) for path in group.at]
        if any(parent is None for parent in parents) or _digest_at(result, group.at) != group.seen:
            continue
        if not all(
            value is None or _fits(shape, path, value) for path, value in zip(group.at, group.values, strict=True)
        ):
            continue
        for parent, path, value in zip(parents, group.at, group.values, strict=True):
            assert parent is not None, "a place without a parent was passed over"
            parent.pop(path[-1], None)
            if value is not None:
                parent[path[-1]] = value
    return result


def keep_lost_fields(result: Object, original: Mapping[str, Any], there_and_back: Mapping[str, Any]) -> Object:
    """The converted object with an annotation for what its conversion lost: where going back gives something else."""
    fields = Fields.of(original)
    version = fields.text("apiVersion").rpartition("/")[2]
    kept: list[Object] = []
    size = 0
    for group in _SITES.get((version, fields.text("kind")), ()):
        for at in _instances(original, group):
            before = [_value(original, path) for path in at]
            seen = _digest_at(there_and_back, at)
            if _digest(before) == seen:
                continue
            entry = {"at": at, "values": before, "seen": seen}
            text = _dumped(entry)
            if text is None or size + len(text) > MOST_BYTES // 2:
                continue  # Too large to carry along: lost, as Kueue loses it.
            size += len(text)
            kept.append(entry)
    return _annotated(result, version, kept) if kept else result


def _annotated(obj: Object, version: str, kept: list[Object]) -> Object:
    metadata = Fields.of(obj).child("metadata")
    payload: Object = {"version": version, "fields": kept}
    if not metadata.has("annotations"):
        payload["addedAnnotations"] = True
    annotations = dict(metadata.child("annotations").values) | {ANNOTATION: _dumped(payload)}
    return obj | {"metadata": dict(metadata.values) | {"annotations": annotations}}


def _instances(obj: Mapping[str, Any], group: tuple[str, ...]) -> Iterator[tuple[Path, ...]]:
    """The group's places in this object, once for every item of a list on the way."""
    paths = [tuple(path.split(".")) for path in group]
    if "*" not in paths[0]:
        yield tuple(paths)
        return
    assert len(paths) == 1, "places inside lists are kept one by one"
    at = paths[0].index("*")
    items = _value(obj, paths[0][:at])
    names = [item.get("name", "") for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []
    for name in dict.fromkeys(name for name in names if isinstance(name, str)):
        yield ((*paths[0][:at], f"={name}", *paths[0][at + 1 :]),)


def _step(value: Any, step: str) -> Any:
    if step.startswith("="):
        items = value if isinstance(value, list) else []
        return next((item for item in items if isinstance(item, dict) and item.get("name", "") == step[1:]), None)
    return value.get(step) if isinstance(value, Mapping) else None


def _parent(obj: Object, path: Path) -> Object | None:
    value: Any = obj
    for step in path[:-1]:
        value = _step(value, step)
    return value if isinstance(value, dict) else None


def _value(obj: Mapping[str, Any], path: Path) -> Any:
    value: Any = obj
    for step in path:
        value = _step(value, step)
    return None if value == "" and path[-1] in _EMPTY_MEANS_ABSENT else value


def _fits(shape: Schema, path: Path, value: Any) -> bool:
    """Whether a value has the shape that its place asks for."""
    for step in path:
        if isinstance(shape, ListOf):
            shape = shape.item
        elif isinstance(shape, Struct) and step in shape.fields:
            shape = shape.fields[step]
        else:
            return False
    return next(shape_problems(shape, value, ""), None) is None


def _digest_at(obj: Mapping[str, Any], at: tuple[Path, ...]) -> str:
    return _digest([_value(obj, path) for path in at])


def _digest(values: list[Any]) -> str:
    """A short text that changes when the values do; empty, and equal to nothing, for values JSON cannot hold."""
    text = _dumped(values)
    return "" if text is None else sha256(text.encode()).hexdigest()[:32]


def _dumped(value: Any) -> str | None:
    if _is_too_deep(value):
        return None
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):
        return None


def _is_too_deep(value: Any) -> bool:
    layer, depth = [value], 0
    while layer:
        depth += 1
        if depth > _MOST_DEPTH:
            return True
        containers = [item for item in layer if isinstance(item, (dict, list, tuple))]
        layer = [part for item in containers for part in (item.values() if isinstance(item, dict) else item)]
    return False
