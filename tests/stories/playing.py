"""Which stories there are, and whether one came to the end that it says. Used by the tests beside it."""

from __future__ import annotations

from pathlib import Path

from muster.app.demo.story import Stage, Story, do, outcome, read_story
from muster.app.demo.telling import FOLDER

OWN = Path(__file__).resolve().parent
STORIES = {path.stem: path for folder in (OWN, FOLDER) for path in sorted(folder.glob("*.yaml"))}


def story_of(name: str) -> Story:
    return read_story(STORIES[name])


def assert_plays(story: Story, stage: Stage) -> None:
    """Play a story; it has to end as it says, on whatever stage."""
    for step in story.steps:
        do(step, stage)
    assert outcome(stage) == story.end
