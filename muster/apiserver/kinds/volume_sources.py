"""The sources that pods' volumes and PersistentVolumes have in common, and the rule that a volume has one of them.

Used by `pod_volumes` and `storage`. Where Kubernetes names a field otherwise than it is written, so does this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from muster.apiserver.kinds.checks import Check, between, both, dns_label, fields, no_back_steps, one_of
from muster.apiserver.kinds.problems import Problems, forbidden, invalid, not_supported, required

Object = dict[str, Any]
HOST_PATH_TYPES = ("", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice")
_TENANT_MOST = 64
_QUALIFIED_NAMES = re.compile(
    r"iqn\.\d{4}-\d{2}\.[A-Za-z0-9.-]+(:[^,;*&$|\s]+)?|eui\.[A-Za-z0-9]{16}|naa\.[A-Za-z0-9]{32}", re.ASCII
)
_HOST_AND_PORT = re.compile(r"([^:\[\]]*|\[[^\[\]]*\]):[^:\[\]]*")
# What Kubernetes calls these sources in the paths of problems.
_CHECKED_AS = {"gcePersistentDisk": "persistentDisk"}
_FORBIDDEN_AS = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
_BYTE = between(0, 255)


def _absolute(value: Object, path: str) -> Problems:
    if not (value.get("path") or "").startswith("/"):
        yield invalid(f"{path}.path", value.get("path") or "", "must be an absolute path")


def _iscsi(value: Object, path: str) -> Problems:
    name, initiator = value.get("iqn") or "", value.get("initiatorName")
    if name and not _QUALIFIED_NAMES.fullmatch(name):
        yield invalid(f"{path}.iqn", name, "must be valid format starting with iqn, eui, or naa")
    if (value.get("chapAuthDiscovery") or value.get("chapAuthSession")) and value.get("secretRef") is None:
        yield required(f"{path}.secretRef")
    if initiator is not None and not _QUALIFIED_NAMES.fullmatch(initiator):
        yield invalid(f"{path}.initiatorname", initiator, "must be valid format starting with iqn, eui, or naa")


def _flocker(value: Object, path: str) -> Problems:
    name, identity = value.get("datasetName") or "", value.get("datasetUUID") or ""
    if not name and not identity:
        yield required(path, "one of datasetName and datasetUUID is required")
    if name and identity:
        yield invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if "/" in name:
        yield invalid(f"{path}.datasetName", name, "must not contain '/'")


def _fibre_channel(value: Object, path: str) -> Problems:
    targets, identities = value.get("targetWWNs") or [], value.get("wwids") or []
    if not targets and not identities:
        yield required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if targets and identities:
        yield invalid(f"{path}.targetWWNs", targets, "targetWWNs and wwids can not be specified simultaneously")
    if targets:
        if value.get("lun") is None:
            yield required(f"{path}.lun", "lun is required if targetWWNs is specified")
        else:
            yield from _BYTE(value["lun"], f"{path}.lun")


def _quobyte(value: Object, path: str) -> Problems:
    registry, tenant = value.get("registry") or "", value.get("tenant") or ""
    detail = "must be a host:port pair or multiple pairs separated by commas"
    if not registry:
        yield required(f"{path}.registry", detail)
    elif len(tenant) > _TENANT_MOST:
        yield required(f"{path}.tenant", f"must not be longer than {_TENANT_MOST} characters")
    else:
        for pair in registry.split(","):
            if not _HOST_AND_PORT.fullmatch(pair):
                yield invalid(f"{path}.registry", registry, detail)
    if not value.get("volume"):
        yield required(f"{path}.volume")


def _azure_disk(value: Object, path: str) -> Problems:
    kind, place = value.get("kind") or "Shared", value.get("diskURI") or ""
    starts = "/subscriptions/" if kind == "Managed" else "https://"
    if not place.lower().startswith(starts):
        yield not_supported(f"{path}.diskURI", place, (f"{starts}...",))


_AZURE_DISK = fields(
    "diskName diskURI",
    {"cachingMode": one_of("None", "ReadOnly", "ReadWrite"), "kind": one_of("Dedicated", "Managed", "Shared")},
)
_SECRET = fields("name namespace", {})


def _filled(value: str, path: str) -> Problems:
    if not value:
        yield required(path)


# Sources that pods and PersistentVolumes write alike.
COMMON: Mapping[str, Check] = {
    "hostPath": fields("path", {"path": no_back_steps, "type": one_of(*HOST_PATH_TYPES)}),
    "gcePersistentDisk": fields("pdName", {"partition": _BYTE}),
    "awsElasticBlockStore": fields("volumeID", {"partition": _BYTE}),
    "nfs": both(fields("server path", {"path": no_back_steps}), _absolute),
    "iscsi": both(fields("targetPortal iqn", {"lun": _BYTE}), _iscsi),
    "glusterfs": fields("endpoints path", {"path": no_back_steps}),
    "rbd": fields("monitors image", {}),
    "cinder": fields("volumeID", {}),
    "cephfs": fields("monitors", {}),
    "flocker": _flocker,
    "fc": _fibre_channel,
    "flexVolume": fields("driver", {}),
    "azureFile": fields("secretName shareName", {}),
    "vsphereVolume": fields("volumePath", {}),
    "photonPersistentDisk": fields("pdID", {}),
    "portworxVolume": fields("volumeID", {}),
    "quobyte": _quobyte,
    "azureDisk": both(_AZURE_DISK, _azure_disk),
    "scaleIO": fields("gateway system volumeName", {}),
    "storageos": fields("volumeName", {}),
}

# What only a PersistentVolume says of them: its secrets are in a namespace.
OF_CLUSTER: Mapping[str, Check] = {
    **COMMON,
    "glusterfs": both(COMMON["glusterfs"], fields("", {"endpointsNamespace": dns_label})),
    "iscsi": both(COMMON["iscsi"], fields("", {"secretRef": fields("name", {})})),
    "cinder": both(COMMON["cinder"], fields("", {"secretRef": _SECRET})),
    "azureFile": both(COMMON["azureFile"], fields("", {"secretNamespace": _filled})),
}


def one_source(holder: Object, path: str, sources: Mapping[str, Check], *, beside: frozenset[str]) -> Problems:
    """A volume has one of the sources, in whose order they are looked at; those named may stand beside another."""
    given = [name for name in sources if holder.get(name) is not None]
    if not given:
        yield required(path, "must specify a volume type")
    for index, name in enumerate(given):
        if index and name not in beside:
            yield forbidden(f"{path}.{_FORBIDDEN_AS.get(name, name)}", "may not specify more than 1 volume type")
        else:
            yield from sources[name](holder[name], f"{path}.{_CHECKED_AS.get(name, name)}")
