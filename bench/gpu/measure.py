"""Measures the limiter on a real card and writes the figures as JSON; RESULTS.md beside it keeps the last ones.

    python3 bench/gpu/measure.py --out results.json [--seconds 10] [--only memory,compute]

Needs a card of its own, nvcc, a C compiler and PyTorch, and nothing of Muster but the sources of the limiter. The
groups: cost, memory, race, kills, compute, tenants, mps. It changes no setting of the card.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent.parent / "limiter"
MIB = 1 << 20
LIMIT_MIB = 10240
PATHS = ("plain", "pitch", "async", "pool", "virtual", "array", "array3d", "managed", "graph")
PERCENTS = (10, 50, 30, 70)  # not in order, so that a drift of the card does not look like a slope

Figures = dict[str, object]
Bench = Callable[["Machine"], Figures]


class Machine:
    """Builds the probe and the limiter, and runs programs with and without it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.folder = Path(tempfile.mkdtemp(prefix="gpu-"))
        self.probe = self.folder / "probe"
        self.library = self.folder / "libmuster-limiter.so"
        self.natives: dict[str, float] = {}
        subprocess.run(["make", "-s", "-C", str(SOURCES), f"BUILD={self.folder}"], check=True)
        arch = ["-O2", "-arch=sm_90"]
        subprocess.run(["nvcc", *arch, "-o", str(self.probe), str(HERE / "probe.cu"), "-lcuda"], check=True)

    def limited(self, tenant: str, **settings: object) -> dict[str, str]:
        """The environment of a tenant: the library, a fresh region, and what the agent would set."""
        region = self.folder / f"{tenant}.region"
        region.unlink(missing_ok=True)
        turns = self.folder / "turns"
        turns.mkdir(exist_ok=True)
        given = {"LD_PRELOAD": str(self.library), "MUSTER_REGION": str(region), "MUSTER_TURNS": str(turns)}
        return given | {"GPU_CORE_UTILIZATION_POLICY": "force"} | {name: str(value) for name, value in settings.items()}

    def start(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, env=os.environ | environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, command: list[str], environment: dict[str, str] | None = None) -> dict[str, str]:
        """The name=value lines that a program prints, and how it ended."""
        done = subprocess.run(
            command,
            env=os.environ | (environment or {}),
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
        )
        values = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        if done.returncode:
            values |= {"rc": str(done.returncode), "stderr": done.stderr[-300:]}
        return values

    def burn(self, *extra: str) -> list[str]:
        return [str(self.probe), "burn", str(self.seconds), *extra]

    def torch(self, *words: str) -> list[str]:
        return [sys.executable, str(HERE / "torch_probe.py"), *words]

    def native(self, name: str, command: list[str]) -> float:
        """The rate without a limit, measured once."""
        if name not in self.natives:
            self.natives[name] = float(self.run(command)["per_s"])
        return self.natives[name]

    def workloads(self) -> dict[str, list[str]]:
        return {
            "burn": self.burn(),
            "matmul": self.torch("matmul", str(self.seconds)),
            "graph": self.burn("1", "graph"),
            "streams": self.burn("4"),
        }


def used_by(pid: int) -> int:
    """What the driver says a process uses, in MiB, asked from outside of the limiter."""
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    lines = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [line.split(",") for line in lines if line.count(",") == 1]
    return sum(int(used) for number, used in found if int(number) == pid)


def read_until(process: subprocess.Popen[str], name: str) -> dict[str, str]:
    values: dict[str, str] = {}
    assert process.stdout is not None
    for line in process.stdout:
        if "=" in line:
            values.update([line.rstrip("\n").split("=", 1)])
        if name in values:
            break
    return values


