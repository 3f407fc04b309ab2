"""The runs of containers as folders on disk and processes that keep them. Used by the local node.

A run is a folder: what to start, which process keeps it, the log, and in the end how it ended. Everything that the
node knows of a run it reads there, so a server that was killed finds its containers again and never begins one twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.agent.local import keeper
from muster.controllers.nodes.containers import BackOff, Container, Run

_LOST = "ContainerStatusUnknown"
_KEPT_RUNS = 2  # of a container: the present one, and the one before for its log


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a run consists of."""

    command: tuple[str, ...]
    environment: dict[str, str]
    folder: Path  # that it runs in
    memory_bytes: int = 0  # 0: as much as there is, or the groups see to it
    has_stdin: bool = False
    is_stdin_once: bool = False  # its input ends when the first client leaves
    has_terminal: bool = False
    cgroups: tuple[str, ...] = ()  # that it runs in
    enter: tuple[str, ...] = ()  # what goes before another command that is to run beside it
    after: tuple[str, ...] = ()  # a command that takes away what it may have left behind


class RunFolder:
    """One run of a container."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def number(self) -> int:
        return int(self.folder.name)

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def root(self) -> Path:
        """What the container sees as its own folder."""
        return self.folder / "root"

    def begin(self, start: Start, *, now_s: float, ends: int) -> int:
        """Start the keeper; gives its pid."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log.touch()
        told = {
            "command": start.command,
            "environment": start.environment,
            "folder": str(start.folder),
            "memory_bytes": start.memory_bytes,
            "has_stdin": start.has_stdin,
            "is_stdin_once": start.is_stdin_once,
            "has_terminal": start.has_terminal,
            "cgroups": start.cgroups,
            "enter": start.enter,
            "after": start.after,
            "started_s": now_s,
            "ends": ends,
        }
        keeper.write_whole(str(self.folder / "start.json"), json.dumps(told))
        command = [sys.executable, "-I", "-S", keeper.__file__, str(self.folder)]
        nothing = subprocess.DEVNULL
        process = subprocess.Popen(
            command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True, cwd="/"
        )
        keeper.claim(str(self.folder), process.pid)  # the keeper does so too, if this server does not live to do it
        process.returncode = 0  # it is waited for by its pid, as one that another server has started
        return process.pid

    def started(self) -> dict[str, Any]:
        """What was to be started."""
        return _read(self.folder / "start.json")

    @property
    def is_coming_up(self) -> bool:
        """Whether its keeper is there and has not started the command yet."""
        is_known = (self.folder / "process").exists() or (self.folder / "end.json").exists()
        return not is_known and self.keeper_pid() is not None

    def keeper_pid(self) -> int | None:
        """The process that keeps it, if that is still there."""
        return _living(self.folder / "keeper")

    def signal(self, number: int) -> bool:
        """Send a signal to the command itself, the strongest one to all of its processes; gives whether it is there."""
        pid = _living(self.folder / "process")
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(pid, number)
            else:
                os.kill(pid, number)
        return True

    @property
    def stdin(self) -> Path:
        """The named pipe that a command reads from which has an input."""
        return self.folder / "stdin"

    @property
    def terminal(self) -> Path | None:
        """The terminal that a command has, if it has one."""
        try:
            return Path((self.folder / "terminal").read_text())
        except OSError:
            return None

    def end_input(self) -> None:
        """Let the command come to the end of its input."""
        pid = self.keeper_pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)

    def end_at_once(self) -> None:
        """Kill it, whatever it has come to."""
        pid = self.keeper_pid()
        if not self.signal(signal.SIGKILL) and pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def state(self) -> Run | None:
        """How it stands with it; `None` when it was never begun."""
        start = self.started()
        if "started_s" not in start:
            return None
        identity = f"muster://{self.folder.parent.parent.parent.name}/{self.folder.parent.name}/{self.number}"
        run = Run(started_s=start["started_s"], identity=identity)
        end = _read(self.folder / "end.json")
        if end:
            return Run(
                started_s=run.started_s,
                ended_s=end["ended_s"],
                exit_code=end["exit_code"],
                signal=end["signal"],
                reason=end.get("reason", ""),
                message=end.get("message", ""),
                identity=identity,
            )
        if self.keeper_pid() is not None:
            return run
        # Between the two looks it may have ended well.
        return self.state() if (self.folder / "end.json").exists() else self._lost(run)

    def _lost(self, run: Run) -> Run:
        """The keeper is gone without a word: its container has died with it, or will never be."""
        if not (self.folder / "keeper").exists() and not keeper.claim(str(self.folder), 0):
            return run  # it has just come
        end = {
            "exit_code": keeper.KILLED,
            "signal": int(signal.SIGKILL),
            "reason": _LOST,
            "message": "the process that kept the container is gone",
            "ended_s": max(run.started_s, self.folder.stat().st_mtime),
        }
        if start := self.started():
            keeper.run_after(start)
        keeper.write_whole(str(self.folder / "end.json"), json.dumps(end))
        state = self.state()
        assert state is not None, "it was begun"
        return state


