"""The rules for a pod's volumes. Called by `pod_specs`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from muster.apiserver.kinds.checks import (
    Check,
    amount,
    between,
    both,
    dns_label,
    each,
    fields,
    label_selector,
    local_path,
    one_of,
)
from muster.apiserver.kinds.downward import downward_file
from muster.apiserver.kinds.problems import Problems, duplicate, forbidden, invalid, required
from muster.apiserver.kinds.volume_sources import COMMON, one_source
from muster.model.errors import InvalidObject

Object = dict[str, Any]
FILE_MODE = between(0, 0o777)


def reserved_path(value: str, path: str) -> Problems:
    """A path below a volume's own directory, where names that start with two dots are taken."""
    yield from local_path(value, path)
    if value.startswith("..") and not value.startswith("../") and value != "..":
        yield invalid(path, value, "must not start with '..'")


KEY_TO_PATH = fields("key path", {"path": reserved_path, "mode": FILE_MODE})
_ENTRIES: dict[str, Check] = {"defaultMode": FILE_MODE, "items": each(KEY_TO_PATH)}


def _downward(value: Object, path: str) -> Problems:
    # Kubernetes gives the path of the volume for each of its files.
    for item in value.get("items") or ():
        yield from downward_file(item, path)


def _projected(value: Object, path: str) -> Problems:
    seen: set[str] = set()
    for index, source in enumerate(value.get("sources") or ()):
        where = f"{path}.sources[{index}]"
        given = [name for name in _PROJECTIONS if source.get(name) is not None]
        for name in given[1:]:
            yield forbidden(where, f"only one source may be given, and {name} is one more")
        for name in given:
            yield from _PROJECTIONS[name](source[name], f"{where}.{name}")
        if (token := source.get("serviceAccountToken")) is not None:
            # Kubernetes gives the path of the volume for this one.
            yield from _TOKEN(token, path)
        for item in _projected_items(source):
            if item in seen:
                yield invalid(path, item, "two sources have the same path")
            seen.add(item)


def _projected_items(source: Object) -> list[str]:
    """The paths that one projected source makes."""
    held = source.get("secret") or source.get("configMap") or source.get("downwardAPI") or {}
    return [item["path"] for item in held.get("items") or () if item.get("path")]


_TOKEN = fields("path", {"path": local_path})
_TOKEN_SECONDS = between(600, 1 << 32)
_PROJECTIONS: dict[str, Check] = {
    "secret": fields("name", {"items": each(KEY_TO_PATH)}),
    "configMap": fields("name", {"items": each(KEY_TO_PATH)}),
    "downwardAPI": _downward,
    "serviceAccountToken": fields("", {"expirationSeconds": _TOKEN_SECONDS}),
    "clusterTrustBundle": fields("path", {"path": local_path, "labelSelector": label_selector}),
    "podCertificate": fields("signerName keyType", {}),
}


def _claim_template(value: Object, path: str) -> Problems:
    if not value.get("volumeClaimTemplate"):
        yield required(f"{path}.volumeClaimTemplate")


_OWN: dict[str, Check] = {
    "emptyDir": fields("", {"sizeLimit": amount}),
    "gitRepo": fields("repository", {"directory": local_path}),
    "secret": fields("secretName", _ENTRIES),
    "persistentVolumeClaim": fields("claimName", {}),
    "downwardAPI": both(fields("", {"defaultMode": FILE_MODE}), _downward),
    "configMap": fields("name", _ENTRIES),
    "projected": both(fields("", {"defaultMode": FILE_MODE}), _projected),
    "csi": fields("driver", {}),
    "ephemeral": _claim_template,
    "image": fields("reference", {"pullPolicy": one_of("Always", "IfNotPresent", "Never")}),
}
# In the order in which Kubernetes looks for them: where there are several, the first is the one that counts.
_ORDER = (
    "emptyDir hostPath gitRepo gcePersistentDisk awsElasticBlockStore secret nfs iscsi glusterfs persistentVolumeClaim "
    "rbd cinder cephfs flocker downwardAPI fc flexVolume configMap azureFile vsphereVolume photonPersistentDisk "
    "portworxVolume quobyte azureDisk storageos scaleIO projected csi ephemeral image"
)
SOURCES: dict[str, Check] = {name: {**COMMON, **_OWN}[name] for name in _ORDER.split()}


@dataclass(slots=True)
class Volumes:
    """What is wrong with a pod's volumes, and those of them that containers may use."""

    problems: list[InvalidObject] = field(default_factory=list)
    sound: list[Object] = field(default_factory=list)


def check_volumes(value: list[Object], path: str) -> Volumes:
    """A pod's volumes: their names differ, and each has one source."""
    result = Volumes()
    seen: set[str] = set()
    for index, volume in enumerate(value):
        problems = [
            *_name(volume, f"{path}[{index}].name", seen),
            *one_source(volume, f"{path}[{index}]", SOURCES, beside=frozenset()),
        ]
        if problems:
            result.problems += problems
        else:
            seen.add(volume["name"])
            result.sound.append(volume)
    return result


def _name(volume: Object, path: str, seen: set[str]) -> Problems:
    name = volume.get("name") or ""
    if not name:
        yield required(path)
    else:
        yield from dns_label(name, path)
    if name in seen:
        yield duplicate(path, name)
