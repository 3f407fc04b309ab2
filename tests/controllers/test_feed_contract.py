"""What feeds and clients promise: on a store of this process, and on a server of our own over HTTP."""

from __future__ import annotations

import asyncio

import pytest

from tests.controllers.feed_contract import STORIES, in_memory, on_server
from tests.e2e.process import Muster, started


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with started(tmp_path_factory.mktemp("contract") / "state", "--api-only") as muster:
        yield muster


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_in_memory(story):
    async def play() -> None:
        async with in_memory() as world:
            await story(world)

    asyncio.run(play())


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_on_a_server(story, server: Muster):
    async def play() -> None:
        async with on_server(server.kubeconfig) as world:
            await story(world)

    asyncio.run(play())
