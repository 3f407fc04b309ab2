"""What is to be done next for a job, by the pods that it has."""

from __future__ import annotations

import pytest

from muster.dialects.volcano.job.policies import Request
from muster.dialects.volcano.job.statuses import duration_text, expires_at_s
from muster.dialects.volcano.job.steps import PODS_AT_ONCE, Sight, next_steps
from muster.dialects.volcano.job.words import OUT_OF_SYNC, Event
from tests.dialects.volcano.job.objects import job_object, pod, task

NOW_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z
RUNNING = {"state": {"phase": "Running"}}


def group(phase="Inqueue"):
    return {"metadata": {"name": "g"}, "spec": {}, "status": {"phase": phase}}


def steps(given, *pods, **more):
    return next_steps(Sight(job=given, pods=pods, now_s=NOW_S, **{"group": group(), **more}))


def names(pods):
    return [one["metadata"]["name"] for one in pods]


@pytest.mark.parametrize(("phase", "want"), [("", 0), ("Pending", 0), ("Inqueue", 2), ("Running", 2), ("Unknown", 2)])
def test_pods_are_made_once_the_group_is_let_in(phase, want) -> None:
    found = steps(job_object(task("a", 2)), group=group(phase))
    assert len(found.create) == want and found.has_group and found.group["metadata"]["name"] == "g"


