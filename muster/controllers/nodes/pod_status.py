"""The status of a pod out of what has happened to its containers, by Kubernetes' rules; and back again. Pure.

Called by every kind of node. What others have written into the status, such as conditions of their own, stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from muster.controllers.nodes.containers import (
    NOTHING_YET,
    BackOff,
    Container,
    PodPlan,
    Run,
    Steps,
    has_failed_init,
    is_sidecar,
    is_through_init,
)
from muster.model.times import moment_text, parse_moment
from muster.store.kinds import Object

ENDED = ("Succeeded", "Failed")
STARTABLE, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)
_OWN = (STARTABLE, INITIALIZED, READY, CONTAINERS_READY, SCHEDULED)


@dataclass(frozen=True, slots=True)
class Halt:
    """Why a node ends a pod that would go on: its deadline, or because somebody wants the pod gone."""

    reason: str = ""
    message: str = ""


DEADLINE = Halt("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
DELETED = Halt()


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that a status says beside the containers."""

    now_s: float
    host_ip: str = ""
    pod_ip: str = ""
    halt: Halt | None = None  # None: the pod goes on


def halt_of(pod: Object, now_s: float) -> Halt | None:
    """Whether a pod has to end: it is being deleted, or has had its time."""
    if pod["metadata"].get("deletionTimestamp"):
        return DELETED
    due_s = deadline_s(pod)
    return DEADLINE if due_s is not None and due_s <= now_s else None


def deadline_s(pod: Object) -> float | None:
    """When a pod has had its time, if that is limited and has begun."""
    most_s, start = pod["spec"].get("activeDeadlineSeconds"), (pod.get("status") or {}).get("startTime")
    if most_s is None or not start:
        return None
    return parse_moment(start, "status.startTime") + float(most_s)


# Reading -------------------------------------------------------------------------------------------------------------


def containers_of(pod: Object, back_off: BackOff) -> dict[str, Container]:
    """What a status says about containers, so that a node can go on where another has left off."""
    status = pod.get("status") or {}
    found = {}
    for kind in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(kind) or ():
            found[one["name"]] = _container(one, back_off)
    return found


def _container(status: Object, back_off: BackOff) -> Container:
    state = status.get("state") or {}
    present, before = _run(state, status.get("containerID") or ""), _run(status.get("lastState") or {})
    restarts = int(status.get("restartCount") or 0)
    if present is None and before is not None:
        present, before = before, None  # it waits for its next run
    ends = restarts
    if present is not None and present.is_over:
        ends = back_off.ends_after(present, restarts)
    is_started, is_ready = bool(status.get("started")), bool(status.get("ready"))
    return Container(run=present, before=before, restarts=restarts, ends=ends, is_started=is_started, is_ready=is_ready)


def _run(state: Object, identity: str = "") -> Run | None:
    if running := state.get("running"):
        return Run(started_s=_moment(running.get("startedAt")), identity=identity)
    ended = state.get("terminated")
    if not ended:
        return None
    return Run(
        started_s=_moment(ended.get("startedAt")),
        ended_s=_moment(ended.get("finishedAt")),
        exit_code=int(ended.get("exitCode") or 0),
        signal=int(ended.get("signal") or 0),
        reason=ended.get("reason") or "",
        message=ended.get("message") or "",
        identity=ended.get("containerID") or "",
    )


def _moment(text: object) -> float:
    return parse_moment(text, "status") if isinstance(text, str) else 0.0


# Writing -------------------------------------------------------------------------------------------------------------


def pod_status(pod: Object, known: Mapping[str, Container], steps: Steps, *, plan: PodPlan, at: Situation) -> Object:
    """The whole status of a pod."""
    before = pod.get("status") or {}
    phase = _phase(plan, known, steps, before.get("phase") or "", is_halted=at.halt is not None)
    writing = _Writing(pod, plan, known, steps=steps, phase=phase)
    status = {
        **before,
        "phase": phase,
        "startTime": before.get("startTime") or moment_text(at.now_s),
        "containerStatuses": [writing.container(one) for one in plan.main],
    }
    if plan.init:
        status["initContainerStatuses"] = [writing.container(one, is_init=True) for one in plan.init]
    if at.host_ip:
        status |= {"hostIP": at.host_ip, "hostIPs": [{"ip": at.host_ip}]}
    if at.pod_ip:
        status |= {"podIP": at.pod_ip, "podIPs": [{"ip": at.pod_ip}]}
    if phase in ENDED and at.halt is not None and at.halt.reason:
        status |= {"reason": at.halt.reason, "message": at.halt.message}
    generation = pod["metadata"].get("generation")
    if generation:
        status["observedGeneration"] = generation
    status["conditions"] = _conditions(pod, writing, at.now_s)
    return status


