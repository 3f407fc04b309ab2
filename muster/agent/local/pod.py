"""One pod on the local node: begins and ends its containers as the shared rules say, and asks how they are.

Used by `node`. What has happened stands in the pod's folder; kept here is only what a new look would find out again:
answers of probes, and who has been asked to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from muster.agent.local.cards import card_variables
from muster.agent.local.cgroups import Cgroups, Limits
from muster.agent.local.checkpoints import VARIABLE, Checkpoint, Checkpoints, checkpoint_of
from muster.agent.local.environment import (
    CannotStart,
    Find,
    Paths,
    Surroundings,
    command_of,
    environment_of,
)
from muster.agent.local.images import ImageRun, Images, Runtime, found_runtime, needs_image
from muster.agent.local.probes import Prober, Target, act
from muster.agent.local.processes import PodFolder, RunFolder, Start, Watch
from muster.agent.local.volumes import TokenFor, place_mounts, place_volumes
from muster.controllers.events import NORMAL, WARNING, Note
from muster.controllers.nodes.containers import BackOff, Container, PodPlan, Steps, named, next_steps
from muster.controllers.nodes.pod_status import Situation, deadline_s, halt_of, pod_status
from muster.model.quantity import parse_quantity
from muster.store.clock import Clock
from muster.store.kinds import Object

ADDRESS = "127.0.0.1"
_RETRY_S = 5.0  # after a container could not be begun
_SOON_S = 0.05
_RENEW_S = 300.0  # tokens get old without anything happening
_GRACE_S = 30
_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine as pods see it."""

    clock: Clock
    capacity: Mapping[str, str]
    token_for: TokenFor
    variables: Mapping[str, str]  # that every container gets
    checkpoints: Checkpoints
    has_cards: bool = False
    find_runtime: Callable[[], Runtime | None] = found_runtime
    cgroups: Cgroups | None = None  # None: limits are watched, as far as that goes
    back_off: BackOff = field(default_factory=BackOff)


@dataclass(slots=True)
class _Stop:
    """A container that has to end."""

    number: int  # of its run
    asked_s: float
    until_s: float
    hook: asyncio.Task[None] | None = None
    is_asked: bool = False


@dataclass(slots=True)
class _Live:
    """What is known of a run that goes on."""

    number: int
    is_started: bool = False
    is_ready: bool = False
    is_unhealthy: bool = False
    grace_s: float | None = None  # what the probe allows that found it unhealthy
    task: asyncio.Task[None] | None = None


class Next(NamedTuple):
    """What a look at a pod has come to."""

    status: Object
    due_s: float | None
    is_over: bool
    is_settled: bool = True  # no command is just being started: what becomes of it is worth waiting for
    notes: tuple[Note, ...] = ()  # what people should know beside that


