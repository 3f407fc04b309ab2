"""Jobs of Volcano's by chance, disturbed by chance, with controllers that die: each comes to an end by legal steps."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.records import Key
from tests.stories.volcano_jobs import GROUPS, Story, a_job, a_task, a_world, policy
from tests.support import assert_sound, proof_count

FULL = 200
ACTIONS = ("AbortJob", "RestartJob", "RestartTask", "RestartPod", "TerminateJob", "CompleteJob")
EVENTS = ("PodFailed", "PodEvicted", "TaskCompleted", "Unknown")
KILLS = {"Restarting", "Aborting", "Completing", "Terminating"}
STEPS = {
    "Pending": {"Running", *KILLS},
    "Running": {"Pending", "Completed", "Failed", *KILLS},
    "Restarting": {"Pending", "Failed"},
    "Aborting": {"Aborted", "Restarting"},
    "Aborted": {"Restarting"},
    "Completing": {"Completed"},
    "Terminating": {"Terminated"},
}
ENDS = {"Completed", "Failed", "Terminated", "Aborted"}


def policies(chance: Random) -> list[Object]:
    chosen = chance.sample(EVENTS, chance.randrange(3))
    late = [{}, {"timeout": f"{chance.randrange(1, 20)}s"}]
    return [policy(event, chance.choice(ACTIONS), **chance.choice(late)) for event in chosen]


def job_by_chance(chance: Random, name: str) -> Object:
    tasks = [
        a_task(
            f"t{number}",
            chance.randint(1, 3),
            run=f"{chance.randint(1, 30)}s",
            code=chance.choice((0, 0, 1)),
            policies=policies(chance),
        )
        for number in range(chance.randint(1, 3))
    ]
    if len(tasks) > 1 and chance.random() < 0.3:
        tasks[1]["dependsOn"] = {"name": ["t0"]}
    least = chance.randint(1, tasks[0]["replicas"])
    spec = {"minAvailable": least, "maxRetry": chance.randint(1, 3), "policies": policies(chance)}
    return a_job(*tasks, name=name, plugins=chance.choice(({}, {"svc": []})), **spec)


def disturb(story: Story, chance: Random, number: int) -> None:
    """One thing that happens to a job, or to those who work on it."""
    world = story.world
    match chance.choice(("delete", "die", "command", "nothing", "nothing")):
        case "delete" if story.pods():
            try:
                world.delete(Key("pods", "default", chance.choice(sorted(story.pods()))))
            except NotFound:
                return
        case "die":
            world.stop("controllers")
            world.run(chance.random())
            world.start("controllers")
        case "command" if chance.random() < 0.3:
            world.create(story.command(chance.choice((*ACTIONS, "ResumeJob")), f"do-{number}"))


def check_steps(story: Story, most: int) -> None:
    found = story.phases
    assert found[0] == "Pending"
    for before, after in pairwise(found):
        assert after in STEPS.get(before, ()), f"{before} came before {after}: {found}"
    resumed = sum(before in ("Aborting", "Aborted") and after == "Restarting" for before, after in pairwise(found))
    assert story.status.get("retryCount", 0) <= most + resumed, story.status


@pytest.fixture(scope="module")
def world():
    made = a_world()
    yield made
    made.close()


@pytest.mark.prove
def test_jobs_by_chance_come_to_an_end(world) -> None:
    def live(chance: Random) -> None:
        story = Story(world, f"job-{world.store.revision}")
        given = job_by_chance(chance, story.name)
        story.submit(given)
        for number in range(chance.randrange(6)):
            story.run(chance.randrange(1, 15))
            disturb(story, chance, number)
            story.run()
            check_steps(story, given["spec"]["maxRetry"])
        story.run(1_500)
        check_steps(story, given["spec"]["maxRetry"])
        assert story.phase in ENDS, story.status
        assert set(story.pods().values()) <= {"Succeeded", "Failed"}, story.pods()
        assert world.all(GROUPS) == [] and world.find("services", story.name, "default") is None
        story.close()

    assert_sound(live, range(proof_count(FULL)))