def _phase(plan: PodPlan, known: Mapping[str, Container], steps: Steps, before: str, *, is_halted: bool) -> str:
    """Pending until all containers have begun, then running until none will run again."""
    if before in ENDED:
        return before
    runs = [known.get(one["name"], NOTHING_YET).run for one in plan.main]
    if steps.is_over:
        has_worked = all(run is not None and run.has_succeeded for run in runs)
        return "Succeeded" if has_worked and not has_failed_init(plan, known) else "Failed"
    if is_halted:
        return before or "Pending"
    has_begun = is_through_init(plan, known) and all(run is not None for run in runs)
    return "Running" if has_begun else "Pending"


class _Writing:
    """The parts of one status."""

    def __init__(self, pod: Object, plan: PodPlan, known: Mapping[str, Container], *, steps: Steps, phase: str) -> None:
        self.pod = pod
        self.plan = plan
        self.known = known
        self.phase = phase
        self._steps = steps

    def container(self, container: Object, *, is_init: bool = False) -> Object:
        """The status of one container."""
        name = container["name"]
        known = self.known.get(name, NOTHING_YET)
        state, last = self._states(container, known)
        status: Object = {
            "name": name,
            "state": state,
            "lastState": last,
            "ready": self._is_ready(container, known, is_init=is_init),
            "restartCount": known.restarts,
            "image": container.get("image") or "",
            "imageID": "",
            "started": known.is_running and known.is_started,
        }
        if known.run is not None and known.run.identity:
            status["containerID"] = known.run.identity
        return status

    def unready(self) -> list[str]:
        """The containers that a service could not use."""
        return [one["name"] for one in self.plan.main if not self._is_ready(one, self._of(one), is_init=False)]

    def uninitialized(self) -> list[str]:
        """The init containers that are not through."""
        if is_through_init(self.plan, self.known):
            return []
        return [one["name"] for one in self.plan.init if not self._is_initialized(one)]

    def unready_beside(self) -> list[str]:
        """Those that stay beside the others, and are not ready."""
        beside = (one for one in self.plan.init if is_sidecar(one))
        return [one["name"] for one in beside if not self._is_ready(one, self._of(one), is_init=True)]

    def _of(self, container: Object) -> Container:
        return self.known.get(container["name"], NOTHING_YET)

    def _is_initialized(self, container: Object) -> bool:
        known = self._of(container)
        if is_sidecar(container):
            return known.is_running and known.is_started
        return known.run is not None and known.run.has_succeeded

    def _is_ready(self, container: Object, known: Container, *, is_init: bool) -> bool:
        if is_init and not is_sidecar(container):
            return known.run is not None and known.run.has_succeeded
        return known.is_running and known.is_started and known.is_ready

    def _states(self, container: Object, known: Container) -> tuple[Object, Object]:
        """The state of a container, and the last one before it."""
        last = _ended(known.before) if known.before is not None else {}
        if known.run is None:
            return {"waiting": self._waiting(known)}, last
        if not known.run.is_over:
            return {"running": {"startedAt": moment_text(known.run.started_s)}}, last
        name = container["name"]
        if known.waits_for:
            return {"waiting": self._waiting(known)}, _ended(known.run)
        if name in self._steps.pauses:
            pause_s = self.plan.back_off.pause_s(known.ends)
            return {"waiting": _backing_off(self.pod, name, pause_s)}, _ended(known.run)
        return _ended(known.run), last

    def _waiting(self, known: Container) -> Object:
        if known.waits_for:
            message = {"message": known.waits_because} if known.waits_because else {}
            return {"reason": known.waits_for, **message}
        is_waiting_for_init = bool(self.plan.init) and not is_through_init(self.plan, self.known)
        return {"reason": "PodInitializing" if is_waiting_for_init else "ContainerCreating"}


