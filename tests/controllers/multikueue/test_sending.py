"""Workloads are sent to other clusters in simulated time: one has each, its status comes back, and nothing is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controllers.multikueue.worlds import JOBS, WORKLOADS, Worlds, a_job, condition, is_finished


@pytest.fixture
def worlds() -> Iterator[Worlds]:
    made = Worlds()
    yield made
    made.close()


def test_a_job_runs_in_one_cluster_and_ends_here(worlds: Worlds):
    worlds.here.create(a_job("train"))
    worlds.run_until(lambda: bool(worlds.running()))
    assert worlds.running() == {"train": 1}
    (workload,) = worlds.here.all(WORKLOADS)
    chosen = workload["status"]["clusterName"]
    (check,) = workload["status"]["admissionChecks"]
    assert (check["state"], check["message"]) == ("Ready", f'The workload got reservation on "{chosen}"')
    worlds.run(5)
    assert [name for name, one in worlds.workers.items() if one.world.all(WORKLOADS)] == [chosen]  # losers are removed
    (job,) = worlds.jobs
    assert job["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
    assert job["status"]["active"] == 1
    worlds.run_until(worlds.are_done)
    worlds.run(60)
    (job,) = worlds.jobs
    assert condition(job, "Complete")["status"] == "True"
    assert not any(one.world.all(WORKLOADS) or one.world.all(JOBS) for one in worlds.workers.values())
    assert is_finished(worlds.here.all(WORKLOADS)[0])
