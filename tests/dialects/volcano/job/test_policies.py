"""What happens to a job, and what its policies make of it."""

from __future__ import annotations

import pytest

from muster.dialects.volcano.job.counting import by_task, read_pod
from muster.dialects.volcano.job.policies import Request, Resolved, is_covered, next_action, requests_of, resolved
from muster.dialects.volcano.job.words import OUT_OF_SYNC, Action, Event
from tests.dialects.volcano.job.objects import job, pod, task

START_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def events(of, *pods, version=0, group=None):
    """What has happened, as pairs of event and pod."""
    tasks = by_task(of, [read_pod(one, of) for one in pods], version)
    return [(str(one.event), one.pod) for one in requests_of(of, tasks, group=group)]


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param([pod("a", 0)], [], id="a pod that runs is no event"),
        pytest.param([pod("a", 0, "Failed", code=7)], [("PodFailed", "j-a-0")], id="a failed pod"),
        pytest.param([pod("a", 0, "Pending")], [("PodPending", "j-a-0")], id="a pod that waits"),
        pytest.param([pod("a", 0, "Succeeded")], [], id="one of two has succeeded"),
        pytest.param(
            [pod("a", 0, "Succeeded"), pod("a", 1, "Succeeded")], [("TaskCompleted", "j-a-1")], id="a task is complete"
        ),
        pytest.param(
            [pod("a", 0, restarts=1), pod("a", 1, restarts=2)], [("TaskFailed", "j-a-1")], id="restarts add up"
        ),
        pytest.param([pod("a", 0, restarts=2)], [], id="two restarts are not three"),
        pytest.param([pod("b", 0, restarts=99)], [], id="a task that may restart for ever"),
        pytest.param([pod("a", 0, "Failed", leaving=True)], [], id="a pod on its way out says nothing"),
        pytest.param([pod("a", 0, "Failed", notes={OUT_OF_SYNC: "true"})], [], id="nor one that is wanted gone"),
        pytest.param([pod("a", 5, "Failed")], [], id="nor one that the task no longer has"),
    ],
)
def test_what_pods_tell(pods, want) -> None:
    of = job(task("a", 2), task("b", maxRetry=-1))
    assert events(of, *pods) == want


def test_pods_of_an_older_version_tell_nothing() -> None:
    assert events(job(task("a")), pod("a", 0, "Failed", version=1), version=2) == []


def test_an_unknown_group_tells() -> None:
    assert events(job(task("a")), group={"status": {"phase": "Unknown"}}) == [("Unknown", "")]
    assert events(job(task("a")), group={"status": {"phase": "Running"}}) == []


def action_of(request: Request, *, of_task=(), of_job=()) -> str:
    return str(resolved(job(task("a", policies=list(of_task)), policies=list(of_job)), request).action)


FAILED = Request(event=Event.POD_FAILED, task="a", pod="j-a-0", exit_code=3)
PENDING = Request(event=Event.POD_PENDING, task="a", pod="j-a-0")


@pytest.mark.parametrize(
    ("request_", "of_task", "of_job", "want"),
    [
        pytest.param(FAILED, [], [], "SyncJob", id="no policy"),
        pytest.param(FAILED, [], [{"event": "PodFailed", "action": "AbortJob"}], "AbortJob", id="of the job"),
        pytest.param(
            FAILED,
            [{"event": "PodFailed", "action": "RestartTask"}],
            [{"event": "PodFailed", "action": "AbortJob"}],
            "RestartTask",
            id="the task's come first",
        ),
        pytest.param(
            FAILED,
            [{"event": "PodEvicted", "action": "RestartTask"}],
            [{"event": "PodFailed", "action": "AbortJob"}],
            "AbortJob",
            id="those that match only",
        ),
        pytest.param(FAILED, [], [{"event": "*", "action": "RestartJob"}], "RestartJob", id="any event"),
        pytest.param(
            FAILED, [], [{"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}], "RestartJob", id="a list"
        ),
        pytest.param(FAILED, [], [{"exitCode": 3, "action": "CompleteJob"}], "CompleteJob", id="an exit code"),
        pytest.param(FAILED, [], [{"exitCode": 4, "action": "CompleteJob"}], "SyncJob", id="another exit code"),
        pytest.param(
            FAILED,
            [],
            [{"exitCode": 3, "action": "CompleteJob"}, {"event": "PodFailed", "action": "AbortJob"}],
            "CompleteJob",
            id="the first that matches",
        ),
        pytest.param(PENDING, [], [{"event": "*", "action": "RestartJob"}], "SyncJob", id="waiting needs a timeout"),
        pytest.param(
            PENDING, [], [{"event": "*", "action": "RestartJob", "timeout": "1m"}], "RestartJob", id="and has one"
        ),
        pytest.param(
            Request(event=Event.UNKNOWN),
            [],
            [{"event": "Unknown", "action": "RestartTask"}],
            "SyncJob",
            id="no pod, so no task to restart",
        ),
        pytest.param(
            Request(event=Event.COMMAND, action="AbortJob"),
            [],
            [{"event": "*", "action": "RestartJob"}],
            "AbortJob",
            id="a command is obeyed",
        ),
        pytest.param(Request(event=Event.COMMAND, action="Dance"), [], [], "SyncJob", id="as far as it is known"),
        pytest.param(Request(event=Event.COMMAND, action="RestartPod"), [], [], "SyncJob", id="and about a whole job"),
    ],
)
def test_which_action_follows(request_, of_task, of_job, want) -> None:
    assert action_of(request_, of_task=of_task, of_job=of_job) == want


def test_a_timeout_lets_an_action_wait_and_another_go_before_it() -> None:
    later = {"event": "PodPending", "action": "RestartJob", "timeout": "5m"}
    of = job(task("a", 2), policies=[later, {"event": "PodFailed", "action": "AbortJob"}])
    waiting = Request(event=Event.POD_PENDING, since_s=START_S, task="a", pod="j-a-0")
    assert next_action(of, [waiting], START_S + 299.0) == (None, 1.0)
    found, again_s = next_action(of, [waiting], START_S + 300.0)
    assert found is not None and found.action is Action.RESTART and again_s is None
    found, _ = next_action(of, [waiting, FAILED], START_S)
    assert found is not None and found.action is Action.ABORT


@pytest.mark.parametrize(
    ("action", "covered"),
    [
        ("RestartPod", {"p"}),
        ("RestartPartition", {"p", "q"}),
        ("RestartTask", {"p", "q", "r"}),
        ("AbortJob", set("pqrs")),
    ],
)
def test_an_action_takes_care_of_what_else_happened_in_its_scope(action, covered) -> None:
    others = [
        Request(event=Event.POD_EVICTED, task="a", pod="p", partition=0),
        Request(event=Event.POD_EVICTED, task="a", pod="q", partition=0),
        Request(event=Event.POD_EVICTED, task="a", pod="r", partition=1),
        Request(event=Event.POD_EVICTED, task="b", pod="s"),
    ]
    done = Resolved(action=Action(action), request=others[0])
    assert {one.pod for one in others if is_covered(one, done)} == covered