def _backing_off(pod: Object, name: str, pause_s: float) -> Object:
    metadata = pod["metadata"]
    whom = f"pod={metadata['name']}_{metadata.get('namespace') or ''}({metadata.get('uid') or ''})"
    message = f"back-off {_go_duration(pause_s)} restarting failed container={name} {whom}"
    return {"reason": "CrashLoopBackOff", "message": message}


def _go_duration(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"


def _ended(run: Run) -> Object:
    state: Object = {
        "exitCode": run.exit_code,
        "reason": run.reason or ("Completed" if run.exit_code == 0 else "Error"),
        "startedAt": moment_text(run.started_s),
        "finishedAt": moment_text(run.started_s if run.ended_s is None else run.ended_s),
    }
    if run.signal:
        state["signal"] = run.signal
    if run.message:
        state["message"] = run.message
    if run.identity:
        state["containerID"] = run.identity
    return {"terminated": state}


# Conditions ----------------------------------------------------------------------------------------------------------


def _conditions(pod: Object, writing: _Writing, now_s: float) -> list[Object]:
    before = {one["type"]: one for one in (pod.get("status") or {}).get("conditions") or ()}
    wanted = list(_own_conditions(pod, writing, before))
    generation = pod["metadata"].get("generation")
    found = []
    for kind, is_true, reason, message in wanted:
        value = "True" if is_true else "False"
        old = before.get(kind) or {}
        is_same = old.get("status") == value and old.get("lastTransitionTime")
        condition = {"type": kind, "status": value, "lastProbeTime": None}
        condition["lastTransitionTime"] = old["lastTransitionTime"] if is_same else moment_text(now_s)
        condition |= {name: text for name, text in (("reason", reason), ("message", message)) if text}
        if generation:
            condition["observedGeneration"] = generation
        found.append(condition)
    return found + [one for kind, one in before.items() if kind not in _OWN]


def _own_conditions(
    pod: Object, writing: _Writing, before: Mapping[str, Object]
) -> Iterator[tuple[str, bool, str, str]]:
    """Type, whether it holds, reason and message of each."""
    has_begun = any(known.is_running for known in writing.known.values())
    yield STARTABLE, has_begun, "", ""
    yield _initialized(writing)
    is_ready, reason, message = _containers_ready(writing)
    if is_ready and (missing := list(_gates(pod, before))):
        yield READY, False, "ReadinessGatesNotReady", ", ".join(missing)
    else:
        yield READY, is_ready, reason, message
    yield CONTAINERS_READY, is_ready, reason, message
    yield SCHEDULED, True, "", ""


def _initialized(writing: _Writing) -> tuple[str, bool, str, str]:
    if writing.phase == "Succeeded":
        return INITIALIZED, True, "PodCompleted", ""
    if missing := writing.uninitialized():
        message = f"containers with incomplete status: {_listed(missing)}"
        return INITIALIZED, False, "ContainersNotInitialized", message
    return INITIALIZED, True, "", ""


def _containers_ready(writing: _Writing) -> tuple[bool, str, str]:
    if writing.phase == "Succeeded":
        return False, "PodCompleted", ""
    if writing.phase == "Failed":
        return False, "PodFailed", ""
    if unready := [*writing.unready_beside(), *writing.unready()]:
        return False, "ContainersNotReady", f"containers with unready status: {_listed(unready)}"
    return True, "", ""


def _gates(pod: Object, before: Mapping[str, Object]) -> Iterator[str]:
    """What is wrong with the conditions that others have to set before a pod is ready."""
    for gate in pod["spec"].get("readinessGates") or ():
        kind = gate.get("conditionType") or ""
        condition = before.get(kind)
        if condition is None:
            yield f'corresponding condition of pod readiness gate "{kind}" does not exist.'
        elif condition.get("status") != "True":
            yield f'the status of pod readiness gate "{kind}" is not "True", but {condition.get("status")}'


def _listed(names: Iterable[str]) -> str:
    return f"[{' '.join(names)}]"
