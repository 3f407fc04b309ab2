"""A job that is preempted saves its work first, waits, and goes on from there when it comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.controllers.cluster import API, queue
from tests.e2e.process import Muster, started

SPACE = "/api/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
# Counts to a million unless it is told to save; from its second life on it says where it began.
WORK = """
n=0; test -e $MUSTER_CHECKPOINT_DIR/n && read n < $MUSTER_CHECKPOINT_DIR/n
test $n -gt 0 && echo went on from $n && exit 0
trap 'echo 42 > $MUSTER_CHECKPOINT_DIR/n; exit 0' USR1
echo '"up"'
while :; do sleep 0.05; done
"""


def create(muster: Muster, path: str, obj: dict[str, Any]) -> None:
    answer = muster.client.request("POST", path, obj)
    assert answer.status == 201, answer.json


def until(muster: Muster, path: str, holds: Callable[[dict], bool]) -> dict:
    """Follow a list until something holds of one of its objects; the watch ends after a minute."""
    for event in muster.client.watch(f"{path}{'&' if '?' in path else '?'}watch=true&timeoutSeconds=60"):
        if holds(event["object"]):
            return event["object"]
    raise AssertionError(f"it never held of {path}")


def set_up(muster: Muster) -> None:
    flavor = {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "default"}, "spec": {}}
    create(muster, f"/apis/{API}/resourceflavors", flavor)
    made = queue("q", {"cpu": "1"})
    made["spec"]["preemption"] = {"withinClusterQueue": "LowerPriority"}
    create(muster, f"/apis/{API}/clusterqueues", made)
    local = {"apiVersion": API, "kind": "LocalQueue", "metadata": {"name": "q"}, "spec": {"clusterQueue": "q"}}
    create(muster, f"/apis/{API}/namespaces/default/localqueues", local)
    for name, value in (("low", 1), ("high", 100)):
        priority = {"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
        create(muster, f"/apis/{API}/workloadpriorityclasses", priority)


def job(name: str, priority: str, script: str, **annotations: str) -> dict[str, Any]:
    labels = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": priority}
    main = {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}
    main["resources"] = {"requests": {"cpu": "1"}}
    template = {"metadata": {"annotations": annotations}, "spec": {"restartPolicy": "Never", "containers": [main]}}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def is_complete(name: str) -> Callable[[dict], bool]:
    def holds(one: dict) -> bool:
        conditions = (one.get("status") or {}).get("conditions") or ()
        is_done = any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)
        return one["metadata"]["name"] == name and is_done

    return holds


def is_running(one: dict) -> bool:
    return one["metadata"].get("labels", {}).get("job-name") == "low" and one["status"].get("phase") == "Running"


def test_a_preempted_job_goes_on_from_its_checkpoint(tmp_path: Path):
    with started(tmp_path / "state") as muster:
        set_up(muster)
        create(muster, JOBS, job("low", "low", WORK, **{"muster.dev/checkpoint-signal": "SIGUSR1"}))
        first = until(muster, f"{SPACE}/pods", is_running)["metadata"]
        assert next(muster.client.watch(f"{SPACE}/pods/{first['name']}/log?follow=true")) == "up"
        create(muster, JOBS, job("high", "high", "exit 0"))
        until(muster, JOBS, is_complete("high"))
        until(muster, JOBS, is_complete("low"))
        pods = muster.client.request("GET", f"{SPACE}/pods?labelSelector=job-name=low").json["items"]
        (last,) = [one["metadata"] for one in pods if one["status"]["phase"] == "Succeeded"]
        assert last["uid"] != first["uid"]
        assert muster.client.request("GET", f"{SPACE}/pods/{last['name']}/log").body == b"went on from 42\n"
