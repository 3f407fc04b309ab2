"""The manifests of Volcano's jobs that users have, on simulated nodes with cards: each leads where it is to lead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from muster.app.node_pools import pools_of
from muster.sim.world import World
from tests.stories.volcano_jobs import RUN, Story, a_world
from tests.support import shared

CARDS = {"count": 4, "model": "NVIDIA-A100", "memory": "80Gi"}
POOLS = {"pools": [{"name": "gpu", "count": 2, "cards": CARDS}]}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    shared("manifests")
    made = a_world(pools_of(POOLS))
    priority = {"metadata": {"name": "high-priority"}, "value": 1000}
    made.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **priority})
    yield made
    made.close()


def manifest(name: str, run: str = "30s") -> Any:
    """A manifest whose pods run for so long."""
    given = yaml.safe_load((shared("manifests") / f"{name}.yaml").read_text())
    given["metadata"]["namespace"] = "default"
    for task in given["spec"]["tasks"]:
        template = task["template"]
        template["metadata"] = {"annotations": {RUN: run}}
        template["spec"].setdefault("restartPolicy", "Never")
    return given


@pytest.fixture
def play(world: World) -> Iterator[Any]:
    stories = []

    def begin(name: str) -> Story:
        given = manifest(name)
        story = Story(world, given["metadata"]["name"])
        stories.append(story)
        story.submit(given)
        return story

    yield begin
    for story in stories:
        story.close()


@pytest.mark.parametrize(
    ("name", "pods"),
    [
        ("volcano-job-minimal", 3),
        ("volcano-job-distributed-training", 4),
        ("volcano-job-pytorch", 4),
        ("volcano-job-gpu-svc-env", 1),
        ("volcano-job-training-and-inference", 6),
    ],
)
def test_a_job_starts_with_all_its_pods_and_completes(play: Any, name: str, pods: int) -> None:
    story = play(name)
    story.until("Running")
    story.run(10)
    assert story.status["running"] == pods
    story.until("Completed")


def test_parts_of_cards_are_given_as_pods_can_ask_for_them(play: Any) -> None:
    story = play("volcano-job-training-and-inference")
    half = story.pod("ai-mixed-job-inference-task-0")["spec"]["containers"][0]["resources"]
    asked = {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50", "nvidia.com/gpucores": "50"}
    assert half == {"limits": asked, "requests": asked}
    whole = story.pod("ai-mixed-job-training-task-1")["spec"]["containers"][0]["resources"]
    assert whole["limits"] == whole["requests"] == {"nvidia.com/gpu": "1"}


@pytest.mark.parametrize("name", ["volcano-job-dependency", "volcano-job-condition"])
def test_one_task_comes_after_the_other(play: Any, name: str) -> None:
    story = play(name)
    story.until("Completed")
    created = {one["metadata"]["name"]: one["metadata"]["creationTimestamp"] for one in story.world.all("pods")}
    first = next(when for pod, when in created.items() if "preprocess" in pod)
    assert all(when >= first for when in created.values()) and len(created) == 3
    if name == "volcano-job-condition":
        assert sum(when > first for when in created.values()) == 2
