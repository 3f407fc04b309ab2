"""Volumes of the cluster, claims to them, and classes of storage."""

from __future__ import annotations

from typing import Any

from muster.apiserver.kinds.base import is_new, kind_rules
from muster.apiserver.kinds.checks import (
    amount,
    dns_label,
    dns_subdomain,
    fields,
    label_selector,
    needed,
    no_back_steps,
    one_of,
    qualified_name,
    quantity,
    unchanged,
)
from muster.apiserver.kinds.pod_defaults import fill
from muster.apiserver.kinds.pod_placing import node_selector
from muster.apiserver.kinds.problems import Problems, duplicate, forbidden, invalid, not_supported, required
from muster.apiserver.kinds.volume_sources import OF_CLUSTER, one_source

Object = dict[str, Any]

ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_TOPOLOGIES_MOST = 1_000  # more are not looked at


# Claims --------------------------------------------------------------------------------------------------------------


def fill_claim(claim: Object) -> None:
    """The defaults of a claim, on its own or in a stateful set."""
    claim["spec"].setdefault("volumeMode", "Filesystem")
    claim["status"].setdefault("phase", "Pending")


def _fill_claim(claim: Object) -> None:
    if is_new(claim):
        claim["status"] = {}
    fill_claim(claim)
    _mirror_source(claim["spec"])


def _mirror_source(spec: Object) -> None:
    """What a claim starts with has two names, of which one is old; what neither can mean is left out."""
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is not None and not (_is_claim(old) or _is_snapshot(old)):
        del spec["dataSource"]
    if new is not None and new.get("namespace"):
        del spec["dataSourceRef"]  # of another namespace: a feature that is off
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is not None and new is None:
        spec["dataSourceRef"] = dict(old)
    elif new is not None and old is None:
        spec["dataSource"] = dict(new)


def _is_claim(source: Object) -> bool:
    return source.get("kind") == "PersistentVolumeClaim" and not source.get("apiGroup")


def _is_snapshot(source: Object) -> bool:
    return source.get("kind") == "VolumeSnapshot" and source.get("apiGroup") == "snapshot.storage.k8s.io"


