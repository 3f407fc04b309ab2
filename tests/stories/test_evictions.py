"""Why workloads are evicted, and how they come back: each reason is a story in simulated time."""

from __future__ import annotations

import pytest

from muster.controllers.nodes.simulated import FAILED
from muster.store.kinds import Propagation
from muster.store.records import Key
from muster.store.rules import Deletion
from tests.stories.lives import (
    CHECKS,
    QUEUES,
    SUBMIT_QUEUES,
    WORKLOADS,
    Lives,
    a_job,
    an_object,
    configured,
    lives,
)

SLOW = {"metadata": {"annotations": {"sim.muster.dev/start-time": "10h"}}}
READY = {"timeout": "2m", "recoveryTimeout": "3m", "requeuingStrategy": {"backoffBaseSeconds": 10}}


def evictions(story: Lives) -> list[tuple[str, str, int]]:
    """How often a workload was evicted for what."""
    found = story.workload()["status"]["schedulingStats"]["evictions"]
    return [(one["reason"], one["underlyingCause"], one["count"]) for one in found]


def assert_stopped(story: Lives, reason: str, job: str = "train") -> None:
    """Its job waits without pods and without quota."""
    assert story.status("Evicted", job) == ("True", reason)
    assert story.status("QuotaReserved", job)[0] == "False" and story.status("Admitted", job)[0] == "False"
    assert "admission" not in story.workload(job)["status"]
    assert story.job(job)["spec"]["suspend"] is True and not story.pods(job)
    assert f"EvictedDueTo{reason}" in story.reasons


# Queues --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "namespace", "reason", "back"),
    [
        (QUEUES, "", "ClusterQueueStopped", "ClusterQueueRestarted"),
        (SUBMIT_QUEUES, "default", "LocalQueueStopped", "LocalQueueRestarted"),
    ],
)
def test_a_queue_that_is_held_lets_run_and_one_that_is_drained_does_not(resource, namespace, reason, back):
    with lives() as story:
        story.create(a_job("train", 2))
        story.run(30)
        story.change(resource, "main", namespace, stopPolicy="Hold")
        story.create(a_job("late"))
        story.run(30)
        assert story.has("Admitted") and not story.has("Evicted")
        assert not story.has("QuotaReserved", "late"), "nobody starts in a queue that is held"
        story.change(resource, "main", namespace, stopPolicy="HoldAndDrain")
        story.run(60)
        assert_stopped(story, reason)
        assert story.status("Requeued") == ("False", reason)
        assert story.counts() == (2, 0, 0)
        story.run(600)
        story.change(resource, "main", namespace, stopPolicy="Hold")
        story.run(60)
        assert story.status("Requeued") == ("False", reason), "it stays out of line while the queue is held"
        story.change(resource, "main", namespace, stopPolicy="None")
        story.run(60)
        assert story.has("Admitted") and story.has("Admitted", "late") and len(story.pods()) == 2
        assert story.status("Requeued") == ("True", back)
        assert evictions(story) == [(reason, "", 1)]


# Pods that are late --------------------------------------------------------------------------------------------------


def test_pods_that_are_not_ready_in_time_wait_longer_each_time_and_are_given_up():
    with lives(
        configured(waitForPodsReady={**READY, "requeuingStrategy": {"backoffBaseSeconds": 10, "backoffLimitCount": 2}})
    ) as story:
        story.create(a_job("train", template=SLOW))
        story.run(60)
        assert story.has("Admitted") and story.status("PodsReady") == ("False", "WaitForStart")
        for count, wait_s in ((1, 10), (2, 20)):
            story.until(lambda: story.status("Requeued") == ("False", "PodsReadyTimeout"), 400)
            assert_stopped(story, "PodsReadyTimeout")
            assert story.workload()["status"]["requeueState"]["count"] == count
            story.run(wait_s - 5)
            assert not story.has("QuotaReserved"), "it does not come back before its time"
            story.run(10)
            assert story.has("Admitted") and not story.has("Evicted")
            assert story.status("Requeued") == ("True", "BackoffFinished")
            assert story.workload()["status"]["requeueState"] == {"count": count}
        story.run(300)
        assert story.workload()["spec"]["active"] is False
        assert_stopped(story, "DeactivatedDueToRequeuingLimitExceeded")
        assert "requeueState" not in story.workload()["status"]
        assert evictions(story) == [
            ("PodsReadyTimeout", "WaitForStart", 2),
            ("Deactivated", "RequeuingLimitExceeded", 1),
        ]
        story.run(1_200)
        assert not story.has("QuotaReserved"), "it stays switched off until somebody switches it on"
        story.change_workload(active=True)
        story.run(60)
        assert story.has("Admitted") and story.status("Requeued") == ("True", "Reactivated")


