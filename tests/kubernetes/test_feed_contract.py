"""What feeds and clients promise, on a real API server."""

from __future__ import annotations

import asyncio

import pytest

from tests.controllers.feed_contract import STORIES, on_server
from tests.kubernetes.plane import Plane


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_on_a_real_server(story, plane: Plane):
    async def play() -> None:
        async with on_server(plane.kubeconfig) as world:
            await story(world)

    asyncio.run(play())
