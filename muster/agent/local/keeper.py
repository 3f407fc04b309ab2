"""Keeps one container: starts its command, writes its log, and leaves on disk how it ended. A process of its own.

Run as a script by `processes`, with nothing but the standard library, so that it starts fast. It outlives the server:
one that is started anew finds the container through what stands in its folder. It is given the folder, in which
`start.json` says what to run.

The keeper is who all processes of its container belong to, whatever they do to get away: when the command ends, what
it has left behind is ended too.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import signal
import sys
import time

TYPE_CHECKING = False  # as in `typing`, which takes long to load
if TYPE_CHECKING:
    from typing import Any

LOG_BYTES = 10 * 1024 * 1024  # of a log; then it becomes `log.1` and a new one is begun
LINE_BYTES = 16 * 1024  # longer ones are written in parts
READ_BYTES = 64 * 1024
WATCH_S = 0.5  # how often memory is looked at
DRAIN_S = 2.0  # for what is still in the pipes when all processes have ended
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CANNOT_START, KILLED, SIGNALLED = 128, 137, 128


def start_time(pid: int) -> str:
    """When a process was started, in the machine's own count; empty when it is gone. With the pid it is a name."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


def write_whole(path: str, text: str) -> None:
    """Write a file so that nobody ever sees half of it."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


def claim(folder: str, pid: int) -> bool:
    """Whether a process is the one that keeps a run: only the first that says so ever is."""
    place, text = os.path.join(folder, "keeper"), f"{pid} {start_time(pid)}"
    mine = f"{place}.{os.getpid()}"
    with open(mine, "w", encoding="utf-8") as file:
        file.write(text)
    try:
        os.link(mine, place)
    except FileExistsError:
        with open(place, encoding="utf-8") as file:
            return file.read() == text
    finally:
        os.unlink(mine)
    return True


class Log:
    """The log of a container: each line with its time and where it came from."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, "log")
        self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115
        self._bytes = self._file.tell()
        self._rest = {b"stdout": b"", b"stderr": b""}

    def add(self, stream: bytes, data: bytes, *, is_at_once: bool = False) -> None:
        """Take in what was written, line by line; at once where somebody may be waiting for an unfinished one."""
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        entries = [self._entry(stream, line, b"F") for line in lines]
        if is_at_once and rest:
            entries.append(self._entry(stream, rest, b"P"))
            rest = b""
        while len(rest) >= LINE_BYTES:
            entries.append(self._entry(stream, rest[:LINE_BYTES], b"P"))
            rest = rest[LINE_BYTES:]
        self._rest[stream] = rest
        self._write(b"".join(entries))

    def end(self) -> None:
        """Write what has no end of line, and close."""
        for stream, rest in self._rest.items():
            if rest:
                self._write(self._entry(stream, rest, b"P"))
        self._file.close()

    def _entry(self, stream: bytes, line: bytes, mark: bytes) -> bytes:
        now_ns = time.time_ns()
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_ns // 1_000_000_000))
        return b"%s.%09dZ %s %s %s\n" % (moment.encode(), now_ns % 1_000_000_000, stream, mark, line)

    def _write(self, data: bytes) -> None:
        if self._bytes > LOG_BYTES:
            os.replace(self._path, self._path + ".1")
            self._file.close()
            self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115
            self._bytes = 0
        try:
            self._file.write(data)
        except OSError:
            return  # the disk is full: the container goes on without its log
        self._bytes += len(data)


def descendants(pid: int) -> list[int]:
    """All processes below one, the nearest first."""
    found: list[int] = []
    at, below = 0, [pid]
    while at < len(below):
        try:
            with open(f"/proc/{below[at]}/task/{below[at]}/children", "rb") as file:
                children = [int(one) for one in file.read().split()]
        except OSError:
            children = []
        found += children
        below += children
        at += 1
    return found


