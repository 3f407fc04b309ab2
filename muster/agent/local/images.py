"""Containers out of images, by podman or docker where one of them works on this machine. Used by the local node.

A container with a command of its own is a process; one without, or of a pod with `muster.dev/runtime: image`, needs its
image. Images are fetched before a container is begun, by the pull policy, and what goes wrong is told as kubelets do.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from muster.agent.local.cgroups import Limits
from muster.agent.local.environment import CannotStart, expanded
from muster.controllers.nodes.containers import BackOff
from muster.store.clock import Clock
from muster.store.kinds import Object

RUNTIME = "muster.dev/runtime"
PROGRAMS = ("podman", "docker")
_INFO_S = 10.0
_TOLD_MOST = 500  # characters of what a runtime complains about
_ALWAYS, _NEVER = "Always", "Never"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRun:
    """What a runtime is told about a container."""

    name: str
    hostname: str
    container: Object
    variables: Mapping[str, str]
    mounts: Mapping[str, Path]  # by the path in the container
    limits: Limits = field(default_factory=Limits)
    cards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Runtime:
    """A program that runs images; podman and docker take the same words."""

    program: str

    @property
    def _is_docker(self) -> bool:
        return self.program.rpartition("/")[2] == "docker"

    def run(self, asked: ImageRun) -> tuple[str, ...]:
        """The command that runs a container in the foreground and ends as it does."""
        container = asked.container
        words = [self.program, "run", "--rm", "--name", asked.name, "--hostname", asked.hostname]
        words += ["--network", "host", "--pull", "never"]
        words += [flag for flag, field in (("--interactive", "stdin"), ("--tty", "tty")) if container.get(field)]
        for name, value in sorted(asked.variables.items()):
            words += ["--env", f"{name}={value}"]
        read_only = {mount["mountPath"] for mount in container.get("volumeMounts") or () if mount.get("readOnly")}
        for path, source in asked.mounts.items():
            words += ["--volume", f"{source.resolve()}:{path}{':ro' if path in read_only else ''}"]
        if container.get("workingDir"):
            words += ["--workdir", container["workingDir"]]
        words += self._limits(asked)
        command = [expanded(one, asked.variables) for one in container.get("command") or ()]
        if command:
            words += ["--entrypoint", command[0]]
        return (*words, container["image"], *command[1:], *self._arguments(asked))

    def _limits(self, asked: ImageRun) -> list[str]:
        words = []
        if asked.limits.memory_bytes:
            words += ["--memory", str(asked.limits.memory_bytes)]
        if asked.limits.cpu_millis:
            words += ["--cpus", f"{asked.limits.cpu_millis / 1000:g}"]
        user = (asked.container.get("securityContext") or {}).get("runAsUser")
        if user is not None:
            words += ["--user", str(user)]
        if asked.cards and self._is_docker:
            words += ["--gpus", f'"device={",".join(asked.cards)}"']
        elif asked.cards:
            words += [word for card in asked.cards for word in ("--device", f"nvidia.com/gpu={card}")]
        return words

    def _arguments(self, asked: ImageRun) -> list[str]:
        return [expanded(one, asked.variables) for one in asked.container.get("args") or ()]

    def enter(self, name: str) -> tuple[str, ...]:
        """What goes before a command that is to run in a container."""
        return (self.program, "exec", name)

    def remove(self, name: str) -> tuple[str, ...]:
        """The command that ends a container, whatever became of the one that ran it."""
        return (self.program, "rm", "--force", name)


def needs_image(pod: Object, container: Object) -> bool:
    """Whether a container is run out of its image."""
    is_wanted = (pod["metadata"].get("annotations") or {}).get(RUNTIME) == "image"
    return is_wanted or not container.get("command")


def found_runtime() -> Runtime | None:
    """The runtime of this machine: one that is there and works."""
    for program in PROGRAMS:
        path = shutil.which(program)
        if path is None:
            continue
        try:
            asked = subprocess.run([path, "info"], capture_output=True, check=False, timeout=_INFO_S)
        except (OSError, subprocess.SubprocessError):
            continue
        if asked.returncode == 0:
            return Runtime(path)
    return None


class ImageProblem(Exception):
    """Why an image cannot be had, with the reason that a status gives."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(slots=True)
