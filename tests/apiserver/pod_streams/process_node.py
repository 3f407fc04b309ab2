"""A node that really runs processes: containers and commands are processes of this machine, in a folder of their own.

Pods are not isolated from anything; it is for tests. `ProcessNode` is what the server is given.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import sys
import termios
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from muster.model.pod_streams import CommandOptions, LogOptions, Output, Place, Unreachable
from muster.model.times import moment_text

PIECE_BYTES = 32 * 1024
END = b""


class Process:
    """A process on pipes or on a terminal."""

    def __init__(self, process: asyncio.subprocess.Process, terminal: int | None) -> None:
        self.process = process
        self._terminal = terminal
        self.given_bytes = 0  # to whoever reads its output
        self._pieces: asyncio.Queue[tuple[Output, bytes] | None] = asyncio.Queue(4)
        self._readers = asyncio.ensure_future(self._read_all())

    @classmethod
    async def started(cls, command: Sequence[str], folder: Path, *, has_terminal: bool) -> Process:
        try:
            if not has_terminal:
                pipe = asyncio.subprocess.PIPE
                made = await asyncio.create_subprocess_exec(*command, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe)
                return cls(made, None)
            ours, theirs = os.openpty()

            def take_terminal() -> None:
                os.setsid()
                fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

            made = await asyncio.create_subprocess_exec(
                *command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=take_terminal
            )
        except OSError as problem:
            raise Unreachable(f'exec: "{command[0]}": {problem.strerror}') from None
        os.close(theirs)
        os.set_blocking(ours, False)
        return cls(made, ours)

    async def _read_all(self) -> None:
        if self._terminal is not None:
            while piece := await self._from_terminal():
                await self._pieces.put((Output.STDOUT, piece))
        else:
            out, err = self.process.stdout, self.process.stderr
            assert out is not None and err is not None
            await asyncio.gather(self._read(out, Output.STDOUT), self._read(err, Output.STDERR))
        await self.process.wait()
        await self._pieces.put(None)

    async def _read(self, stream: asyncio.StreamReader, output: Output) -> None:
        while piece := await stream.read(PIECE_BYTES):
            await self._pieces.put((output, piece))

    async def _from_terminal(self) -> bytes:
        assert self._terminal is not None
        while True:
            await ready(self._terminal, asyncio.get_running_loop().add_reader)
            try:
                return os.read(self._terminal, PIECE_BYTES)
            except BlockingIOError:
                continue
            except OSError:  # how the end of a terminal looks from here
                return END

    async def output(self) -> AsyncGenerator[tuple[Output, bytes], None]:
        while (piece := await self._pieces.get()) is not None:
            self.given_bytes += len(piece[1])
            yield piece

    async def write(self, data: bytes) -> None:
        if self._terminal is not None:
            while data:
                await ready(self._terminal, asyncio.get_running_loop().add_writer)
                try:
                    data = data[os.write(self._terminal, data) :]
                except BlockingIOError:
                    continue
                except OSError:
                    return
            return
        stdin = self.process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):
            if not stdin.is_closing():
                stdin.write(data)
                await stdin.drain()

    async def end_input(self) -> None:
        if self._terminal is not None:
            await self.write(b"\x04")
        elif self.process.stdin is not None:
            self.process.stdin.close()

    def resize(self, width: int, height: int) -> None:
        if self._terminal is not None:
            fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    async def exit_code(self) -> int:
        code = await self.process.wait()
        return code if code >= 0 else 128 - code

    async def close(self) -> None:
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
        await self.process.wait()
        self.process._transport.close()  # there is no other way to close pipes that nobody reads to their end
        self._readers.cancel()
        await asyncio.gather(self._readers, return_exceptions=True)
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None


async def ready(number: int, add: object) -> None:
    """Returns when a file can be read from, or written to."""
    loop = asyncio.get_running_loop()
    is_ready = loop.create_future()
    add(number, lambda: is_ready.done() or is_ready.set_result(None))
    try:
        await is_ready
    finally:
        (loop.remove_reader if "reader" in add.__name__ else loop.remove_writer)(number)


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


class Tcp:
    """A connection with a port of this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(PIECE_BYTES)
        except OSError:
            return END

    async def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._writer.write(data)
            await self._writer.drain()

    async def end_input(self) -> None:
        with contextlib.suppress(OSError):
            self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()


class ProcessNode:
    """Runs what it is told to; of each container the one that ran before is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.containers: dict[tuple[str, str], list[Container]] = {}
        self.open: list[Process] = []

    async def start(self, pod: str, container: str, script: str, *, has_terminal: bool = False) -> Container:
        """Start a container whose program is a Python script."""
        command = [sys.executable, "-u", "-c", script]
        process = await Process.started(command, self.folder, has_terminal=has_terminal)
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
        made = await Process.started(options.command, self.folder, has_terminal=options.has_terminal)
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
