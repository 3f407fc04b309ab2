"""Statuses of Volcano's objects when a session has ended."""

from __future__ import annotations

from muster.dialects.volcano.write import group_status, queue_status
from muster.engine.stages.groups import run_stages
from muster.model.groups import GroupPhase
from tests.groups import group, node, pod, queue, session, snapshot


def ended():
    pods = [pod("runs-0", "runs", node="n"), *(pod(f"waits-{index}", "waits", cpu=3) for index in range(2))]
    groups = [group("runs", phase=GroupPhase.RUNNING), group("waits", minimum=2)]
    given = session(snapshot([node("n", 4)], [queue()], groups, pods), "gang", "predicates")
    run_stages(given, ["allocate"])
    return given


def test_a_group_that_runs():
    given = ended()
    status = group_status(given, given.groups["ns/runs"])
    assert (status["phase"], status["running"]) == ("Running", 1)
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [("Scheduled", "True")]


def test_a_group_that_waits_is_told_why():
    given = ended()
    status = group_status(given, given.groups["ns/waits"])
    [condition] = status["conditions"]
    assert (status["phase"], condition["type"], condition["reason"]) == (
        "Inqueue",
        "Unschedulable",
        "NotEnoughResources",
    )
    assert condition["message"] == ("2/2 tasks in gang unschedulable: no node has room for ns/waits-1 and lets it in")


def test_a_queue():
    assert queue_status(ended(), "q") == {
        "allocated": {"cpu": "1", "pods": "1"},
        "pending": 0,
        "inqueue": 1,
        "running": 1,
        "unknown": 0,
        "completed": 0,
    }