def resident_bytes(pids: list[int]) -> int:
    """The memory that processes hold, what they share counted once for each."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                total += int(file.read().split()[1]) * page
        except (OSError, IndexError):
            continue
    return total


def end_all(me: int) -> None:
    """End every process that is left below the keeper."""
    while left := descendants(me):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


class Files:
    """What a command reads from and writes to: pipes or a terminal, and for its input a named pipe in its folder."""

    def __init__(self, folder: str, start: dict[str, Any]) -> None:
        self.has_terminal = bool(start.get("has_terminal"))
        self.input: int | None = None  # held open, so that a client that leaves is not the end of the input
        self.outputs: dict[int, bytes] = {}  # ours, by the stream that each is
        source = os.open(os.devnull, os.O_RDONLY)
        if start.get("has_stdin"):
            place = os.path.join(folder, "stdin")
            os.mkfifo(place, 0o600)
            self.input = os.open(place, os.O_RDWR | os.O_NONBLOCK)
            if not self.has_terminal:
                os.close(source)
                source = os.open(place, os.O_RDONLY)
        if self.has_terminal:
            ours, theirs = os.openpty()
            write_whole(os.path.join(folder, "terminal"), os.ttyname(theirs))
            os.close(source)
            self.theirs = (theirs, theirs, theirs)
            self.outputs = {ours: b"stdout"}
        else:
            out, err = os.pipe(), os.pipe()
            self.theirs = (source, out[1], err[1])
            self.outputs = {out[0]: b"stdout", err[0]: b"stderr"}

    def close_theirs(self) -> None:
        """Leave the command's ends to the command."""
        for number in set(self.theirs):
            os.close(number)

    def end_input(self) -> None:
        """Let the command come to the end of its input when the last client has gone."""
        if self.input is not None:
            os.close(self.input)
            self.input = None

    def type_in(self, terminal: int) -> None:
        """Give a terminal what clients have typed; what it does not take is lost, as with any terminal."""
        assert self.input is not None, "it was registered"
        try:
            os.write(terminal, os.read(self.input, READ_BYTES))
        except OSError:
            return


