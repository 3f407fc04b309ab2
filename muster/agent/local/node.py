"""The local node: a controller that runs the pods bound to it as processes of this machine. Put together by `app`.

Whoever may create pods may run anything that the user of this server may run: nothing is isolated.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import shutil
import signal
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from muster.agent.local.pod import ADDRESS, Host, LocalPod
from muster.agent.local.processes import PodFolder, RunFolder, Watch
from muster.controllers.events import Events
from muster.controllers.loop import Turn
from muster.controllers.nodes.heartbeat import node_object
from muster.controllers.nodes.notes import notes_of
from muster.controllers.nodes.pod_status import ENDED
from muster.controllers.provisioning import PROVISIONED_BY, PROVISIONER
from muster.controllers.view import Seen, View
from muster.controllers.volume_matching import CLAIMS, VOLUMES, annotations_of
from muster.engine.devices_text import register_text
from muster.model.device import Device
from muster.model.pod_streams import Place, Unreachable
from muster.store.kinds import Object
from muster.store.records import Key
from muster.store.rules import Deletion
from muster.vendors.nvidia import REGISTER, VENDOR

PODS, BY_NODE = "pods", "node"
SOURCES = ("configmaps", "secrets", CLAIMS)
CPU_FACTOR = 4  # pods ask for more than they use
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # as Go calls them
_LAST_S = 5.0  # for processes to end when the server does
_STEP_S = 0.02


def local_node(name: str, cards: tuple[Device, ...] = ()) -> Object:
    """The node that this machine is, with its cards."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    capacity = {
        "cpu": str(CPU_FACTOR * (os.cpu_count() or 1)),
        "memory": f"{pages * page // 1024}Ki",
        "pods": "110",
        "ephemeral-storage": "100Gi",
    }
    if cards:
        capacity[VENDOR.resources.count] = str(sum(card.slots for card in cards))
    labels = {"node-type": "worker"}
    node = node_object(name, capacity=capacity, labels=labels, address=ADDRESS, machine=_machine())
    if cards:
        node["metadata"]["annotations"] = {REGISTER: register_text(cards)}
    return node


def _machine() -> dict[str, str]:
    """What this machine says of itself."""
    system = os.uname()
    found = {"architecture": _ARCHITECTURES.get(system.machine, system.machine), "kernelVersion": system.release}
    with contextlib.suppress(OSError):  # not every system says
        found["osImage"] = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return found


