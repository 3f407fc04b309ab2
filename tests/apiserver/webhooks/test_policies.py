"""Policies in effect: each request gets the answer that a real API server has been recorded to give."""

from __future__ import annotations

import json

import pytest

from tests.apiserver.admission.test_rows import everything
from tests.apiserver.webhooks.policy_stories import STORIES, TOLD, configurations
from tests.apiserver.webhooks.stories import told
from tests.apiserver.world import World, in_world


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_the_same_as_in_kubernetes(name: str) -> None:
    async def story(world: World) -> None:
        namespace = f"policy-{list(STORIES).index(name)}"
        await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        for path, body in configurations(STORIES[name], namespace):
            answer = await world.request("POST", path, body)
            assert answer.status == 201, answer.body
        answers = []
        for method, path, body, *form in STORIES[name].requests:
            headers = {"content-type": form[0]} if form else {}
            answers.append(told(await world.request(method, path.format(ns=namespace), body, headers=headers)))
        assert answers == json.loads(TOLD.read_text())[name]

    in_world(story, catalog=everything())