class LocalPod:
    """A pod and its processes."""

    def __init__(self, folder: PodFolder, host: Host, *, watch: Watch, poke: Callable[[], None]) -> None:
        self.folder = folder
        self._host = host
        self._watch = watch
        self._poke = poke
        self._live: dict[str, _Live] = {}
        self._stops: dict[str, _Stop] = {}
        self._waits: dict[str, CannotStart] = {}
        self._dues: list[float] = []
        self._notes: list[Note] = []
        self._images = Images(host.find_runtime, host.clock, poke)

    def step(self, pod: Object, find: Find, now_s: float) -> Next:
        """Do what is to be done with the pod now."""
        plan = PodPlan.of(pod, self._host.back_off)
        halt = halt_of(pod, now_s)
        self._dues = []
        around = Surroundings(pod=pod, find=find, host_ip=ADDRESS, pod_ip=ADDRESS, capacity=self._host.capacity)
        known = self._known(plan)
        steps = next_steps(plan, known, now_s, is_halted=halt is not None)
        if steps.start:
            self._begin_all(steps.start, plan, known, around=around, now_s=now_s)
        elif halt is None:
            self._renew_volumes(pod, around, now_s)
        self._stop_all(steps, plan, pod, now_s)
        known = self._known(plan)
        steps = next_steps(plan, known, now_s, is_halted=halt is not None)
        if steps.start and not self._waits:
            self._dues.append(now_s + _SOON_S)
        at = Situation(now_s=now_s, host_ip=ADDRESS, pod_ip=ADDRESS, halt=halt)
        return self._told(pod, plan, known, steps=steps, at=at)

    def _told(self, pod: Object, plan: PodPlan, known: Mapping[str, Container], *, steps: Steps, at: Situation) -> Next:
        status = pod_status(pod, known, steps, plan=plan, at=at)
        self._dues.extend(steps.pauses.values())
        if at.halt is None and (due_s := deadline_s({**pod, "status": status})) is not None:
            self._dues.append(due_s)
        runs = (self.folder.runs(name) for name, state in known.items() if state.is_running)
        is_settled = not any(each[-1].is_coming_up for each in runs)
        notes, self._notes = (tuple(self._notes), []) if is_settled else ((), self._notes)
        return Next(status, min(self._dues, default=None), steps.is_over, is_settled, notes)

    def end_at_once(self) -> bool:
        """Kill all that runs; gives whether nothing does any more."""
        living = list(self.folder.living())
        for run in living:
            run.end_at_once()
            self._watched(run)
        return not living

    def forget(self) -> None:
        """Stop asking; the processes go on."""
        self._images.forget()
        for live in self._live.values():
            if live.task is not None:
                live.task.cancel()
        for stop in self._stops.values():
            if stop.hook is not None:
                stop.hook.cancel()

    # What is known ---------------------------------------------------------------------------------------------------

    def _known(self, plan: PodPlan) -> dict[str, Container]:
        known = {}
        for container in plan.all:
            name = container["name"]
            state = self.folder.container(name, self._host.back_off)
            if state.is_running:
                live = self._followed(container, self.folder.runs(name)[-1])
                state = replace(state, is_started=live.is_started, is_ready=live.is_ready)
            else:
                self._leave_off(name)
            if not state.is_running and (problem := self._waits.get(name)) is not None:
                state = replace(state, waits_for=problem.reason, waits_because=str(problem))
            known[name] = state
        return known

    def _leave_off(self, name: str) -> None:
        """Ask nothing more of a container that has ended."""
        live, stop = self._live.pop(name, None), self._stops.pop(name, None)
        if live is not None and live.task is not None:
            live.task.cancel()
        if stop is not None and stop.hook is not None:
            stop.hook.cancel()

    def _followed(self, container: Object, run: RunFolder) -> _Live:
        """What is known of a run; from the first look on it is watched and asked."""
        name = container["name"]
        live = self._live.get(name)
        if live is not None and live.number == run.number:
            return live
        if live is not None and live.task is not None:
            live.task.cancel()
        live = self._live[name] = _Live(run.number)
        self._watched(run)
        probes = ("startupProbe", "livenessProbe", "readinessProbe")
        hook = (container.get("lifecycle") or {}).get("postStart")
        if hook is None and not any(container.get(one) for one in probes):
            live.is_started = live.is_ready = True
            return live
        target = _target(container, run)
        live.task = asyncio.create_task(self._ask(live, target, hook))
        return live

    def _watched(self, run: RunFolder) -> None:
        pid = run.keeper_pid()
        if pid is None:
            self._poke()
        else:
            self._watch.add(pid, self._poke)

    async def _ask(self, live: _Live, target: Target, hook: Object | None) -> None:
        """Run the hook of the start, then the probes."""
        container = target.container
        if hook is not None and not await _is_done(hook, target):
            live.is_unhealthy = True
            self._poke()
            return

        def tell(probe: str, is_good: bool) -> None:
            if probe == "readiness":
                live.is_ready = is_good
            elif is_good:
                live.is_started = True
                live.is_ready = live.is_ready or not container.get("readinessProbe")
            else:
                live.is_unhealthy = True
                live.grace_s = (container.get(f"{probe}Probe") or {}).get("terminationGracePeriodSeconds")
                said = f"Container {container['name']} failed {probe} probe, will be restarted"
                self._notes.append(Note(NORMAL, "Killing", said))
            self._poke()

        def complain(probe: str, why: str) -> None:
            self._notes.append(Note(WARNING, "Unhealthy", f"{probe.capitalize()} probe failed: {why}"))
            self._poke()

        await Prober(target, self._host.clock, tell, complain).run()

    # Beginning -------------------------------------------------------------------------------------------------------

    def _begin_all(
        self,
        names: tuple[str, ...],
        plan: PodPlan,
        known: Mapping[str, Container],
        *,
        around: Surroundings,
        now_s: float,
    ) -> None:
        self._waits = {}
        for name in names:
            try:
                self._begin(named(plan.all, name), known[name], around, now_s)
            except CannotStart as problem:
                self._waits[name] = problem
                self._dues.append(now_s + _RETRY_S)
            except OSError as problem:
                self._waits[name] = CannotStart("CreateContainerError", str(problem))
                self._dues.append(now_s + _RETRY_S)

    def _begin(self, container: Object, known: Container, around: Surroundings, now_s: float) -> None:
        runtime = self._images.take(container) if needs_image(around.pod, container) else None
        volumes = place_volumes(around.pod, self.folder.volumes, around, self._host.token_for)
        run = self.folder.next_run(container["name"])
        base = {} if runtime is not None else {**self._host.variables, "HOME": str(run.root)}
        base |= {name: text for name, text in self._host.variables.items() if name.startswith("KUBERNETES_")}
        base["HOSTNAME"] = around.pod["metadata"]["name"]
        if self._host.has_cards:
            base |= card_variables(around.pod, container["name"])
        if checkpoint_of(around.pod) is not None:
            base[VARIABLE] = str(self._host.checkpoints.folder_of(around.pod))
        variables = environment_of(container, around, base)
        mounts = place_mounts(container, run.root, volumes, variables)
        if runtime is None:
            start = self._process(container, run, variables, Paths(run.root, mounts))
        else:
            start = self._of_image(container, runtime, around, variables=variables, mounts=mounts)
        start = replace(
            start,
            has_stdin=bool(container.get("stdin")),
            is_stdin_once=bool(container.get("stdinOnce")),
            has_terminal=bool(container.get("tty")),
        )
        run.begin(start, now_s=now_s, ends=known.ends)

    def _process(self, container: Object, run: RunFolder, variables: dict[str, str], paths: Paths) -> Start:
        """A container as a process of this machine."""
        command = command_of(container, variables)
        folder = paths.folder(container.get("workingDir") or "")
        folder.mkdir(parents=True, exist_ok=True)
        limits = _limits(container)
        name = f"{_name(self.folder.folder.name, container)}-{run.number}"
        groups = self._host.cgroups.make(name, limits) if self._host.cgroups is not None else ()
        return Start(
            command=tuple(paths.here(one) for one in command),
            environment={name: paths.here(value) for name, value in variables.items()},
            folder=folder,
            memory_bytes=0 if groups else limits.memory_bytes,
            cgroups=groups,
        )

    def _of_image(
        self,
        container: Object,
        runtime: Runtime,
        around: Surroundings,
        *,
        variables: dict[str, str],
        mounts: dict[str, Path],
    ) -> Start:
        """A container out of its image, run by a program that stands for it."""
        name = _name(self.folder.folder.name, container)
        if VARIABLE in variables:
            mounts = {**mounts, variables[VARIABLE]: Path(variables[VARIABLE])}
        cards = variables.get("NVIDIA_VISIBLE_DEVICES", "").removeprefix("void")
        asked = ImageRun(
            name=name,
            hostname=around.pod["metadata"]["name"][:63],
            container=container,
            variables=variables,
            mounts=mounts,
            limits=_limits(container),
            cards=tuple(cards.split(",")) if cards else (),
        )
        return Start(
            command=runtime.run(asked),
            environment=dict(os.environ),
            folder=self.folder.folder,
            enter=runtime.enter(name),
            after=runtime.remove(name),
        )

    def _renew_volumes(self, pod: Object, around: Surroundings, now_s: float) -> None:
        """Files follow what they come from while the pod runs; what is missing then leaves the old ones."""
        if pod["spec"].get("volumes") and self.folder.volumes.exists():
            with contextlib.suppress(CannotStart, OSError):
                place_volumes(pod, self.folder.volumes, around, self._host.token_for)
            self._dues.append(now_s + _RENEW_S)

    # Ending ----------------------------------------------------------------------------------------------------------

    def _stop_all(self, steps: Steps, plan: PodPlan, pod: Object, now_s: float) -> None:
        unhealthy = {name for name, live in self._live.items() if live.is_unhealthy}
        for name in (*steps.stop, *(unhealthy - set(steps.stop))):
            runs = self.folder.runs(name)
            if runs:
                self._stop(named(plan.all, name), runs[-1], pod, now_s)

    def _grace_s(self, pod: Object, name: str) -> float:
        metadata, spec = pod["metadata"], pod["spec"]
        if metadata.get("deletionTimestamp"):
            return float(metadata.get("deletionGracePeriodSeconds") or 0)
        live = self._live.get(name)
        if live is not None and live.grace_s is not None:
            return float(live.grace_s)
        grace_s = spec.get("terminationGracePeriodSeconds")
        return float(_GRACE_S if grace_s is None else grace_s)

    def _stop(self, container: Object, run: RunFolder, pod: Object, now_s: float) -> None:
        """Ask a container to end: its hook first, then a signal, and when the time is over there is no choice."""
        name = container["name"]
        grace_s = self._grace_s(pod, name)
        stop = self._stops.get(name)
        if stop is None or stop.number != run.number:
            stop = self._stops[name] = _Stop(run.number, now_s, now_s + grace_s)
            hook = (container.get("lifecycle") or {}).get("preStop")
            checkpoint = self._checkpoint(pod, name) if grace_s > 0 else None
            if hook is not None or checkpoint is not None:
                stop.hook = asyncio.create_task(self._before_stop(run, container, checkpoint, grace_s))
                stop.hook.add_done_callback(lambda _done: self._poke())
        stop.until_s = min(stop.until_s, stop.asked_s + grace_s)
        if now_s >= stop.until_s:
            run.signal(signal.SIGKILL)
            self._dues.append(now_s + 1.0)
            return
        self._dues.append(stop.until_s)
        if not stop.is_asked and (stop.hook is None or stop.hook.done()):
            stop.is_asked = run.signal(_stop_signal(container))
            if not stop.is_asked:
                self._dues.append(now_s + _SOON_S)

    def _checkpoint(self, pod: Object, name: str) -> Checkpoint | None:
        """How a container saves its work before it leaves; one that has failed has nothing to save."""
        if not pod["metadata"].get("deletionTimestamp"):
            return None
        with contextlib.suppress(CannotStart):  # the annotations were good when it was begun
            checkpoint = checkpoint_of(pod)
            return checkpoint if checkpoint is not None and checkpoint.container == name else None
        return None

    async def _before_stop(
        self, run: RunFolder, container: Object, checkpoint: Checkpoint | None, grace_s: float
    ) -> None:
        """Have a container save its work, then run its hook."""
        target = _target(container, run)
        if checkpoint is not None:
            await self._save(run, checkpoint, target, checkpoint.grace_s(grace_s))
        hook = (container.get("lifecycle") or {}).get("preStop")
        if hook is not None:
            await _is_done(hook, target)

    async def _save(self, run: RunFolder, checkpoint: Checkpoint, target: Target, within_s: float) -> None:
        name = checkpoint.container
        if not checkpoint.command:
            run.signal(checkpoint.signal)
            said = f"Sent {signal.Signals(checkpoint.signal).name} to container {name} to save its work"
            self._notes.append(Note(NORMAL, "Checkpoint", said))
            await self._host.clock.sleep(within_s)  # it ends by then, or goes on until it is told to
            return
        has_saved = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                has_saved = await _is_done({"exec": {"command": ["sh", "-c", checkpoint.command]}}, target)
        if has_saved:
            self._notes.append(Note(NORMAL, "Checkpoint", f"Container {name} has saved its work"))
        else:
            problem = f"The checkpoint command of container {name} failed, or was not done after {within_s:g}s"
            self._notes.append(Note(WARNING, "CheckpointFailed", problem))


