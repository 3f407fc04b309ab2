"""A node that really runs processes: containers and commands are processes of this machine, in a folder of their own.

Pods are not isolated from anything; it is for tests. `ProcessNode` is what the server is given.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from muster.agent.local.commands import Command, Tcp
from muster.model.pod_streams import CommandOptions, LogOptions, Output, Place, Unreachable
from muster.model.times import moment_text


class Process(Command):
    """A process of the local node that counts what it has given to whoever reads its output."""

    given_bytes = 0

    @classmethod
    async def of(cls, command: Sequence[str], folder: Path, *, has_terminal: bool) -> Process:
        made = await cls.started(command, folder, os.environ, has_terminal=has_terminal)
        assert isinstance(made, Process), "it was asked for"
        return made

    async def output(self) -> AsyncGenerator[tuple[Output, bytes], None]:
        async for piece in super().output():
            self.given_bytes += len(piece[1])
            yield piece

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None


class Container:
    """A process with a log; what it writes also goes to those who are attached."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.lines: list[tuple[float, bytes]] = []
        self.has_ended = False
        self._news = asyncio.Condition()
        self.attached: list[asyncio.Queue[tuple[Output, bytes] | None]] = []
        self.task = asyncio.ensure_future(self._record())

    async def _record(self) -> None:
        rest = b""
        async for output, piece in self.process.output():
            for one in self.attached:
                await one.put((output, piece))
            *lines, rest = (rest + piece).split(b"\n")
            await self._add([line + b"\n" for line in lines])
        self.has_ended = True
        await self._add([rest] if rest else [])
        for one in self.attached:
            await one.put(None)

    async def _add(self, lines: list[bytes]) -> None:
        async with self._news:
            self.lines += [(time.time(), line) for line in lines]
            self._news.notify_all()

    async def log(self, options: LogOptions) -> AsyncGenerator[bytes, None]:
        at = 0 if options.tail_lines is None else max(0, len(self.lines) - options.tail_lines)
        while True:
            piece = []
            for moment_s, line in self.lines[at : at + 1000]:
                if options.since_s is None or moment_s >= options.since_s:
                    piece += [f"{moment_text(moment_s)} ".encode(), line] if options.has_timestamps else [line]
            at = min(at + 1000, len(self.lines))
            if piece:
                yield b"".join(piece)
            if at < len(self.lines):
                continue
            if self.has_ended or not options.is_followed:
                return
            async with self._news:
                while at == len(self.lines) and not self.has_ended:
                    await self._news.wait()


class Attached:
    """A client that is attached to a container."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._pieces: asyncio.Queue[tuple[Output, bytes] | None] = asyncio.Queue(4)
        container.attached.append(self._pieces)
        process = container.process
        self.write, self.end_input, self.resize = process.write, process.end_input, process.resize
        self.exit_code = process.exit_code

    async def output(self) -> AsyncGenerator[tuple[Output, bytes], None]:
        while (piece := await self._pieces.get()) is not None:
            yield piece

    async def close(self) -> None:
        if self._pieces in self._container.attached:
            self._container.attached.remove(self._pieces)
        while not self._pieces.empty():
            self._pieces.get_nowait()


class ProcessNode:
    """Runs what it is told to; of each container the one that ran before is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.containers: dict[tuple[str, str], list[Container]] = {}
        self.open: list[Process] = []

    async def start(self, pod: str, container: str, script: str, *, has_terminal: bool = False) -> Container:
        """Start a container whose program is a Python script."""
        command = [sys.executable, "-u", "-c", script]
        process = await Process.of(command, self.folder, has_terminal=has_terminal)
        made = Container(process)
        self.containers.setdefault((pod, container), []).append(made)
        return made

    def _find(self, place: Place, *, back: int = 1) -> Container:
        found = self.containers.get((place.pod, place.container), [])
        if len(found) < back:
            raise Unreachable(f'container not found ("{place.container}")')
        return found[-back]

    async def open_log(self, place: Place, options: LogOptions) -> AsyncGenerator[bytes, None]:
        return self._find(place, back=2 if options.is_previous else 1).log(options)

    async def run(self, place: Place, options: CommandOptions) -> Process:
        self._find(place)
        made = await Process.of(options.command, self.folder, has_terminal=options.has_terminal)
        self.open.append(made)
        if not options.has_stdin and not options.has_terminal:
            await made.end_input()
        return made

    async def attach(self, place: Place, options: CommandOptions) -> Attached:
        return Attached(self._find(place))

    async def connect(self, place: Place, port: int) -> Tcp:
        try:
            return Tcp(*await asyncio.open_connection("127.0.0.1", port))
        except OSError as problem:
            raise Unreachable(f"port {port}: {problem.strerror or 'connection refused'}") from None

    async def close(self) -> None:
        for found in self.containers.values():
            for one in found:
                await one.process.close()
                one.task.cancel()
                await asyncio.gather(one.task, return_exceptions=True)
        for process in self.open:
            await process.close()
        for _ in range(3):
            await asyncio.sleep(0)  # pipes are closed a little later
