"""The volumes of a pod as folders and files of this machine. Used by the local node.

Config maps, secrets, fields of the pod and tokens become files that are written anew when what they come from changes;
an emptyDir is a folder of the pod, a hostPath what it names, and a claim the folder of its volume.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from muster.agent.local.environment import (
    CannotStart,
    Surroundings,
    amount_of,
    expanded,
    field_of,
    missing,
    texts_of,
)
from muster.controllers.volume_matching import CLAIMS, VOLUMES
from muster.store.kinds import Object

TokenFor = Callable[[Object, Object], str]  # for a pod and what a projected volume says about the token
_MODE = 0o644
_OF_FILES = ("configMap", "secret", "downwardAPI", "projected")


class File(NamedTuple):
    """One file of a volume."""

    path: str
    content: bytes
    mode: int


def place_volumes(pod: Object, folder: Path, around: Surroundings, token_for: TokenFor) -> dict[str, Path]:
    """Make or renew all volumes of a pod; gives where each is."""
    found = {}
    for volume in pod["spec"].get("volumes") or ():
        name = volume["name"]
        found[name] = _placed(volume, folder / name, around, token_for)
    return found


def _placed(volume: Object, folder: Path, around: Surroundings, token_for: TokenFor) -> Path:
    if (host := volume.get("hostPath")) is not None:
        return _host_path(host)
    if (claim := volume.get("persistentVolumeClaim")) is not None:
        return _claimed(claim.get("claimName") or "", around)
    if volume.get("ephemeral") is not None:
        return _claimed(f"{around.pod['metadata']['name']}-{volume['name']}", around)
    if volume.get("emptyDir") is not None:
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    kind = next((one for one in _OF_FILES if volume.get(one) is not None), None)
    if kind is None:
        kinds = ", ".join(one for one in volume if one != "name")
        raise _unmounted(f"volume {volume['name']}: the local node has no volumes of the kind {kinds or 'emptyDir'}")
    files = {one.path: one for one in _files(kind, volume[kind], around, token_for)}
    _write(folder, files)
    return folder


def _claimed(name: str, around: Surroundings) -> Path:
    """The folder of the volume that a claim is bound to."""
    claim = around.find(CLAIMS, name)
    where = f"error processing PVC {around.pod['metadata']['namespace']}/{name}"
    if claim is None:
        raise _unmounted(f'{where}: failed to fetch PVC from API server: persistentvolumeclaims "{name}" not found')
    volume = around.find(VOLUMES, claim["spec"].get("volumeName") or "")
    if volume is None or (claim.get("status") or {}).get("phase") != "Bound":
        raise _unmounted(f"{where}: PVC is not bound")
    spec = volume["spec"]
    if (source := spec.get("hostPath") or spec.get("local")) is None:
        raise _unmounted(f"volume {volume['metadata']['name']} is no folder of this machine")
    return _host_path(source)


def _unmounted(why: str) -> CannotStart:
    return CannotStart("ContainerCreating", f"MountVolume.SetUp failed: {why}")


def _host_path(host: Object) -> Path:
    path, kind = Path(host.get("path") or "/"), host.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        path.touch()
    checks: dict[str, Callable[[], bool]] = {
        "Directory": path.is_dir,
        "File": path.is_file,
        "Socket": path.is_socket,
        "CharDevice": path.is_char_device,
        "BlockDevice": path.is_block_device,
    }
    if kind in checks and not checks[kind]():
        raise _unmounted(f"hostPath type check failed: {path} is not a {kind.lower()}")
    return path


def tidy_volumes(folder: Path, names: Collection[str]) -> None:
    """Remove what an earlier server has left of volumes that are not there any more. Called before all else."""
    for left in sorted(folder.iterdir()) if folder.is_dir() else ():
        if left.name not in names:
            shutil.rmtree(left, ignore_errors=True)


# Files ---------------------------------------------------------------------------------------------------------------


def _files(kind: str, source: Object, around: Surroundings, token_for: TokenFor) -> Iterator[File]:
    mode = source.get("defaultMode")
    usual = _MODE if mode is None else int(mode)
    if kind == "projected":
        for one in source.get("sources") or ():
            yield from _projected(one, usual, around, token_for)
    elif kind == "downwardAPI":
        yield from _fields(source, usual, around)
    elif kind == "secret":
        yield from _contents("secrets", source.get("secretName") or "", source, mode=usual, around=around)
    else:
        yield from _contents("configmaps", source.get("name") or "", source, mode=usual, around=around)


def _projected(source: Object, mode: int, around: Surroundings, token_for: TokenFor) -> Iterator[File]:
    if (secret := source.get("secret")) is not None:
        yield from _contents("secrets", secret.get("name") or "", secret, mode=mode, around=around)
    if (config := source.get("configMap")) is not None:
        yield from _contents("configmaps", config.get("name") or "", config, mode=mode, around=around)
    if (fields := source.get("downwardAPI")) is not None:
        yield from _fields(fields, mode, around)
    if (token := source.get("serviceAccountToken")) is not None:
        yield File(_inside(token.get("path") or "token"), token_for(around.pod, token).encode(), 0o600)


def _contents(resource: str, name: str, source: Object, *, mode: int, around: Surroundings) -> Iterator[File]:
    found = around.find(resource, name)
    kind = resource.removesuffix("s")
    if found is None:
        if source.get("optional"):
            return
        raise _unmounted(str(missing(kind, name)))
    contents = texts_of(found, resource)
    items = source.get("items")
    if items is None:
        for key, content in contents.items():
            yield File(key, content, mode)
        return
    for item in items:
        key = item.get("key") or ""
        if key in contents:
            yield File(_inside(item.get("path") or key), contents[key], int(item.get("mode") or mode))
        elif not source.get("optional"):
            raise _unmounted(f"{kind} references non-existent config key: {key}")


def _fields(source: Object, mode: int, around: Surroundings) -> Iterator[File]:
    containers = [*(around.pod["spec"].get("initContainers") or ()), *around.pod["spec"]["containers"]]
    for item in source.get("items") or ():
        if (field := item.get("fieldRef")) is not None:
            text = field_of(field.get("fieldPath") or "", around)
        else:
            amount = item.get("resourceFieldRef") or {}
            container: Object = next((one for one in containers if one["name"] == amount.get("containerName")), {})
            text = amount_of(amount, container, around)
        yield File(_inside(item.get("path") or ""), text.encode(), int(item.get("mode") or mode))


def _inside(path: str) -> str:
    """A path that stays within its volume; the server has refused all others, and this does not rely on it."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts:
        raise _unmounted(f"the path {path!r} leads out of the volume")
    return path


