"""Volcano's jobs on a running server: its kinds are there from the start, jobs run with their plugins, and end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.process import Muster, started
from tests.e2e.test_job_kinds import KUEUE, NODES, QUEUE, _create, _of, _wait
from tests.stories.volcano_jobs import BATCH, a_job, a_task, policy

JOBS = f"/apis/{BATCH}/namespaces/default/jobs"
CORE = "/api/v1/namespaces/default"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def muster(tmp_path_factory) -> Iterator[Muster]:
    folder: Path = tmp_path_factory.mktemp("volcano")
    (folder / "nodes.yaml").write_text(NODES)
    with started(folder / "state", "--no-local-node", "--nodes", str(folder / "nodes.yaml")) as running:
        yield running
        running.stop()


def _is(one: Json, name: str, phase: str) -> bool:
    state = (one.get("status") or {}).get("state") or {}
    return one["metadata"]["name"] == name and state.get("phase") == phase


def test_a_job_runs_with_its_plugins_and_completes(muster: Muster) -> None:
    tasks = (a_task("master", run="3s"), a_task("worker", 2, run="3s"))
    _create(muster, JOBS, a_job(*tasks, name="mpi", plugins={"mpi": [], "env": []}))
    secret = _wait(muster, f"{CORE}/secrets", lambda one: one["metadata"]["name"] == "mpi-ssh")
    assert set(secret["data"]) == {"id_rsa", "id_rsa.pub", "authorized_keys", "config"}
    pod = _wait(muster, f"{CORE}/pods", lambda one: one["metadata"]["name"] == "mpi-master-0")
    variables = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
    assert variables["MPI_HOST"] == "mpi-worker-0.mpi,mpi-worker-1.mpi" and variables["VC_TASK_INDEX"] == "0"
    done = _wait(muster, JOBS, lambda one: _is(one, "mpi", "Completed"))
    assert done["status"]["succeeded"] == 3


def test_a_job_fails_as_often_as_it_may(muster: Muster) -> None:
    restart = policy("PodFailed", "RestartJob")
    _create(muster, JOBS, a_job(a_task("bad", run="1s", code=1), name="bad", maxRetry=2, policies=[restart]))
    failed = _wait(muster, JOBS, lambda one: _is(one, "bad", "Failed"))
    assert failed["status"]["retryCount"] == 2


def test_a_job_that_makes_no_sense_is_refused_with_the_place(muster: Muster) -> None:
    given = a_job(a_task("one", minAvailable=2), a_task("one"), name="wrong", minAvailable=1)
    answer = muster.client.request("POST", JOBS, given)
    assert answer.status == 422
    fields = [cause["field"] for cause in answer.json["details"]["causes"]]
    assert fields == ["spec.tasks[0].minAvailable", "spec.tasks[1].name"]


def test_a_job_in_a_queue_of_kueue_waits_there(muster: Muster) -> None:
    _create(muster, f"{KUEUE}/resourceflavors", _of("ResourceFlavor", "spot", {}))
    resources = [{"name": "cpu", "nominalQuota": "2"}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "spot", "resources": resources}]}
    queue = {"namespaceSelector": {}, "resourceGroups": [group], "stopPolicy": "Hold"}
    _create(muster, f"{KUEUE}/clusterqueues", _of("ClusterQueue", "main", queue))
    _create(muster, f"{KUEUE}/namespaces/default/localqueues", _of("LocalQueue", "main", {"clusterQueue": "main"}))
    asks = {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
    given = a_job(a_task("one", 2, run="1s", pod=asks), name="queued", metadata={"labels": {QUEUE: "main"}})
    _create(muster, JOBS, given)
    pod = _wait(muster, f"{CORE}/pods", lambda one: one["metadata"]["name"] == "queued-one-1")
    assert [gate["name"] for gate in pod["spec"]["schedulingGates"]] == ["kueue.x-k8s.io/admission"]
    patch = {"spec": {"stopPolicy": "None"}}
    path = f"{KUEUE}/clusterqueues/main"
    assert muster.client.request("PATCH", path, patch, content_type="application/merge-patch+json").status == 200
    _wait(muster, JOBS, lambda one: _is(one, "queued", "Completed"))
