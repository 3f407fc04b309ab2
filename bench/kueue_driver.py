"""Drives a load shape against any API server and measures what comes of it. Run by `kueue_load` as its own process.

It creates the queues and, at the shape's pace, the workloads; those that are admitted it marks finished after their run
time, and of those that are evicted it gives back the quota, as a job's controller would. It shares the machine with all
that it measures, so it costs little: one watch, a few connections, and no object is read further than it has to be.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from bench.kueue_shapes import GROUP, SHAPES, Class, Shape, surroundings, workload_body
from bench.wire import Connection, connect

CONNECTIONS = 32
_WATCH_S = 7_200
_TRIES = 10
_MERGE, _JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
Work = Callable[[Connection], Awaitable[None]]


class Condition(msgspec.Struct, omit_defaults=True):
    """A condition, whole: an eviction writes all of them back."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastTransitionTime: str = ""  # noqa: N815
    observedGeneration: int = 0  # noqa: N815


class Status(msgspec.Struct):
    conditions: list[Condition] = []


class Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815


class Workload(msgspec.Struct):
    """What the driver reads of a workload."""

    metadata: Metadata
    status: Status = msgspec.field(default_factory=Status)


class Heard(msgspec.Struct):
    """An event of the watch."""

    type: str
    object: Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the API server is, and what is to be driven."""

    url: str
    token: str
    ca_file: str
    shape: str
    scale: float = 1.0


@dataclass(slots=True)
class Run:
    """One workload as it has come so far."""

    kind: Class
    path: str
    began_s: float = 0.0  # first heard of
    admitted_s: float = 0.0  # the last time
    is_running: bool = False
    is_over: bool = False
    turns: int = 0  # how often it was admitted
    released: str = ""  # the revision that a release was asked for in
    evictions: int = 0


@dataclass(slots=True)
class Use:
    """CPUs in use, summed up over time."""

    cpus_milli: int = 0
    since_s: float = 0.0
    cpu_s: float = 0.0

    def change(self, cpus_milli: int, now_s: float) -> None:
        """So much more, or less, is in use from now on."""
        self.cpu_s += self.cpus_milli * (now_s - self.since_s) / 1000
        self.cpus_milli += cpus_milli
        self.since_s = now_s


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a drive has shown."""

    wall_s: float
    load_s: float  # of that, from the first workload on
    waits_s: dict[str, float]  # mean time to the last admission, by size
    usage: float  # of the quota, while there were workloads
    workloads: int
    evictions: int
    writes: float  # changes of a workload, its creation too
    driver_cpu_s: float


@dataclass(slots=True)
class Driver:
    """A drive under way."""

    shape: Shape
    queue: asyncio.Queue[Work] = field(default_factory=asyncio.Queue)
    runs: dict[tuple[str, str], Run] = field(default_factory=dict)  # by namespace and name
    use: Use = field(default_factory=Use)
    left: int = 0
    heard: int = 0
    is_done: asyncio.Event = field(default_factory=asyncio.Event)

    # Creating --------------------------------------------------------------------------------------------------------

    async def surround(self, connections: list[Connection]) -> None:
        """Create what has to be there first: in order by one, the rest by all."""
        todo = list(surroundings(self.shape))
        for path in dict.fromkeys(path for path, _ in todo if "/namespaces/" not in path):
            await self._create_all(connections, [one for one in todo if one[0] == path])
        await self._create_all(connections, [one for one in todo if "/namespaces/" in one[0]])

    async def _create_all(self, connections: list[Connection], todo: list[tuple[str, dict[str, Any]]]) -> None:
        left = iter(todo)

        async def client(connection: Connection) -> None:
            for path, obj in left:
                await _create(connection, path, json.dumps(obj).encode())
                if path == "/api/v1/nodes":
                    # A server taints what has only just come.
                    where = f"{path}/{obj['metadata']['name']}"
                    await _ask(connection, "PATCH", where, b'{"spec":{"taints":null}}', _MERGE)

        await asyncio.gather(*(client(one) for one in connections))

    def begin(self) -> None:
        """Have the first workload of each class of each queue created when its time comes."""
        self.use.since_s = time.monotonic()
        for queue, _ in self.shape.queue_names():
            for kind in self.shape.classes:
                self.left += kind.count
                self._later(kind.interval_s, lambda c, k=kind, q=queue: self._create(c, k, q, 0))  # type: ignore[misc]

    async def _create(self, connection: Connection, kind: Class, queue: str, number: int) -> None:
        """Create one and have the next one created after the interval."""
        name = f"{kind.name}-{number}"
        where = f"{GROUP}/namespaces/{queue}/workloads"
        self.runs[queue, name] = Run(kind, f"{where}/{name}")
        await _create(connection, where, workload_body(kind, queue, name))
        if number + 1 < kind.count:
            self._later(kind.interval_s, lambda c: self._create(c, kind, queue, number + 1))

    def _later(self, wait_s: float, work: Work) -> None:
        asyncio.get_running_loop().call_later(wait_s, self.queue.put_nowait, work)

    async def work(self, connection: Connection) -> None:
        """Do what is to be done, one after another, until cancelled."""
        while True:
            await (await self.queue.get())(connection)

    # Following -------------------------------------------------------------------------------------------------------

    async def follow(self, connection: Connection, revision: str) -> None:
        """Hear of every change of a workload until cancelled."""
        decoder = msgspec.json.Decoder(Heard)
        while True:
            options = f"watch=true&resourceVersion={revision}&timeoutSeconds={_WATCH_S}"
            async for line in connection.lines(f"{GROUP}/workloads?{options}"):
                heard = decoder.decode(line)
                assert heard.type != "ERROR", line
                revision = heard.object.metadata.resourceVersion
                self._hear(heard.object)

    def _hear(self, workload: Workload) -> None:
        run = self.runs.get((workload.metadata.namespace, workload.metadata.name))
        if run is None or run.is_over:
            return
        self.heard += 1
        now_s = time.monotonic()
        run.began_s = run.began_s or now_s
        true = {one.type for one in workload.status.conditions if one.status == "True"}
        if "Finished" in true:
            return  # it is over when its writer has the answer
        if "Evicted" in true:
            if "QuotaReserved" in true and run.released != workload.metadata.resourceVersion:
                run.evictions += not run.released
                run.released = workload.metadata.resourceVersion
                self.queue.put_nowait(lambda c: self._release(c, run, workload))
        elif "Admitted" in true and not run.is_running:
            run.is_running, run.released = True, ""
            run.admitted_s = now_s
            run.turns += 1
            turn = run.turns
            self.use.change(run.kind.cpus_milli, now_s)
            self._later(run.kind.run_s, lambda c: self._finish(c, run, turn))

    async def _finish(self, connection: Connection, run: Run, turn: int) -> None:
        """Mark one finished, unless it was evicted meanwhile."""
        if run.turns != turn or not run.is_running:
            return
        finished = _condition("Finished", "True", "Succeeded", "the load has run its time")
        patch = [{"op": "add", "path": "/status/conditions/-", "value": finished}]
        await _ask(connection, "PATCH", f"{run.path}/status", json.dumps(patch).encode(), _JSON_PATCH)
        self._stop(run)
        run.is_over = True
        self.left -= 1
        if not self.left:
            self.is_done.set()

    async def _release(self, connection: Connection, run: Run, workload: Workload) -> None:
        """Give back the quota of one that was evicted; where it has changed meanwhile, that is heard of."""
        self._stop(run)  # its pods are gone before its quota is free
        why = next(one.message for one in workload.status.conditions if one.type == "Evicted")
        new = [
            _condition("Requeued", "True", "Preempted", why),
            _condition("QuotaReserved", "False", "Pending", why),
            _condition("Admitted", "False", "NoReservation", "The workload has no reservation"),
        ]
        names = {one["type"] for one in new}
        kept = [msgspec.to_builtins(one) for one in workload.status.conditions if one.type not in names]
        body = {
            "metadata": {"resourceVersion": workload.metadata.resourceVersion},
            "status": {"admission": None, "conditions": [*kept, *new]},
        }
        await _ask(connection, "PATCH", f"{run.path}/status", json.dumps(body).encode(), _MERGE)

    def _stop(self, run: Run) -> None:
        if run.is_running:
            run.is_running = False
            self.use.change(-run.kind.cpus_milli, time.monotonic())


