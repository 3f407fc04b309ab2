"""The manifests that people have on their screens today, as stories in simulated time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.app.demo.simulated import SimulatedStage
from muster.app.demo.story import Stage, Story, Target, Wanted, outcome
from muster.app.manifests import read_manifests
from muster.dialects.kueue.lint_fix import fixed
from muster.store.kinds import Object
from tests.stories.playing import story_of
from tests.support import shared

FIRST = ("Namespace", "PriorityClass", "WorkloadPriorityClass")  # what others name
WORKLOADS = "workloads.kueue.x-k8s.io"


def objects_of(*files: Path) -> list[tuple[str, Object]]:
    return [(document.source, dict(document.value)) for document in read_manifests(map(str, files))]


def story(pools: dict[str, Any]) -> Story:
    return Story(name="", title="", profile="muster", pools=pools, steps=(), end={})


def wait(stage: Stage, kind: str, name: str, *, namespace: str = "", **wanted: Any) -> None:
    stage.wait(Target(kind, namespace, name), Wanted(**wanted))


def test_the_quickstart():
    manifests = shared("manifests")
    stage = SimulatedStage(story({"pools": [{"name": "w", "count": 2, "labels": {"node-type": "worker"}}]}))
    try:
        stage.create(tuple(obj for _, obj in objects_of(manifests / "kueue-quickstart-queues.yaml")))
        stage.create(tuple(obj for _, obj in objects_of(manifests / "kueue-quickstart-job.yaml")))
        (job,) = stage.all("jobs.batch")
        assert job["spec"]["suspend"]
        own = {"namespace": "default", "name": "sample-job-*"}
        wait(stage, "job", path=("status", "ready"), value="3", **own)
        for kind, name, namespace in (("clusterqueue", "cluster-queue", ""), ("localqueue", "user-queue", "default")):
            wait(stage, kind, name, namespace=namespace, path=("status", "admittedWorkloads"), value="1")
        wait(stage, "job", condition="Complete", **own)
        wait(stage, "localqueue", "user-queue", namespace="default", path=("status", "reservingWorkloads"), value="0")
        assert outcome(stage) == story_of("quickstart").end
    finally:
        stage.close()


@pytest.fixture
def corrected() -> list[Object]:
    """The worked scenario as `muster lint --fix` writes it, in an order in which it can be created."""
    files = sorted(shared("manifests").glob("scenario-*.yaml"))
    objects = [dict(obj) for _, obj in fixed(objects_of(*files))]
    for obj in objects:
        if obj["kind"] == "ConfigMap":
            obj["metadata"] = {"namespace": "default", **obj["metadata"]}  # as kubectl does
    return sorted(objects, key=lambda obj: FIRST.index(obj["kind"]) if obj["kind"] in FIRST else len(FIRST))


def test_the_corrected_scenario_runs(corrected):
    stage = SimulatedStage(story(dict(story_of("two-teams").pools)))
    try:
        stage.create(tuple(corrected))
        wait(stage, "job", "llm-training-research", namespace="ai-research", path=("status", "ready"), value="2")
        wait(stage, "job", "model-inference-prod", namespace="ai-production", path=("status", "ready"), value="4")
        cards = [pod["spec"]["nodeName"] for pod in stage.all("pods")]
        assert len(cards) == 6 and all(node.startswith("v100-") for node in cards)
        classes = {one["metadata"]["namespace"]: one["spec"]["priority"] for one in stage.all(WORKLOADS)}
        assert classes == {"ai-production": 1000, "ai-research": 100}
        for kind, name in (("ai-research", "llm-training-research"), ("ai-production", "model-inference-prod")):
            stage.finish(Target("job", kind, name))
            wait(stage, "job", name, namespace=kind, condition="Complete")
    finally:
        stage.close()
