"""Kueue's published load shapes against a running Muster: `python -m bench kueue-load [--shape …] [--server …]`.

`plane` is a real API server with its etcd and `muster manage` beside it, which is what Kueue's figures were taken with;
`muster-up` is Muster's own server. The driver is a process of its own, so that each one's CPU time can be told apart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.apiserver import cpu_of, running
from bench.kueue_driver import Outcome
from bench.kueue_shapes import ANCHORS, SHAPES, Anchor

PROFILE = "kueue"  # quota alone admits, as in Kueue: nobody runs these workloads


@dataclass(slots=True)
class Cost:
    """What one process has used."""

    pid: int
    began_cpu_s: float = 0.0
    cpu_s: float = 0.0
    most_mb: float = 0.0

    def look(self) -> None:
        """Take down what it has used by now."""
        self.cpu_s = cpu_of(self.pid) - self.began_cpu_s
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        self.most_mb = max(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Under:
    """What is put under load: where it answers, and the processes that it is made of."""

    url: str
    token: str
    ca_file: Path
    pids: dict[str, int]  # by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A drive, and what it has cost whom."""

    shape: str
    outcome: Outcome
    costs: dict[str, Cost]  # by the name of the process
    load_average: float  # of the machine before it began: what others do makes every figure worse


@contextmanager
def muster_up() -> Iterator[Under]:
    """Muster's own server, with its scheduler in the same process."""
    with tempfile.TemporaryDirectory() as made:
        options = ("--no-local-node", "--profile", PROFILE)
        with running(Path(made) / "state", options) as server:
            yield Under(url=server.url, token=server.token, ca_file=server.ca_file, pids={"muster": server.pids[0]})


@contextmanager
def plane() -> Iterator[Under]:
    """A real API server and its etcd, and Muster beside them."""
    from bench.kubernetes import managed_plane

    with managed_plane(PROFILE) as (real, pids):
        yield Under(url=real.url, token=real.token, ca_file=real.ca_file, pids=pids)


SERVERS = {"muster-up": muster_up, "plane": plane}


def load(shape: str, server: str = "plane", scale: float = 1.0) -> Loaded:
    """Drive a shape against a fresh server."""
    before = os.getloadavg()[0]
    with SERVERS[server]() as under:
        costs = {name: Cost(pid, cpu_of(pid)) for name, pid in under.pids.items()}
        target = {"url": under.url, "token": under.token, "ca_file": str(under.ca_file)}
        command = [sys.executable, "-m", "bench.kueue_driver"]
        given = json.dumps({**target, "shape": shape, "scale": scale})
        done = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=True)
        for one in costs.values():
            one.look()
    return Loaded(shape=shape, outcome=Outcome(**json.loads(done.stdout)), costs=costs, load_average=before)


@cache
def loaded(shape: str) -> Loaded:
    """The same for several figures; raises NoControlPlane where there is no real API server."""
    return load(shape)


def told(done: Loaded) -> Iterator[str]:
    """What has come of a drive, line by line, beside what Kueue took."""
    outcome, anchor = done.outcome, ANCHORS[done.shape]
    yield f"shape {done.shape}: {outcome.workloads:,} workloads, load average before {done.load_average:.1f}"
    yield _line("wall", outcome.wall_s, "s", anchor.wall_s)
    for size, known_s in zip(("large", "medium", "small"), anchor.waits_s, strict=True):
        yield _line(f"mean wait of {size}", outcome.waits_s[size], "s", known_s)
    yield _line("usage of the quota", outcome.usage * 100, "%", anchor.usage * 100)
    yield f"evictions: {outcome.evictions:,}; changes of a workload: {outcome.writes:.2f}"
    for name, cost in done.costs.items():
        cpu_s, most_mb = _anchor_of(name, anchor)
        yield _line(f"{name}, CPU", cost.cpu_s, "s", cpu_s)
        yield _line(f"{name}, memory at most", cost.most_mb, "MB", most_mb)
    yield _line("driver, CPU", outcome.driver_cpu_s, "s", 0)


def _anchor_of(name: str, anchor: Anchor) -> tuple[float, float]:
    if name == "muster":
        return anchor.own_cpu_s, anchor.own_mb
    return (anchor.server_cpu_s, anchor.server_mb) if name == "kube-apiserver" else (0, 0)


def _line(name: str, value: float, unit: str, known: float) -> str:
    beside = f", {value / known:.2f} of Kueue's {known:,.4g}" if known else ""
    return f"{name}: {value:,.1f} {unit}{beside}"


def main(arguments: list[str]) -> int:
    """Drive one shape and print what has come of it."""
    parser = argparse.ArgumentParser(prog="python -m bench kueue-load", description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, default="baseline")
    parser.add_argument("--server", choices=SERVERS, default="plane")
    parser.add_argument("--scale", type=float, default=1.0, help="so much of each queue's workloads")
    given = parser.parse_args(arguments)
    for line in told(load(given.shape, given.server, given.scale)):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
