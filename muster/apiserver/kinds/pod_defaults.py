"""What a pod's spec says where nobody has said anything. Called by the kinds that have pods or templates of them.

The functions fill the object they are given: it is fresh from `field_checks.read`.
"""

from __future__ import annotations

import re
from typing import Any

from muster.apiserver.kinds.resources import round_up

Object = dict[str, Any]

FILE_MODE = 0o644
TOKEN_S = 3600
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_SPEC = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
}
_NOT_KEPT = ("schedulingGroup",)  # of features that are off in Kubernetes unless somebody turns them on
_CONTAINER = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_HTTP = {"path": "/", "scheme": "HTTP"}
_AZURE_DISK = {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"}
_RBD = {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}
_SCALE_IO = {"storageMode": "ThinProvisioned", "fsType": "xfs"}
_SOURCES: dict[str, Object] = {
    "secret": {"defaultMode": FILE_MODE},
    "configMap": {"defaultMode": FILE_MODE},
    "downwardAPI": {"defaultMode": FILE_MODE},
    "projected": {"defaultMode": FILE_MODE},
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": _RBD,
    "azureDisk": _AZURE_DISK,
    "scaleIO": _SCALE_IO,
}
# A reference to an image: a path of small letters, perhaps with a host in front, a tag and a digest.
_IMAGE = re.compile(r"[a-z0-9][a-z0-9._:/-]*?(?::(?P<tag>[A-Za-z0-9_][\w.-]{0,127}))?(?P<digest>@\S+)?", re.ASCII)


def fill(given: Object, defaults: Object) -> None:
    """Set what is not there."""
    for name, value in defaults.items():
        given.setdefault(name, value)


def fill_template(template: Object) -> None:
    """The defaults of a workload's template."""
    fill_spec(template.setdefault("spec", {}))


def fill_spec(spec: Object) -> None:
    """The defaults that pods and templates have in common."""
    fill(spec, _SPEC)
    for name in _NOT_KEPT:
        spec.pop(name, None)
    spec.setdefault("securityContext", {})
    _mirror_account(spec)
    for volume in spec.get("volumes") or ():
        _fill_volume(volume)
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            _fill_container(container)
    if spec.get("overhead"):
        round_up(spec["overhead"])


def fill_pod(spec: Object) -> None:
    """The defaults of a pod of its own."""
    fill_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for kind in ("initContainers", "containers"):
        for container in spec.get(kind) or ():
            for port in (container.get("ports") or ()) if spec.get("hostNetwork") else ():
                if not port.get("hostPort"):
                    port["hostPort"] = port["containerPort"]
            resources = container["resources"]
            if limits := resources.get("limits"):
                resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _mirror_account(spec: Object) -> None:
    """The account has two names, of which one is old; both are always there."""
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _fill_container(container: Object) -> None:
    fill(container, _CONTAINER)
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = pull_policy(container.get("image") or "")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        _fill_references(variable.get("valueFrom") or {})
        if file := (variable.get("valueFrom") or {}).get("fileKeyRef"):
            file.setdefault("optional", False)
    for name in _PROBES:
        if (probe := container.get(name)) is not None:
            for field, value in _PROBE.items():
                if not probe.get(field):
                    probe[field] = value
            _fill_action(probe)
    lifecycle = container.get("lifecycle") or {}
    if lifecycle.pop("stopSignal", None) is not None and not lifecycle:  # a feature that is off
        del container["lifecycle"]
    for hook in ("postStart", "preStop"):
        _fill_action((container.get("lifecycle") or {}).get(hook) or {})
    for amounts in ("limits", "requests"):
        if container.get("resources", {}).get(amounts):
            round_up(container["resources"][amounts])


def _fill_action(handler: Object) -> None:
    if (get := handler.get("httpGet")) is not None:
        fill(get, _HTTP)
    if (grpc := handler.get("grpc")) is not None:
        grpc.setdefault("service", "")


def _fill_references(source: Object) -> None:
    if (field := source.get("fieldRef")) is not None:
        field.setdefault("apiVersion", "v1")


def pull_policy(image: str) -> str:
    """How an image is pulled unless somebody says so: always where its tag is, or would be, the latest."""
    found = _IMAGE.fullmatch(image)
    if found is None:
        return "IfNotPresent"
    tag = found["tag"] or ("" if found["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _fill_volume(volume: Object) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}  # a volume that says nothing else
        return
    for name, defaults in _SOURCES.items():
        if (source := volume.get(name)) is not None:
            fill(source, defaults)
    for item in (volume.get("downwardAPI") or {}).get("items") or ():
        _fill_references(item)
    for source in (volume.get("projected") or {}).get("sources") or ():
        for item in (source.get("downwardAPI") or {}).get("items") or ():
            _fill_references(item)
        if (token := source.get("serviceAccountToken")) is not None:
            token.setdefault("expirationSeconds", TOKEN_S)
    if (claim := (volume.get("ephemeral") or {}).get("volumeClaimTemplate")) is not None:
        claim["spec"].setdefault("volumeMode", "Filesystem")
    if (image := volume.get("image")) is not None:
        image.setdefault("pullPolicy", pull_policy(image.get("reference") or ""))