def test_without_a_group_one_is_made_and_no_pods() -> None:
    found = steps(job_object(task("a", 2)), group=None)
    assert found.group["metadata"]["name"] == "j-u-1" and found.create == []
    assert found.status["state"] == {"phase": "Pending", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def test_missing_pods_are_made_and_superfluous_ones_deleted() -> None:
    pods = [pod("a", 1), pod("a", 2), pod("gone", 0), pod("a", 0, notes={OUT_OF_SYNC: "true"})]
    found = steps(job_object(task("a", 2), task("b")), *pods)
    assert names(found.create) == ["j-b-0"]
    assert names(found.kill) == ["j-a-2", "j-gone-0", "j-a-0"]
    assert (found.status["running"], found.status["terminating"], found.status["pending"]) == (1, 3, 1)


def test_a_turn_makes_so_many_pods_at_most() -> None:
    assert len(steps(job_object(task("a", 3000))).create) == PODS_AT_ONCE


@pytest.mark.parametrize(
    ("depends", "pods", "want"),
    [
        pytest.param({"name": ["a"]}, [pod("a", 0), pod("a", 1)], True, id="enough run"),
        pytest.param({"name": ["a"]}, [pod("a", 0), pod("a", 1, ready=False)], False, id="one is not ready"),
        pytest.param({"name": ["a"]}, [pod("a", 0, "Succeeded"), pod("a", 1)], True, id="or have succeeded"),
        pytest.param({"name": ["a"]}, [pod("a", 0, "Failed"), pod("a", 1)], False, id="not those that failed"),
        pytest.param({"name": ["a", "b"]}, [pod("b", 0)], False, id="all of them"),
        pytest.param({"name": ["a", "b"], "iteration": "any"}, [pod("b", 0)], True, id="any of them"),
        pytest.param({"name": ["a"], "iteration": "any"}, [pod("b", 0)], False, id="any of one"),
    ],
)
def test_a_task_waits_for_others(depends, pods, want) -> None:
    found = steps(job_object(task("a", 2), task("b"), task("c", dependsOn=depends)), *pods)
    assert ("j-c-0" in names(found.create)) is want


FAILS = {"policies": [{"event": "PodFailed", "action": "RestartJob"}]}


def test_a_restart_kills_all_and_the_pod_that_it_is_about_last() -> None:
    pods = [pod("a", 0, "Failed", code=1), pod("a", 1), pod("a", 2, "Succeeded")]
    found = steps(job_object(task("a", 3), status=RUNNING, **FAILS), *pods)
    assert names(found.kill) == ["j-a-1", "j-a-2", "j-a-0"]
    assert (found.has_group, found.has_objects) == (False, False)
    assert (found.status["version"], found.status["retryCount"]) == (1, 1)
    state = found.status["state"]
    assert (state["phase"], state["reason"]) == ("Restarting", "PodFailed")
    assert state["message"] == "PodFailed of pod j-a-0, exit code 1"


def test_the_last_try_keeps_what_has_ended() -> None:
    status = {**RUNNING, "retryCount": 2}
    pods = [pod("a", 0, "Failed"), pod("a", 1), pod("a", 2, "Succeeded")]
    found = steps(job_object(task("a", 3), status=status, **FAILS), *pods)
    assert names(found.kill) == ["j-a-1"]


@pytest.mark.parametrize(
    ("action", "want"),
    [
        ("RestartPod", ["j-a-1"]),
        ("RestartPartition", ["j-a-0", "j-a-1"]),
        ("RestartTask", ["j-a-0", "j-a-2", "j-a-3", "j-a-1"]),
    ],
)
def test_a_partial_restart_kills_a_part_and_keeps_the_group(action, want) -> None:
    part = {"totalPartitions": 2, "partitionSize": 2}
    given = job_object(
        task("a", 4, partitionPolicy=part, policies=[{"event": "PodFailed", "action": action}]),
        task("b"),
        status=RUNNING,
    )
    pods = [*(pod("a", number, "Failed" if number == 1 else "Running") for number in range(4)), pod("b")]
    found = steps(given, *pods)
    assert sorted(names(found.kill)) == sorted(want) and found.kill[-1]["metadata"]["name"] == "j-a-1"
    assert found.has_group and found.has_objects and found.status["retryCount"] == 1
    assert "version" not in found.status and found.status["state"]["phase"] == "Restarting"


def test_a_finished_job_is_left_alone_but_for_pods_that_still_run() -> None:
    done = {"state": {"phase": "Completed", "lastTransitionTime": "2026-01-01T00:00:00Z"}, "version": 3}
    found = steps(job_object(task("a", 2), status=done), pod("a", 0, "Succeeded"), pod("a", 1))
    assert names(found.kill) == ["j-a-1"] and found.status["version"] == 3 and found.create == []
    assert not found.has_group


def test_commands_count_in_every_phase_and_lost_pods_only_while_it_runs() -> None:
    lost = Request(event=Event.POD_EVICTED, task="a", pod="j-a-0", since_s=NOW_S, version=0)
    policies = {"policies": [{"event": "PodEvicted", "action": "AbortJob"}]}
    aborted = {"state": {"phase": "Aborted"}}
    assert steps(job_object(task("a"), status=RUNNING, **policies), requests=[lost]).resolved is not None
    assert steps(job_object(task("a"), status=aborted, **policies), requests=[lost]).resolved is None
    resume = Request(event=Event.COMMAND, action="ResumeJob")
    found = steps(job_object(task("a"), status=aborted, **policies), requests=[lost, resume])
    assert found.status["state"]["phase"] == "Restarting"
    assert found.status["state"]["message"] == "told to by a command: ResumeJob"
    old = {**RUNNING, "version": 1}
    assert steps(job_object(task("a"), status=old, **policies), requests=[lost]).resolved is None


def test_a_status_that_says_the_same_is_the_same() -> None:
    given = job_object(task("a"))
    first = steps(given, pod("a")).status
    again = steps({**given, "status": first}, pod("a")).status
    assert steps({**given, "status": again}, pod("a")).status == again


def test_conditions_do_not_grow_for_ever() -> None:
    many = [{"status": "Pending", "lastTransitionTime": "2026-01-01T00:00:00Z"}] * 100
    found = steps(job_object(task("a"), status={"conditions": many}), pod("a"))
    assert len(found.status["conditions"]) == 100 and found.status["conditions"][-1]["status"] == "Running"


@pytest.mark.parametrize(
    ("phase", "want"),
    [("Completed", 60.0), ("Failed", 60.0), ("Terminated", 60.0), ("Aborted", None), ("Running", None)],
)
def test_which_jobs_are_deleted_after_a_while(phase, want) -> None:
    status = {"state": {"phase": phase, "lastTransitionTime": "2026-01-01T00:00:00Z"}}
    found = expires_at_s(job_object(task("a"), status=status, ttlSecondsAfterFinished=60))
    assert (found is None) if want is None else found == NOW_S + want
    assert expires_at_s(job_object(task("a"), status=status)) is None


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (59, "59s"), (61, "1m1s"), (3600, "1h0m0s")])
def test_durations_are_written_as_go_does(seconds, text) -> None:
    assert duration_text(seconds) == text
