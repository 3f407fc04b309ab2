"""The stories of claims and volumes end at a real kube-controller-manager as they are written down."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.controllers.builtin.volume_stories import CLAIMS, STORIES, VOLUMES, numbered, outcome, play, reasons
from tests.kubernetes.workload_sides import Real

PATIENCE_S = 40.0  # for a real controller to come to where it ends
STEP_S = 0.6  # so that the real controller has seen one thing before the next
POLL_S = 0.05
NAMESPACE = "x"


@pytest.mark.parametrize("number", range(len(STORIES)), ids=lambda number: STORIES[number].title)
def test_a_story_ends_as_it_is_written(plane_with_controllers, number):
    asyncio.run(_told(plane_with_controllers.client, number))


async def _told(client, number: int) -> None:
    client.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})  # the first story makes it
    side = Real(client, NAMESPACE, time.time)
    try:
        await _compare(side, number)
    finally:
        await _clear(side)


async def _clear(side: Real) -> None:
    """Take all away, so that the next story finds nobody else's claims and volumes."""
    for resource in (CLAIMS, VOLUMES):
        while found := await side.all(resource):
            for one in found:
                await side.delete(resource, one["metadata"]["name"])
                await side.patch(resource, one["metadata"]["name"], {"metadata": {"finalizers": None}})
            await asyncio.sleep(POLL_S)


async def _compare(side: Real, number: int) -> None:
    story = numbered(STORIES[number], number)
    for act in story.acts:
        await play(act, side)
        await asyncio.sleep(STEP_S)
    end_s = time.monotonic() + PATIENCE_S
    while await outcome(side, number) != story.want and time.monotonic() < end_s:
        await asyncio.sleep(POLL_S)
    assert await outcome(side, number) == story.want
    for name, wanted in STORIES[number].told.items():
        while not wanted <= (await reasons(side, number)).get(name, set()):
            assert time.monotonic() < end_s, f"{name}: {await reasons(side, number)}, not {wanted}"
            await asyncio.sleep(POLL_S)
