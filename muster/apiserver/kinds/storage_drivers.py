"""Drivers of storage: what they can, where they are, and what they have attached. Kept for those who run them."""

from __future__ import annotations

from typing import Any

from muster.apiserver.kinds.base import kind_rules
from muster.apiserver.kinds.checks import (
    amount,
    dns_subdomain,
    each,
    fields,
    keyed,
    label_selector,
    not_negative,
    one_of,
    qualified_name,
    unchanged,
)
from muster.apiserver.kinds.pod_defaults import fill
from muster.apiserver.kinds.problems import Problems, duplicate, forbidden, invalid, not_supported, required, too_long
from muster.model.labels import dns1123_subdomain_problem

Object = dict[str, Any]

_GROUP = "storage.k8s.io"
_DRIVER_NAME_MOST = 63
_NODE_ID_MOST = 192
_TOKEN_LEAST_S, _TOKEN_MOST_S = 600, 1 << 32
_FIXED = ("attachRequired", "volumeLifecycleModes")


def driver_name(name: str, path: str) -> Problems:
    """The name of a driver, in capitals too."""
    if not name:
        yield required(path)
        return
    if len(name) > _DRIVER_NAME_MOST:
        yield too_long(path, _DRIVER_NAME_MOST)
    if problem := dns1123_subdomain_problem(name.lower()):
        yield invalid(path, name, problem)


# Drivers -------------------------------------------------------------------------------------------------------------


def _fill_driver(driver: Object) -> None:
    fill(
        driver["spec"],
        {
            "attachRequired": True,
            "podInfoOnMount": False,
            "storageCapacity": False,
            "fsGroupPolicy": "ReadWriteOnceWithFSType",
            "requiresRepublish": False,
            "seLinuxMount": False,
        },
    )
    driver["spec"].pop("preventPodSchedulingIfMissing", None)  # of a feature that is off
    if not driver["spec"].get("volumeLifecycleModes"):
        driver["spec"]["volumeLifecycleModes"] = ["Persistent"]


def _lifetime(seconds: int, path: str) -> Problems:
    if not _TOKEN_LEAST_S <= seconds <= _TOKEN_MOST_S:
        yield invalid(path, seconds, f"must be from {_TOKEN_LEAST_S} to {_TOKEN_MOST_S} seconds")


_DRIVER = fields(
    "",
    {
        "fsGroupPolicy": one_of("File", "None", "ReadWriteOnceWithFSType"),
        "nodeAllocatableUpdatePeriodSeconds": lambda value, path: _period(value, path),
        "tokenRequests": each(fields("", {"expirationSeconds": _lifetime})),
    },
)


def _period(seconds: int, path: str) -> Problems:
    if seconds < 10:
        yield invalid(path, seconds, "must be greater than or equal to 10 seconds")


def _check_driver(driver: Object) -> Problems:
    spec = driver["spec"]
    yield from _DRIVER(spec, "spec")
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in ("Persistent", "Ephemeral"):
            yield not_supported("spec.volumeLifecycleModes", mode, ("Ephemeral", "Persistent"))
    if spec.get("serviceAccountTokenInSecrets") is not None and not spec.get("tokenRequests"):
        told = spec["serviceAccountTokenInSecrets"]
        yield invalid("spec.serviceAccountTokenInSecrets", told, "is set but no tokenRequests are specified")
    seen = set()
    for index, one in enumerate(spec.get("tokenRequests") or ()):
        audience = one.get("audience") or ""
        if audience in seen:
            yield duplicate(f"spec.tokenRequests[{index}].audience", audience)
        seen.add(audience)


def _change_driver(new: Object, before: Object) -> Problems:
    yield from unchanged(new, before, [f"spec.{name}" for name in _FIXED])


# Nodes and what is attached to them ----------------------------------------------------------------------------------


