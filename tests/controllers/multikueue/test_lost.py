"""Clusters that are lost, for a while or for good: every job ends, and none runs in two that can be reached."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from muster.store.kinds import Object, Propagation
from muster.store.records import Key
from muster.store.rules import Deletion
from tests.controllers.multikueue.worlds import JOBS, WORKLOADS, Worlds, a_job, condition
from tests.support import is_full_proof

LOST_S = 900.0
JOBS_SENT = 8


@pytest.fixture
def worlds() -> Iterator[Worlds]:
    made = Worlds()
    yield made
    made.close()


def sent_to(worlds: Worlds) -> str:
    (workload,) = worlds.here.all(WORKLOADS)
    return str(workload["status"].get("clusterName") or "")


def test_a_cluster_that_is_away_for_a_while_keeps_its_job(worlds: Worlds):
    worlds.here.create(a_job("train", run_s=1_200))
    worlds.run_until(lambda: bool(worlds.running()))
    first = worlds.workers[sent_to(worlds)]
    first.is_away = True
    worlds.run(600)
    assert condition(worlds.here.get("multikueueclusters.kueue.x-k8s.io", first.name), "Active")["status"] == "False"
    assert sent_to(worlds) == first.name
    assert not worlds.running()
    first.is_away = False
    worlds.run_until(worlds.are_done, within_s=1_000)
    assert condition(worlds.jobs[0], "Complete")["status"] == "True"


def test_a_cluster_that_is_lost_loses_its_job_to_another(worlds: Worlds):
    worlds.here.create(a_job("train", run_s=3_000))
    worlds.run_until(lambda: bool(worlds.running()))
    first = worlds.workers[sent_to(worlds)]
    first.is_away = True
    worlds.run_until(lambda: worlds.running() == {"train": 1}, within_s=LOST_S + 120)
    assert sent_to(worlds) not in ("", first.name)
    first.is_away = False  # with a job that still runs there, and is no longer wanted
    worlds.run(120)
    assert not first.world.all(JOBS) and not first.world.all(WORKLOADS)
    worlds.run_until(worlds.are_done)
    assert condition(worlds.jobs[0], "Complete")["status"] == "True"


def test_what_ended_while_its_cluster_was_away_is_not_run_again(worlds: Worlds):
    worlds.here.create(a_job("train", run_s=60))
    worlds.run_until(lambda: bool(worlds.running()))
    first = worlds.workers[sent_to(worlds)]
    first.is_away = True
    worlds.run(800)
    first.is_away = False
    worlds.run_until(worlds.are_done, within_s=90)
    assert all(not one.world.all("pods") for name, one in worlds.workers.items() if name != first.name)


def test_a_job_that_is_deleted_here_goes_there(worlds: Worlds):
    worlds.here.create(a_job("train", run_s=3_000))
    worlds.run_until(lambda: bool(worlds.running()))
    worlds.here.delete(Key(JOBS, "default", "train"), Deletion(propagation=Propagation.BACKGROUND))
    worlds.run(120)
    assert not any(one.world.all(JOBS) or one.world.all(WORKLOADS) for one in worlds.workers.values())


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(100 if is_full_proof() else 2))
def test_whenever_clusters_are_lost_all_jobs_end_and_none_twice(seed: int):
    chance = Random(f"{seed}/lost")
    worlds = Worlds(seed=seed)
    try:
        play(worlds, chance)
    finally:
        worlds.close()


def play(worlds: Worlds, chance: Random) -> None:
    """Jobs come, clusters go and come back, answers are lost, and the manager is started anew, at any moment."""
    ended: dict[str, set[str]] = {}
    waiting = [a_job(f"train-{number}", run_s=chance.choice((5, 60, 400))) for number in range(JOBS_SENT)]
    for _ in range(20):
        for _ in range(chance.randint(0, 2)):
            if waiting:
                worlds.here.create(waiting.pop())
        worker = chance.choice(list(worlds.workers.values()))
        worker.is_away = chance.random() < 0.4
        worker.lost_answers = chance.choice((0.0, 0.3))
        if chance.random() < 0.15:
            worlds.here.stop("jobs")
            worlds.run(chance.choice((0.1, 5.0)))
            worlds.here.start("jobs")
        _pass(worlds, chance.choice((0.5, 7.0, 40.0, 300.0)), ended)
    for one in waiting:
        worlds.here.create(one)
    for worker in worlds.workers.values():
        worker.is_away, worker.lost_answers = False, 0.0
    for _ in range(200):
        if worlds.are_done() and len(worlds.here.all(WORKLOADS)) == JOBS_SENT:
            break
        _pass(worlds, 20.0, ended)
    worlds.run(200)
    assert [condition(job, "Complete").get("status") for job in worlds.jobs] == ["True"] * JOBS_SENT
    assert not any(one.world.all(JOBS) or one.world.all(WORKLOADS) for one in worlds.workers.values())
    moved = {one["metadata"]["ownerReferences"][0]["name"] for one in worlds.here.all(WORKLOADS) if _has_moved(one)}
    assert {name for name, clusters in ended.items() if len(clusters) > 1} <= moved


def _pass(worlds: Worlds, for_s: float, ended: dict[str, set[str]]) -> None:
    for _ in range(10):
        worlds.run(for_s / 10)
        assert all(count == 1 for count in worlds.running().values()), worlds.running()
        for name, worker in worlds.workers.items():
            for pod in worker.world.all("pods"):
                if (pod.get("status") or {}).get("phase") == "Succeeded":
                    ended.setdefault(pod["metadata"]["labels"]["job-name"], set()).add(name)


def _has_moved(workload: Object) -> bool:
    """Whether a workload was taken from a cluster that was lost."""
    stats = (workload["status"].get("schedulingStats") or {}).get("evictions") or ()
    return any(one["reason"] == "AdmissionCheck" for one in stats)
