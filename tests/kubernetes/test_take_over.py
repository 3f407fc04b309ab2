"""Managers beside a real control plane take over from each other, and restarts change nothing in the end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from statistics import median

import pytest

from tests.kubernetes.managed import with_definitions
from tests.kubernetes.managers import (
    QUEUES,
    WORKLOADS,
    Json,
    Manager,
    create,
    finish,
    is_finished,
    is_reserved,
    managers,
    queue,
    wait_for,
    workload,
)
from tests.kubernetes.plane import Plane, started
from tests.support import is_full_proof

LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/c1f6bfd2.kueue.x-k8s.io"
AFTER_DEATH_S, AFTER_STOP_S = 20.0, 3.0
RESTARTS, FEW_RESTARTS = 100, 4
CPUS = 12  # of 24 that the nodes have
DONE_EACH = 4  # workloads, between two deaths


@pytest.fixture(scope="module")
def cluster(real_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A control plane that knows Kueue's kinds."""
    assert real_program
    with started(tmp_path_factory.mktemp("plane"), has_controllers=True) as plane:
        with_definitions(plane)
        yield plane


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
    assert lease["leaseTransitions"] >= 2 * len(after_death_s)  # more where a machine stood still for ten seconds
    assert not lease.get("holderIdentity"), "who stops lets go of the lease"
    if is_full_proof():
        assert median(after_death_s) <= AFTER_DEATH_S
        assert median(after_stop_s) <= AFTER_STOP_S


@pytest.mark.prove
def test_restarts_change_nothing(cluster: Plane, tmp_path: Path):
    # Everything is there before anybody decides, no two are as urgent, the queue admits in order, and what is done is
    # done in order: what comes of it does not depend on who was faster.
    rounds = RESTARTS if is_full_proof() else FEW_RESTARTS
    chance = Random(1)
    sizes = [chance.randint(1, 3) for _ in range(DONE_EACH * rounds + 20)]
    ends = []
    for name, is_rough in (("calm", False), ("rough", True)):
        story = Story(cluster, name, sizes)
        story.begin()
        with managers(cluster, tmp_path) as start:
            calm = None if is_rough else start("--no-leader-elect")
            for number in range(rounds):
                if calm is None:
                    _live_and_die(start, story, chance)
                story.go_on(number)
            if calm is None:
                start("--no-leader-elect")
            ends.append(story.end())
    assert ends[0] == ends[1]
    assert len(ends[0]["finished"]) == DONE_EACH * rounds and ends[0]["holding"]


def _live_and_die(start: Callable[..., Manager], story: Story, chance: Random) -> None:
    """A manager that is killed at once, when it begins to act, or after some of its decisions."""
    decisions = chance.randint(-1, 5)
    before = story.decided()
    manager = start("--no-leader-elect")
    if decisions >= 0:
        manager.wait_until_acting()
    if decisions > 0:
        story.wait(lambda found: story.is_settled(found) or sum(map(is_reserved, found)) >= before + decisions)
    manager.kill()


class Story:
    """Workloads of one queue, the most urgent first, that are done some at a time."""

    def __init__(self, plane: Plane, name: str, sizes: list[int]) -> None:
        self._plane = plane
        self._name = name
        self._sizes = {f"{name}-{at:03}": size for at, size in enumerate(sizes)}

    def begin(self) -> None:
        create(self._plane, *queue(self._name, CPUS))
        for at, (name, size) in enumerate(self._sizes.items()):
            create(self._plane, workload(name, self._name, cpus=size, priority=1_000 - at))

    def go_on(self, number: int) -> None:
        """Have the next ones be done, whatever became of them so far."""
        for name in list(self._sizes)[DONE_EACH * number : DONE_EACH * (number + 1)]:
            finish(self._plane, name)

    def wait(self, holds: Callable[[list[Json]], bool]) -> list[Json]:
        """Follow the workloads, the most urgent first, until something holds of them."""

        def is_so(found: dict[str, Json]) -> bool:
            return self._sizes.keys() <= found.keys() and holds([found[name] for name in self._sizes])

        found = wait_for(self._plane, WORKLOADS, is_so)
        return [found[name] for name in self._sizes]

    def decided(self) -> int:
        """How many have quota, or had it."""
        return sum(map(is_reserved, self.wait(lambda _: True)))

    def is_settled(self, found: list[Json]) -> bool:
        """Whether those have quota that come first in order, as many as fit, and nobody else."""
        left, is_room = CPUS, True
        for one in found:
            if is_finished(one):
                continue
            left -= self._sizes[one["metadata"]["name"]]
            is_room = is_room and left >= 0
            if is_reserved(one) != is_room:
                return False
        return True

    def end(self) -> Json:
        """What is so when nothing more happens, without the story's name."""
        found = self.wait(self.is_settled)
        done = [one for one in found if is_finished(one)]
        holding = [one for one in found if is_reserved(one) and not is_finished(one)]
        waiting = len(found) - len(done) - len(holding)
        told = {"pendingWorkloads": waiting, "reservingWorkloads": len(holding)}
        queues = wait_for(
            self._plane, QUEUES, lambda queues: told.items() <= queues.get(self._name, {}).get("status", {}).items()
        )
        usage = queues[self._name]["status"]["flavorsReservation"]
        end = {
            "finished": [one["metadata"]["name"] for one in done],
            "holding": [(one["metadata"]["name"], one["status"]["admission"]) for one in holding],
            "usage": usage,
        }
        return json.loads(json.dumps(end).replace(self._name, "story"))