def _access_modes(modes: list[str], path: str) -> Problems:
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield not_supported(path, mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")


_CLAIM = fields(
    "",
    {
        "selector": label_selector,
        "storageClassName": lambda name, path: dns_subdomain(name, path) if name else iter(()),
        "volumeAttributesClassName": lambda name, path: dns_subdomain(name, path) if name else iter(()),
    },
)
_SOURCE = fields("name kind", {})


def _source(source: Object, path: str) -> Problems:
    yield from _SOURCE(source, path)
    group = source.get("apiGroup") or ""
    if not group and source.get("kind") != "PersistentVolumeClaim":
        yield invalid(
            path, source.get("kind") or "", "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        )
    if group:
        yield from dns_subdomain(group, f"{path}.apiGroup")
    if source.get("namespace"):
        yield from dns_label(source["namespace"], f"{path}.namespace")


def claim_spec(spec: Object, path: str) -> Problems:
    """The rules for what a claim asks for."""
    modes = spec.get("accessModes") or []
    if not modes:
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    yield from _access_modes(modes, f"{path}.accessModes")
    yield from _CLAIM(spec, path)
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    where = f"{path}.resources[storage]"
    if size is None:
        yield required(where)
    else:
        yield from amount(size, where)
        if quantity(size).is_zero:
            yield invalid(where, size, "must be greater than zero")
    if spec.get("volumeMode") is not None and spec["volumeMode"] not in VOLUME_MODES:
        yield not_supported(f"{path}.volumeMode", spec["volumeMode"], VOLUME_MODES)
    for name in ("dataSource", "dataSourceRef"):
        if spec.get(name) is not None:
            yield from _source(spec[name], f"{path}.{name}")


def _check_claim(claim: Object) -> Problems:
    yield from claim_spec(claim["spec"], "spec")


def _change_claim(new: Object, before: Object) -> Problems:
    """A claim may be bound once, and may grow once it is bound."""
    spec, old = dict(new["spec"]), dict(before["spec"])
    if not old.get("volumeName"):
        old["volumeName"] = spec.get("volumeName")
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "0")
    earlier = ((old.get("resources") or {}).get("requests") or {}).get("storage", "0")
    is_bound = (before.get("status") or {}).get("phase") == "Bound"
    if is_bound:
        spec["resources"] = old["resources"]
    held = ((before.get("status") or {}).get("capacity") or {}).get("storage", "0")
    if quantity(size) < quantity(earlier) and quantity(size) <= quantity(held):
        yield forbidden("spec.resources.requests.storage", "field can not be less than previous value")
    if {k: v for k, v in spec.items() if v} != {k: v for k, v in old.items() if v}:
        yield forbidden("spec", "spec is immutable after creation except resources.requests for bound claims")
    yield from unchanged(new, before, ("spec.volumeMode",))


# Volumes -------------------------------------------------------------------------------------------------------------

_OWN: dict[str, Any] = {
    "local": fields("path", {"path": no_back_steps}),
    "csi": fields("driver volumeHandle", {}),
}
# In the order in which Kubernetes looks for them.
_ORDER = (
    "hostPath gcePersistentDisk awsElasticBlockStore glusterfs flocker nfs rbd quobyte cephfs iscsi cinder fc "
    "flexVolume azureFile vsphereVolume photonPersistentDisk portworxVolume azureDisk scaleIO local storageos csi"
)
_SOURCES: dict[str, Any] = {name: {**OF_CLUSTER, **_OWN}[name] for name in _ORDER.split()}


def _fill_volume(volume: Object) -> None:
    fill(volume["spec"], {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    if (host_path := volume["spec"].get("hostPath")) is not None:
        host_path.setdefault("type", "")
    if is_new(volume):
        volume["status"] = {
            "phase": "Pending",
            "lastPhaseTransitionTime": volume["metadata"]["creationTimestamp"],
        }


_VOLUME = fields(
    "",
    {
        "persistentVolumeReclaimPolicy": one_of("Delete", "Recycle", "Retain"),
        "volumeMode": one_of(*VOLUME_MODES),
        "storageClassName": lambda name, path: dns_subdomain(name, path) if name else iter(()),
        "nodeAffinity": lambda value, path: (
            node_selector(value["required"], f"{path}.required")
            if value.get("required") is not None
            else iter([required(f"{path}.required", "must specify required node constraints")])
        ),
    },
)


def _check_volume(volume: Object) -> Problems:
    spec = volume["spec"]
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    yield from _access_modes(spec.get("accessModes") or [], "spec.accessModes")
    yield from _capacity(spec.get("capacity") or {})
    yield from _VOLUME(spec, "spec")
    yield from one_source(spec, "spec", _SOURCES, beside=frozenset({"flexVolume"}))
    if (
        next((name for name in _SOURCES if spec.get(name) is not None), "") == "local"
        and spec.get("nodeAffinity") is None
    ):
        yield required("spec.nodeAffinity", "Local volume requires node affinity")
    yield from _attributes_class(spec)


def _attributes_class(spec: Object) -> Problems:
    name = spec.get("volumeAttributesClassName")
    if name is None:
        return
    if not name:
        yield required("spec.volumeAttributesClassName", "an empty string is disallowed")
    else:
        yield from dns_subdomain(name, "spec.volumeAttributesClassName")
    if spec.get("csi") is None:
        yield required("spec.csi", "has to be specified when using volumeAttributesClassName")


def _capacity(capacity: dict[str, str]) -> Problems:
    if not capacity:
        yield required("spec.capacity")
    if set(capacity) != {"storage"}:
        yield not_supported("spec.capacity", sorted(capacity), ("storage",))
    for name, size in capacity.items():
        if quantity(size).is_negative or quantity(size).is_zero:
            yield invalid(f"spec.capacity[{name}]", size, "must be greater than zero")


def _change_volume(new: Object, before: Object) -> Problems:
    spec, old = new["spec"], before["spec"]
    if any(spec.get(name) != old.get(name) for name in _SOURCES):
        yield forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
    if spec.get("volumeMode") != old.get("volumeMode"):
        yield invalid("volumeMode", spec.get("volumeMode"), "field is immutable")
    if old.get("nodeAffinity") and spec.get("nodeAffinity") != old["nodeAffinity"]:
        yield invalid("nodeAffinity", spec.get("nodeAffinity"), "field is immutable")


# Classes -------------------------------------------------------------------------------------------------------------


def _fill_class(storage_class: Object) -> None:
    fill(storage_class, {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})


def _check_class(storage_class: Object) -> Problems:
    yield from needed(qualified_name)((storage_class.get("provisioner") or "").lower(), "provisioner")
    for name in storage_class.get("parameters") or {}:
        if not name:
            yield invalid("parameters", name, "field can not be empty")
    yield from one_of("Delete", "Retain")(storage_class.get("reclaimPolicy") or "", "reclaimPolicy")
    mode = storage_class.get("volumeBindingMode") or ""
    yield from one_of("Immediate", "WaitForFirstConsumer")(mode, "volumeBindingMode")
    yield from _topologies(storage_class.get("allowedTopologies") or [])


def _topologies(terms: list[Object]) -> Problems:
    """The places that a class is for: no two terms say the same."""
    seen = []
    for index, term in enumerate(terms[:_TOPOLOGIES_MOST]):
        path = f"allowedTopologies[{index}].matchLabelExpressions"
        keys: dict[str, frozenset[str]] = {}
        for place, one in enumerate(term.get("matchLabelExpressions") or ()):
            key, values = one.get("key") or "", one.get("values") or []
            if not values:
                yield required(f"{path}[{place}].values")
            for position, value in enumerate(values):
                if value in values[:position]:
                    yield duplicate(f"{path}[{place}].values[{position}]", value)
            yield from qualified_name(key, f"{path}[{place}].key")
            if key in keys:
                yield duplicate(f"{path}[{place}].key", key)
            keys[key] = frozenset(values)
        if not keys or keys in seen:
            yield duplicate(path, "")
        seen.append(keys)


def _change_class(new: Object, before: Object) -> Problems:
    yield from unchanged(new, before, ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"))


KINDS = (
    kind_rules(
        ("", "v1", "PersistentVolumeClaim"),
        fill=_fill_claim,
        check=_check_claim,
        change=_change_claim,
        has_generation=False,
    ),
    kind_rules(
        ("", "v1", "PersistentVolume"),
        fill=_fill_volume,
        check=_check_volume,
        change=_change_volume,
        has_generation=False,
    ),
    kind_rules(
        ("storage.k8s.io", "v1", "StorageClass"),
        fill=_fill_class,
        check=_check_class,
        change=_change_class,
        has_generation=False,
    ),
)
