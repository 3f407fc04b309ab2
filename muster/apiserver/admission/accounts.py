"""What pods get from their service account: its name, a token to be mounted, and its secrets for images. Pure.

Kubernetes' ServiceAccount plugin; called by the chain. The default account counts as there before it is: it is made
with every namespace, a moment later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from muster.store.errors import Forbidden
from muster.store.records import Key

Object = dict[str, Any]

DEFAULT = "default"
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
PREFIX = "kube-api-access-"
_MIRROR = "kubernetes.io/config.mirror"
_CONTAINERS = ("initContainers", "containers")
_TOKEN_S = 3_607  # an hour, and a number to tell these tokens by
_SOURCES = (
    {"serviceAccountToken": {"expirationSeconds": _TOKEN_S, "path": "token"}},
    {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
    {
        "downwardAPI": {
            "items": [{"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}, "path": "namespace"}]
        }
    },
)


def with_account(key: Key, pod: Object, find: Callable[[str], Object | None], suffix: Callable[[], str]) -> Object:
    """A new pod with what its account gives it; raises Forbidden where there is none of that name."""
    spec = pod["spec"]
    if _MIRROR in (pod["metadata"].get("annotations") or {}):
        return pod
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or DEFAULT
    account = find(name) if isinstance(name, str) else {}  # what is no name is refused by the pod's own rules
    if account is None and name != DEFAULT:
        why = f'serviceaccount "{name}" not found'
        raise Forbidden(key, f"error looking up service account {key.namespace}/{name}: {why}")
    spec = {**spec, "serviceAccountName": name}
    secrets = (account or {}).get("imagePullSecrets")
    if secrets and not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = secrets
    wants = spec.get("automountServiceAccountToken")
    if wants is None:
        wants = (account or {}).get("automountServiceAccountToken")
    return {**pod, "spec": spec if wants is False else _mounted(spec, suffix)}


def _mounted(spec: Object, suffix: Callable[[], str]) -> Object:
    """A pod's spec in which all containers find a token."""
    volumes = spec.get("volumes") or []
    if not _is_listed(volumes) or not all(
        _is_listed(spec.get(kind) or []) for kind in ("containers", "initContainers")
    ):
        return spec  # the pod's own rules say what is wrong with it
    names = (str(one.get("name")) for one in volumes)
    known = next((name for name in names if name.startswith(PREFIX)), "")
    name = known or f"{PREFIX}{suffix()}"
    new, has_mounts = dict(spec), False
    for kind in _CONTAINERS:
        if containers := spec.get(kind):
            new[kind] = [_with_mount(one, name) for one in containers]
            has_mounts = has_mounts or new[kind] != containers
    if has_mounts and not known:
        new["volumes"] = [*volumes, {"name": name, "projected": {"defaultMode": 0o644, "sources": list(_SOURCES)}}]
    return new


def _with_mount(container: Object, volume: str) -> Object:
    mounts = container.get("volumeMounts") or []
    if not _is_listed(mounts) or any(one.get("mountPath") == MOUNT_PATH for one in mounts):
        return container
    return {**container, "volumeMounts": [*mounts, {"mountPath": MOUNT_PATH, "name": volume, "readOnly": True}]}


def _is_listed(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(one, dict) for one in given)
