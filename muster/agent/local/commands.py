"""Commands that clients are connected with, on pipes or on a terminal, and connections with ports. For the local node.

Implements what `muster.model.pod_streams` asks for.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import termios
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from muster.agent.local.logs import end_of, read_log, read_new
from muster.agent.local.node import LocalNode
from muster.agent.local.pod import ADDRESS
from muster.agent.local.processes import RunFolder
from muster.model.pod_streams import CommandOptions, Connection, LogOptions, Output, Place, Running, Unreachable
from muster.store.clock import Clock

_PIECE_BYTES = 32 * 1024
_QUEUED = 4  # pieces; then whoever writes has to wait


class Command:
    """A process that somebody is connected with."""

    def __init__(self, process: asyncio.subprocess.Process, terminal: int | None) -> None:
        self._process = process
        self._terminal = terminal
        self._pieces: asyncio.Queue[tuple[Output, bytes] | None] = asyncio.Queue(_QUEUED)
        self._reading = asyncio.create_task(self._read_all())

    @classmethod
    async def started(
        cls, command: Sequence[str], folder: Path, environment: Mapping[str, str], *, has_terminal: bool
    ) -> Command:
        """Start it, or say why that cannot be."""
        pipe = asyncio.subprocess.PIPE
        ours, theirs = os.openpty() if has_terminal else (None, pipe)
        try:
            made = await asyncio.create_subprocess_exec(
                *command,
                cwd=folder,
                env=dict(environment),
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                start_new_session=not has_terminal,
                preexec_fn=partial(_take_terminal, theirs) if has_terminal else None,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as problem:
            if ours is not None:
                os.close(ours)
            why = problem.strerror if isinstance(problem, OSError) else str(problem)
            raise Unreachable(f'exec: "{command[0]}": {why}') from None
        finally:
            if has_terminal:
                os.close(theirs)
        if ours is not None:
            os.set_blocking(ours, False)
        return cls(made, ours)

    async def _read_all(self) -> None:
        if self._terminal is not None:
            while piece := await self._from_terminal(self._terminal):
                await self._pieces.put((Output.STDOUT, piece))
        else:
            out, err = self._process.stdout, self._process.stderr
            assert out is not None and err is not None, "it was started on pipes"
            await asyncio.gather(self._read(out, Output.STDOUT), self._read(err, Output.STDERR))
        await self._process.wait()
        await self._pieces.put(None)

    async def _read(self, stream: asyncio.StreamReader, output: Output) -> None:
        while piece := await stream.read(_PIECE_BYTES):
            await self._pieces.put((output, piece))

    async def _from_terminal(self, terminal: int) -> bytes:
        loop = asyncio.get_running_loop()
        while True:
            await _ready(terminal, loop.add_reader, loop.remove_reader)
            try:
                return os.read(terminal, _PIECE_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                return b""  # how the end of a terminal looks from here

    async def output(self) -> AsyncGenerator[tuple[Output, bytes], None]:
        while (piece := await self._pieces.get()) is not None:
            yield piece

    async def write(self, data: bytes) -> None:
        if self._terminal is not None:
            await self._to_terminal(self._terminal, data)
            return
        stdin = self._process.stdin
        assert stdin is not None, "it was started on pipes"
        with contextlib.suppress(OSError):
            stdin.write(data)
            await stdin.drain()

    async def _to_terminal(self, terminal: int, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        while data:
            await _ready(terminal, loop.add_writer, loop.remove_writer)
            try:
                data = data[os.write(terminal, data) :]
            except BlockingIOError:
                continue
            except OSError:
                return

    async def end_input(self) -> None:
        if self._terminal is not None:
            await self.write(b"\x04")
        elif self._process.stdin is not None:
            self._process.stdin.close()

    def resize(self, width: int, height: int) -> None:
        if self._terminal is not None:
            set_size(self._terminal, width, height)

    async def exit_code(self) -> int:
        code = await self._process.wait()
        return code if code >= 0 else 128 - code

    async def close(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        await self._process.wait()
        self._process._transport.close()  # type: ignore[attr-defined]  # nothing else closes pipes not read to their end
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None


def _take_terminal(number: int) -> None:
    """In the new process: have a session and a terminal of its own. Some loops have done neither by then."""
    os.setsid()
    fcntl.ioctl(number, termios.TIOCSCTTY, 0)


async def _ready(number: int, add: Callable[..., object], remove: Callable[[int], object]) -> None:
    """Returns when a file can be read from, or written to."""
    is_ready = asyncio.Event()
    add(number, is_ready.set)
    try:
        await is_ready.wait()
    finally:
        remove(number)


class Attached:
    """A container that runs already: what it writes from now on, and its input if it has one."""

    def __init__(self, run: RunFolder, clock: Clock, *, has_input: bool, is_input_once: bool) -> None:
        self._run = run
        self._clock = clock
        self._is_input_once = is_input_once
        self._input = _opened(run.stdin) if has_input else None
        self._terminal = run.terminal
        self._at = end_of(run.folder)

    async def output(self) -> AsyncGenerator[tuple[Output, bytes], None]:
        async for stream, piece in read_new(self._run.folder, self._clock, self._at):
            yield Output.STDERR if stream == b"stderr" else Output.STDOUT, piece

    async def write(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        while data and self._input is not None:
            await _ready(self._input, loop.add_writer, loop.remove_writer)
            try:
                data = data[os.write(self._input, data) :]
            except BlockingIOError:
                continue
            except OSError:
                return  # nobody reads it any more

    async def end_input(self) -> None:
        if self._input is None:
            return
        if self._is_input_once and self._terminal is not None:
            await self.write(b"\x04")
        os.close(self._input)
        self._input = None
        if self._is_input_once and self._terminal is None:
            self._run.end_input()

    def resize(self, width: int, height: int) -> None:
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                number = os.open(self._terminal, os.O_RDWR | os.O_NOCTTY)
                try:
                    set_size(number, width, height)
                finally:
                    os.close(number)

    async def exit_code(self) -> int:
        state = self._run.state()
        return 0 if state is None else state.exit_code

    async def close(self) -> None:
        await self.end_input()


def _opened(place: Path) -> int | None:
    """A named pipe to write to; nothing where nobody reads from it."""
    try:
        return os.open(place, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


def set_size(terminal: int, width: int, height: int) -> None:
    """Tell a terminal how large it is, in characters."""
    size = struct.pack("HHHH", min(height, 0xFFFF), min(width, 0xFFFF), 0, 0)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)


class Tcp:
    """A connection with a port of this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(_PIECE_BYTES)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._writer.write(data)
            await self._writer.drain()

    async def end_input(self) -> None:
        with contextlib.suppress(OSError):
            self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()


