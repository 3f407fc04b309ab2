"""The API server as a process: durable creates, lists, watches and memory, over TLS as a client sees them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from bench.store import a_pod, fill
from bench.wire import Connection, connect, trusting

CLIENTS = 16
WRITERS = 64  # of events: so many that the pace does not depend on how long an answer takes
CONFIGS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
_STOP_S = 300.0  # one with much to do on a machine with much to do takes its time
COMMAND = (sys.executable, "-m", "muster.cli.main", "up")
_ALONE = ("--api-only",)  # what a kube-apiserver with its etcd is compared with: it has no controllers either
_SETTLING_S = 5.0  # controllers and the node start after the ready line


@dataclass(frozen=True, slots=True)
class Running:
    """A server's processes and how to talk to it."""

    pids: tuple[int, ...]
    url: str
    token: str
    ca_file: Path
    ready_s: float = 0.0

    def cpu_s(self) -> float:
        """The CPU time that the processes have used."""
        return sum(cpu_of(pid) for pid in self.pids)

    def memory_mb(self) -> float:
        """The memory that the processes hold now."""
        lines = [line for pid in self.pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
        return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def cpu_of(pid: int) -> float:
    """The CPU time that a process has used."""
    return sum(int(one) for one in _stat(pid)[11:13]) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int | str) -> list[str]:
    """What the system says of a process, after its name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


@contextmanager
def running(folder: Path | None = None, options: tuple[str, ...] = _ALONE) -> Iterator[Running]:
    """A server, the API alone unless told otherwise, in a folder of its own unless one is given."""
    with tempfile.TemporaryDirectory() as made:
        where = folder or Path(made) / "state"
        started_s = time.monotonic()
        command = [*COMMAND, "--data", str(where), "--port", "0", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None, "it is piped"
            line = process.stdout.readline()
            ready_s = time.monotonic() - started_s
            url = next(word.rstrip(";") for word in line.split() if word.startswith("https://"))
            token = (where / "token").read_text().strip()
            yield Running((process.pid,), url, token, where / "tls" / "ca.crt", ready_s)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_STOP_S)
            if process.stdout is not None:
                process.stdout.close()


@contextmanager
def kubernetes() -> Iterator[Running]:
    """A real API server and its etcd, which flushes each write to the disk as Muster does."""
    from tests.kubernetes.plane import started

    with tempfile.TemporaryDirectory() as made, started(Path(made), is_durable=True) as plane:
        yield Running(tuple(children()), plane.url, plane.token, plane.ca_file)


def children() -> Iterator[int]:
    """The processes that this one has started."""
    for path in Path("/proc").iterdir():
        # Others come to their end while they are looked at.
        with suppress(FileNotFoundError, ProcessLookupError):
            if path.name.isdigit() and _stat(path.name)[1] == str(os.getpid()):
                yield int(path.name)


@asynccontextmanager
async def connected(server: Running, count: int) -> AsyncIterator[list[Connection]]:
    """So many connections to a server."""
    connections = [await connect(server.url, server.token, server.ca_file) for _ in range(count)]
    try:
        yield connections
    finally:
        for one in connections:
            one.close()


def config_bytes(name: str, size_bytes: int = 1_300) -> bytes:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "x" * size_bytes}}
    return json.dumps(config).encode()


def pod_bytes(name: str, size_bytes: int = 1_300) -> bytes:
    """A pod that a real server takes, too."""
    pod = a_pod(name, size_bytes)
    resources = pod["spec"]["containers"][0]["resources"]
    resources["limits"] = resources["requests"]
    return json.dumps(pod).encode()


@dataclass(frozen=True, slots=True)
class Cost:
    """What creating many pods, listing them and sending many events has cost a server."""

    creates_per_cpu_second: float
    creates_per_second: float
    list_s: float
    fan_out_cpu_s: float


def cost_of(server: Running, count: int = 10_000, size_bytes: int = 3_000) -> Cost:
    """Durable creates by 16 clients that each wait for the answer, the best of three lists, and the fan-out."""
    per_cpu_second, per_second = asyncio.run(_create(server, count, size_bytes))
    list_s = min(asyncio.run(_list(server, count)) for _ in range(3))
    return Cost(per_cpu_second, per_second, list_s, fan_out_of(server).cpu_s)


@cache
def both_costs() -> tuple[Cost, Cost]:
    """Muster's and the real server's, right after each other; raises NoControlPlane where there is no real one."""
    with kubernetes() as server:
        theirs = cost_of(server)
    with running() as server:
        return cost_of(server), theirs


def creates_per_cpu_second(count: int = 8_000) -> float:
    """Muster's durable creates alone."""
    with running() as server:
        return asyncio.run(_create(server, count, 1_300))[0]


async def _create(server: Running, count: int, size_bytes: int) -> tuple[float, float]:
    """How many creates per second of CPU time, and per second."""
    bodies = [pod_bytes(f"pod-{number}", size_bytes) for number in range(count)]

    async def client(connection: Connection, first: int) -> None:
        for number in range(first, count, CLIENTS):
            status, answer = await connection.request("POST", PODS, bodies[number])
            assert status == 201, answer[:500]

    async with connected(server, CLIENTS) as connections:
        cpu_s, start_s = server.cpu_s(), time.monotonic()
        await asyncio.gather(*(client(one, number) for number, one in enumerate(connections)))
        return count / (server.cpu_s() - cpu_s), count / (time.monotonic() - start_s)


