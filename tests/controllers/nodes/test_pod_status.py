"""What is done with containers, and what the status of a pod says, for everything that can have happened to them."""

from __future__ import annotations

import pytest

from muster.controllers.nodes.containers import BackOff, Container, PodPlan, Run, next_steps
from muster.controllers.nodes.pod_status import Halt, Situation, containers_of, deadline_s, halt_of, pod_status
from muster.model.times import moment_text
from muster.store.kinds import Object
from tests.controllers.nodes.pods import ended, pod, runs
from tests.store.kinds import START_S

BACK_OFF = BackOff()


def steps_of(given: Object, known: dict[str, Container], *, is_halted: bool = False) -> tuple:
    steps = next_steps(PodPlan.of(given, BACK_OFF), known, START_S, is_halted=is_halted)
    return set(steps.start), list(steps.stop), steps.is_over


def status_of(given: Object, known: dict[str, Container], halt: Halt | None = None) -> Object:
    plan = PodPlan.of(given, BACK_OFF)
    steps = next_steps(plan, known, START_S, is_halted=halt is not None)
    return pod_status(given, known, steps, plan=plan, at=Situation(now_s=START_S, halt=halt))


NEVER, ON_FAILURE = {"restartPolicy": "Never"}, {"restartPolicy": "OnFailure"}


@pytest.mark.parametrize(
    ("given", "known", "want"),
    [
        pytest.param(pod("a", "b"), {}, ({"a", "b"}, [], False), id="all at once"),
        pytest.param(pod("a", init=["i", "j"]), {}, ({"i"}, [], False), id="init first"),
        pytest.param(pod("a", init=["i", "j"]), {"i": runs()}, (set(), [], False), id="one after the other"),
        pytest.param(pod("a", init=["i", "j"]), {"i": ended()}, ({"j"}, [], False), id="the next"),
        pytest.param(pod("a", init=["i", "j"]), {"i": ended(), "j": ended()}, ({"a"}, [], False), id="init is through"),
        pytest.param(pod("a", init=["i"]), {"i": ended(1)}, ({"i"}, [], False), id="init again"),
        pytest.param(pod("a", init=["i"], **NEVER), {"i": ended(1)}, (set(), [], True), id="init failed for good"),
        pytest.param(pod("a", init=["s+"]), {"s": runs(is_started=False)}, (set(), [], False), id="a sidecar comes up"),
        pytest.param(pod("a", init=["s+"]), {"s": runs()}, ({"a"}, [], False), id="a sidecar is up"),
        pytest.param(pod("a", init=["s+"]), {"s": ended(), "a": runs()}, ({"s"}, [], False), id="a sidecar again"),
        pytest.param(pod("a", init=["s+", "t+"], **NEVER), {"s": runs(), "t": runs(), "a": ended()},
                     (set(), ["t"], False), id="the last sidecar goes first"),
        pytest.param(pod("a", init=["s+", "i"], **NEVER), {"s": runs(), "i": ended(1)}, (set(), ["s"], False),
                     id="sidecars of a failed pod go"),
        pytest.param(pod("a"), {"a": ended()}, ({"a"}, [], False), id="always again"),
        pytest.param(pod("a", **ON_FAILURE), {"a": ended()}, (set(), [], True), id="done"),
        pytest.param(pod("a", **ON_FAILURE), {"a": ended(1)}, ({"a"}, [], False), id="failed, again"),
        pytest.param(pod("a", **NEVER), {"a": ended(1)}, (set(), [], True), id="failed for good"),
        pytest.param(pod("a", "b", **NEVER), {"a": ended(1), "b": runs()}, (set(), [], False), id="others go on"),
        pytest.param(pod("a"), {"a": ended(1, ends=2)}, (set(), [], False), id="a pause"),
        pytest.param(pod("a"), {"a": ended(1, ends=2, ago_s=10)}, ({"a"}, [], False), id="after the pause"),
        pytest.param(pod("a"), {"a": ended(1, ends=3, ago_s=19)}, (set(), [], False), id="pauses double"),
    ],
)  # fmt: skip
def test_what_is_done_next(given, known, want):
    assert steps_of(given, known) == want