def finish(process: subprocess.Popen[str]) -> None:
    try:
        process.communicate("\n", timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# The groups ----------------------------------------------------------------------------------------------------------


def cost(machine: Machine) -> Figures:
    """Launches, allocations and products without a limit on compute, and with one that is not reached."""
    memory_only = machine.limited("cost", CUDA_DEVICE_MEMORY_LIMIT=f"{LIMIT_MIB}m")
    with_cores = machine.limited("cores", CUDA_DEVICE_SM_LIMIT="99")
    found: Figures = {}
    for name in ("native", "memory", "cores", "cores-2", "memory-2", "native-2"):
        environment = {"native": {}, "memory": memory_only, "cores": with_cores}[name.split("-")[0]]
        values = machine.run([str(machine.probe), "launch"], environment)
        values |= machine.run([str(machine.probe), "overhead"], environment)
        values |= machine.run([str(machine.probe), "alloc"], environment)
        values |= machine.run([str(machine.probe), "small", "3"], environment)
        if not name.startswith("cores"):
            values |= machine.run(machine.torch("matmul", str(machine.seconds)), environment)
        found[name] = values
    found["compatibility"] = [machine.run(machine.torch("compatibility"), env) for env in ({}, memory_only, with_cores)]
    return found


def fill(machine: Machine, command: list[str], **settings: str) -> Figures:
    limited = machine.limited("fill", CUDA_DEVICE_MEMORY_LIMIT=f"{LIMIT_MIB}m", **settings)
    process = machine.start(command, limited)
    values: Figures = dict(read_until(process, "filled"))
    used = used_by(process.pid)
    finish(process)
    return values | {"used_mib": used, "percent_of_limit": round(100 * used / LIMIT_MIB, 2)}


def memory(machine: Machine) -> Figures:
    """How far each way of allocating comes, and what the driver shows for the process then."""
    found: Figures = {}
    for how in PATHS:
        found[how] = fill(machine, [str(machine.probe), "fill", how, "16", str(2 * LIMIT_MIB)])
    for name, backend in (
        ("torch", ""),
        ("expandable", "expandable_segments:True"),
        ("async", "backend:cudaMallocAsync"),
    ):
        settings = {"PYTORCH_CUDA_ALLOC_CONF": backend} if backend else {}
        found[f"torch-{name}"] = fill(machine, machine.torch("fill", str(2 * LIMIT_MIB)), **settings)
    query = ["nvidia-smi", "--query-gpu=memory.total,memory.used", "--format=csv,noheader"]
    limited = machine.limited("smi", CUDA_DEVICE_MEMORY_LIMIT=f"{LIMIT_MIB}m")
    found["nvidia-smi"] = subprocess.run(query, env=os.environ | limited, capture_output=True, text=True).stdout.strip()
    return found


def race(machine: Machine, rounds: int = 5) -> Figures:
    """Eight processes of a container allocate at once until each is refused."""
    sums = []
    for _ in range(rounds):
        limited = machine.limited("race", CUDA_DEVICE_MEMORY_LIMIT=f"{LIMIT_MIB}m")
        command = [str(machine.probe), "race", "64"]
        tenants = [machine.start(command, limited) for _ in range(8)]
        for tenant in tenants:
            read_until(tenant, "ready")
        for tenant in tenants:
            print("go", file=tenant.stdin, flush=True)
        for tenant in tenants:
            read_until(tenant, "got_mib")
        sums.append(sum(used_by(tenant.pid) for tenant in tenants))
        for tenant in tenants:
            finish(tenant)
    return {"used_mib": sums, "limit_mib": LIMIT_MIB, "most_over_mib": max(sums) - LIMIT_MIB}


def kills(machine: Machine, count: int = 200) -> Figures:
    """Kill processes in the midst of allocating; afterwards one that is left must get the whole share, at once."""
    limited = machine.limited("kills", CUDA_DEVICE_MEMORY_LIMIT=f"{LIMIT_MIB}m")
    chance, alive, killed = random.Random(7), [], 0
    while killed < count:
        while len(alive) < 12:
            alive.append(machine.start([str(machine.probe), "churn"], limited))
        time.sleep(chance.uniform(0.02, 0.15))
        victim = alive.pop(chance.randrange(len(alive)))
        victim.kill()
        victim.wait()
        killed += 1
    for process in alive:
        process.kill()
        process.wait()
    process = machine.start([str(machine.probe), "fill", "plain", "16", str(2 * LIMIT_MIB)], limited)
    values: Figures = dict(read_until(process, "filled"))
    used = used_by(process.pid)
    finish(process)
    return values | {"killed": killed, "used_mib": used, "missing_mib": LIMIT_MIB - used}


def compute(machine: Machine) -> Figures:
    """What is asked of the card's time and what each kind of work gets, as a part of its rate without a limit."""
    found: Figures = {}
    for name, command in machine.workloads().items():
        native = machine.native(name, command)
        row: Figures = {"native_per_s": native}
        for percent in PERCENTS:
            limited = machine.limited(name, CUDA_DEVICE_SM_LIMIT=percent)
            with utilisation() as seen:
                values = machine.run(command, limited)
            row[str(percent)] = {
                "share": share(values, native),
                "nvml_percent": busiest(seen, machine.seconds),
                **values,
            }
        found[name] = row
    return found


@contextmanager
def utilisation() -> Iterator[list[int]]:
    """Collects, five times a second, the per cent of time in which the driver says the card was busy."""
    query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "200"]
    watcher = subprocess.Popen(query, stdout=subprocess.PIPE, text=True)
    seen: list[int] = []
    try:
        yield seen
    finally:
        watcher.terminate()
        seen += [int(line) for line in watcher.communicate()[0].split() if line.isdigit()]