class PodFolder:
    """All that is on disk of one pod."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def volumes(self) -> Path:
        return self.folder / "volumes"

    def runs(self, container: str) -> list[RunFolder]:
        """The runs of a container that are kept, the latest last."""
        place = self.folder / "containers" / container
        if not place.is_dir():
            return []
        return [RunFolder(place / str(number)) for number in sorted(int(one.name) for one in place.iterdir())]

    def next_run(self, container: str) -> RunFolder:
        """The folder of the run after all that were."""
        there = self.runs(container)
        for old in there[: -(_KEPT_RUNS - 1)]:
            shutil.rmtree(old.folder, ignore_errors=True)
        number = there[-1].number + 1 if there else 0
        return RunFolder(self.folder / "containers" / container / str(number))

    def container(self, name: str, back_off: BackOff) -> Container:
        """What has happened to a container."""
        known = [(run, state) for run in self.runs(name) if (state := run.state()) is not None]
        if not known:
            return Container()
        latest, state = known[-1]
        ends = latest.started().get("ends", 0)
        if state.is_over:
            ends = back_off.ends_after(state, ends)
        before = known[-2][1] if len(known) > 1 else None
        return Container(run=state, before=before, restarts=latest.number, ends=ends)

    def living(self) -> Iterator[RunFolder]:
        """Every run that goes on."""
        place = self.folder / "containers"
        for container in sorted(place.iterdir()) if place.is_dir() else ():
            for run in self.runs(container.name):
                state = run.state()
                if state is not None and not state.is_over:
                    yield run

    def remove(self) -> None:
        """Forget the pod."""
        for place in self.folder.glob("containers/*/*/start.json"):
            for group in _read(place).get("cgroups") or ():
                keeper.leave_cgroup(group)  # of a keeper that was killed
        shutil.rmtree(self.folder, ignore_errors=True)


class Watch:
    """Tells when processes end, whoever has started them."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # the file that stands for a process, by pid

    def add(self, pid: int, on_end: Callable[[], None]) -> None:
        """Have the end of a process told."""
        if pid in self._open:
            return
        try:
            number = os.pidfd_open(pid)
        except ProcessLookupError:
            on_end()
            return
        self._open[pid] = number
        asyncio.get_running_loop().add_reader(number, self._ended, pid, on_end)

    def close(self) -> None:
        """Stop watching."""
        for number in self._open.values():
            asyncio.get_running_loop().remove_reader(number)
            os.close(number)
        self._open.clear()

    def _ended(self, pid: int, on_end: Callable[[], None]) -> None:
        number = self._open.pop(pid)
        asyncio.get_running_loop().remove_reader(number)
        os.close(number)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        on_end()


def _read(path: Path) -> dict[str, Any]:
    """What a file of a run says; nothing when it is not there or not whole."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _living(path: Path) -> int | None:
    """The process that a file names, if it is still that one."""
    try:
        text = path.read_text().split()
        pid, since = int(text[0]), text[1]
    except (OSError, ValueError, IndexError):
        return None
    return pid if keeper.start_time(pid) == since and not _is_dead(pid) else None


def _is_dead(pid: int) -> bool:
    """Whether a process has ended and only nobody has asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True
