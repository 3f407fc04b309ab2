"""Print every figure with its bound: `python -m bench [NAME…]`. What they mean and how they came out: RESULTS.md."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from muster.app.collector import settle_collector


class Measured(NamedTuple):
    """A number, and what it was made of."""

    value: float
    note: str


@dataclass(frozen=True)
class Figure:
    """One measured number and what it has to be."""

    name: str
    measure: Callable[[], float | Measured]
    unit: str
    bound: float
    is_least: bool = False  # the number must be at least the bound; else at most

    def holds(self, value: float) -> bool:
        return value >= self.bound if self.is_least else value <= self.bound


def _admissions_per_cpu_second() -> float:
    from bench.admission import run_to_the_end

    return run_to_the_end(cohorts=10, per_cohort=100).rate


def _waiting_ratio() -> float:
    from bench.steady import cost_per_admission_s

    small = min(cost_per_admission_s(1_000) for _ in range(3))
    large = min(cost_per_admission_s(100_000) for _ in range(3))
    return large / small


def _idle_cycle_ms() -> float:
    from bench.steady import idle_cycle_s

    return idle_cycle_s() * 1e3


def _waiting_bytes() -> float:
    from bench.steady import bytes_per_waiting

    return bytes_per_waiting()


def _place_ms() -> float:
    from bench.places import place_and_charge_s

    return place_and_charge_s(640) * 1e3


def _nodes_ratio() -> float:
    from bench.places import place_and_charge_s

    return place_and_charge_s(16_000) / place_and_charge_s(640)


def _new_kind_ratio() -> float:
    from bench.places import IN_A_RACK, first_search_s

    ratios = []
    for request in (IN_A_RACK, None):
        for are_alike in (True, False):
            large, small = (first_search_s(nodes, request=request, are_alike=are_alike) for nodes in (16_000, 640))
            ratios.append(large / small)
    return max(ratios)


def _group_pods() -> float:
    from bench.groups import pods_per_cpu_second

    return max(pods_per_cpu_second() for _ in range(2))


def _group_sessions() -> float:
    from bench.groups import living_pods_per_cpu_second

    return max(living_pods_per_cpu_second() for _ in range(2))


def _plan_s() -> float:
    from bench.command import plan_wall_s

    return plan_wall_s()


def _store_creates() -> float:
    from bench.store import creates_per_cpu_second

    return max(creates_per_cpu_second() for _ in range(2))


def _store_objects() -> float:
    from bench.store import creates_per_cpu_second

    return max(creates_per_cpu_second(8_000, has_rules=True) for _ in range(2))


def _store_list_ms() -> float:
    from bench.store import list_s

    return list_s() * 1e3


def _store_fan_out() -> float:
    from bench.store import fan_out_cpu_s

    return min(fan_out_cpu_s() for _ in range(2))


def _store_open_s() -> float:
    from bench.store import open_in_child

    return open_in_child(10_000, 1_300)[0]


def _store_memory_mb() -> float:
    from bench.store import open_in_child

    return open_in_child(50_000, 3_000)[1]


def _server_creates() -> float:
    from bench.apiserver import creates_per_cpu_second

    return creates_per_cpu_second()


def _server_list_s() -> float:
    from bench.apiserver import list_s

    return list_s()


def _creates_ratio() -> Measured:
    from bench.apiserver import both_costs

    ours, theirs = (one.creates_per_cpu_second for one in both_costs())
    return Measured(ours / theirs, f"{ours:,.0f} to {theirs:,.0f}")


def _list_ratio() -> Measured:
    from bench.apiserver import both_costs

    ours, theirs = (one.list_s for one in both_costs())
    return Measured(ours / theirs, f"{ours:.3f} s to {theirs:.3f} s")


def _fan_out_ratio() -> Measured:
    from bench.apiserver import both_costs

    ours, theirs = (one.fan_out_cpu_s for one in both_costs())
    return Measured(ours / theirs, f"{ours:.2f} s to {theirs:.2f} s")


def _server_lost() -> float:
    from bench.apiserver import fan_out

    return fan_out().lost


def _server_fan_out_rate() -> Measured:
    from bench.apiserver import fan_out

    done = fan_out()
    return Measured(done.per_second, f"{done.cpu_s:.2f} s of CPU, the client {done.client_cpu_s:.2f} s")


def _server_fan_out_lag_s() -> float:
    from bench.apiserver import fan_out

    return fan_out().lag_s


def _server_memory_mb() -> float:
    from bench.apiserver import memory_mb

    return memory_mb()


def _server_ready_s() -> float:
    from bench.apiserver import idle

    return idle(0).ready_s


def _server_idle_mb() -> float:
    from bench.apiserver import idle

    return idle(0).memory_mb


def _server_idle_percent() -> float:
    from bench.apiserver import idle

    return idle().cpu_percent


def _overload_s() -> float:
    from bench.overload import overload

    return overload().system_p99_s


def _create_to_process_ms() -> Measured:
    from bench.living import create_to_process

    start = create_to_process()
    by_kubectl = "no kubectl here" if start.by_kubectl_s is None else f"with kubectl {start.by_kubectl_s * 1e3:.0f} ms"
    return Measured(start.by_server_s * 1e3, by_kubectl)


def _many_jobs_s() -> Measured:
    from bench.living import many_jobs

    done = many_jobs()
    return Measured(done.longest_idle_s, f"all of it took {done.took_s:.0f} s, {done.cpu_s:.0f} s of CPU")


def _large_cluster_mb() -> Measured:
    from bench.living import large_cluster

    done = large_cluster()
    return Measured(done.memory_mb, f"all run after {done.took_s:.0f} s, {done.cpu_s:.0f} s of CPU")


def _kueue_wall(shape: str) -> Measured:
    from bench.kueue_load import loaded
    from bench.kueue_shapes import ANCHORS

    done = loaded(shape)
    wall_s = done.outcome.wall_s
    return Measured(wall_s / ANCHORS[shape].wall_s, f"{wall_s:,.0f} s, load average {done.load_average:.1f}")


def _kueue_waits() -> Measured:
    from bench.kueue_load import loaded
    from bench.kueue_shapes import ANCHORS

    waits_s = [loaded("baseline").outcome.waits_s[size] for size in ("large", "medium", "small")]
    ratios = [ours / theirs for ours, theirs in zip(waits_s, ANCHORS["baseline"].waits_s, strict=True)]
    return Measured(max(ratios), " / ".join(f"{one:.1f} s" for one in waits_s))


def _kueue_usage() -> Measured:
    from bench.kueue_load import loaded
    from bench.kueue_shapes import ANCHORS

    usage = loaded("baseline").outcome.usage
    return Measured(usage / ANCHORS["baseline"].usage, f"{usage:.0%}")


def _kueue_memory() -> Measured:
    from bench.kueue_load import loaded
    from bench.kueue_shapes import ANCHORS

    costs, anchor = loaded("large").costs, ANCHORS["large"]
    ours_mb, server_mb = costs["muster"].most_mb, costs["kube-apiserver"].most_mb
    ratio = max(ours_mb / anchor.own_mb, server_mb / anchor.server_mb)
    return Measured(ratio, f"{ours_mb:,.0f} MB, the API server {server_mb:,.0f} MB")


def _gangs_share() -> Measured:
    from bench.gangs_on_kubernetes import bound_gangs

    done = bound_gangs()
    return Measured(done.share, f"{done.per_s:,.0f}/s of {done.alone_per_s:,.0f}/s, {done.partial} partial")


def _gangs_per_s() -> float:
    from bench.gangs_on_kubernetes import bound_gangs

    return bound_gangs().per_s


FIGURES = (
    Figure("admissions", _admissions_per_cpu_second, "per CPU-second, 50,000 in 1,000 queues", 5_000, is_least=True),
    Figure("waiting-ratio", _waiting_ratio, "cost of an admission at 100,000 waiting to that at 1,000", 1.3),
    Figure("place", _place_ms, "ms, 8 pods in one of 10 racks of 64 nodes", 1.0),
    Figure("nodes-ratio", _nodes_ratio, "cost of a place in 16,000 nodes to that in 640", 10),
    Figure(
        "new-kind-ratio",
        _new_kind_ratio,
        "the same for a kind of pod not seen before, near or anywhere, nodes alike or not",
        10,
    ),
    Figure("group-pods", _group_pods, "per CPU-second, 50,000 in gangs of 8 on 5,000 nodes", 10_000, is_least=True),
    Figure("group-sessions", _group_sessions, "the same on a living cluster", 10_000, is_least=True),
    Figure("idle-cycle", _idle_cycle_ms, "ms, a cycle in which nothing changed", 1.0),
    Figure("plan-command", _plan_s, "s wall, muster plan of the quickstart from start to answer", 0.5),
    Figure("waiting-bytes", _waiting_bytes, "bytes a waiting workload", 3 * 1024),
    Figure("store-creates", _store_creates, "durable creates per CPU-second, 16 writers", 10_000, is_least=True),
    Figure("store-objects", _store_objects, "the same with the rules for objects", 4_000, is_least=True),
    Figure("store-list", _store_list_ms, "ms CPU, 10,000 pods of 3 KB from question to bytes", 100),
    Figure("store-fan-out", _store_fan_out, "CPU-seconds, 1,000 events in a second to 100 watchers", 0.5),
    Figure("store-open", _store_open_s, "s wall, opening a store of 10,000 pods", 1.0),
    Figure("store-memory", _store_memory_mb, "MB, a process with 50,000 pods of 3 KB", 300),
    Figure("server-creates", _server_creates, "durable pods per CPU-second over TLS, 16 clients", 607, is_least=True),
    Figure("server-list", _server_list_s, "s wall, 10,000 pods of 3 KB over TLS", 0.41),
    Figure("server-fan-out", _server_lost, "events lost of 3,000 at 1,000/s to 100 watchers", 0),
    Figure("server-fan-out-rate", _server_fan_out_rate, "events per second that it kept up", 990, is_least=True),
    Figure("server-fan-out-lag", _server_fan_out_lag_s, "s, the longest from a writer's answer to a watcher", 1.0),
    Figure("server-memory", _server_memory_mb, "MB, a server with 50,000 pods of 3 KB", 1_024),
    Figure("server-ready", _server_ready_s, "s wall, muster up from start to the ready line", 1.5),
    Figure("server-idle-memory", _server_idle_mb, "MB, a server that nobody asks", 100),
    Figure("overload", _overload_s, "s, p99 of a system component's write beside 2,000 clients of one user", 1.0),
    Figure("server-idle", _server_idle_percent, "per cent of a core, the same", 1.0),
    Figure("create-to-process", _create_to_process_ms, "ms, from the create of a job to its process", 300),
    Figure("many-jobs", _many_jobs_s, "s, the longest idle time, 1,000 jobs of 3 pods at once on 200 nodes", 1.0),
    Figure("large-cluster", _large_cluster_mb, "MB, 5,000 simulated nodes and 50,000 pods that run", 2_048),
    Figure(
        "kubernetes-creates",
        _creates_ratio,
        "durable pods of 3 KB per CPU-second, to the real server's",
        1,
        is_least=True,
    ),
    Figure("kubernetes-list", _list_ratio, "time to list 10,000 pods of 3 KB, to the real server's", 1),
    Figure("kubernetes-fan-out", _fan_out_ratio, "CPU time of 3,000 events to 100 watchers, to the real server's", 1),
    Figure("kueue-wall", lambda: _kueue_wall("baseline"), "of Kueue's wall time for its load, on a real server", 1 / 3),
    Figure("kueue-waits", _kueue_waits, "of Kueue's mean waits, the largest of large, medium and small", 1 / 3),
    Figure("kueue-usage", _kueue_usage, "times Kueue's usage of the quota", 1.2, is_least=True),
    Figure("kueue-large", lambda: _kueue_wall("large"), "of Kueue's wall time, 50,000 workloads in 1,000 queues", 0.5),
    Figure("kueue-large-memory", _kueue_memory, "of the memory of Kueue, and of its API server, the larger", 0.5),
    Figure("kueue-topology", lambda: _kueue_wall("topology"), "of Kueue's wall time with 640 nodes in racks", 0.5),
    Figure("gangs-share", _gangs_share, "of the bindings that the server takes, gangs of 500", 0.7, is_least=True),
    Figure("gangs-rate", _gangs_per_s, "pods bound per second, 10,000 in gangs of 500", 250, is_least=True),
)


def main(names: list[str]) -> int:
    if names[:1] == ["kueue-load"]:
        from bench.kueue_load import main as drive

        return drive(names[1:])
    if names[:1] == ["gangs-on-kubernetes"]:
        from bench.gangs_on_kubernetes import main as bind

        return bind(names[1:])
    unknown = set(names) - {figure.name for figure in FIGURES}
    if unknown:
        print(f"no such figures: {', '.join(sorted(unknown))}; known: {', '.join(f.name for f in FIGURES)}")
        return 2
    settle_collector()  # as every long-lived command does
    print(f"commit {_commit()}, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.machine()}")
    wanted = [figure for figure in FIGURES if not names or figure.name in names]
    outcomes = [_print(figure) for figure in wanted]  # all of them, whatever came of the first
    return 0 if all(outcomes) else 1


def _print(figure: Figure) -> bool:
    """Measure and print one figure; gives whether it holds, which one that cannot be measured here does."""
    from tests.kubernetes.build import NoControlPlane

    try:
        measured = figure.measure()
    except NoControlPlane as reason:
        print(f"{figure.name}: skipped, {reason}", flush=True)
        return True
    value, note = measured if isinstance(measured, Measured) else (measured, "")
    sign = "at least" if figure.is_least else "at most"
    verdict = "holds" if figure.holds(value) else "DOES NOT HOLD"
    shown = f"{value:,.3f} {figure.unit}{f' ({note})' if note else ''}"
    print(f"{figure.name}: {shown}; {sign} {figure.bound:,g}: {verdict}", flush=True)
    return figure.holds(value)


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
