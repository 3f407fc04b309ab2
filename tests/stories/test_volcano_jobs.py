"""Volcano's jobs from their submission to their end, in simulated time with simulated nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.model.errors import InvalidObject
from muster.sim.world import World
from muster.store.records import Key
from tests.stories.volcano_jobs import COMMANDS, GROUPS, START, Story, a_job, a_queue, a_task, a_world, policy


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = a_world()
    yield made
    made.close()


@pytest.fixture
def story(world: World) -> Iterator[Story]:
    made = Story(world)
    yield made
    made.close()


def test_a_job_waits_for_its_group_runs_and_completes(story: Story) -> None:
    story.submit(a_job(a_task("ps"), a_task("worker", 2), queue="later"))
    assert story.phase == "Pending" and story.pods() == {}
    (group,) = story.world.all(GROUPS)
    assert group["spec"]["minMember"] == 3 and group["spec"]["minTaskMember"] == {"ps": 1, "worker": 2}
    assert story.told("QueueNotFound") == ["the job waits: there is no queue later"]
    story.submit(a_queue("later"))
    story.until("Running")
    assert set(story.pods()) == {"train-ps-0", "train-worker-0", "train-worker-1"}
    assert story.status["running"] == 3 and story.status["minAvailable"] == 3
    story.until("Completed")
    assert story.phases == ["Pending", "Running", "Completed"]
    assert story.status["taskStatusCount"] == {
        "ps": {"phase": {"Succeeded": 1}},
        "worker": {"phase": {"Succeeded": 2}},
    }
    story.run(5)
    assert story.world.all(GROUPS) == [] and set(story.pods().values()) == {"Succeeded"}


def test_a_failed_pod_restarts_the_job_until_it_has_been_tried_often_enough(story: Story) -> None:
    story.submit(a_job(a_task("bad", code=1), a_task("good", run="1h"), policies=[policy("PodFailed", "RestartJob")]))
    story.until("Failed")
    assert story.status["retryCount"] == 3 and story.status["version"] == 3
    assert story.phases[:4] == ["Pending", "Running", "Restarting", "Pending"]
    story.run(60)
    assert story.pods() == {"train-bad-0": "Failed"}, "the last try keeps what has ended"


def test_a_job_fails_when_its_pods_do_and_nobody_says_what_to_do(story: Story) -> None:
    story.submit(a_job(a_task("bad", code=1)))
    story.until("Failed")
    assert story.phases == ["Pending", "Running", "Failed"]


def test_a_restarted_task_leaves_the_others_alone(story: Story) -> None:
    failing = a_task("bad", code=1, policies=[policy("PodFailed", "RestartTask")])
    story.submit(a_job(failing, a_task("good", run="1h"), maxRetry=2))
    story.until("Running")
    good = story.pod("train-good-0")["metadata"]["uid"]
    first = story.pod("train-bad-0")["metadata"]["uid"]
    story.until("Running", times=2)
    assert story.pod("train-good-0")["metadata"]["uid"] == good
    assert story.pod("train-bad-0")["metadata"]["uid"] != first
    assert story.status.get("version", 0) == 0 and story.status["retryCount"] == 1
    story.until("Failed")


def test_a_command_aborts_a_job_and_another_resumes_it(story: Story) -> None:
    story.submit(a_job(a_task("short", run="5s"), a_task("long", run="1h")))
    story.until("Running")
    story.run(10)
    story.submit(story.command("AbortJob"))
    story.until("Aborted")
    assert story.pods() == {"train-short-0": "Succeeded"} and story.world.all(COMMANDS) == []
    story.run(60)
    assert story.world.all(GROUPS) == []
    story.submit(story.command("ResumeJob"))
    story.until("Running", times=2)
    assert story.pods() == {"train-short-0": "Succeeded", "train-long-0": "Running"}
    assert story.phases == ["Pending", "Running", "Aborting", "Aborted", "Restarting", "Pending", "Running"]


@pytest.mark.parametrize(("action", "end"), [("CompleteJob", "Completed"), ("TerminateJob", "Terminated")])
def test_a_command_ends_a_job(story: Story, action: str, end: str) -> None:
    story.submit(a_job(a_task("long", run="1h")))
    story.until("Running")
    story.submit(story.command(action))
    story.until(end)
    assert story.pods() == {}


def test_a_task_waits_for_the_one_that_it_depends_on(story: Story) -> None:
    first = a_task("prepare", notes={START: "20s"})
    story.submit(a_job(first, a_task("train", 2, dependsOn={"name": ["prepare"]}), minAvailable=1))
    story.run(19)
    assert set(story.pods()) == {"train-prepare-0"}
    story.until("Completed")
    assert set(story.pods()) == {"train-prepare-0", "train-train-0", "train-train-1"}


def test_tasks_wait_for_a_policy_that_lets_them_begin(story: Story) -> None:
    after = policy("TaskCompleted", "Enqueue", condition={"taskName": "prepare"})
    story.submit(a_job(a_task("prepare", run="20s"), a_task("train", 2), minAvailable=1, policies=[after]))
    story.run(19)
    assert story.pods() == {"train-prepare-0": "Running"}
    story.until("Completed")
    assert set(story.pods()) == {"train-prepare-0", "train-train-0", "train-train-1"}


def test_a_pod_that_others_delete_is_evicted(story: Story) -> None:
    story.submit(a_job(a_task("one", 2, run="1h"), policies=[policy("PodEvicted", "AbortJob")]))
    story.until("Running")
    story.world.delete(Key("pods", "default", "train-one-0"))
    story.until("Aborted")
    assert story.status["conditions"][-2]["status"] == "Aborting" and story.pods() == {}


def test_a_pod_that_others_delete_is_made_anew_where_nobody_says_otherwise(story: Story) -> None:
    story.submit(a_job(a_task("one", 2, run="1h")))
    story.until("Running")
    before = story.pod("train-one-0")["metadata"]["uid"]
    story.world.delete(Key("pods", "default", "train-one-0"))
    story.run(120)
    assert story.pod("train-one-0")["metadata"]["uid"] != before
    assert story.phase == "Running" and story.status.get("retryCount", 0) == 0


def test_an_evicted_pod_that_runs_again_in_time_cancels_what_would_follow(story: Story) -> None:
    story.submit(a_job(a_task("one", 2, run="1h"), policies=[policy("PodEvicted", "AbortJob", timeout="10m")]))
    story.until("Running")
    story.world.delete(Key("pods", "default", "train-one-0"))
    story.run(1_200)
    assert story.phase == "Running"


def test_pods_that_stay_pending_for_too_long_restart(story: Story) -> None:
    impossible = {"nodeSelector": {"there": "none"}}
    waits = a_task("one", pod=impossible, policies=[policy("PodPending", "AbortJob", timeout="5m")])
    story.submit(a_job(waits))
    story.run(299)
    assert story.phase == "Pending"
    story.until("Aborted", within_s=10)


def test_an_exit_code_decides(story: Story) -> None:
    story.submit(a_job(a_task("one", code=3), policies=[policy(3, "CompleteJob"), policy("PodFailed", "RestartJob")]))
    story.until("Completed")
    assert "Completing" in story.phases


def test_the_end_of_one_task_completes_the_job(story: Story) -> None:
    done = a_task("master", run="20s", policies=[policy("TaskCompleted", "CompleteJob")])
    story.submit(a_job(done, a_task("ps", run="10h")))
    story.until("Completed")
    assert story.phases == ["Pending", "Running", "Completing", "Completed"]


def test_an_unknown_group_restarts_the_job(story: Story) -> None:
    story.submit(a_job(a_task("one", run="1h"), policies=[policy("Unknown", "RestartJob")]))
    story.until("Running")
    story.set_group("Unknown")
    story.until("Running", times=2)
    assert story.status["retryCount"] == 1


def test_enough_successes_complete_a_job(story: Story) -> None:
    story.submit(a_job(a_task("quick", run="5s"), a_task("slow", run="1h"), minSuccess=1))
    story.until("Completed", within_s=60)


def test_a_finished_job_is_deleted_after_its_time(story: Story) -> None:
    story.submit(a_job(a_task("one", run="5s"), ttlSecondsAfterFinished=100))
    story.until("Completed")
    story.run(99)
    assert story.phase == "Completed"
    story.run(5)
    assert story.world.find("jobs.batch.volcano.sh", "train", "default") is None and story.pods() == {}


def test_a_job_can_grow_and_shrink(story: Story) -> None:
    story.submit(a_job(a_task("one", 2, run="1h"), minAvailable=1))
    story.until("Running")
    story.change(tasks=[{**story.job["spec"]["tasks"][0], "replicas": 3, "minAvailable": 1}])
    story.run(30)
    assert set(story.pods()) == {"train-one-0", "train-one-1", "train-one-2"}
    story.change(tasks=[{**story.job["spec"]["tasks"][0], "replicas": 1, "minAvailable": 1}])
    story.run(60)
    assert set(story.pods()) == {"train-one-0"} and story.phase == "Running"
    assert story.status.get("retryCount", 0) == 0


def test_plugins_have_their_objects_while_the_job_runs(story: Story) -> None:
    story.submit(a_job(a_task("master", run="30s"), a_task("worker", 2, run="30s"), plugins={"mpi": []}))
    story.until("Running")
    world = story.world
    hosts = world.get("configmaps", "train-svc", "default")["data"]
    assert hosts["VC_WORKER_HOSTS"] == "train-worker-0.train,train-worker-1.train" and hosts["VC_WORKER_NUM"] == "2"
    assert world.get("services", "train", "default")["spec"]["clusterIP"] == "None"
    assert set(world.get("secrets", "train-ssh", "default")["data"]) == {
        "id_rsa",
        "id_rsa.pub",
        "authorized_keys",
        "config",
    }
    assert story.status["controlledResources"] == {
        "plugin-mpi": "mpi",
        "plugin-ssh": "ssh",
        "plugin-svc": "svc",
    }
    story.until("Completed")
    story.run(5)
    assert world.find("services", "train", "default") is None and "controlledResources" not in story.status


def test_a_job_survives_its_controller(story: Story) -> None:
    """The controllers start anew after every write that they make, and the job ends as ever."""
    story.submit(a_job(a_task("bad", code=1), a_task("good", run="1h"), policies=[policy("PodFailed", "RestartJob")]))
    for _ in range(400):
        if story.phase == "Failed":
            break
        story.world.stop("controllers")
        story.world.start("controllers")
        story.run(1)
    assert story.phase == "Failed" and story.status["retryCount"] == 3


def test_jobs_are_completed_and_refused_on_their_way_in(story: Story) -> None:
    story.submit(a_job(a_task("one", 2, run="1h")))
    spec = story.job["spec"]
    assert (spec["minAvailable"], spec["maxRetry"], spec["tasks"][0]["minAvailable"]) == (2, 3, 2)
    with pytest.raises(InvalidObject, match=r"spec\.tasks\[1\]\.name"):
        story.submit(a_job(a_task("one"), a_task("one"), name="twice"))
    with pytest.raises(InvalidObject, match=r"spec\.tasks\[0\]\.template\.spec\.containers"):
        story.submit(a_job(a_task("one", pod={"containers": []}), name="empty"))
    with pytest.raises(InvalidObject, match=r"spec\.queue"):
        story.change(queue="other")
