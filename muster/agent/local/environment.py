"""What a container's process is started with: variables, command, and paths as they are on this machine. Pure.

Called by the local node. There are no mounts: a volume is a link below the container's own folder, and where the
command, its arguments or a variable name a mounted path, they get the path of that link.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.model.quantity import parse_quantity
from muster.store.kinds import Object

_REFERENCE = re.compile(r"\$(?:\$|\(([^()$]{1,1000})\))")
_SUBSCRIPT = re.compile(r"metadata\.(annotations|labels)\['(.+)'\]")
_MOST = 2**63 - 1
Find = Callable[[str, str], Object | None]  # a config map or a secret: resource and name


class CannotStart(Exception):
    """Why a container cannot be begun yet, with the reason that its status gives."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def missing(kind: str, name: str, key: str = "") -> CannotStart:
    """What to say when a config map or a secret is not there, or has not that key."""
    problem = f"couldn't find key {key} in {kind} {name}" if key else f'{kind} "{name}" not found'
    return CannotStart("CreateContainerConfigError", problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where a pod runs, and what it may look up."""

    pod: Object
    find: Find
    host_ip: str
    pod_ip: str
    capacity: Mapping[str, str]  # of the node, where a container has no limit


def environment_of(container: Object, around: Surroundings, base: Mapping[str, str]) -> dict[str, str]:
    """All variables of a container: the node's own, then whole config maps and secrets, then one by one."""
    found = dict(base)
    for source in container.get("envFrom") or ():
        found.update(_all_of(source, around))
    for one in container.get("env") or ():
        value = _value(one, container, around)
        if value is not None:
            found[one["name"]] = expanded(value, found) if "valueFrom" not in one else value
    return found


def _all_of(source: Object, around: Surroundings) -> Iterator[tuple[str, str]]:
    prefix = source.get("prefix") or ""
    for field, resource, kind in (("configMapRef", "configmaps", "configmap"), ("secretRef", "secrets", "secret")):
        reference = source.get(field)
        if reference is None:
            continue
        found = around.find(resource, reference.get("name") or "")
        if found is None:
            if not reference.get("optional"):
                raise missing(kind, reference.get("name") or "")
            continue
        for key, value in texts_of(found, resource).items():
            yield prefix + key, value.decode(errors="replace")


def texts_of(found: Object, resource: str) -> dict[str, bytes]:
    """The contents of a config map or a secret."""
    if resource == "secrets":
        return {key: base64.b64decode(value or "") for key, value in (found.get("data") or {}).items()}
    plain = {key: (value or "").encode() for key, value in (found.get("data") or {}).items()}
    return plain | {key: base64.b64decode(value or "") for key, value in (found.get("binaryData") or {}).items()}


def _value(one: Object, container: Object, around: Surroundings) -> str | None:
    """The value of a variable; `None` where it may be missing and is."""
    source = one.get("valueFrom")
    if source is None:
        return one.get("value") or ""
    for field, resource, kind in (
        ("configMapKeyRef", "configmaps", "ConfigMap"),
        ("secretKeyRef", "secrets", "Secret"),
    ):
        if (reference := source.get(field)) is not None:
            return _key_of(reference, resource, kind, around)
    if (reference := source.get("fieldRef")) is not None:
        return field_of(reference.get("fieldPath") or "", around)
    if (reference := source.get("resourceFieldRef")) is not None:
        return amount_of(reference, _named(reference, container, around), around)
    return ""


def _named(reference: Object, container: Object, around: Surroundings) -> Object:
    """The container that a reference is about: its own, unless it names another."""
    spec = around.pod["spec"]
    every = (*(spec.get("initContainers") or ()), *spec["containers"])
    return next((one for one in every if one["name"] == reference.get("containerName")), container)


def _key_of(reference: Object, resource: str, kind: str, around: Surroundings) -> str | None:
    name, key = reference.get("name") or "", reference.get("key") or ""
    found = around.find(resource, name)
    value = None if found is None else texts_of(found, resource).get(key)
    if value is not None:
        return value.decode(errors="replace")
    if reference.get("optional"):
        return None
    place = f"{around.pod['metadata'].get('namespace')}/{name}"
    raise missing(kind.lower(), name) if found is None else missing(kind, place, key)


# The downward API ----------------------------------------------------------------------------------------------------


def field_of(path: str, around: Surroundings) -> str:
    """A field of the pod itself."""
    pod = around.pod
    metadata, spec = pod["metadata"], pod["spec"]
    if subscript := _SUBSCRIPT.fullmatch(path):
        return str((metadata.get(subscript[1]) or {}).get(subscript[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        lines = sorted((metadata.get(path.partition(".")[2]) or {}).items())
        return "\n".join(f"{key}={_quoted(value)}" for key, value in lines)
    known: dict[str, Any] = {
        "metadata.name": metadata.get("name"),
        "metadata.namespace": metadata.get("namespace"),
        "metadata.uid": metadata.get("uid"),
        "spec.nodeName": spec.get("nodeName"),
        "spec.serviceAccountName": spec.get("serviceAccountName"),
        "status.hostIP": around.host_ip,
        "status.hostIPs": around.host_ip,
        "status.podIP": around.pod_ip,
        "status.podIPs": around.pod_ip,
    }
    if path not in known:
        raise CannotStart("CreateContainerConfigError", f"unsupported fieldPath: {path}")
    return str(known[path] or "")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def amount_of(reference: Object, container: Object, around: Surroundings) -> str:
    """What a container asks for or may use; without a limit, what the node has."""
    kind, _, name = (reference.get("resource") or "").partition(".")
    own = ((container.get("resources") or {}).get(kind) or {}).get(name)
    text = own or (around.capacity.get(name, "0") if kind == "limits" else "0")
    amount = parse_quantity(str(text)).scaled(9, _MOST * 10**9)  # in billionths, so that nothing is lost
    divisor = str(reference.get("divisor") or "1")
    unit = parse_quantity(divisor if divisor != "0" else "1").scaled(9, _MOST * 10**9)
    return str(-(-amount // unit))


# Commands ------------------------------------------------------------------------------------------------------------


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """A text with $(NAME) replaced where there is such a variable, and $$ for a dollar."""

    def replaced(found: re.Match[str]) -> str:
        if found[1] is None:
            return "$"
        return variables.get(found[1], found[0])

    return _REFERENCE.sub(replaced, text)


def command_of(container: Object, variables: Mapping[str, str]) -> tuple[str, ...]:
    """What to run of a container that has a command of its own."""
    return tuple(expanded(one, variables) for one in (*container["command"], *(container.get("args") or ())))


class Paths:
    """Where the paths that a container mounts are on this machine."""

    def __init__(self, root: Path, mounts: Mapping[str, Path]) -> None:
        self._root = root
        self._mounts = {mount.rstrip("/"): path for mount, path in mounts.items() if mount.rstrip("/")}
        longest = sorted(self._mounts, key=len, reverse=True)
        names = "|".join(re.escape(mount) for mount in longest)
        # A path ends where no letter of a name follows.
        self._pattern = re.compile(rf"(?<![\w./-])({names})(?![\w.-])") if names else None

    def here(self, text: str) -> str:
        """A text with the real places of mounted paths."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: str(self._mounts[found[1]]), text)

    def folder(self, wanted: str) -> Path:
        """The folder that a container starts in."""
        moved = self.here(wanted)
        if moved != wanted:
            return Path(moved)
        parts = [one for one in wanted.split("/") if one not in ("", ".", "..")]
        return self._root.joinpath(*parts)
