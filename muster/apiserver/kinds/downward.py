"""References from a pod to its own fields and to its containers' resources, as variables and as files."""

from __future__ import annotations

from typing import Any

from muster.apiserver.kinds.checks import between, local_path
from muster.apiserver.kinds.problems import Problems, invalid, not_supported, required
from muster.model.labels import label_key_problem

Object = dict[str, Any]

_OF_VARIABLES = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
_OF_FILES = frozenset(f"metadata.{name}" for name in ("name", "namespace", "labels", "annotations", "uid"))
_KNOWN = _OF_VARIABLES | _OF_FILES | {"spec.restartPolicy", "spec.schedulerName", "status.phase"}
_RESOURCES = frozenset(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "memory", "ephemeral-storage")
)
_CPU_DIVISORS = frozenset({"1m", "1"})
_BYTE_DIVISORS = frozenset({"1", *(f"1{unit}{binary}" for unit in "kMGTPE" for binary in ("", "i")), "1Ki"})


def variable_field(value: Object, path: str) -> Problems:
    """A field of the pod in an environment variable."""
    yield from _field(value, path, _OF_VARIABLES)


def variable_resource(value: Object, path: str) -> Problems:
    """A container's resource in an environment variable."""
    yield from _resource(value, path, needs_container=False)


def downward_file(value: Object, path: str) -> Problems:
    """A file with one field of the pod."""
    target = value.get("path") or ""
    if not target:
        yield required(f"{path}.path")
    yield from local_path(target, f"{path}.path")
    field, resource = value.get("fieldRef"), value.get("resourceFieldRef")
    if field is not None:
        yield from _field(field, f"{path}.fieldRef", _OF_FILES)
        if resource is not None:
            yield invalid(path, "resource", "only one of fieldRef and resourceFieldRef may be given")
    elif resource is not None:
        yield from _resource(resource, f"{path}.resourceFieldRef", needs_container=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is needed")
    if value.get("mode") is not None:
        yield from between(0, 0o777)(value["mode"], f"{path}.mode")


def _field(value: Object, path: str, known: frozenset[str]) -> Problems:
    text = value.get("fieldPath") or ""
    if not text:
        yield required(f"{path}.fieldPath")
        return
    start, bracket, key = text.partition("['")
    if bracket and key.endswith("']"):
        key = key.removesuffix("']")
        if start not in ("metadata.labels", "metadata.annotations"):
            yield invalid(f"{path}.fieldPath", text, "is no field with keys")
        elif problem := label_key_problem(key.lower() if start == "metadata.annotations" else key):
            yield invalid(path, key, problem)
    elif text not in _KNOWN:
        yield invalid(f"{path}.fieldPath", text, "is no field that can be referred to")
    elif text not in known:
        yield not_supported(f"{path}.fieldPath", text, known)


def _resource(value: Object, path: str, *, needs_container: bool) -> Problems:
    name = value.get("resource") or ""
    if needs_container and not value.get("containerName"):
        yield required(f"{path}.containerName")
    elif not name:
        yield required(f"{path}.resource")
    elif name not in _RESOURCES and not name.startswith(("limits.hugepages-", "requests.hugepages-")):
        yield not_supported(f"{path}.resource", name, _RESOURCES)
    divisor = value.get("divisor") or "0"
    divisors = _CPU_DIVISORS if name.endswith(".cpu") else _BYTE_DIVISORS
    if name in _RESOURCES and divisor != "0" and divisor not in divisors:
        yield invalid(f"{path}.divisor", divisor, f"must be one of {', '.join(sorted(divisors))}")
