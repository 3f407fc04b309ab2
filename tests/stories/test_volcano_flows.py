"""Flows of Volcano's jobs, and jobs by the clock, in simulated time with simulated nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from muster.sim.world import World
from muster.store.kinds import Object
from muster.store.records import Key
from tests.stories.volcano_jobs import CRON_JOBS, FLOWS, JOBS, TEMPLATES, Story, a_job, a_task, a_world

FLOW = "flow.volcano.sh/v1alpha1"


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
    for one in world.all(TEMPLATES):
        world.delete(Key(TEMPLATES, "default", one["metadata"]["name"]))


def a_template(name: str, *tasks: Object) -> Object:
    given = a_job(*(tasks or (a_task("one"),)), name=name)
    return {**given, "apiVersion": FLOW, "kind": "JobTemplate"}


def a_flow(*steps: Object, **spec: Any) -> Object:
    metadata = {"name": "flow", "namespace": "default"}
    return {"apiVersion": FLOW, "kind": "JobFlow", "metadata": metadata, "spec": {"flows": list(steps), **spec}}


def phase(story: Story) -> str:
    return (story.world.get(FLOWS, "flow", "default").get("status") or {}).get("state", {}).get("phase", "")


def jobs(story: Story) -> dict[str, str]:
    return {one["metadata"]["name"]: one["status"]["state"]["phase"] for one in story.world.all(JOBS)}


def test_jobs_of_a_flow_run_one_after_the_other(story: Story) -> None:
    story.submit(a_template("first"), a_template("second"))
    story.submit(a_flow({"name": "first"}, {"name": "second", "dependsOn": {"targets": ["first"]}}))
    assert jobs(story) == {"flow-first": "Running"} and phase(story) == "Running"
    template = story.world.get(TEMPLATES, "first", "default")
    assert template["status"] == {"jobDependsOnList": ["flow-first"]}
    story.run(11)
    assert jobs(story) == {"flow-first": "Completed", "flow-second": "Running"}
    story.run(11)
    assert phase(story) == "Succeed"
    assert story.world.get(FLOWS, "flow", "default")["status"]["completedJobs"] == ["flow-first", "flow-second"]


def test_a_flow_fails_with_its_job_and_nothing_follows(story: Story) -> None:
    story.submit(a_template("first", a_task("one", code=1)), a_template("second"))
    story.submit(a_flow({"name": "first"}, {"name": "second", "dependsOn": {"targets": ["first"]}}))
    story.run(60)
    assert jobs(story) == {"flow-first": "Failed"} and phase(story) == "Failed"


def test_a_flow_waits_for_a_template_and_for_tasks(story: Story) -> None:
    probe = {"taskStatusList": [{"taskName": "one", "phase": "Running"}]}
    story.submit(a_template("first", a_task("one", run="1h")))
    story.submit(a_flow({"name": "first"}, {"name": "second", "dependsOn": {"targets": ["first"], "probe": probe}}))
    story.run(10)
    assert set(jobs(story)) == {"flow-first"}
    story.submit(a_template("second"))
    assert set(jobs(story)) == {"flow-first", "flow-second"}


def test_a_flow_leaves_nothing_where_it_is_to(story: Story) -> None:
    story.submit(a_template("first"), a_flow({"name": "first"}, jobRetainPolicy="delete"))
    story.run(60)
    assert phase(story) == "Succeed" and jobs(story) == {}


def test_a_volcano_job_starts_by_the_clock(story: Story) -> None:
    template = {"metadata": {"labels": {"by": "clock"}}, "spec": a_job(a_task("one", run="5s"))["spec"]}
    spec = {"schedule": "*/5 * * * *", "successfulJobsHistoryLimit": 2, "jobTemplate": template}
    metadata = {"name": "often", "namespace": "default"}
    story.submit(
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "metadata": metadata, "spec": spec},
    )
    story.run(1_500)
    key = Key(CRON_JOBS, "default", "often")
    story.world.change(key, lambda one: {**one, "spec": {**one["spec"], "suspend": True}})
    story.run(30)
    found = story.world.all(JOBS)
    assert [one["status"]["state"]["phase"] for one in found] == ["Completed"] * 2, "the history is short"
    assert found[0]["metadata"]["labels"] == {"by": "clock"}
    assert "volcano.sh/cronjob-scheduled-timestamp" in found[0]["metadata"]["annotations"]
    status = story.world.get(CRON_JOBS, "often", "default")["status"]
    assert status["lastSuccessfulTime"] >= status["lastScheduleTime"] and "active" not in status
