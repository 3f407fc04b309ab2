"""Checkpoints: what a pod says about saving its work before it has to leave, and the folder that outlives it.

Used by the local node. A pod that is deleted, as one that is preempted is, is asked first; the pod that takes its place
finds the same folder, by its job and its index, through `MUSTER_CHECKPOINT_DIR`.

    muster.dev/checkpoint-command: python save.py     run by sh beside the container
    muster.dev/checkpoint-signal: SIGUSR1             sent to the container's command
    muster.dev/checkpoint-grace: 20s                  what that may take of the pod's grace; half of it unless given
"""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.agent.local.environment import CannotStart
from muster.controllers.nodes.checkpoints import COMMAND, GRACE, SIGNAL, index_of, owner_of, saves_work
from muster.model.durations import NANOSECONDS, duration_ns
from muster.model.errors import InvalidObject
from muster.store.clock import Clock
from muster.store.kinds import Object

VARIABLE = "MUSTER_CHECKPOINT_DIR"
MAIN_CONTAINER = "kubectl.kubernetes.io/default-container"
KEPT_S = 7 * 86_400.0  # of pods that nobody makes anew by himself
_SIGNALS = {one.name: int(one) for one in signal.Signals}
_SHARE = 0.5
_OWNER = "owner.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """How a pod saves its work."""

    container: str
    command: str = ""  # empty: by the signal
    signal: int = 0
    asked_s: float | None = None  # what the pod says that it takes

    def grace_s(self, whole_s: float) -> float:
        """How much of a pod's grace it has."""
        return whole_s * _SHARE if self.asked_s is None else min(self.asked_s, whole_s)


def checkpoint_of(pod: Object) -> Checkpoint | None:
    """How a pod saves its work, if it says so."""
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    if not saves_work(pod):
        return None
    names = [one["name"] for one in pod["spec"]["containers"]]
    container = annotations.get(MAIN_CONTAINER, names[0])
    if container not in names:
        raise _wrong(MAIN_CONTAINER, container, f"give one of {', '.join(names)}")
    name = annotations.get(SIGNAL, "SIGTERM")
    if name not in _SIGNALS:
        raise _wrong(SIGNAL, name, "give a name such as SIGUSR1")
    return Checkpoint(
        container=container,
        command=annotations.get(COMMAND, ""),
        signal=_SIGNALS[name],
        asked_s=_seconds(annotations[GRACE]) if GRACE in annotations else None,
    )


def _seconds(text: str) -> float:
    try:
        seconds = duration_ns(text, GRACE) / NANOSECONDS
    except InvalidObject as problem:
        raise _wrong(GRACE, text, problem.hint) from None
    if seconds < 0:
        raise _wrong(GRACE, text, "give 0s or more")
    return seconds


def _wrong(name: str, value: str, hint: str) -> CannotStart:
    problem = InvalidObject(f"metadata.annotations[{name}]", f"is {value[:100]!r}", hint)
    return CannotStart("CreateContainerConfigError", str(problem))


class Checkpoints:
    """The folders that outlive pods: one for each index of a job, or for a pod of that name."""

    def __init__(self, folder: Path, clock: Clock, is_there: Callable[[Object], bool]) -> None:
        self._folder = folder
        self._clock = clock
        self._is_there = is_there  # whether the owner that a folder was made for still is

    def folder_of(self, pod: Object) -> Path:
        """The folder of a pod, made if it is the first."""
        metadata = pod["metadata"]
        owner = owner_of(pod)
        place: Path
        if owner is None:
            place = self._folder / "pods" / metadata["namespace"] / metadata["name"]
        else:
            top = self._folder / "owners" / owner["uid"]
            place = top / index_of(pod)
            if not (top / _OWNER).exists():
                top.mkdir(parents=True, exist_ok=True)
                (top / _OWNER).write_text(json.dumps({**owner, "namespace": metadata["namespace"]}))
        place.mkdir(parents=True, exist_ok=True)
        return place

    def tidy(self) -> None:
        """Remove the folders of owners that are gone, and those that no pod has come back to for long."""
        for place in self._folder.glob("owners/*"):
            try:
                owner = json.loads((place / _OWNER).read_bytes())
            except (OSError, ValueError):
                continue  # it is just being made
            if not self._is_there(owner):
                shutil.rmtree(place, ignore_errors=True)
        for place in self._folder.glob("pods/*/*"):
            if _changed_s(place) + KEPT_S < self._clock.now_s():
                shutil.rmtree(place, ignore_errors=True)


def _changed_s(place: Path) -> float:
    try:
        return max(one.stat().st_mtime for one in (place, *place.iterdir()))
    except OSError:
        return 0.0