class LocalNode:
    """Runs pods."""

    name = "local node"

    def __init__(self, node: str, folder: Path, host: Host) -> None:
        self.node = node
        self.pods_folder = folder / "pods"
        self._host = host
        self._watch = Watch()
        self._events = Events("kubelet")
        self._pods: dict[Key, tuple[str, LocalPod]] = {}  # with their uid
        self._left: dict[Key, Path] = {}  # folders of volumes that are gone
        self.look_at: Callable[[Key], None] = lambda _key: None  # set by whoever runs the loop

    def keys(self, seen: Seen, view: View) -> Iterable[Key]:
        if seen.key.resource == PODS:
            pod = seen.now or seen.before or {}
            if pod["spec"].get("nodeName") == self.node:
                self._pod(seen.key, pod["metadata"]["uid"])  # so that its folder goes when it does
                yield seen.key
            elif seen.key in self._pods:
                yield seen.key
        elif seen.key.resource == VOLUMES:
            if seen.now is None and (left := _own_folder(seen.before)) is not None:
                self._left[seen.key] = left
                yield seen.key
        elif seen.key.resource in SOURCES:
            for pod in view.with_term(PODS, BY_NODE, self.node):
                metadata = pod["metadata"]
                if metadata["namespace"] == seen.key.namespace and (pod.get("status") or {}).get("phase") not in ENDED:
                    yield Key(PODS, metadata["namespace"], metadata["name"])

    async def reconcile(self, turn: Turn) -> None:
        if turn.key.resource == VOLUMES:
            if (left := self._left.pop(turn.key, None)) is not None and turn.view.record(turn.key) is None:
                await asyncio.to_thread(shutil.rmtree, left, ignore_errors=True)
            return
        pod = turn.view.get(turn.key)
        uid = "" if pod is None else pod["metadata"]["uid"]
        known = self._pods.get(turn.key)
        if known is not None and known[0] != uid:
            if not known[1].end_at_once():
                turn.look_again(_STEP_S)
                return
            known[1].forget()
            known[1].folder.remove()
            self._host.checkpoints.tidy()
            del self._pods[turn.key]
        if pod is None or pod["spec"].get("nodeName") != self.node:
            return
        status, is_deleting = pod.get("status") or {}, bool(pod["metadata"].get("deletionTimestamp"))
        if status.get("phase") in ENDED and not is_deleting:
            return
        after = self._pod(turn.key, uid).step(pod, _finder(turn), turn.now_s)
        if not after.is_settled:
            turn.look_again(_STEP_S)
            return
        if after.status != status:
            await turn.update_status(turn.key, {**pod, "status": after.status})
        for note in (*notes_of(pod, after.status), *after.notes):
            await self._events.tell(turn, pod, note)
        if is_deleting and after.is_over:
            await turn.delete(turn.key, Deletion(grace_s=0, uid=uid))
        elif after.due_s is not None and not after.is_over:
            turn.look_again(max(after.due_s - turn.now_s, _STEP_S))

    def _pod(self, key: Key, uid: str) -> LocalPod:
        known = self._pods.get(key)
        if known is None:
            folder = PodFolder(self.pods_folder / uid)
            made = LocalPod(folder, self._host, watch=self._watch, poke=lambda: self.look_at(key))
            known = self._pods[key] = (uid, made)
        return known[1]

    def tidy(self, uids: Collection[str]) -> None:
        """End what an earlier server has left of pods that are not there any more. Called before all else."""
        for folder in sorted(self.pods_folder.iterdir()) if self.pods_folder.is_dir() else ():
            if folder.name not in uids:
                left = PodFolder(folder)
                for run in left.living():
                    run.end_at_once()
                left.remove()
        self._host.checkpoints.tidy()

    async def close(self) -> None:
        """End all processes: those that can be asked are asked first."""
        living = [run for _, pod in self._pods.values() for run in pod.folder.living()]
        for _, pod in self._pods.values():
            pod.forget()
        living = await self._ended(living, signal.SIGTERM)
        await self._ended(living, signal.SIGKILL)
        self._watch.close()

    async def _ended(self, living: list[RunFolder], number: int) -> list[RunFolder]:
        """Send a signal and wait for the ends; gives those that still go on after a time."""
        until_s = self._host.clock.monotonic_s() + _LAST_S
        asked: set[RunFolder] = set()
        while living and self._host.clock.monotonic_s() < until_s:
            # One that is just being started gets the signal as soon as it is there.
            asked.update([run for run in living if run not in asked and run.signal(number)])
            await asyncio.sleep(_STEP_S)
            living = [run for run in living if (state := run.state()) is not None and not state.is_over]
        return living

    def run_of(self, place: Place, *, is_previous: bool = False) -> RunFolder:
        """The latest run of a container, or the one before it."""
        runs = PodFolder(self.pods_folder / place.uid).runs(place.container)
        if len(runs) < 1 + is_previous:
            what = "previous terminated container" if is_previous else "container"
            raise Unreachable(f'{what} "{place.container}" in pod "{place.pod}" not found')
        return runs[-1 - is_previous]


def _finder(turn: Turn) -> Callable[[str, str], Object | None]:
    def find(resource: str, name: str) -> Object | None:
        return turn.view.get(Key(resource, "" if resource == VOLUMES else turn.key.namespace, name))

    return find


def _own_folder(volume: Object | None) -> Path | None:
    """The folder that was made for a volume, and that nobody needs without it."""
    if volume is None or annotations_of(volume).get(PROVISIONED_BY) != PROVISIONER:
        return None
    path = Path((volume["spec"].get("hostPath") or {}).get("path") or "/")
    return path if path.name == volume["metadata"]["name"] else None