@pytest.mark.parametrize(
    ("known", "want"),
    [
        pytest.param({"s": runs(), "a": runs(), "b": runs()}, ["a", "b"], id="those proper first"),
        pytest.param({"s": runs(), "a": ended(), "b": ended()}, ["s"], id="then those beside them"),
        pytest.param({"s": ended(), "a": ended()}, [], id="nothing is begun"),
    ],
)
def test_a_halted_pod_ends(known, want):
    assert steps_of(pod("a", "b", init=["s+"]), known, is_halted=True) == (set(), want, not want)


def test_a_container_can_have_a_policy_and_rules_of_its_own():
    given = pod("a", "b", **NEVER)
    given["spec"]["containers"][0]["restartPolicy"] = "OnFailure"
    given["spec"]["containers"][1]["restartPolicyRules"] = [
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    ]
    assert steps_of(given, {"a": ended(1), "b": ended(42)})[0] == {"a", "b"}
    assert steps_of(given, {"a": ended(1), "b": ended(41)})[0] == {"a"}


def test_pauses_double_up_to_five_minutes_and_are_forgotten_after_a_long_run():
    assert [BACK_OFF.pause_s(ends) for ends in range(1, 9)] == [0, 10, 20, 40, 80, 160, 300, 300]
    assert BACK_OFF.ends_after(Run(started_s=0, ended_s=600), 5) == 6
    assert BACK_OFF.ends_after(Run(started_s=0, ended_s=601), 5) == 1


@pytest.mark.parametrize(
    ("given", "known", "want"),
    [
        pytest.param(pod("a"), {}, "Pending", id="nothing yet"),
        pytest.param(pod("a", "b"), {"a": runs()}, "Pending", id="not all have begun"),
        pytest.param(pod("a", init=["i"]), {"i": runs()}, "Pending", id="init"),
        pytest.param(pod("a"), {"a": runs()}, "Running", id="running"),
        pytest.param(pod("a"), {"a": ended(1, ends=2)}, "Running", id="between two runs"),
        pytest.param(pod("a", **ON_FAILURE), {"a": ended()}, "Succeeded", id="well"),
        pytest.param(pod("a", "b", **NEVER), {"a": ended(), "b": ended(1)}, "Failed", id="one badly"),
        pytest.param(pod("a", "b", **NEVER), {"a": ended(1), "b": runs()}, "Running", id="one still runs"),
        pytest.param(pod("a", init=["i"], **NEVER), {"i": ended(1)}, "Failed", id="init failed"),
        pytest.param(pod("a", init=["s+"], **NEVER), {"s": runs(), "a": ended()}, "Running", id="a sidecar still runs"),
        pytest.param(pod("a", init=["s+"], **NEVER), {"s": ended(143), "a": ended()}, "Succeeded", id="only work"),
    ],
)  # fmt: skip
def test_phases(given, known, want):
    assert status_of(given, known)["phase"] == want


@pytest.mark.parametrize(
    ("known", "want"),
    [
        pytest.param({"a": runs()}, "Running", id="until all have ended"),
        pytest.param({"a": ended(143)}, "Failed", id="by a signal"),
        pytest.param({"a": ended()}, "Succeeded", id="by itself"),
        pytest.param({}, "Failed", id="never begun"),
    ],
)
def test_the_phase_of_a_pod_that_is_deleted(known, want):
    given = pod("a")
    given["status"] = {"phase": "Running"}
    assert status_of(given, known, Halt())["phase"] == want


def test_a_phase_that_is_final_stays():
    given = {**pod("a"), "status": {"phase": "Failed"}}
    assert status_of(given, {"a": ended()})["phase"] == "Failed"


def conditions_of(status: Object) -> dict[str, tuple[str, str, str]]:
    return {one["type"]: (one["status"], one.get("reason", ""), one.get("message", "")) for one in status["conditions"]}


