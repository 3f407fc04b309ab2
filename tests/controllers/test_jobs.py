"""Jobs from their creation to their end: they wait, start where they were assigned, stop, come back and finish."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from muster.dialects.kueue.job_admission import JobRules
from muster.dialects.kueue.job_steps import WORKLOADS
from muster.dialects.kueue.job_workloads import PREBUILT, workload_name
from muster.engine.contracts import GroupVersionKind
from muster.engine.job_forms import STOPPING
from muster.jobs.job.counts import MIN_PARALLELISM
from muster.model.errors import InvalidObject
from muster.store.objects import Part
from muster.store.records import Key
from tests.controllers.jobs_world import (
    FLAVORS,
    JOBS,
    PODS,
    QUEUE,
    QUEUES,
    World,
    a_flavor,
    a_job,
    a_pod,
    a_queue,
    status_of,
)

Story = Callable[[World], Awaitable[None]]


def told(story: Story, rules: JobRules | None = None) -> None:
    """Play a story to its end."""

    async def play() -> None:
        world = World(rules=rules)
        try:
            await world.create(FLAVORS, a_flavor())
            await world.create(QUEUES, a_queue())
            await story(world)
        finally:
            await world.stop()

    asyncio.run(play())


def template_of(job: dict) -> dict:
    return job["spec"]["template"]


def test_quickstart():
    async def story(world: World) -> None:
        made = await world.create(JOBS, a_job())
        assert world.job()["spec"]["suspend"] is True
        workload = world.workload()
        uid = made["metadata"]["uid"]
        assert workload["metadata"]["name"] == workload_name(GroupVersionKind("batch", "v1", "Job"), "train", uid)
        assert workload["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
        assert workload["metadata"]["ownerReferences"][0]["uid"] == uid
        assert (workload["spec"]["queueName"], workload["spec"]["podSets"][0]["count"]) == ("main", 3)
        await world.run_jobs()
        assert world.job()["spec"]["suspend"] is True, "it waits until it is admitted"
        await world.admit()
        job = world.job()
        assert job["spec"]["suspend"] is False
        pod = template_of(job)["spec"]
        assert pod["nodeSelector"] == {"instance": "spot"}
        assert [one["key"] for one in pod["tolerations"]] == ["spot"]
        metadata = template_of(job)["metadata"]
        assert metadata["labels"]["kueue.x-k8s.io/podset"] == "main"
        assert metadata["annotations"]["kueue.x-k8s.io/workload"] == workload["metadata"]["name"]
        assert status_of(world.workload(), "PodsReady") == ("False", "WaitForStart")
        await world.run_jobs(ready=3)
        assert status_of(world.workload(), "PodsReady") == ("True", "Started")
        await world.run_jobs(succeeded=3, ready=0, conditions=world.conditions({}, Complete="True"))
        assert status_of(world.workload(), "Finished") == ("True", "Succeeded")
        assert [one.partition(":")[0] for one in world.events] == [
            "train CreatedWorkload",
            "train Started",
            "train FinishedWorkload",
        ]

    told(story)


def test_an_evicted_job_comes_back_as_it_was():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job(pod={"nodeSelector": {"zone": "a"}}))
        before = template_of(world.job())
        await world.admit()
        await world.run_jobs(ready=3)
        await world.evict()
        job, workload = world.job(), world.workload()
        assert job["spec"]["suspend"] is True
        assert "startTime" not in job["status"]
        assert template_of(job) == before
        assert STOPPING not in job["metadata"].get("annotations", {})
        assert status_of(workload, "QuotaReserved")[0] == "True", "it keeps its quota while pods are there"
        assert "train Stopped: Preempted for another" in world.events
        world.clock.advance(100)
        await world.run_jobs()
        workload = world.workload()
        assert status_of(workload, "QuotaReserved") == ("False", "Pending")
        assert status_of(workload, "Admitted") == ("False", "NoReservation")
        assert status_of(workload, "Requeued") == ("True", "Preempted")
        assert status_of(workload, "PodsReady")[0] == "False"
        assert "admission" not in workload["status"]
        assert workload["status"]["accumulatedPastExecutionTimeSeconds"] == 100
        assert template_of(world.job()) == before
        await world.admit()
        assert world.job()["spec"]["suspend"] is False
        assert template_of(world.job())["spec"]["nodeSelector"] == {"zone": "a", "instance": "spot"}

    told(story)


@pytest.mark.parametrize(
    ("reason", "want"),
    [
        pytest.param("Preempted", "True", id="for another: it waits again at once"),
        pytest.param("Maintenance", "False", id="for its own sake: somebody lets it back"),
    ],
)
def test_an_evicted_workload_is_requeued_or_held(reason, want):
    async def story(world: World) -> None:
        await world.create(JOBS, a_job())
        await world.admit()
        await world.evict(reason, "go")
        await world.run_jobs()
        assert status_of(world.workload(), "Requeued") == (want, reason)

    told(story)


def test_a_user_can_neither_start_nor_stop_a_managed_job():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job())
        await world.change(JOBS, "train", suspend=False)
        assert world.job()["spec"]["suspend"] is True
        assert "train Stopped: Not admitted by cluster queue" in world.events
        await world.admit()
        await world.run_jobs()
        await world.change(JOBS, "train", suspend=True)
        assert world.job()["spec"]["suspend"] is False, "the workload is still admitted"

    told(story)


def test_a_workload_that_is_switched_off_stops_its_job_until_it_is_switched_on():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job())
        await world.admit()
        await world.run_jobs()
        name = world.workload()["metadata"]["name"]
        await world.change(WORKLOADS, name, active=False)
        await world.run_jobs()
        workload = world.workload()
        assert world.job()["spec"]["suspend"] is True
        assert status_of(workload, "Evicted") == ("True", "Deactivated")
        assert status_of(workload, "QuotaReserved")[0] == "False"
        assert status_of(workload, "Requeued") == ("False", "Deactivated")
        await world.change(WORKLOADS, name, active=True)
        assert status_of(world.workload(), "Requeued") == ("True", "Reactivated")

    told(story)


def test_a_job_may_start_with_fewer_pods_and_gets_its_own_number_back():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job(annotations={MIN_PARALLELISM: "2"}))
        assert world.workload()["spec"]["podSets"][0]["minCount"] == 2
        await world.admit(count=2)
        await world.run_jobs(ready=2)
        assert (world.job()["spec"]["parallelism"], world.job()["spec"]["suspend"]) == (2, False)
        assert status_of(world.workload(), "PodsReady")[0] == "True"
        with pytest.raises(InvalidObject, match="parallelism"):
            await world.change(JOBS, "train", parallelism=1)
        await world.evict()
        await world.run_jobs()
        assert (world.job()["spec"]["parallelism"], world.job()["spec"]["suspend"]) == (3, True)
        assert status_of(world.workload(), "QuotaReserved")[0] == "False"

    told(story)


def test_a_job_that_changes_while_it_waits_takes_its_workload_with_it():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job())
        first = world.workload()["metadata"]["uid"]
        await world.change(JOBS, "train", parallelism=2)
        workload = world.workload()
        assert (workload["metadata"]["uid"], workload["spec"]["podSets"][0]["count"]) == (first, 2)
        job = world.job()
        job["metadata"]["labels"][QUEUE] = "other"
        await world.plain.update(Key(JOBS, "team", "train"), job)
        await world.settle()
        assert world.workload()["spec"]["queueName"] == "other"

    told(story)


def test_a_job_that_changes_while_it_runs_waits_anew():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job(completions=9))
        await world.admit()
        await world.run_jobs()
        first = world.workload()["metadata"]["uid"]
        await world.change(JOBS, "train", parallelism=5)
        assert world.job()["spec"]["suspend"] is True
        await world.run_jobs()
        workload = world.workload()
        assert workload["metadata"]["uid"] != first
        assert workload["spec"]["podSets"][0]["count"] == 5
        assert "nodeSelector" not in workload["spec"]["podSets"][0]["template"]["spec"]

    told(story)


def test_a_stop_that_was_begun_is_ended_even_if_its_reason_is_gone():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job())
        await world.admit()
        await world.run_jobs()
        stopping = world.job()
        stopping["metadata"].setdefault("annotations", {})[STOPPING] = "true"
        stopping["spec"]["suspend"] = True
        await world.plain.update(Key(JOBS, "team", "train"), stopping)
        await world.settle()
        job = world.job()
        assert (job["spec"]["suspend"], STOPPING in job["metadata"].get("annotations", {})) == (False, False)

    told(story)


def test_pods_that_are_done_give_their_share_back():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job())
        await world.admit()
        await world.run_jobs(succeeded=2)
        assert world.workload()["status"]["reclaimablePods"] == [{"name": "main", "count": 2}]

    told(story)


def test_a_job_deleted_while_it_runs_lets_its_workload_go():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job())
        await world.admit()
        await world.run_jobs()
        await world.delete(JOBS, "train")
        assert world.workload()["metadata"].get("finalizers", []) == [], "so that the collector can take it"

    told(story)


def test_a_workload_deleted_while_its_job_runs_is_made_anew():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job())
        await world.admit()
        await world.run_jobs()
        first = world.workload()["metadata"]
        await world.delete(WORKLOADS, first["name"])
        assert world.job()["spec"]["suspend"] is True
        assert world.workload()["metadata"]["uid"] == first["uid"], "it stays until the pods are gone"
        await world.run_jobs()
        assert world.workload()["metadata"]["uid"] != first["uid"]
        assert "nodeSelector" not in template_of(world.job())["spec"]

    told(story)


def test_a_failed_job_says_so_through_its_workload():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job())
        await world.admit()
        failed = world.conditions({}, Failed="True")
        failed[0]["message"] = "Job has reached the specified backoff limit"
        await world.run_jobs(conditions=failed)
        (condition,) = [one for one in world.workload()["status"]["conditions"] if one["type"] == "Finished"]
        assert (condition["reason"], condition["message"]) == ("Failed", failed[0]["message"])

    told(story)


def test_a_job_that_contradicts_its_flavor_ends_its_workload():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job(pod={"nodeSelector": {"instance": "large"}}))
        await world.admit()
        assert world.job()["spec"]["suspend"] is True
        assert status_of(world.workload(), "Finished") == ("True", "FailedToStart")

    told(story)


def test_a_job_waits_for_a_flavor_that_is_not_there_yet():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job())
        await world.admit(flavors={"cpu": "late"})
        assert world.job()["spec"]["suspend"] is True
        await world.create(FLAVORS, a_flavor("late"))
        world.clock.advance(61)
        await world.settle()
        assert world.job()["spec"]["suspend"] is False

    told(story)


def test_a_job_whose_queue_nobody_has_made_waits_and_says_so():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job(queue="nowhere"))
        assert world.job()["spec"]["suspend"] is True
        assert "train Inadmissible: LocalQueue nowhere doesn't exist" in world.events

    told(story)


def test_a_job_without_a_queue_is_none_of_ours():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job(queue=""))
        assert world.job()["spec"]["suspend"] is False
        assert world.workloads() == []

    told(story)


def test_a_job_without_a_queue_waits_where_the_configuration_says_so():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job(queue=""))
        assert world.job()["spec"]["suspend"] is True
        assert "queueName" not in world.workload()["spec"]

    told(story, JobRules(manages_without_queue=True))


def test_another_priority_class_is_taken_over_while_the_job_runs():
    async def story(world: World) -> None:
        for name, value in (("low", 1), ("high", 100)):
            given = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass"}
            metadata = {"name": name}
            await world.create(
                "workloadpriorityclasses.kueue.x-k8s.io", {**given, "metadata": metadata, "value": value}
            )
        job = a_job()
        job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "low"
        await world.create(JOBS, job)
        assert world.workload()["spec"]["priority"] == 1
        await world.admit()
        running = world.job()
        running["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
        await world.plain.update(Key(JOBS, "team", "train"), running)
        await world.settle()
        assert (world.workload()["spec"]["priority"], world.job()["spec"]["suspend"]) == (100, False)

    told(story)


def test_a_prebuilt_workload_becomes_the_jobs_own():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job("other"))
        spec = world.workload()["spec"]
        await world.delete(JOBS, "other")
        await world.plain.delete(Key(WORKLOADS, "team", world.workload()["metadata"]["name"]))
        await world.create(JOBS, a_job(annotations={PREBUILT: "ready-made"}))
        assert world.workloads() == [], "it waits for the workload that it names"
        made = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "spec": spec}
        await world.create(WORKLOADS, {**made, "metadata": {"name": "ready-made", "namespace": "team"}})
        assert world.workload()["metadata"]["ownerReferences"][0]["name"] == "train"
        await world.admit()
        assert world.job()["spec"]["suspend"] is False

    told(story)


def test_a_prebuilt_workload_of_other_pods_is_out_of_sync():
    async def story(world: World) -> None:
        await world.create(JOBS, a_job("other", parallelism=2))
        spec = world.workload()["spec"]
        await world.delete(JOBS, "other")
        await world.plain.delete(Key(WORKLOADS, "team", world.workload()["metadata"]["name"]))
        await world.create(JOBS, a_job(annotations={PREBUILT: "ready-made"}))
        made = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "spec": spec}
        await world.create(WORKLOADS, {**made, "metadata": {"name": "ready-made", "namespace": "team"}})
        assert status_of(world.workload(), "Finished") == ("True", "OutOfSync")

    told(story)


# Plain pods ---------------------------------------------------------------------------------------------------------


def test_a_pod_waits_behind_its_gate_and_goes_when_it_is_evicted():
    async def story(world: World) -> None:
        await world.create(PODS, a_pod())
        pod = world.get(PODS, "one")
        assert pod["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]
        assert pod["metadata"]["finalizers"] == ["kueue.x-k8s.io/managed"]
        await world.admit()
        pod = world.get(PODS, "one")
        assert "schedulingGates" not in pod["spec"]
        assert pod["spec"]["nodeSelector"] == {"instance": "spot"}
        await world.evict()
        assert world.get(PODS, "one") is None, "nothing keeps it once it was told to go"
        assert world.workload()["metadata"].get("finalizers", []) == []
        assert "one Stopped: Preempted for another" in world.events

    told(story)


def test_a_pod_that_has_ended_ends_its_workload_and_may_go():
    async def story(world: World) -> None:
        await world.create(PODS, a_pod())
        await world.admit()
        pod = world.get(PODS, "one")
        await world.plain.update(Key(PODS, "team", "one"), {**pod, "status": {"phase": "Succeeded"}}, Part.STATUS)
        await world.settle()
        assert status_of(world.workload(), "Finished") == ("True", "Succeeded")
        assert world.get(PODS, "one")["metadata"].get("finalizers", []) == []

    told(story)


def test_a_pod_of_a_managed_job_is_counted_through_it():
    async def story(world: World) -> None:
        job = await world.create(JOBS, a_job())
        pod = a_pod("train-0")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job["metadata"]["uid"]}
        pod["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        await world.create(PODS, pod)
        assert "schedulingGates" not in world.get(PODS, "train-0")["spec"]
        assert len(world.workloads()) == 1

    told(story)
