"""Managers beside a real control plane take over from each other, and restarts change nothing in the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import median

import pytest

from tests.kubernetes.managed import with_definitions
from tests.kubernetes.managers import WORKLOADS, Json, create, is_reserved, managers, queue, wait_for, workload
from tests.kubernetes.plane import Plane, started
from tests.support import is_full_proof

LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/c1f6bfd2.kueue.x-k8s.io"
AFTER_DEATH_S, AFTER_STOP_S = 20.0, 3.0
RESTARTS, FEW_RESTARTS = 100, 4
CPUS = 12  # of 24 that the nodes have
LATEST_DEATH_S = 3.0  # after the start of a process, when it is killed: most of its work is done by then


@pytest.fixture(scope="module")
def cluster(real_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A control plane that knows Kueue's kinds."""
    assert real_program
    with started(tmp_path_factory.mktemp("plane"), has_controllers=True) as plane:
        with_definitions(plane)
        yield plane


def reserved(plane: Plane, prefix: str) -> set[str]:
    items = plane.client.request("GET", WORKLOADS).json["items"]
    names = {one["metadata"]["name"] for one in items if is_reserved(one)}
    return {name for name in names if name.startswith(prefix)}


@pytest.mark.prove
def test_one_acts_when_the_other_is_gone(cluster: Plane, tmp_path: Path):
    create(cluster, *queue("lead", 2))
    after_death_s, after_stop_s = [], []
    with managers(cluster, tmp_path) as start:
        acting = start()
        acting.wait_until_acting()
        for number in range(10 if is_full_proof() else 1):
            for how, took_s in (("kill", after_death_s), ("stop", after_stop_s)):
                waiting = start()
                waiting.wait_until_standing()
                since_s = time.monotonic()
                getattr(acting, how)()
                took_s.append(waiting.wait_until_acting() - since_s)
                acting = waiting
                name = f"lead-{number}-{how}"
                create(cluster, workload(name, "lead", cpus=2))
                wait_for(cluster, WORKLOADS, lambda found, name=name: is_reserved(found.get(name, {})))
                cluster.client.request("DELETE", f"{WORKLOADS}/{name}")
    lease = cluster.client.request("GET", LEASE).json["spec"]
    print(f"seconds after kill -9: {after_death_s}, after a stop: {after_stop_s}")
    assert lease["leaseTransitions"] == 2 * len(after_death_s)
    assert not lease.get("holderIdentity"), "who stops lets go of the lease"
    if is_full_proof():
        assert median(after_death_s) <= AFTER_DEATH_S
        assert median(after_stop_s) <= AFTER_STOP_S


@pytest.mark.prove
def test_restarts_change_nothing(cluster: Plane, tmp_path: Path):
    # Everything is there before anybody decides, and nobody is as urgent as another: what comes of it does not depend
    # on who was faster, nor on the second that something was created in.
    chance = Random(1)
    sizes = [chance.randint(1, 3) for _ in range(40)]
    ranks = chance.sample(range(1000), len(sizes))
    ends = []
    for name, restarts in (("calm", 0), ("rough", RESTARTS if is_full_proof() else FEW_RESTARTS)):
        create(cluster, *queue(name, CPUS))
        made = {f"{name}-{at}": size for at, size in enumerate(sizes)}
        for (one, size), rank in zip(made.items(), ranks, strict=True):
            create(cluster, workload(one, name, cpus=size, priority=rank))
        with managers(cluster, tmp_path) as start:
            for _ in range(restarts):
                manager = start("--no-leader-elect")
                _pass(chance.uniform(0, LATEST_DEATH_S))
                manager.kill()
            start("--no-leader-elect").wait_until_acting()
            wait_for(cluster, WORKLOADS, lambda found, made=made: _is_full(found, made))
        ends.append({one.removeprefix(name) for one in reserved(cluster, name)})
        for one in made:
            cluster.client.request("DELETE", f"{WORKLOADS}/{one}")
    assert ends[0] == ends[1]


def _pass(seconds: float) -> None:
    """Let a process get as far as it gets; how far that is does not matter to what is compared."""
    time.sleep(seconds)


def _is_full(found: dict[str, Json], sizes: dict[str, int]) -> bool:
    """Whether nobody who waits would fit beside those who have quota."""
    if not sizes.keys() <= found.keys():
        return False
    held = {name for name in sizes if is_reserved(found[name])}
    left = CPUS - sum(sizes[name] for name in held)
    return all(sizes[name] > left for name in sizes.keys() - held)