def test_pods_that_are_lost_have_to_recover_in_time():
    ready = {"timeout": "2m", "recoveryTimeout": "1m"}
    late = {"metadata": {"annotations": {"sim.muster.dev/start-time": "90s"}}}
    with lives(configured(waitForPodsReady=ready)) as story:
        story.create(a_job("train", 2, template=late))
        story.run(100)
        assert story.status("PodsReady") == ("True", "Started")
        story.run(600)
        assert story.has("Admitted"), "who was ready is not late"
        pod = story.pods()[0]["metadata"]["name"]
        story.world.change(_pod(pod), lambda one: _annotated(one, {"sim.muster.dev/fail": "1"}))
        story.until(lambda: story.status("PodsReady") == ("False", "WaitForRecovery"), 30)
        story.run(50)
        assert story.has("Admitted"), "it may take its time"
        story.run(15)
        assert_stopped(story, "PodsReadyTimeout")
        assert evictions(story) == [("PodsReadyTimeout", "WaitForRecovery", 1)]


def test_nobody_starts_while_others_get_ready():
    ready = {"timeout": "10m", "blockAdmission": True}
    slow = {"metadata": {"annotations": {"sim.muster.dev/start-time": "90s"}}}
    with lives(configured(waitForPodsReady=ready)) as story:
        story.create(a_job("first", template=slow))
        story.run(10)
        story.create(a_job("second"))
        story.run(60)
        assert story.has("Admitted", "first") and not story.has("Admitted", "second")
        story.run(60)
        assert story.status("PodsReady", "first")[0] == "True" and story.has("Admitted", "second")


# Time ----------------------------------------------------------------------------------------------------------------


