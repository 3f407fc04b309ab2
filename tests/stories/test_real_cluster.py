"""The stories on a real control plane with `muster manage` beside it: the same end as on Muster's own server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.app.demo.story import Story, do, outcome
from muster.dialects.kueue.names import QUEUE_NAME
from muster.store.kinds import Object
from tests.kubernetes.build import NoControlPlane, program
from tests.kubernetes.managed import managed, with_definitions
from tests.kubernetes.plane import Plane, started
from tests.stories.playing import STORIES, story_of
from tests.stories.stages import WAIT_S, HttpStage, arguments_for

POLL_S = 0.2


@pytest.fixture
def whole_plane(tmp_path: Path) -> Iterator[Plane]:
    """A control plane of its own for each story: they use the same names."""
    if not os.environ.get("MUSTER_KUBERNETES"):
        pytest.skip("needs a real Kubernetes: make test-kubernetes, or set MUSTER_KUBERNETES=1")
    try:
        program()
    except NoControlPlane as missing:
        pytest.skip(str(missing))
    folder = tmp_path / "plane"
    folder.mkdir()
    with started(folder, has_controllers=True) as plane:
        yield plane


class RealStage(HttpStage):
    """A real cluster without webhooks: whoever creates a job says what they would have said."""

    def create_one(self, given: Object) -> None:
        super().create_one(_as_admitted(given))


def _as_admitted(given: Object) -> Object:
    """A job that waits if it has a queue, and whose pods Muster places, as it places all pods where it is alone."""
    if given["kind"] != "Job":
        return given
    held: Object = json.loads(json.dumps(given))
    if QUEUE_NAME in (given["metadata"].get("labels") or {}):
        held["spec"]["suspend"] = True
    held["spec"]["template"]["spec"].setdefault("schedulerName", "muster")
    return held


def _play(story: Story, stage: RealStage) -> None:
    """Play a story to its end; what queues say of themselves may come some seconds after what is so."""
    for step in story.steps:
        do(step, stage)
    deadline = time.monotonic() + WAIT_S
    while (found := outcome(stage)) != story.end and time.monotonic() < deadline:
        time.sleep(POLL_S)
    assert found == story.end


@pytest.mark.parametrize("name", STORIES)
def test_a_story(name: str, whole_plane: Plane, tmp_path: Path):
    story = story_of(name)
    with_definitions(whole_plane)
    arguments_for(story, tmp_path, is_local=False)
    nodes = ("--simulated-nodes", str(tmp_path / "nodes.yaml"))
    with managed(whole_plane, tmp_path, *nodes, "--profile", story.profile):
        try:
            _play(story, RealStage(whole_plane))
        except BaseException:
            print((tmp_path / "manage.log").read_text()[-4000:])
            raise