def _condition(type_: str, status: str, reason: str, message: str) -> dict[str, str]:
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}


async def _create(connection: Connection, path: str, body: bytes) -> None:
    await _ask(connection, "POST", path, body, "application/json")


async def _ask(connection: Connection, method: str, path: str, body: bytes, kind: str) -> None:
    """Send a request until it is answered well; a server that is busy says so."""
    for number in range(_TRIES):
        status, answer = await connection.request(method, path, body, kind)
        # A merge patch names the revision that it is made on: what has changed since is heard of.
        if status < 300 or (status == 409 and kind == _MERGE):
            return
        if status not in (409, 429, 500, 503, 504):
            break
        await asyncio.sleep(0.1 * 2**number)
    raise RuntimeError(f"{method} {path}: {status} {answer[:500]!r}")


async def drive(target: Target) -> Outcome:
    """Drive a shape to its end."""
    driver = Driver(SHAPES[target.shape].scaled(target.scale))
    ca_file = Path(target.ca_file)
    connections = [await connect(target.url, target.token, ca_file) for _ in range(CONNECTIONS + 1)]
    watching, *working = connections
    began_s = time.monotonic()
    await driver.surround(working)
    _, answer = await watching.request("GET", f"{GROUP}/workloads?limit=1")
    tasks = [
        asyncio.create_task(driver.follow(watching, json.loads(answer)["metadata"]["resourceVersion"])),
        *(asyncio.create_task(driver.work(one)) for one in working),
    ]
    loaded_s = time.monotonic()
    driver.begin()
    done = asyncio.create_task(driver.is_done.wait())
    try:
        # Any other that ends has failed.
        for task in (await asyncio.wait([done, *tasks], return_when=asyncio.FIRST_COMPLETED))[0]:
            task.result()
    finally:
        for task in (done, *tasks):
            task.cancel()
        for one in connections:
            one.close()
    return _outcome(driver, began_s, loaded_s)


def _outcome(driver: Driver, began_s: float, loaded_s: float) -> Outcome:
    now_s = time.monotonic()
    waits: dict[str, list[float]] = {}
    for run in driver.runs.values():
        waits.setdefault(run.kind.size, []).append(run.admitted_s - run.began_s)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return Outcome(
        wall_s=now_s - began_s,
        load_s=now_s - loaded_s,
        waits_s={size: sum(all_s) / len(all_s) for size, all_s in waits.items()},
        usage=driver.use.cpu_s / driver.shape.quota_cpus / (now_s - loaded_s),
        workloads=len(driver.runs),
        evictions=sum(run.evictions for run in driver.runs.values()),
        writes=driver.heard / len(driver.runs),
        driver_cpu_s=used.ru_utime + used.ru_stime,
    )


def main() -> None:
    target = Target(**json.load(sys.stdin))
    json.dump(asdict(uvloop.run(drive(target))), sys.stdout)


if __name__ == "__main__":
    main()