def begun(start: dict[str, Any], files: Files) -> tuple[int, str]:
    """The command as a process: its pid, and what went wrong when it could not be started."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(told)
            os.setsid()
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGUSR1):
                signal.signal(number, signal.SIG_DFL)
            for place, file in enumerate(files.theirs):
                os.dup2(file, place)
            if files.has_terminal:
                take_terminal()
            for group in start.get("cgroups") or ():
                enter_cgroup(group)
            os.chdir(start["folder"])
            os.execvpe(start["command"][0], start["command"], start["environment"])
        except OSError as problem:
            os.write(tell, f"{problem.errno} {problem.strerror}".encode())
        finally:
            os._exit(CANNOT_START)
    os.close(tell)
    said = b""
    while piece := os.read(told, 1024):
        said += piece
    os.close(told)
    return pid, said.decode()


def take_terminal() -> None:
    """In the new process: have what it reads from as the terminal of its session."""
    import fcntl  # only those load it that need it
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def enter_cgroup(place: str) -> None:
    """In the new process: be under the limits of a group. One that has gone limits nothing."""
    try:
        with open(os.path.join(place, "cgroup.procs"), "w", encoding="utf-8") as file:
            file.write(str(os.getpid()))
    except OSError:
        return


def has_killed(place: str) -> bool:
    """Whether the machine has ended a process of a group for its memory."""
    for name in ("memory.events", "memory.oom_control"):
        try:
            with open(os.path.join(place, name), encoding="utf-8") as file:
                counts = dict(line.split() for line in file if line.strip())
        except OSError:
            continue
        if int(counts.get("oom_kill", "0")):
            return True
    return False


def leave_cgroup(place: str) -> None:
    """Remove a group that nobody is in any more."""
    try:
        os.rmdir(place)
    except OSError:
        return


def run_after(start: dict[str, Any]) -> None:
    """Run the command that takes away what a container may have left behind, and wait for it."""
    command = start.get("after")
    if not command:
        return
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    try:
        os.waitpid(os.posix_spawnp(command[0], command, start["environment"], file_actions=nowhere), 0)
    except OSError:
        return


def end_of(status: int) -> dict[str, Any]:
    """How a process ended, as containers say it."""
    code = os.waitstatus_to_exitcode(status)
    return {"exit_code": SIGNALLED - code, "signal": -code} if code < 0 else {"exit_code": code, "signal": 0}


class Keeper:
    """The life of one container."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        with open(os.path.join(folder, "start.json"), encoding="utf-8") as file:
            self._start = json.load(file)
        self._log = Log(folder)
        self._selector = selectors.DefaultSelector()
        self._is_out_of_memory = False
        self._files = Files(folder, self._start)
        self._is_watched = self._files.has_terminal or self._files.input is not None  # somebody may be waiting

    def run(self) -> None:
        """Run the command to its end."""
        files = self._files
        if not files.has_terminal:
            signal.signal(signal.SIGUSR1, lambda *_: files.end_input())
        pid, problem = begun(self._start, files)
        files.close_theirs()
        if problem:
            os.waitpid(pid, 0)
            self._finish(
                {"exit_code": CANNOT_START, "signal": 0, "reason": "StartError", "message": self._why(problem)}
            )
            return
        self._write_down("process", pid)
        for ours, stream in files.outputs.items():
            os.set_blocking(ours, False)
            self._selector.register(ours, selectors.EVENT_READ, stream)
            if files.has_terminal and files.input is not None:
                self._selector.register(files.input, selectors.EVENT_READ, ours)
        end = end_of(self._wait(pid))
        end_all(os.getpid())
        run_after(self._start)
        if files.has_terminal and files.input is not None:
            self._selector.unregister(files.input)
        self._drain()
        groups = self._start.get("cgroups") or ()
        if self._is_out_of_memory or (end["exit_code"] == KILLED and any(has_killed(one) for one in groups)):
            end = {"exit_code": KILLED, "signal": signal.SIGKILL, "reason": "OOMKilled"}
        for group in groups:
            leave_cgroup(group)
        self._finish(end)

    def _why(self, problem: str) -> str:
        number, _, text = problem.partition(" ")
        name = self._start["command"][0]
        if number == "2" and "/" not in name:
            return f'exec: "{name}": executable file not found in $PATH'
        return f'exec: "{name}": {text[:1].lower()}{text[1:]}'

    def _wait(self, pid: int) -> int:
        """Copy the log until the command has ended; gives its wait status."""
        most_bytes = self._start.get("memory_bytes") or 0
        child = os.pidfd_open(pid)
        self._selector.register(child, selectors.EVENT_READ, None)
        next_s = time.monotonic() + WATCH_S
        while True:
            for key, _ in self._selector.select(max(0.0, next_s - time.monotonic()) if most_bytes else None):
                if key.data is None:
                    self._selector.unregister(child)
                    os.close(child)
                    return os.waitpid(pid, 0)[1]
                self._copy(key)
            if most_bytes and time.monotonic() >= next_s:
                next_s = time.monotonic() + WATCH_S
                if resident_bytes(descendants(os.getpid())) > most_bytes:
                    self._is_out_of_memory = True
                    os.kill(pid, signal.SIGKILL)

    def _copy(self, key: selectors.SelectorKey) -> None:
        if isinstance(key.data, int):
            self._files.type_in(key.data)
            return
        try:
            data = os.read(key.fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # how the end of a terminal looks from here
        if data:
            self._log.add(key.data, data, is_at_once=self._is_watched)
        else:
            self._selector.unregister(key.fd)

    def _drain(self) -> None:
        until_s = time.monotonic() + DRAIN_S
        while self._selector.get_map() and time.monotonic() < until_s:
            for key, _ in self._selector.select(0.1):
                self._copy(key)

    def _write_down(self, name: str, pid: int) -> None:
        write_whole(os.path.join(self._folder, name), f"{pid} {start_time(pid)}")

    def _finish(self, end: dict[str, Any]) -> None:
        self._log.end()
        write_whole(os.path.join(self._folder, "end.json"), json.dumps({**end, "ended_s": time.time()}))


def main() -> None:
    """Keep the container of the folder that is named."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)  # it ends with its container, and only then
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    if claim(sys.argv[1], os.getpid()):
        Keeper(sys.argv[1]).run()


if __name__ == "__main__":
    main()
