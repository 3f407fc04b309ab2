"""`muster up` with Volcano's objects: they are served from the start, and gangs of pods are started there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.controllers.test_sessions import VOLCANO, fair_queue, member, pod_group
from tests.e2e.process import started
from tests.e2e.test_scheduling import TEAM, _create, _wait

QUEUES = f"/apis/{VOLCANO}/queues"
GROUPS = f"/apis/{VOLCANO}/namespaces/team/podgroups"


def _is_phase(one: dict[str, Any], name: str, phase: str) -> bool:
    return one["metadata"]["name"] == name and (one.get("status") or {}).get("phase") == phase


def test_a_gang_is_started_and_another_waits_over_a_restart(tmp_path: Path):
    # Nodes that say that they live: one that nobody plays is not ready any more when the machine is slow.
    capacity = {"cpu": "2", "memory": "16Gi", "pods": "110"}
    pools = {"pools": [{"name": "worker", "count": 1, "runTime": "1h", "capacity": capacity}]}
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump(pools))
    nodes = ("--nodes", str(tmp_path / "nodes.yaml"), "--no-local-node")
    with started(tmp_path / "state", *nodes) as muster:
        _wait(muster, QUEUES, lambda one: one["metadata"]["name"] == "default" and "status" in one)
        _create(muster, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        _create(muster, QUEUES, fair_queue("research", weight=1))
        _create(muster, GROUPS, pod_group("gang", 2, queue="research"))
        for number in range(2):
            _create(muster, f"{TEAM}/pods", member(f"g{number}", "gang", cpu="1"))
        _wait(muster, GROUPS, lambda one: _is_phase(one, "gang", "Running"))
        _create(muster, GROUPS, pod_group("late", 1))
        _create(muster, f"{TEAM}/pods", member("l0", "late", cpu="1"))
        _wait(muster, GROUPS, lambda one: _is_phase(one, "late", "Inqueue"))
    with started(tmp_path / "state", *nodes) as again:
        told = _wait(again, f"{TEAM}/pods", lambda one: one["metadata"]["name"] == "l0" and "status" in one)
        assert "nodeName" not in told["spec"]
        deleted = again.client.request("DELETE", f"{TEAM}/pods/g0?gracePeriodSeconds=0")
        assert deleted.status == 200
        _wait(again, f"{TEAM}/pods", lambda one: one["metadata"]["name"] == "l0" and "nodeName" in one["spec"])
        _wait(again, QUEUES, lambda one: one["metadata"]["name"] == "default" and one["status"].get("running") == 1)