def _node_driver(driver: Object, path: str) -> Problems:
    yield from driver_name(driver.get("name") or "", f"{path}.name")
    node = driver.get("nodeID") or ""
    if not node:
        yield required(f"{path}.nodeID")
    elif len(node) > _NODE_ID_MOST:
        yield invalid(f"{path}.nodeID", node, f"must be {_NODE_ID_MOST} characters or less")
    count = (driver.get("allocatable") or {}).get("count")
    if count is not None:
        yield from not_negative(count, f"{path}.allocatable.count")
    seen = set()
    for key in driver.get("topologyKeys") or ():
        if not key:
            yield required(path)
        yield from qualified_name(key, path)
        if key in seen:
            yield duplicate(path, key)
        seen.add(key)


def _check_node(node: Object) -> Problems:
    yield from keyed("name", _node_driver)(node["spec"].get("drivers") or [], "spec.drivers")


def _change_node(new: Object, before: Object) -> Problems:
    """A driver that is there stays as it is, unless what it can hold changes."""
    had = {one.get("name"): one for one in before["spec"].get("drivers") or ()}
    for one in new["spec"].get("drivers") or ():
        old = had.get(one.get("name"))
        if old is not None and {**one, "allocatable": None} != {**old, "allocatable": None}:
            yield invalid("spec.drivers", one.get("name"), "field is immutable")


def _check_capacity(capacity: Object) -> Problems:
    yield from dns_subdomain(capacity.get("storageClassName") or "", "storageClassName")
    for name in ("capacity", "maximumVolumeSize"):
        if capacity.get(name) is not None:
            yield from amount(capacity[name], name)
    if capacity.get("nodeTopology") is not None:
        yield from label_selector(capacity["nodeTopology"], "nodeTopology")


def _change_capacity(new: Object, before: Object) -> Problems:
    yield from unchanged(new, before, ("nodeTopology", "storageClassName"))


def _check_attachment(attachment: Object) -> Problems:
    spec = attachment["spec"]
    yield from driver_name(spec.get("attacher") or "", "spec.attacher")
    yield from dns_subdomain(spec.get("nodeName") or "", "spec.nodeName")
    source = spec.get("source") or {}
    name, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    if name is None and inline is None:
        yield required("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    if name is not None:
        if inline is not None:
            yield forbidden("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
        if not name:
            yield required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName")
        yield from dns_subdomain(name, "spec.source.persistentVolumeName")


def _change_attachment(new: Object, before: Object) -> Problems:
    yield from unchanged(new, before, ("spec",))


# Classes of attributes -----------------------------------------------------------------------------------------------


def _check_attributes(given: Object) -> Problems:
    name = given.get("driverName") or ""
    if not name:
        yield required("driverName")
    elif len(name) > _DRIVER_NAME_MOST or dns1123_subdomain_problem(name.lower()):
        yield invalid("driverName", name, "must be the name of a driver")
    if not given.get("parameters"):
        yield required("parameters", "must contain at least one key/value pair")


def _change_attributes(new: Object, before: Object) -> Problems:
    for name in ("driverName", "parameters"):
        if new.get(name) != before.get(name):
            yield forbidden(name, "updates to it are forbidden.")


KINDS = (
    kind_rules(
        (_GROUP, "v1", "CSIDriver"),
        fill=_fill_driver,
        check=_check_driver,
        change=_change_driver,
        has_generation=False,
    ),
    kind_rules((_GROUP, "v1", "CSINode"), check=_check_node, change=_change_node, has_generation=False),
    kind_rules(
        (_GROUP, "v1", "CSIStorageCapacity"), check=_check_capacity, change=_change_capacity, has_generation=False
    ),
    kind_rules(
        (_GROUP, "v1", "VolumeAttachment"),
        check=_check_attachment,
        change=_change_attachment,
        has_generation=False,
        status_metadata=(),
    ),
    kind_rules(
        (_GROUP, "v1", "VolumeAttributesClass"),
        check=_check_attributes,
        change=_change_attributes,
        has_generation=False,
    ),
)