def _entering(words: Sequence[str], options: CommandOptions) -> tuple[str, ...]:
    """What goes before a command in a container that a runtime runs: its program, exec, and the container's name."""
    if not words:
        return ()
    flags = (("--interactive", options.has_stdin), ("--tty", options.has_terminal))
    return (*words[:-1], *(flag for flag, is_set in flags if is_set), words[-1])


class LocalStreams:
    """Logs, commands and ports of the pods of the local node."""

    def __init__(self, node: LocalNode, clock: Clock) -> None:
        self._node = node
        self._clock = clock

    async def open_log(self, place: Place, options: LogOptions, /) -> AsyncGenerator[bytes, None]:
        run = self._node.run_of(place, is_previous=options.is_previous)
        return read_log(run.folder, options, self._clock)

    async def run(self, place: Place, options: CommandOptions, /) -> Running:
        start = self._running(place).started()
        folder, environment = Path(start["folder"]), start["environment"]
        command = (*_entering(start.get("enter") or (), options), *options.command)
        made = await Command.started(command, folder, environment, has_terminal=options.has_terminal)
        if not options.has_stdin and not options.has_terminal:
            await made.end_input()
        return made

    async def attach(self, place: Place, options: CommandOptions, /) -> Running:
        run = self._running(place)
        is_once = bool(run.started().get("is_stdin_once"))
        return Attached(run, self._clock, has_input=options.has_stdin, is_input_once=is_once)

    async def connect(self, _place: Place, port: int, /) -> Connection:
        try:
            return Tcp(*await asyncio.open_connection(ADDRESS, port))
        except OSError as problem:
            raise Unreachable(f"port {port}: {problem.strerror or 'connection refused'}") from None

    def _running(self, place: Place) -> RunFolder:
        run = self._node.run_of(place)
        state = run.state()
        if state is None or state.is_over:
            raise Unreachable(f'container "{place.container}" in pod "{place.pod}" is not running')
        return run
