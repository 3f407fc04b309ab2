"""The rules for a pod's volumes. Called by `pod_specs`; a source that is common has a table, the rest pass."""

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
    no_back_steps,
    one_of,
)
from muster.apiserver.kinds.downward import downward_file
from muster.apiserver.kinds.problems import Problems, duplicate, forbidden, invalid, required
from muster.model.errors import InvalidObject

Object = dict[str, Any]
FILE_MODE = between(0, 0o777)
HOST_PATH_TYPES = ("", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice")


def reserved_path(value: str, path: str) -> Problems:
    """A path below a volume's own directory, where names that start with two dots are taken."""
    yield from local_path(value, path)
    if value.startswith("..") and not value.startswith("../") and value != "..":
        yield invalid(path, value, "must not start with '..'")


# Sources that pods and PersistentVolumes write alike.
SAME_EVERYWHERE: dict[str, Check] = {
    "cinder": fields("volumeID", {}),
    "cephfs": fields("monitors", {}),
    "rbd": fields("monitors image", {}),
    "glusterfs": fields("endpoints path", {}),
    "flexVolume": fields("driver", {}),
    "azureFile": fields("secretName shareName", {}),
    "azureDisk": fields("diskName diskURI", {}),
    "vsphereVolume": fields("volumePath", {}),
    "portworxVolume": fields("volumeID", {}),
    "photonPersistentDisk": fields("pdID", {}),
    "quobyte": fields("registry volume", {}),
    "scaleIO": fields("gateway system volumeName", {}),
    "fc": fields("", {}),
    "flocker": fields("", {}),
    "storageos": fields("", {}),
}

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


SOURCES: dict[str, Check] = {
    "emptyDir": fields("", {"sizeLimit": amount}),
    "hostPath": fields("path", {"path": no_back_steps, "type": one_of(*HOST_PATH_TYPES)}),
    "secret": fields("secretName", _ENTRIES),
    "configMap": fields("name", _ENTRIES),
    "downwardAPI": both(fields("", {"defaultMode": FILE_MODE}), _downward),
    "projected": both(fields("", {"defaultMode": FILE_MODE}), _projected),
    "persistentVolumeClaim": fields("claimName", {}),
    "ephemeral": _claim_template,
    "nfs": fields("server path", {}),
    "csi": fields("driver", {}),
    "iscsi": fields("targetPortal iqn", {"lun": between(0, 255)}),
    "awsElasticBlockStore": fields("volumeID", {"partition": between(0, 255)}),
    "gcePersistentDisk": fields("pdName", {"partition": between(0, 255)}),
    "gitRepo": fields("repository", {"directory": local_path}),
    **SAME_EVERYWHERE,
    "image": fields("", {"pullPolicy": one_of("Always", "IfNotPresent", "Never")}),
}


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
        problems = [*_name(volume, f"{path}[{index}].name", seen), *_source(volume, f"{path}[{index}]")]
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


def _source(volume: Object, path: str) -> Problems:
    given = [name for name in SOURCES if volume.get(name) is not None]
    if not given:
        yield required(path, "must specify a volume type")
        return
    yield from SOURCES[given[0]](volume[given[0]], f"{path}.{given[0]}")
    for name in given[1:]:
        yield forbidden(f"{path}.{name}", "may not specify more than one volume type")