@pytest.mark.parametrize(
    ("given", "known", "want"),
    [
        pytest.param(pod("a"), {"a": runs()}, {"Ready": ("True", "", ""), "Initialized": ("True", "", "")}, id="ready"),
        pytest.param(pod("a", "b"), {"a": runs(is_ready=False)},
                     {"Ready": ("False", "ContainersNotReady", "containers with unready status: [a b]"),
                      "ContainersReady": ("False", "ContainersNotReady", "containers with unready status: [a b]")},
                     id="unready"),
        pytest.param(pod("a", init=["i", "j"]), {"i": runs()},
                     {"Initialized": ("False", "ContainersNotInitialized", "containers with incomplete status: [i j]")},
                     id="not initialized"),
        pytest.param(pod("a", **NEVER), {"a": ended()}, {"Ready": ("False", "PodCompleted", ""),
                     "Initialized": ("True", "PodCompleted", "")}, id="completed"),
        pytest.param(pod("a", **NEVER), {"a": ended(1)}, {"Ready": ("False", "PodFailed", "")}, id="failed"),
        pytest.param(pod("a", readinessGates=[{"conditionType": "x/y"}]), {"a": runs()},
                     {"ContainersReady": ("True", "", ""), "Ready": ("False", "ReadinessGatesNotReady",
                      'corresponding condition of pod readiness gate "x/y" does not exist.')}, id="a gate"),
    ],
)  # fmt: skip
def test_conditions(given, known, want):
    found = conditions_of(status_of(given, known))
    assert {kind: found[kind] for kind in want} == want


def test_conditions_keep_their_time_and_those_of_others_stay():
    given = pod("a", readinessGates=[{"conditionType": "x/y"}])
    old = {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    given["status"] = {"phase": "Running", "conditions": [old, {"type": "x/y", "status": "True"}]}
    found = {one["type"]: one for one in status_of(given, {"a": runs()})["conditions"]}
    assert found["Ready"]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert found["x/y"] == {"type": "x/y", "status": "True"}
    found = {one["type"]: one for one in status_of(given, {"a": ended(1)})["conditions"]}
    assert found["Ready"]["lastTransitionTime"] == moment_text(START_S)


@pytest.mark.parametrize(
    ("given", "known", "want"),
    [
        pytest.param(pod("a"), {}, {"waiting": {"reason": "ContainerCreating"}}, id="being made"),
        pytest.param(pod("a", init=["i"]), {"i": runs()}, {"waiting": {"reason": "PodInitializing"}}, id="init"),
        pytest.param(pod("a"), {"a": Container(waits_for="ErrImagePull", waits_because="why")},
                     {"waiting": {"reason": "ErrImagePull", "message": "why"}}, id="cannot"),
        pytest.param(pod("a"), {"a": ended(1, ends=6)}, {"waiting": {"reason": "CrashLoopBackOff", "message":
                     "back-off 2m40s restarting failed container=a pod=p_x(u)"}}, id="a pause"),
    ],
)  # fmt: skip
def test_what_a_container_waits_for(given, known, want):
    assert status_of(given, known)["containerStatuses"][0]["state"] == want


def test_the_run_before_is_shown():
    again = ended(3).begun(Run(started_s=START_S))
    shown = status_of(pod("a"), {"a": again})["containerStatuses"][0]
    assert "running" in shown["state"]
    assert shown["lastState"]["terminated"]["exitCode"] == 3
    assert shown["restartCount"] == 1


@pytest.mark.parametrize(
    "known",
    [
        {},
        {"a": runs(), "s": runs()},
        {"a": ended(1, ends=1), "i": ended()},
        {"a": ended(1, ends=3, restarts=2), "i": ended()},
        {"a": ended(2).begun(Run(started_s=START_S)), "s": ended(1)},
    ],
)
def test_a_status_tells_all_that_the_next_step_needs(known):
    given = pod("a", init=["i", "s+"])
    given["status"] = status_of(given, known)
    assert steps_of(given, containers_of(given, BACK_OFF)) == steps_of(given, known)
    assert status_of(given, containers_of(given, BACK_OFF)) == given["status"]


def test_a_pod_has_to_end_when_it_is_deleted_or_has_had_its_time():
    given = pod("a", activeDeadlineSeconds=60)
    assert deadline_s(given) is None
    given["status"] = {"startTime": moment_text(START_S)}
    assert halt_of(given, START_S + 59) is None
    found = halt_of(given, START_S + 60)
    assert found is not None and found.reason == "DeadlineExceeded"
    given["metadata"]["deletionTimestamp"] = moment_text(START_S)
    assert halt_of(given, START_S) == Halt()
    status = status_of(pod("a"), {"a": ended(143)}, found)
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