class _Pull:
    task: asyncio.Task[Runtime]
    failures: int = 0
    retry_s: float = 0.0
    is_told: bool = False  # its failure was said once as it is; from then on it is a back-off


class Images:
    """The images that the containers of one pod wait for."""

    def __init__(self, find: Callable[[], Runtime | None], clock: Clock, poke: Callable[[], None]) -> None:
        self._find = find
        self._clock = clock
        self._poke = poke
        self._back_off = BackOff()
        self._pulls: dict[str, _Pull] = {}

    def take(self, container: Object) -> Runtime:
        """The runtime when the image is there; until then it raises what the container waits for."""
        name = container["name"]
        pull = self._pulls.get(name)
        if pull is None:
            pull = self._pulls[name] = _Pull(self._begun(container))
        if not pull.task.done():
            raise CannotStart("ContainerCreating", "")
        problem = pull.task.exception()
        if problem is None:
            del self._pulls[name]
            return pull.task.result()
        assert isinstance(problem, ImageProblem), f"an image can only be missing: {problem!r}"
        raise self._waiting(container, pull, problem)

    def _waiting(self, container: Object, pull: _Pull, problem: ImageProblem) -> CannotStart:
        """What is said of an image that could not be had, which is tried again after pauses."""
        if problem.reason == "ErrImageNeverPull":
            self._pulls.pop(container["name"])
            return CannotStart(problem.reason, str(problem))
        if not pull.is_told:
            pull.failures += 1
            pull.retry_s = self._clock.now_s() + self._back_off.pause_s(pull.failures + 1)
            pull.is_told = True
            return CannotStart(problem.reason, str(problem))
        if self._clock.now_s() >= pull.retry_s:
            pull.task, pull.is_told = self._begun(container), False
        said = f'Back-off pulling image "{container["image"]}": {problem.reason}: {problem}'
        return CannotStart("ImagePullBackOff", said)

    def _begun(self, container: Object) -> asyncio.Task[Runtime]:
        task = asyncio.create_task(self._pulled(container))
        task.add_done_callback(lambda _task: self._poke())
        return task

    async def _pulled(self, container: Object) -> Runtime:
        image, policy = container.get("image") or "", container.get("imagePullPolicy") or _policy_of(container)
        runtime = await asyncio.to_thread(self._find)
        if policy != _ALWAYS and runtime is not None and await _said(runtime, "image", "inspect", image) is None:
            return runtime
        if policy == _NEVER:
            message = f'Container image "{image}" is not present with pull policy of Never'
            raise ImageProblem("ErrImageNeverPull", message)
        if runtime is None:
            raise ImageProblem(
                "ErrImagePull",
                f"there is neither podman nor docker here to run {image!r}: give the container a command, which is "
                "then run as a process of this machine",
            )
        problem = await _said(runtime, "pull", image)
        if problem is not None:
            raise ImageProblem("ErrImagePull", problem)
        return runtime

    def forget(self) -> None:
        """Stop waiting."""
        for pull in self._pulls.values():
            pull.task.cancel()


def _policy_of(container: Object) -> str:
    """The policy of an image that says nothing: its latest state is always asked for."""
    name = (container.get("image") or "").rpartition("/")[2]
    return _ALWAYS if name.endswith(":latest") or ":" not in name else "IfNotPresent"


async def _said(runtime: Runtime, *words: str) -> str | None:
    """What a runtime complains about; nothing where it did what it was told."""
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        runtime.program, *words, stdin=nothing, stdout=nothing, stderr=pipe, env=dict(os.environ)
    )
    try:
        _, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode == 0:
        return None
    return said.decode(errors="replace").strip()[-_TOLD_MOST:] or f"{words[0]} ended with {process.returncode}"
