"""What a table shows of a pod, as Kubernetes sums up its containers. Part of `table_cells`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from muster.apiserver.table_texts import (
    NONE,
    Cells,
    Object,
    at,
    condition,
    filled,
    human_duration,
    is_true,
    moment,
)

_FINISHED = ("Succeeded", "Failed")


@dataclass(slots=True)
class _Restarts:
    """How often containers were started again, and when the last of them had ended."""

    count: int = 0
    last_s: float | None = None

    def add(self, status: Object) -> None:
        self.count += status.get("restartCount") or 0
        ended_s = moment(at(status, "lastState.terminated.finishedAt"))
        if ended_s is not None:
            self.last_s = ended_s if self.last_s is None else max(self.last_s, ended_s)

    def text(self, now_s: float) -> str:
        if not self.count or self.last_s is None:
            return str(self.count)
        return f"{self.count} ({human_duration(now_s - self.last_s)} ago)"


@dataclass(slots=True)
class _Summary:
    """What the containers of a pod say together."""

    status: str
    ready: int
    restarts: _Restarts


def _summary(pod: Object) -> _Summary:
    """Init containers come first: the first that is not done speaks for the pod, until the pod is initialized."""
    status = at(pod, "status.reason") or at(pod, "status.phase") or ""
    if (condition(pod, "PodScheduled") or {}).get("reason") == "SchedulingGated":
        status = "SchedulingGated"
    waiting_for, ready, all_restarts, sidecar_restarts = _initialization(pod)
    summary = _Summary(waiting_for or status, ready, all_restarts)
    if not waiting_for or is_true(pod, "Initialized"):
        summary.restarts = sidecar_restarts
        _add_containers(summary, pod)
    if at(pod, "metadata.deletionTimestamp"):
        if at(pod, "status.reason") == "NodeLost":
            summary.status = "Unknown"
        elif at(pod, "status.phase") not in _FINISHED:
            summary.status = "Terminating"
    return summary


def _initialization(pod: Object) -> tuple[str, int, _Restarts, _Restarts]:
    """What initialization waits for (empty when it is over), ready sidecars, restarts of all and of sidecars alone."""
    names = _sidecars(pod)
    total = len(at(pod, "spec.initContainers") or ())
    ready, all_restarts, sidecar_restarts = 0, _Restarts(), _Restarts()
    for index, status in enumerate(at(pod, "status.initContainerStatuses") or ()):
        is_sidecar = status.get("name") in names
        all_restarts.add(status)
        if is_sidecar:
            sidecar_restarts.add(status)
        ended = at(status, "state.terminated")
        if ended is not None and not ended.get("exitCode"):
            continue
        if is_sidecar and status.get("started"):
            ready += bool(status.get("ready"))
            continue
        waiting = at(status, "state.waiting.reason")
        if ended is not None:
            reason = _ended_text(ended)
        elif waiting and waiting != "PodInitializing":
            reason = waiting
        else:
            reason = f"{index}/{total}"
        return f"Init:{reason}", ready, all_restarts, sidecar_restarts
    return "", ready, all_restarts, sidecar_restarts


def _add_containers(summary: _Summary, pod: Object) -> None:
    """The first container that waits or has ended speaks for the pod, unless others still run."""
    is_running, failure = False, ""
    for status in reversed(at(pod, "status.containerStatuses") or []):
        summary.restarts.add(status)
        ended = at(status, "state.terminated")
        if waiting := at(status, "state.waiting.reason"):
            summary.status = waiting
        elif ended is not None:
            summary.status = _ended_text(ended)
            if ended.get("exitCode"):
                failure = summary.status
        elif status.get("ready") and at(status, "state.running") is not None:
            is_running = True
            summary.ready += 1
    if summary.status == "Completed":
        if is_running and is_true(pod, "Ready"):
            summary.status = "Running"
        elif failure:
            summary.status = failure
        elif is_running:
            summary.status = "NotReady"


def _ended_text(ended: Object) -> str:
    """Why a container ended: its reason, its signal or its exit code."""
    if reason := ended.get("reason"):
        return str(reason)
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode') or 0}"


def _sidecars(pod: Object) -> set[str]:
    """Init containers that keep running beside the others."""
    containers: Iterable[Object] = at(pod, "spec.initContainers") or ()
    return {one["name"] for one in containers if one.get("restartPolicy") == "Always"}


def _ready(pod: Object, _: float) -> str:
    return f"{_summary(pod).ready}/{len(at(pod, 'spec.containers') or ()) + len(_sidecars(pod))}"


def _address(pod: Object, _: float) -> str:
    addresses = at(pod, "status.podIPs") or [{}]
    return addresses[0].get("ip") or NONE


def _readiness_gates(pod: Object, _: float) -> str:
    gates = at(pod, "spec.readinessGates") or ()
    passed = sum(is_true(pod, gate["conditionType"]) for gate in gates)
    return f"{passed}/{len(gates)}" if gates else NONE


def row_conditions(pod: Object) -> list[Any]:
    """What the row of a finished pod says about it as a whole."""
    phase = at(pod, "status.phase")
    if phase not in _FINISHED:
        return []
    message = f"The pod has {'finished' if phase == 'Succeeded' else 'failed'}."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


POD: Cells = {
    "Ready": _ready,
    "Status": lambda pod, _: _summary(pod).status,
    "Restarts": lambda pod, now_s: _summary(pod).restarts.text(now_s),
    "IP": _address,
    "Node": filled("spec.nodeName", NONE),
    "Nominated Node": filled("status.nominatedNodeName", NONE),
    "Readiness Gates": _readiness_gates,
}
