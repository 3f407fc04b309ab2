"""Tells stories in plain words as they are played in simulated time. Called by `muster demo`, which prints it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from muster.app.demo.shown import SHOWN, Table
from muster.app.demo.simulated import SimulatedStage
from muster.app.demo.story import Step, Story, do, outcome, read_story
from muster.store.kinds import Object

FOLDER = Path(__file__).resolve().parent / "stories"
DEMOS = {  # what `muster demo` plays: a name, and the stories that belong to it
    "deadlock": ("deadlock-before", "deadlock-after"),
    "two-teams": ("two-teams",),
    "taken-back": ("taken-back",),
}


@dataclass(frozen=True, slots=True)
class Told:
    """One step as it is told: words, what was done, and how things stand then."""

    say: str
    did: tuple[str, ...]
    tables: tuple[Table, ...]


def stories_of(demo: str) -> list[Story]:
    """The stories that belong to a name."""
    return [read_story(FOLDER / f"{name}.yaml") for name in DEMOS[demo]]


def told(story: Story) -> Iterator[Told]:
    """Play a story in simulated time, step by step."""
    stage = SimulatedStage(story)
    try:
        for step in story.steps:
            do(step, stage)
            yield Told(step.say, tuple(_did(step)), tuple(SHOWN[name](stage) for name in step.show))
        assert outcome(stage) == story.end, f"{story.name} ended in another way than it says"
    finally:
        stage.close()


def _did(step: Step) -> Iterator[str]:
    for one in step.create:
        yield f"create {_called(one)}"
    if step.patch is not None:
        yield f"patch {step.patch} with {step.change}"
    if step.finish is not None:
        yield f"the work of {step.finish} is done"
    if step.wait is not None:
        yield f"seen: {step.wait}, {step.until}"


def _called(obj: Object) -> str:
    """An object in a line; of a job also what it asks for."""
    metadata = obj["metadata"]
    name = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
    if obj["kind"] != "Job":
        return f"{obj['kind']} {name}"
    limits = obj["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    asked = ", ".join(f"{resource} {amount}" for resource, amount in limits.items())
    queue = (metadata.get("labels") or {}).get("kueue.x-k8s.io/queue-name")
    where = f"queue {queue}" if queue else "no queue"
    return f"Job {name}: {obj['spec']['parallelism']} pods, each {asked}; {where}"