def test_a_job_that_runs_for_too_long_is_switched_off():
    with lives() as story:
        job = a_job("train")
        job["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "600"
        story.create(job)
        story.run(60)
        assert story.workload()["spec"]["maximumExecutionTimeSeconds"] == 600
        story.change(QUEUES, "main", stopPolicy="HoldAndDrain")
        story.run(900)
        spent_s = story.workload()["status"]["accumulatedPastExecutionTimeSeconds"]
        assert 50 <= spent_s <= 65, "while it waits it spends no time"
        story.change(QUEUES, "main", stopPolicy="None")
        story.run(500)
        assert story.has("Admitted")
        story.run(100)
        assert story.workload()["spec"]["active"] is False
        assert_stopped(story, "DeactivatedDueToMaximumExecutionTimeExceeded")
        assert ("Deactivated", "MaximumExecutionTimeExceeded", 1) in evictions(story)


# Others --------------------------------------------------------------------------------------------------------------


def test_a_workload_that_is_switched_off_leaves_and_comes_back():
    with lives() as story:
        story.create(a_job("train", 2))
        story.run(30)
        story.change_workload(active=False)
        story.run(60)
        assert_stopped(story, "Deactivated")
        story.run(600)
        assert not story.has("QuotaReserved")
        story.change_workload(active=True)
        story.run(60)
        assert story.has("Admitted") and len(story.pods()) == 2 and not story.has("Evicted")


def test_a_more_important_job_takes_the_place_of_another():
    with lives(preemption={"withinClusterQueue": "LowerPriority"}) as story:
        story.create({**an_object("WorkloadPriorityClass", "high"), "value": 100})
        story.create(a_job("train", 3))
        story.run(30)
        story.create(a_job("urgent", 3, **{"priority-class": "high"}))
        story.run(60)
        assert_stopped(story, "Preempted")
        assert story.has("Preempted") and story.has("Admitted", "urgent")
        assert story.status("Requeued") == ("True", "Preempted")
        story.world.delete(_job("urgent"), Deletion(propagation=Propagation.BACKGROUND))
        story.run(120)
        assert story.has("Admitted") and not story.has("Evicted") and not story.has("Preempted")


# Nodes ---------------------------------------------------------------------------------------------------------------

RACKS = [
    {"name": name, "count": 2, "labels": {"rack": name}, "capacity": {"cpu": "1", "memory": "8Gi"}, "runTime": "24h"}
    for name in ("a", "b")
]


def fail(story: Lives, node: str) -> None:
    """A machine is not heard of any more."""
    story.world.change(Key("nodes", "", node), lambda one: _annotated(one, {FAILED: "true"}))


def nodes_of(story: Lives) -> list[str]:
    return sorted(pod["spec"]["nodeName"] for pod in story.pods() if not pod["metadata"].get("deletionTimestamp"))


def test_pods_of_a_lost_node_move_to_another_and_go_where_there_is_none():
    with lives(nodes={"pools": RACKS}) as story:
        levels = [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
        story.create(an_object("Topology", "racks", {"levels": levels}))
        story.change("resourceflavors.kueue.x-k8s.io", "any", topologyName="racks", nodeLabels={"rack": "a"})
        story.world.run(1)
        story.create(a_job("train", 1))
        story.run(30)
        (first,) = nodes_of(story)
        fail(story, first)
        story.run(400)
        assert story.has("Admitted") and not story.has("Evicted")
        (second,) = nodes_of(story)
        assert second != first
        for node in story.world.all("nodes"):
            fail(story, node["metadata"]["name"])
        story.run(400)
        assert story.status("Evicted") == ("True", "NodeFailures")
        assert story.status("Requeued") == ("True", "NodeFailures") and not story.has("QuotaReserved")
        story.world.change(Key("nodes", "", first), _healed)
        story.run(60)
        assert story.has("Admitted") and nodes_of(story) == [first]


# Checks --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def checked():
    with lives(admissionChecksStrategy={"admissionChecks": [{"name": "scan"}]}) as story:
        story.create(an_object("AdmissionCheck", "scan", {"controllerName": "example.com/scan"}))
        when = "2026-01-01T00:00:00Z"
        active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": when}
        story.set_status(CHECKS, "scan", conditions=[active])
        story.create(a_job("train", 2))
        story.run(30)
        yield story


def test_a_job_starts_when_its_check_is_ready(checked):
    assert checked.has("QuotaReserved") and not checked.has("Admitted") and not checked.pods()
    updates = [{"name": "main", "labels": {"scanned": "yes"}, "annotations": {"scan": "clean"}}]
    checked.set_check("Ready", podSetUpdates=updates)
    checked.run(30)
    assert checked.has("Admitted") and len(checked.pods()) == 2
    for pod in checked.pods():
        assert pod["metadata"]["labels"]["scanned"] == "yes" and pod["metadata"]["annotations"]["scan"] == "clean"
    checked.change_workload(active=False)
    checked.run(60)
    (check,) = checked.workload()["status"]["admissionChecks"]
    assert (check["state"], check.get("podSetUpdates")) == ("Pending", None), "what it has said counts no more"
    assert "scanned" not in (checked.job()["spec"]["template"]["metadata"].get("labels") or {})


def test_a_check_that_asks_for_another_try_gives_the_quota_back_in_the_same_write(checked):
    checked.set_check("Retry", requeueAfterSeconds=300)
    checked.run(30)
    assert_stopped(checked, "AdmissionCheck")
    assert checked.status("Requeued") == ("False", "AdmissionCheck")
    checked.run(200)
    assert not checked.has("QuotaReserved"), "it does not come back before its time"
    checked.run(100)
    assert checked.has("QuotaReserved") and not checked.has("Evicted")
    (check,) = checked.workload()["status"]["admissionChecks"]
    assert (check["state"], check["retryCount"]) == ("Pending", 1)
    assert evictions(checked) == [("AdmissionCheck", "", 1)]


def test_a_check_that_takes_its_word_back_stops_the_job(checked):
    checked.set_check("Ready")
    checked.run(30)
    checked.set_check("Retry")
    checked.run(60)
    assert evictions(checked) == [("AdmissionCheck", "", 1)]
    assert checked.has("QuotaReserved") and not checked.has("Admitted"), "it waits for the check again"


def test_a_queue_may_get_and_lose_checks_while_a_workload_waits(checked):
    checked.create(an_object("AdmissionCheck", "second", {"controllerName": "example.com/scan"}))
    active = checked.world.get(CHECKS, "scan")["status"]["conditions"]
    checked.set_status(CHECKS, "second", conditions=active)
    both = {"admissionChecks": [{"name": "scan"}, {"name": "second"}]}
    checked.change(QUEUES, "main", admissionChecksStrategy=both)
    checked.run(5)
    names = [one["name"] for one in checked.workload()["status"]["admissionChecks"]]
    assert names == ["scan", "second"] and not checked.has("Admitted")
    checked.change(QUEUES, "main", admissionChecksStrategy=None)
    checked.run(5)
    assert checked.has("Admitted") and checked.pods(), "nothing is left to wait for"


def test_a_check_that_rejects_switches_the_workload_off(checked):
    checked.set_check("Rejected")
    checked.run(30)
    assert checked.workload()["spec"]["active"] is False
    assert_stopped(checked, "DeactivatedDueToAdmissionCheck")
    assert "AdmissionCheckRejected" in checked.reasons
    checked.run(600)
    assert not checked.has("QuotaReserved")


# Retention -----------------------------------------------------------------------------------------------------------


def test_workloads_are_forgotten_after_a_while():
    kept = {"workloads": {"afterFinished": "10m", "afterDeactivatedByKueue": "20m"}}
    with lives(configured(objectRetentionPolicies=kept)) as story:
        story.create(a_job("short", template={"metadata": {"annotations": {"sim.muster.dev/run-time": "10s"}}}))
        long = a_job("long")
        long["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"] = "60"
        story.create(long)
        story.create(a_job("off"))
        story.run(30)
        story.change_workload("off", active=False)
        story.run(300)
        assert story.has("Finished", "short") and story.status("Evicted", "long")[1].endswith("TimeExceeded")
        story.run(600)
        names = [one["metadata"]["name"].split("-")[1] for one in story.world.all(WORKLOADS)]
        assert names == ["long", "off"] and story.job("short"), "the job itself stays"
        story.run(600)
        names = [one["metadata"]["name"].split("-")[1] for one in story.world.all(WORKLOADS)]
        assert names == ["off"], "what a user has switched off is kept"
        assert [one["metadata"]["name"] for one in story.world.all("jobs.batch")] == ["off", "short"]


def _annotated(obj, annotations):
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **annotations}}}


def _healed(node):
    node["metadata"]["annotations"].pop(FAILED)
    return node


def _pod(name):
    return Key("pods", "default", name)


def _job(name):
    return Key("jobs.batch", "default", name)