def busiest(seen: list[int], seconds: float) -> float:
    """The mean over the stretch of the run itself, without the start of the program before it."""
    length = max(1, int(seconds * 5) - 10)
    sums = [sum(seen[start : start + length]) for start in range(max(1, len(seen) - length + 1))]
    return round(max(sums) / length, 1)


def share(values: dict[str, str], native: float) -> float:
    return round(100 * float(values.get("per_s", 0)) / native, 2)


def pair(commands: list[list[str]], environments: list[dict[str, str]], machine: Machine) -> list[dict[str, str]]:
    started = [machine.start(command, env) for command, env in zip(commands, environments, strict=True)]
    outputs = [process.communicate(timeout=120)[0] for process in started]
    return [dict(line.split("=", 1) for line in output.splitlines() if "=" in line) for output in outputs]


def tenants(machine: Machine) -> Figures:
    """Two tenants on one card at 30 and 70, and at 50 and 50."""
    found: Figures = {}
    for name in ("burn", "matmul"):
        command = machine.workloads()[name]
        native = machine.native(name, command)
        for shares in ((30, 70), (50, 50)):
            both = [machine.limited(f"{name}-{i}", CUDA_DEVICE_SM_LIMIT=part) for i, part in enumerate(shares)]
            got = [share(values, native) for values in pair([command, command], both, machine)]
            parts = [round(100 * one / max(sum(got), 0.01), 1) for one in got]
            found[f"{name} {shares}"] = {"of_native": got, "of_total": parts}
        found[f"{name} without"] = [share(values, native) for values in pair([command] * 2, [{}, {}], machine)]
    return found


@contextmanager
def mps_daemon(folder: Path) -> Iterator[dict[str, str]]:
    environment = {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"), "CUDA_MPS_LOG_DIRECTORY": str(folder / "log")}
    for path in environment.values():
        Path(path).mkdir(exist_ok=True)
    subprocess.run(["nvidia-cuda-mps-control", "-d"], env=os.environ | environment, check=True)
    try:
        yield environment
    finally:
        stop = {"input": "quit\n", "text": True, "timeout": 60}
        subprocess.run(["nvidia-cuda-mps-control"], env=os.environ | environment, **stop)


def mps(machine: Machine) -> Figures:
    """The part of the multiprocessors that MPS gives, and the memory that it pins."""
    if not shutil.which("nvidia-cuda-mps-control"):
        return {"skipped": "there is no nvidia-cuda-mps-control"}
    command, found = machine.workloads()["burn"], {}
    native = machine.native("burn", command)
    with mps_daemon(machine.folder) as environment:
        for percent in PERCENTS:
            client = environment | {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percent)}
            found[str(percent)] = share(machine.run(command, client), native)
        clients = [environment | {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": part} for part in ("30", "70")]
        found["30+70"] = [share(values, native) for values in pair([command, command], clients, machine)]
        pinned = environment | {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={LIMIT_MIB}M"}
        found["pinned"] = machine.run([str(machine.probe), "fill", "plain", "16", str(2 * LIMIT_MIB)], pinned)
    return found


GROUPS: dict[str, Bench] = {
    "cost": cost, "memory": memory, "race": race, "kills": kills, "compute": compute, "tenants": tenants, "mps": mps
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gpu.json"))
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", default=",".join(GROUPS))
    asked = parser.parse_args()
    machine, found = Machine(asked.seconds), {}
    for name in asked.only.split(","):
        start = time.perf_counter()
        try:
            found[name] = GROUPS[name](machine)
        except (OSError, KeyError, ValueError, subprocess.SubprocessError) as problem:
            found[name] = {"problem": repr(problem)}
        found[f"{name}_took_s"] = round(time.perf_counter() - start, 1)
        asked.out.write_text(json.dumps(found, indent=1))
        print(name, json.dumps(found[name]), flush=True)


if __name__ == "__main__":
    main()
