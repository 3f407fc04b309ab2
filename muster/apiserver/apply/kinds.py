"""What server-side apply knows of each kind: how its versions merge, what a write cannot set, and what the server adds
to an object by itself, which nobody owns. Used by `ownership`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from muster.apiserver.apply.fieldsets import FieldSet
from muster.apiserver.apply.schema import (
    DEDUCED,
    ListOf,
    MapOf,
    Object,
    Relation,
    Scalar,
    Type,
    builtin_type,
    named_type,
)
from muster.apiserver.facts import META, type_of
from muster.apiserver.field_checks import read
from muster.apiserver.kinds import jobs
from muster.dialects.kueue.kinds import KINDS as KUEUE_KINDS
from muster.dialects.kueue.names import GROUP as KUEUE_GROUP
from muster.model import shapes
from muster.store.kinds import KindRules

CustomType = Callable[[str, str], Type | None]  # by apiVersion and kind; None for what it does not know


def type_in(api_version: str, rules: KindRules, custom: CustomType) -> Type | None:
    """How a kind merges in a version; `None` for a version that it does not have."""
    group, _, version = api_version.rpartition("/")
    if group == KUEUE_GROUP and rules.kind in KUEUE_KINDS:
        return _kueue_type(rules.kind, version)
    if builtin_type(rules.api_version, rules.kind) is not None:
        return builtin_type(api_version, rules.kind)
    return custom(api_version, rules.kind)


def no_custom_type(_api_version: str, _kind: str) -> Type | None:
    """Where there are no definitions of custom kinds, nothing is known of them."""
    return DEDUCED


@cache
def empty_object(api_version: str, kind: str) -> Object:
    """What a new object is compared with: what Go has of a kind before anybody has said anything."""
    group, _, version = api_version.rpartition("/")
    name = type_of(group, version, kind)
    return read({}, name).value if name else {}


# Kueue's kinds -------------------------------------------------------------------------------------------------------


@cache
def _kueue_type(kind: str, version: str) -> Type | None:
    shape = KUEUE_KINDS[kind].shapes.get(version)
    if shape is None:
        return None
    found = _from_shape(shape)
    assert isinstance(found, MapOf), "an object has fields"
    fields = {**found.fields, "metadata": named_type(f"{META}ObjectMeta")}
    return MapOf(lambda: fields)


def _from_shape(shape: shapes.Schema) -> Type:
    match shape:
        case shapes.Struct():
            fields = {name: _from_shape(one) for name, one in shape.fields.items()}
            return MapOf(lambda: fields, item=DEDUCED if shape.is_open else None, is_atomic=shape.is_atomic)
        case shapes.MapOf():
            return MapOf(item=_from_shape(shape.item), is_atomic=shape.is_atomic)
        case shapes.ListOf():
            return _list_from_shape(shape)
        case shapes.Text() | shapes.Moment() | shapes.Duration():
            return Scalar.STRING
        case shapes.Flag():
            return Scalar.BOOLEAN
        case shapes.Whole() | shapes.Number():
            return Scalar.NUMBER
        case shapes.Amount() | shapes.IntOrText():
            return Scalar.ANY
    return DEDUCED


def _list_from_shape(shape: shapes.ListOf) -> ListOf:
    item = _from_shape(shape.item)
    if not shape.keys:
        return ListOf(item, Relation.SET if shape.is_set else Relation.ATOMIC)
    defaults = shape.item.defaults if isinstance(shape.item, shapes.Struct) else {}
    of_keys = {key: defaults[key] for key in shape.keys if key in defaults}
    return ListOf(item, Relation.MAP, tuple(sorted(shape.keys)), of_keys)


# What a write cannot set ---------------------------------------------------------------------------------------------


_METADATA = ("annotations", "finalizers", "labels", "ownerReferences")


@cache
def ignored_by(subresource: str, has_status: bool, changed: tuple[str, ...]) -> FieldSet:
    """The fields that the server takes back whatever a write to a part of an object says of them.

    A write to the status changes some fields of the metadata too, which depends on the kind.
    """
    if subresource == "status":
        metadata: FieldSet = {f"f:{name}": {} for name in _METADATA if name not in changed}
        return {"f:spec": {}, **({"f:metadata": metadata} if metadata else {})}
    return {"f:status": {}} if has_status else {}


# What the server adds ------------------------------------------------------------------------------------------------

# Fields of the spec that the server fills in after it has noted who set what.
_ADDED: Mapping[str, tuple[str, ...]] = {
    "pods": ("priority", "preemptionPolicy", "priorityClassName", "tolerations"),
    "services": ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"),
    "jobs.batch": ("selector",),
    "namespaces": ("finalizers",),
    "nodes": ("taints",),
    "persistentvolumeclaims": ("storageClassName",),
}
_JOB_LABELS = frozenset({jobs.UID_LABEL, jobs.NAME_LABEL, jobs.OLD_UID_LABEL, jobs.OLD_NAME_LABEL})


def as_asked(new: Object, asked: Object, before: Object, rules: KindRules) -> Object:
    """An object without what the server has added to it, where its writer did not ask for that."""
    names = _ADDED.get(rules.resource)
    spec = new.get("spec")
    if names is None or not isinstance(spec, dict):
        return new
    given, had = asked.get("spec") or {}, before.get("spec") or {}
    result = dict(spec)
    for name in names:
        if given.get(name):
            result[name] = given[name]
        elif name in spec:
            _take_back(result, had, name)
    if rules.resource == "services":
        _take_back_ports(result, given, had)
    is_new_job = rules.resource == "jobs.batch" and not (before.get("metadata") or {}).get("uid")
    if not is_new_job or result.get("manualSelector"):
        return {**new, "spec": result}
    result["template"] = _without_job_labels(result["template"])
    return _without_job_labels({**new, "spec": result})


def _take_back(result: Object, had: Mapping[str, Any], name: str) -> None:
    if name in had:
        result[name] = had[name]
    else:
        result.pop(name, None)


def _take_back_ports(spec: Object, given: Object, had: Object) -> None:
    """A service's ports without the ports of nodes that were found for them."""
    asked = {_port(one): one for one in given.get("ports") or () if isinstance(one, dict)}
    before = {_port(one): one for one in had.get("ports") or ()}
    ports = []
    for port in spec.get("ports") or ():
        if "nodePort" in port and not asked.get(_port(port), {}).get("nodePort"):
            port = dict(port)
            _take_back(port, before.get(_port(port), {}), "nodePort")
        ports.append(port)
    if ports:
        spec["ports"] = ports


def _port(one: Object) -> tuple[Any, str]:
    return one.get("port"), one.get("protocol") or "TCP"


def _without_job_labels(given: Object) -> Object:
    """A job, or its template, without the labels by which it knows its pods."""
    metadata = given.get("metadata") or {}
    labels = metadata.get("labels") or {}
    rest = {name: value for name, value in labels.items() if name not in _JOB_LABELS}
    if rest == labels:
        return given
    metadata = {name: value for name, value in metadata.items() if name != "labels"}
    return {**given, "metadata": {**metadata, "labels": rest} if rest else metadata}
