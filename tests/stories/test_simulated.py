"""Stories in simulated time: the same steps, the same end as with kubectl on a running server."""

from __future__ import annotations

import pytest

from muster.app.demo.simulated import SimulatedStage
from tests.stories.playing import STORIES, assert_plays, story_of


@pytest.mark.parametrize("name", STORIES)
def test_a_story(name):
    story = story_of(name)
    stage = SimulatedStage(story)
    try:
        assert_plays(story, stage)
    finally:
        stage.close()
