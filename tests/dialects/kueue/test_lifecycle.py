"""What becomes of a workload, as tables: the next write, or when to look again."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from muster.dialects.kueue.configuration import RetentionPolicies, WaitForPodsReady
from muster.dialects.kueue.job_steps import Verb
from muster.dialects.kueue.lifecycle import (
    QUEUE_STOPPED,
    SUBMIT_QUEUE_STOPPED,
    TARGET,
    Life,
    LifecycleRules,
    Outlook,
    outlook,
)
from muster.model.fields import Fields
from muster.model.times import moment_text
from tests.stories.lives import contradictions

AT = 1_700_000_000.0  # when all conditions came
ADMITTED = ("QuotaReserved", "Admitted")
READY = WaitForPodsReady(timeout_s=300, recovery_timeout_s=100, requeues_most=3, backoff_base_s=10, backoff_most_s=50)


def condition(text: str) -> dict[str, str]:
    """Written as `Type`, `Type:Reason` or `!Type:Reason`."""
    name, _, reason = text.removeprefix("!").partition(":")
    status = "False" if text.startswith("!") else "True"
    when = moment_text(AT)
    return {"type": name, "status": status, "reason": reason or name, "message": "m", "lastTransitionTime": when}


def workload(*conditions: str, spec: Any = None, **status: Any) -> Fields:
    listed = [condition(one) for one in conditions]
    if "QuotaReserved" in conditions:
        status.setdefault("admission", {"clusterQueue": "main", "podSetAssignments": []})
    return Fields(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {"name": "w", "namespace": "team", "uid": "1", "generation": 1},
            "spec": {"active": True, "queueName": "main", **(spec or {})},
            "status": {"conditions": listed, **status},
        }
    )


def after(given: Fields, seconds: float = 0.0, *, rules: LifecycleRules | None = None, **stops: str) -> Outlook:
    """The outlook some time after the conditions came."""
    found = {QUEUE_STOPPED: stops.get("queue", "None"), SUBMIT_QUEUE_STOPPED: stops.get("submit", "None")}
    return outlook(Life(workload=given, stops=found, rules=rules or LifecycleRules(ready=READY), now=AT + seconds))


def said(found: Outlook, name: str) -> tuple[str, str]:
    """A condition of what is written: its status and reason."""
    assert found.step is not None and found.step.verb is Verb.UPDATE_STATUS, found
    assert not contradictions(found.step.obj)
    conditions = found.step.obj["status"]["conditions"]
    return next(((one["status"], one["reason"]) for one in conditions if one["type"] == name), ("", ""))


def check(state: str, **more: Any) -> dict[str, Any]:
    return {"name": "scan", "state": state, "message": "", "lastTransitionTime": moment_text(AT), **more}


@pytest.mark.parametrize(
    ("given", "settings", "want"),
    [
        pytest.param(workload(*ADMITTED), {"queue": "Hold"}, None, id="a held queue lets run"),
        pytest.param(workload(*ADMITTED), {"queue": "HoldAndDrain"}, "ClusterQueueStopped", id="a drained one not"),
        pytest.param(workload(*ADMITTED), {"submit": "HoldAndDrain"}, "LocalQueueStopped", id="nor a submit queue"),
        pytest.param(
            workload(*ADMITTED, "Evicted:Preempted"), {"queue": "HoldAndDrain"}, None, id="who goes, goes once"
        ),
        pytest.param(workload(*ADMITTED), {"seconds": 299}, None, id="pods may take their time"),
        pytest.param(workload(*ADMITTED), {"seconds": 300}, "PodsReadyTimeout", id="and no longer"),
        pytest.param(workload(*ADMITTED, "PodsReady"), {"seconds": 9_999}, None, id="who is ready is not late"),
        pytest.param(
            workload(*ADMITTED, "!PodsReady:WaitForRecovery"), {"seconds": 100}, "PodsReadyTimeout", id="or recovers"
        ),
        pytest.param(workload(*ADMITTED, spec={"active": False}), {}, "Deactivated", id="switched off"),
        pytest.param(
            workload(*ADMITTED, f"{TARGET}:AdmissionCheck", spec={"active": False}),
            {},
            "DeactivatedDueToAdmissionCheck",
            id="switched off for a reason",
        ),
        pytest.param(workload("QuotaReserved", admissionChecks=[check("Retry")]), {}, "AdmissionCheck", id="a check"),
        pytest.param(workload("QuotaReserved", admissionChecks=[check("Pending")]), {}, None, id="no word yet"),
        pytest.param(workload("QuotaReserved"), {"seconds": 9_999}, None, id="no pods to wait for"),
    ],
)
def test_evictions(given, settings, want):
    found = after(given, settings.pop("seconds", 0.0), **settings)
    if want is None:
        assert found.step is None
        return
    assert said(found, "Evicted") == ("True", want)
    assert said(found, "Admitted")[0] in ("False", ""), "the same write takes back the leave to run"
    is_held = said(found, "QuotaReserved")[0] == "True"
    assert is_held == any(one["type"] == "Admitted" for one in given.values["status"]["conditions"])
    assert said(found, TARGET) == ("", "")


@pytest.mark.parametrize(("count", "wait_s"), [(0, 10), (1, 20), (2, 40)])
def test_the_wait_doubles(count, wait_s):
    found = after(workload(*ADMITTED, requeueState={"count": count}), 300)
    state = found.step.obj["status"]["requeueState"]
    assert state == {"count": count + 1, "requeueAt": moment_text(AT + 300 + wait_s)}


def test_the_wait_has_a_bound_and_the_count_too():
    endless = LifecycleRules(ready=WaitForPodsReady(timeout_s=1, backoff_base_s=10, backoff_most_s=50))
    found = after(workload(*ADMITTED, requeueState={"count": 2**31 - 1}), 1, rules=endless)
    assert found.step.obj["status"]["requeueState"] == {"count": 2**31 - 1, "requeueAt": moment_text(AT + 51)}
    late = after(workload(*ADMITTED, requeueState={"count": 3}), 300)
    assert said(late, TARGET) == ("True", "RequeuingLimitExceeded")
    assert said(late, "Evicted") == ("", ""), "it is switched off first"


@pytest.mark.parametrize(
    ("given", "settings", "want"),
    [
        pytest.param("PodsReadyTimeout", {"seconds": 10}, "", id="before its time"),
        pytest.param("PodsReadyTimeout", {"seconds": 60}, "BackoffFinished", id="at its time"),
        pytest.param("AdmissionCheck", {"seconds": 60}, "BackoffFinished", id="after a check"),
        pytest.param("ClusterQueueStopped", {"queue": "Hold"}, "", id="the queue is still held"),
        pytest.param("ClusterQueueStopped", {}, "ClusterQueueRestarted", id="the queue goes on"),
        pytest.param("LocalQueueStopped", {}, "LocalQueueRestarted", id="the submit queue goes on"),
        pytest.param("Deactivated", {}, "Reactivated", id="switched on"),
        pytest.param("DeactivatedDueToAdmissionCheck", {}, "Reactivated", id="switched on by somebody"),
        pytest.param("Maintenance", {"seconds": 9_999}, "", id="held back by somebody else"),
    ],
)
def test_back_in_line(given, settings, want):
    state = {"count": 2, "requeueAt": moment_text(AT + 60)}
    found = after(workload(f"!Requeued:{given}", requeueState=state), settings.pop("seconds", 0.0), **settings)
    if not want:
        assert found.step is None
        return
    assert said(found, "Requeued") == ("True", want)
    assert found.step.obj["status"].get("requeueState") in ({"count": 2}, None)


def test_the_time_of_all_runs_counts():
    limited = workload(*ADMITTED, spec={"maximumExecutionTimeSeconds": 100}, accumulatedPastExecutionTimeSeconds=60)
    assert after(limited, 39) == Outlook(due_s=AT + 40)
    assert said(after(limited, 40), TARGET) == ("True", "MaximumExecutionTimeExceeded")


def test_a_target_is_switched_off():
    found = after(workload(*ADMITTED, f"{TARGET}:AdmissionCheck"))
    assert found.step.verb is Verb.UPDATE and found.step.obj["spec"]["active"] is False


@pytest.mark.parametrize(
    ("given", "seconds", "is_deleted"),
    [
        (workload("Finished:Succeeded"), 99, False),
        (workload("Finished:Succeeded"), 100, True),
        (workload("Evicted:DeactivatedDueToAdmissionCheck", spec={"active": False}), 199, False),
        (workload("Evicted:DeactivatedDueToAdmissionCheck", spec={"active": False}), 200, True),
        (workload("Evicted:Deactivated", spec={"active": False}), 9_999, False),
    ],
)
def test_retention(given, seconds, is_deleted):
    kept = LifecycleRules(retention=RetentionPolicies(after_finished_s=100, after_deactivated_s=200))
    found = after(given, seconds, rules=kept)
    assert (found.step is not None and found.step.verb is Verb.DELETE) == is_deleted
    assert after(given, seconds).step is None, "without a policy everything is kept"


def test_whatever_is_stored_nothing_is_written_that_contradicts_itself():
    times = [moment_text(AT), "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"]
    states = [{}, {"count": 2**31 - 1}, {"requeueAt": times[1]}, {"count": 1, "requeueAt": times[2]}]
    kinds = ("QuotaReserved", "Admitted", "Evicted", "PodsReady", "Requeued", "Finished", TARGET)
    for seed in range(2_000):
        chance = Random(seed)
        texts = [f"{chance.choice(['', '!'])}{one}" for one in kinds if chance.random() < 0.5]
        most = chance.choice((0, 1, 2**31 - 1))
        given = workload(
            *texts,
            spec={"maximumExecutionTimeSeconds": most, "active": chance.random() < 0.8},
            requeueState=chance.choice(states),
            accumulatedPastExecutionTimeSeconds=chance.choice((0, 2**31 - 1)),
        )
        for one in given.values["status"]["conditions"]:
            one["lastTransitionTime"] = chance.choice(times)
        before = contradictions(dict(given.values))
        found = after(given, chance.choice((0.0, 50.0, 1e6)), queue=chance.choice(("None", "HoldAndDrain")))
        if found.step is not None and not before:
            assert not contradictions(found.step.obj), seed