def _write(folder: Path, files: dict[str, File]) -> None:
    """Bring a folder to these files; each is replaced at once, and only where it differs."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, file in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_file() and place.read_bytes() == file.content:
            continue
        new = place.with_name(f".{place.name}.new")
        number = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, file.mode)
        with open(number, "wb") as opened:
            opened.write(file.content)
        new.chmod(file.mode)
        new.replace(place)
    for place in sorted(folder.rglob("*"), reverse=True):
        if place.is_file() and str(place.relative_to(folder)) not in files:
            place.unlink()


# Mounts --------------------------------------------------------------------------------------------------------------


def place_mounts(container: Object, root: Path, volumes: dict[str, Path], variables: dict[str, str]) -> dict[str, Path]:
    """Link the volumes of a container below its own folder; gives where each mounted path is."""
    root.mkdir(parents=True, exist_ok=True)
    found: dict[str, Path] = {}
    for mount in sorted(container.get("volumeMounts") or (), key=lambda one: str(one.get("mountPath"))):
        source = volumes.get(mount["name"])
        if source is None:
            raise _unmounted(f"volume {mount['name']} is not there")
        source = _part(source, mount, variables)
        path = mount["mountPath"]
        place = root.joinpath(*(one for one in path.split("/") if one not in ("", ".", "..")))
        if place == root:
            raise _unmounted("nothing can be mounted over the whole container")
        # Within another mount a link would be made in that volume itself.
        if not any(path.startswith(f"{other.rstrip('/')}/") for other in found):
            place.parent.mkdir(parents=True, exist_ok=True)
            _link(place, source)
            found[path] = place
        else:
            found[path] = source
    return found


def _part(source: Path, mount: Object, variables: dict[str, str]) -> Path:
    """The part of a volume that is mounted."""
    part = mount.get("subPath") or expanded(mount.get("subPathExpr") or "", variables)
    if not part:
        return source
    place = source / _inside(part)
    if not place.exists():
        place.mkdir(parents=True)
    return place


def _link(place: Path, source: Path) -> None:
    if place.is_symlink():
        place.unlink()
    elif place.is_dir():
        shutil.rmtree(place)
    place.symlink_to(source)