def _target(container: Object, run: RunFolder) -> Target:
    start = run.started()
    enter = tuple(start.get("enter") or ())
    return Target(container=container, folder=start["folder"], environment=start["environment"], enter=enter)


def _name(uid: str, container: Object) -> str:
    """What a container is called outside of its pod."""
    return f"muster-{uid}-{container['name']}"


async def _is_done(hook: Object, target: Target) -> bool:
    try:
        return not await act(hook, target)
    except (OSError, ValueError):
        return False


def _stop_signal(container: Object) -> int:
    name = (container.get("lifecycle") or {}).get("stopSignal") or "SIGTERM"
    return int(getattr(signal, name, signal.SIGTERM))


def _limits(container: Object) -> Limits:
    given = (container.get("resources") or {}).get("limits") or {}
    memory, cpu = given.get("memory"), given.get("cpu")
    return Limits(
        memory_bytes=0 if memory is None else parse_quantity(str(memory)).scaled(0, _MOST),
        cpu_millis=0 if cpu is None else parse_quantity(str(cpu)).scaled(3, _MOST),
    )


def base_variables(url: str) -> dict[str, str]:
    """What every container finds in its environment, as in a cluster."""
    host, _, port = url.removeprefix("https://").rpartition(":")
    own = {name: os.environ[name] for name in ("PATH", "LANG", "TZ", "LD_LIBRARY_PATH") if name in os.environ}
    service = {"KUBERNETES_SERVICE_HOST": host.strip("[]"), "KUBERNETES_SERVICE_PORT": port}
    return {**own, **service, "KUBERNETES_SERVICE_PORT_HTTPS": port, "KUBERNETES_PORT": f"tcp://{host}:{port}"}
