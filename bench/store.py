"""The store: what durable writes, lists, watches and opening cost, and how much memory many pods take."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from muster.store.aio import AsyncStore, AsyncWatch
from muster.store.clock import RealClock
from muster.store.history import Limits
from muster.store.identities import Identities
from muster.store.kinds import KindRules, Object
from muster.store.memory import MemoryStore
from muster.store.objects import Objects
from muster.store.port import Change, Transaction
from muster.store.records import Key, Scope
from muster.store.sqlite import Committer, SqliteStore
from muster.store.sqlite_file import StoreFile
from muster.store.sqlite_owner import FILE_NAME

PODS = Scope("pods")
RULES = KindRules(resource="pods", kind="Pod", api_version="v1", has_status=True)
CLIENTS = 16
POD_BYTES = 1_300


def a_pod(name: str, size_bytes: int = POD_BYTES) -> Object:
    """A pod of about this many bytes as JSON."""
    pod: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "train"}, "annotations": {}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example.com/train:1",
                    "resources": {"requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}},
                }
            ],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }
    padding = size_bytes - len(msgspec.json.encode(pod)) - 150  # the rest comes with its creation
    env = [{"name": f"VARIABLE_{number}", "value": "x" * 40} for number in range(max(0, padding) // 75)]
    pod["spec"]["containers"][0]["env"] = env
    return pod


@contextmanager
def a_folder() -> Iterator[Path]:
    """A folder on the disk that the machine's temporary files are on."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as name:
        yield Path(name)


def _put(number: int, value: bytes) -> Change[object]:
    key, uid = Key("pods", "default", f"pod-{number}"), f"00000000-0000-4000-8000-{number:012}"

    def change(write: Transaction) -> object:
        return write.put(key, uid=uid, value=value)

    return change


def creates_per_cpu_second(count: int = 16_000, *, has_rules: bool = False) -> float:
    """Durable creates by 16 coroutines, each waiting for its own; with the rules for objects or without."""
    value = msgspec.json.encode(a_pod("pod", POD_BYTES + 150))
    objects = Objects({"pods": RULES}, RealClock(), identities=Identities(), has_namespaces=False)
    pods = [a_pod(f"pod-{number}") for number in range(count)]

    async def client(store: AsyncStore, first: int) -> None:
        for number in range(first, count, CLIENTS):
            change = objects.create("pods", pods[number]) if has_rules else _put(number, value)
            await store.write(change)

    async def run(store: SqliteStore) -> float:
        front = AsyncStore(store)
        started = time.process_time()
        await asyncio.gather(*(client(front, number) for number in range(CLIENTS)))
        return time.process_time() - started

    with a_folder() as folder:
        store = SqliteStore(folder, RealClock())
        taken_s = asyncio.run(run(store))
        assert store.revision == count
        store.close()
    return count / taken_s


def list_s(count: int = 10_000) -> float:
    """CPU seconds from the question for all pods to the bytes of the answer."""
    store = MemoryStore(RealClock())
    value = msgspec.json.encode(a_pod("pod", 3_000))
    for number in range(count):
        store.write(_put(number, value))
    best_s = float("inf")
    for _ in range(3):
        started = time.process_time()
        answer = b",".join([record.value for record in store.page(PODS).records])
        best_s = min(best_s, time.process_time() - started)
        assert len(answer) > count * 2_500
    return best_s


def fan_out_cpu_s(events: int = 1_000, watchers: int = 100) -> float:
    """CPU seconds to write a second's events, one each millisecond, and hand each to every watcher as a line."""

    async def reader(watch: AsyncWatch) -> int:
        received = size = 0
        while received < events:
            for event in (await watch.take()).events:
                size += len(b'{"type":"%s","object":%s}\n' % (event.action.value.encode(), event.record.value))
                received += 1
        return size

    async def run() -> float:
        front = AsyncStore(MemoryStore(RealClock()))
        value = msgspec.json.encode(a_pod("pod"))
        readers = [asyncio.create_task(reader(front.watch(PODS, 0))) for _ in range(watchers)]
        await asyncio.sleep(0)
        started = time.process_time()
        first_s = time.monotonic()
        for number in range(events):
            await front.write(_put(number, value))
            await asyncio.sleep(max(0.0, first_s + (number + 1) / 1_000 - time.monotonic()))
        sizes = await asyncio.gather(*readers)
        assert len(set(sizes)) == 1, "all have got the same"
        return time.process_time() - started

    return asyncio.run(run())


def fill(folder: Path, count: int, size_bytes: int) -> None:
    """A store's file with so many pods, written quickly."""
    objects = Objects({"pods": RULES}, RealClock(), identities=Identities(), has_namespaces=False)
    committer = Committer(StoreFile(folder / FILE_NAME), RealClock(), Limits(events=0))
    for start in range(0, count, 500):
        changes = [objects.create("pods", a_pod(f"pod-{n}", size_bytes)) for n in range(start, start + 500)]
        committer.commit([(change, lambda outcome: outcome.get()) for change in changes])
    committer.close()


def open_in_child(count: int, size_bytes: int) -> tuple[float, float]:
    """Seconds until a store of so many pods can be used, and the memory that its process then has, in MB."""
    with a_folder() as folder:
        fill(folder, count, size_bytes)
        code = f"from bench.store import open_and_tell; open_and_tell({str(folder)!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    open_s, memory_mb = map(float, done.stdout.split())
    return open_s, memory_mb


def open_and_tell(folder: str) -> None:
    """The child's part."""
    started = time.monotonic()
    store = SqliteStore(Path(folder), RealClock())
    taken_s = time.monotonic() - started
    print(taken_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    store.close()