def list_s(count: int = 10_000, size_bytes: int = 3_000) -> float:
    """Seconds from the question for all pods to the last byte of the answer; the best of three."""
    with filled(count, size_bytes) as server:
        return min(asyncio.run(_list(server, count)) for _ in range(3))


async def _list(server: Running, count: int) -> float:
    async with connected(server, 1) as (connection,):
        start_s = time.monotonic()
        _, answer = await connection.request("GET", PODS)
        taken_s = time.monotonic() - start_s
        assert answer.count(b'"uid":') >= count, "all of them are there"
        return taken_s


@contextmanager
def filled(count: int, size_bytes: int) -> Iterator[Running]:
    """A server with so many pods."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "state"
        folder.mkdir(mode=0o700)
        (folder / "store.lock").touch(0o600)
        fill(folder, count, size_bytes)
        with running(folder) as server:
            yield server


def memory_mb(count: int = 50_000, size_bytes: int = 3_000) -> float:
    """The memory of a server that holds so many pods and has listed them once."""
    with filled(count, size_bytes) as server:
        asyncio.run(_list(server, count))
        return server.memory_mb()


@dataclass(frozen=True, slots=True)
class Idle:
    """What a server costs that has nothing to do."""

    ready_s: float
    memory_mb: float
    cpu_percent: float


def idle(watched_s: float = 20.0) -> Idle:
    """Start-up of the whole cluster, and what the process takes while nobody asks."""
    with running(options=()) as server:
        time.sleep(_SETTLING_S)
        cpu_s = server.cpu_s()
        time.sleep(watched_s)
        used_s = server.cpu_s() - cpu_s
        return Idle(server.ready_s, server.memory_mb(), used_s / watched_s * 100 if watched_s else 0.0)


@dataclass(frozen=True, slots=True)
class FanOut:
    """How events have reached many watchers."""

    lost: int
    per_second: float  # writes, which are all seen by all
    lag_s: float  # the longest from the answer to a writer until a watcher had the event
    cpu_s: float  # of the server, the writes included
    client_cpu_s: float


class Watcher(asyncio.Protocol):
    """Counts the events of a watch and does nothing else with them, so that the server is what is measured."""

    def __init__(self, wanted: int, answered_s: list[float]) -> None:
        self._wanted = wanted
        self._answered_s = answered_s  # when each event's writer had its answer
        self._is_after_brace = False
        self.seen = 0
        self.lag_s = 0.0
        self.has_all = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        # Every event ends with a brace and a new line, and nothing else does.
        count = data.count(b"}\n") + (self._is_after_brace and data.startswith(b"\n"))
        self._is_after_brace = data.endswith(b"}")
        if count and self.seen < len(self._answered_s):
            self.lag_s = max(self.lag_s, time.monotonic() - self._answered_s[self.seen])
        self.seen += count
        if self.seen >= self._wanted and not self.has_all.done():
            self.has_all.set_result(None)


@cache
def fan_out() -> FanOut:
    """Events at a steady pace to many watchers of Muster."""
    with running() as server:
        return fan_out_of(server)


def fan_out_of(server: Running, events: int = 3_000, watchers: int = 100, per_second: int = 1_000) -> FanOut:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_fan_out(server, events, watchers, per_second))


async def _fan_out(server: Running, events: int, watchers: int, per_second: int) -> FanOut:
    answered_s: list[float] = []

    async def write(first: int, connection: Connection, start_s: float) -> None:
        for number in range(first, events, WRITERS):
            await asyncio.sleep(max(0.0, start_s + number / per_second - time.monotonic()))
            status, answer = await connection.request("POST", CONFIGS, config_bytes(f"config-{number}"))
            assert status == 201, answer[:500]
            answered_s.append(time.monotonic())

    async with watching(server, watchers, lambda: Watcher(events, answered_s)) as readers:
        async with connected(server, WRITERS) as writers:
            await asyncio.sleep(0.5)
            cpu_s, own_s, start_s = server.cpu_s(), time.process_time(), time.monotonic()
            await asyncio.gather(*(write(number, one, start_s) for number, one in enumerate(writers)))
            written_s = time.monotonic()
            await asyncio.wait([watcher.has_all for watcher in readers], timeout=10)
        return FanOut(
            lost=sum(max(0, events - watcher.seen) for watcher in readers),
            per_second=events / (written_s - start_s),
            lag_s=max(watcher.lag_s for watcher in readers),
            cpu_s=server.cpu_s() - cpu_s,
            client_cpu_s=time.process_time() - own_s,
        )


@asynccontextmanager
async def watching(server: Running, count: int, make: Callable[[], Watcher]) -> AsyncIterator[list[Watcher]]:
    """So many watches of what is yet to come."""
    place = urlsplit(server.url)
    assert place.hostname and place.port, "a server is somewhere"
    async with connected(server, 1) as (connection,):
        _, listed = await connection.request("GET", f"{CONFIGS}?limit=1")
    since = json.loads(listed)["metadata"]["resourceVersion"]
    path = f"{CONFIGS}?watch=true&resourceVersion={since}"
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n\r\n".encode()
    loop, tls = asyncio.get_running_loop(), trusting(server.ca_file)
    made = [await loop.create_connection(make, place.hostname, place.port, ssl=tls) for _ in range(count)]
    for transport, _ in made:
        transport.write(head)
    try:
        yield [watcher for _, watcher in made]
    finally:
        for transport, _ in made:
            transport.abort()
