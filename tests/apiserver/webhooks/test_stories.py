"""Webhooks over real HTTPS: what they are asked and what follows is what a real API server has been recorded to do."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.apiserver.admission.test_rows import everything
from tests.apiserver.webhooks.hooks import Hooks, running
from tests.apiserver.webhooks.stories import STORIES, TOLD, Json, asked, configurations, told
from tests.apiserver.world import World, in_world


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooks]:
    with running(tmp_path_factory.mktemp("hooks")) as server:
        yield server


async def happened(world: World, name: str, hooks: Hooks) -> Json:
    """What is said and asked in a story."""
    story, namespace = STORIES[name], f"story-{list(STORIES).index(name)}"
    await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    for path, body in configurations(story, namespace, hooks):
        assert (await world.request("POST", path, body)).status == 201
    hooks.asked.clear()
    answers = []
    for method, path, body, *form in story.requests:
        headers = {"content-type": form[0]} if form else {}
        answers.append(told(await world.request(method, path.format(ns=namespace), body, headers=headers)))
    return {"answers": answers, "asked": asked(hooks.asked)}


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_the_same_as_in_kubernetes(name: str, hooks: Hooks) -> None:
    async def story(world: World) -> None:
        assert await happened(world, name, hooks) == json.loads(TOLD.read_text())[name]

    in_world(story, catalog=everything())
