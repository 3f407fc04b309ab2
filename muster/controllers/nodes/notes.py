"""What a node tells people about a pod: what its status says now and did not before. Pure; used by the local node."""

from __future__ import annotations

from collections.abc import Iterator

from muster.controllers.events import NORMAL, WARNING, Note
from muster.store.kinds import Object

_KINDS = ("initContainerStatuses", "containerStatuses")


def notes_of(pod: Object, after: Object) -> Iterator[Note]:
    """The events that go with a change of a pod's status."""
    before = {(kind, one["name"]): one for kind in _KINDS for one in (pod.get("status") or {}).get(kind) or ()}
    for kind in _KINDS:
        for now in after.get(kind) or ():
            yield from _of_container(pod, before.get((kind, now["name"])) or {}, now)


def _of_container(pod: Object, before: Object, now: Object) -> Iterator[Note]:
    name, state = now["name"], now["state"]
    is_new_run = now.get("containerID") is not None and now.get("containerID") != before.get("containerID")
    ended = state.get("terminated") or (now.get("lastState") or {}).get("terminated") or {}
    if is_new_run and ended.get("reason") == "StartError":
        yield Note(WARNING, "Failed", f"Error: {ended.get('message') or ''}")
    elif is_new_run:
        yield Note(NORMAL, "Started", f"Started container {name}")
    waiting, waited = state.get("waiting") or {}, (before.get("state") or {}).get("waiting") or {}
    if waiting != waited:
        yield from _of_waiting(pod, name, waiting)
    elif (
        pod["metadata"].get("deletionTimestamp") and "running" in (before.get("state") or {}) and "running" not in state
    ):
        yield Note(NORMAL, "Killing", f"Stopping container {name}")


def _of_waiting(pod: Object, name: str, waiting: Object) -> Iterator[Note]:
    reason, message = waiting.get("reason") or "", waiting.get("message") or ""
    metadata = pod["metadata"]
    if reason == "CrashLoopBackOff":
        whom = f"{metadata['name']}_{metadata.get('namespace') or ''}({metadata.get('uid') or ''})"
        yield Note(WARNING, "BackOff", f"Back-off restarting failed container {name} in pod {whom}")
    elif message and reason == "ContainerCreating":
        yield Note(WARNING, "FailedMount", message)
    elif message:
        yield Note(WARNING, "Failed", f"Error: {message}")
