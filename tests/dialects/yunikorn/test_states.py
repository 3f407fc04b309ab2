"""How far applications are, by their pods and the time."""

from __future__ import annotations

import pytest

from muster.dialects.yunikorn import names
from muster.dialects.yunikorn.applications import PodOfApplication, gather
from muster.dialects.yunikorn.read import Surroundings, assumed_configuration, read_pods
from muster.dialects.yunikorn.states import COMPLETING_S, EXPIRED_S, MOVES, REFUSED, State, next_due_s, state_of, way
from muster.dialects.yunikorn.validate import read_configuration
from muster.model.fields import Fields

GROUPS = '[{"name": "g", "minMember": 2, "minResource": {"cpu": "1"}}]'
START_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def pod(name="p", *, told="", **more):
    """A pod of the application; `node`, `phase` and `ended` say how far it is, everything else is annotations."""
    node, phase, ended = (more.pop(one, "") for one in ("node", "phase", "ended"))
    conditions = [{"type": "PodScheduled", "status": "False", "message": told}] if told else []
    ends = [{"state": {"terminated": {"finishedAt": ended}}}] if ended else []
    annotations = {names.APPLICATION_ID: "a", **more}
    fields = Fields(
        {
            "metadata": {"name": name, "namespace": "x", "annotations": annotations},
            "spec": {"nodeName": node} if node else {},
            "status": {"phase": phase or "Pending", "conditions": conditions, "containerStatuses": ends},
        }
    )
    return PodOfApplication(pod=fields, key=f"x/{name}", owner=name, created_at=START_S)


def state(*pods, after_s=1.0):
    (application,) = gather(pods)
    return state_of(application, START_S + after_s)


HARD = {names.TASK_GROUPS: GROUPS, names.POLICY_PARAMETERS: "placeholderTimeoutInSeconds=60 gangSchedulingStyle=Hard"}
SOFT = {names.TASK_GROUPS: GROUPS, names.POLICY_PARAMETERS: "placeholderTimeoutInSeconds=60"}
WAITS = "0/3 nodes are available"
NO = f"{REFUSED}a: no queue takes it"
RUNS = {"node": "n", "phase": "Running"}
DONE = {"node": "n", "phase": "Succeeded", "ended": "2026-01-01T00:00:00Z"}
PLACEHOLDER = {names.PLACEHOLDER: "true"}


@pytest.mark.parametrize(
    ("pods", "after_s", "want"),
    [
        pytest.param([pod()], 0, "New", id="nobody has looked at it"),
        pytest.param([pod(told=WAITS)], 1, "Accepted", id="it waits in a queue"),
        pytest.param([pod(told=NO)], 1, "Rejected", id="no queue takes it"),
        pytest.param([pod(told=NO), pod("q", told=WAITS)], 1, "Accepted", id="one pod of several is refused"),
        pytest.param([pod(**RUNS), pod("q", told=WAITS)], 1, "Running", id="a pod runs"),
        pytest.param([pod(**DONE), pod("q", told=WAITS)], 1, "Running", id="one has run, another waits"),
        pytest.param([pod(**DONE)], 29, "Completing", id="all have ended"),
        pytest.param([pod(**DONE)], 30, "Completed", id="for long enough"),
        pytest.param([pod(**DONE)], COMPLETING_S + EXPIRED_S, "Expired", id="for three days"),
        pytest.param([pod(told=WAITS, **HARD)], 59, "Accepted", id="a gang waits"),
        pytest.param([pod(told=NO, **HARD)], 60, "Failed", id="a gang that must start as a whole has not"),
        pytest.param([pod(told=NO, **HARD), pod("q", **RUNS)], 60, "Failing", id="and a pod of it still runs"),
        pytest.param([pod(told=WAITS, **SOFT)], 60, "Accepted", id="its pods start one by one"),
        pytest.param([pod(told=WAITS, **SOFT), pod("q", **PLACEHOLDER)], 60, "Resuming", id="placeholders leave first"),
    ],
)
def test_how_far_an_application_is(pods, after_s, want) -> None:
    assert state(*pods, after_s=after_s) == want


def test_when_it_may_change_by_waiting() -> None:
    (done,), (gang,), (plain,) = gather([pod(**DONE)]), gather([pod(**SOFT)]), gather([pod()])
    assert next_due_s(done, START_S + 10) == 20.0 and next_due_s(gang, START_S + 10) == 50.0
    assert next_due_s(plain, START_S) is None


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        ("New", "Accepted", ["Accepted"]),
        ("New", "Completed", ["Accepted", "Completing", "Completed"]),
        ("New", "Running", ["Accepted", "Running"]),
        ("Running", "Failed", ["Failing", "Failed"]),
        ("Completed", "Running", ["Running"]),
        ("Running", "Running", []),
    ],
)
def test_states_that_nobody_saw_lie_between(before, after, want) -> None:
    assert list(way(State(before), State(after))) == want


def test_every_state_has_its_moves() -> None:
    assert set(MOVES) == set(State) and not MOVES[State.EXPIRED]


def test_pods_without_a_place_are_told_so_in_these_words() -> None:
    queues = "[{name: root, queues: [{name: one}]}]"
    only = f"partitions: [{{name: default, placementrules: [{{name: provided}}], queues: {queues}}}]"
    around = Surroundings(now=START_S)
    (rejected,) = read_pods([pod()], read_configuration(only, "c"), around).rejected
    assert rejected[1].startswith(REFUSED)
    assert not read_pods([pod()], assumed_configuration(), around).rejected
