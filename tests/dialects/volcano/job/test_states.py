"""Every phase, every action: what is done, and which phase follows."""

from __future__ import annotations

import pytest

from muster.dialects.volcano.job.states import Counts, Deed, Standing, deed_of, is_retry, phase_after
from muster.dialects.volcano.job.words import Action, Phase

PARTS = ("RestartTask", "RestartPod", "RestartPartition")
ENDS = ("Completed", "Failed", "Terminated")


@pytest.mark.parametrize(
    ("phases", "actions", "deed"),
    [
        (("Pending", "Running"), ("RestartJob",), Deed.KILL),
        (("Pending", "Running", "Restarting"), PARTS, Deed.KILL_TARGET),
        (("Pending", "Running"), ("AbortJob", "CompleteJob", "TerminateJob"), Deed.KILL_SOFT),
        (("Pending", "Running"), ("SyncJob", "ResumeJob"), Deed.SYNC),
        (("Restarting",), ("SyncJob",), Deed.SYNC),
        (
            ("Restarting",),
            ("RestartJob", "AbortJob", "CompleteJob", "TerminateJob", "ResumeJob"),
            Deed.KILL,
        ),
        (("Aborting", "Aborted", "Completing", "Terminating", *ENDS), tuple(Action), Deed.KILL_SOFT),
    ],
)
def test_what_an_action_does(phases, actions, deed) -> None:
    for phase in phases:
        for action in actions:
            assert deed_of(Phase(phase), Action(action)) is deed, (phase, action)


def test_every_phase_has_an_answer_to_every_action() -> None:
    for phase in Phase:
        for action in Action:
            phase_after(phase, action, standing())
            deed_of(phase, action)


@pytest.mark.parametrize("phase", list(Phase))
def test_what_counts_as_one_more_try(phase: Phase) -> None:
    tries = {str(action) for action in Action if is_retry(phase, action)}
    wanted = {"Pending": {"RestartJob", *PARTS}, "Aborting": {"ResumeJob"}}
    wanted |= {"Running": wanted["Pending"], "Aborted": wanted["Aborting"]}
    assert tries == wanted.get(phase, set())


def standing(**given) -> Standing:
    counts = {name: given.pop(name) for name in Counts.__dataclass_fields__ if name in given}
    return Standing(counts=Counts(**counts), **{"replicas": 3, "least": 2, **given})


@pytest.mark.parametrize(
    ("phase", "action", "next_phase"),
    [
        ("Pending", "RestartJob", "Restarting"),
        ("Running", "RestartTask", "Restarting"),
        ("Running", "RestartPod", "Restarting"),
        ("Pending", "RestartPartition", "Restarting"),
        ("Pending", "AbortJob", "Aborting"),
        ("Running", "CompleteJob", "Completing"),
        ("Running", "TerminateJob", "Terminating"),
        ("Aborting", "ResumeJob", "Restarting"),
        ("Aborted", "ResumeJob", "Restarting"),
        ("Aborted", "RestartJob", "Aborted"),
        ("Completed", "RestartJob", "Completed"),
        ("Failed", "ResumeJob", "Failed"),
        ("Terminated", "AbortJob", "Terminated"),
    ],
)
def test_actions_that_lead_to_a_phase_whatever_the_pods_are(phase, action, next_phase) -> None:
    busy = standing(running=1, terminating=2)
    assert phase_after(Phase(phase), Action(action), busy) == next_phase


@pytest.mark.parametrize(
    ("phase", "given", "next_phase"),
    [
        pytest.param("Pending", {"running": 1}, "Pending", id="too few have started"),
        pytest.param("Pending", {"running": 1, "succeeded": 1}, "Running", id="those that have ended count"),
        pytest.param("Pending", {"failed": 2}, "Running", id="and those that have failed"),
        pytest.param("Pending", {"pending": 3}, "Pending", id="none has started"),
        pytest.param("Running", {"replicas": 0, "least": 0}, "Running", id="no pods at all"),
        pytest.param("Running", {"succeeded": 1, "running": 2, "success_least": 1}, "Completed", id="enough succeed"),
        pytest.param("Running", {"succeeded": 1, "running": 2, "success_least": 2}, "Running", id="not yet enough"),
        pytest.param(
            "Running", {"succeeded": 1, "failed": 2, "success_least": 2}, "Failed", id="never enough successes"
        ),
        pytest.param("Running", {"succeeded": 2, "failed": 1}, "Completed", id="as many as must start have succeeded"),
        pytest.param("Running", {"succeeded": 1, "failed": 2}, "Failed", id="too few have succeeded"),
        pytest.param(
            "Running",
            {"succeeded": 2, "failed": 1, "tasks": ((1, 0), (1, 2))},
            "Failed",
            id="a task that is needed has failed",
        ),
        pytest.param(
            "Running",
            {"succeeded": 2, "failed": 1, "tasks": ((2, 0), (1, 2))},
            "Completed",
            id="not every task is needed",
        ),
        pytest.param("Running", {"succeeded": 2, "running": 1}, "Running", id="not all have ended"),
        pytest.param("Running", {"pending": 2, "running": 1}, "Pending", id="too few are left"),
        pytest.param("Running", {"pending": 1, "running": 2}, "Running", id="enough are left"),
        pytest.param("Restarting", {"retries": 3}, "Failed", id="tried often enough"),
        pytest.param("Restarting", {"retries": 2}, "Pending", id="once more"),
        pytest.param("Restarting", {"retries": 1, "terminating": 2}, "Restarting", id="too many are still leaving"),
        pytest.param("Restarting", {"retries": 1, "terminating": 1}, "Pending", id="enough have left"),
        pytest.param("Aborting", {"terminating": 1}, "Aborting", id="pods are leaving"),
        pytest.param("Aborting", {"succeeded": 1, "failed": 1}, "Aborted", id="what has ended may stay"),
        pytest.param("Completing", {"pending": 1}, "Completing", id="a pod waits"),
        pytest.param("Completing", {}, "Completed", id="quiet"),
        pytest.param("Terminating", {"running": 1}, "Terminating", id="a pod runs"),
        pytest.param("Terminating", {}, "Terminated", id="quiet too"),
    ],
)
def test_phases_that_the_pods_decide_on(phase, given, next_phase) -> None:
    assert phase_after(Phase(phase), Action.SYNC, standing(**given)) == next_phase
