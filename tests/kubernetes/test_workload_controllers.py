"""Muster's controllers and the real ones bring the same objects to the same states, after each step of each story."""

from __future__ import annotations

import asyncio
import time

import pytest

from muster.controllers.builtin import CONTROLLERS
from tests.controllers.builtin.workload_cluster import Cluster
from tests.kubernetes.sides import unlike
from tests.kubernetes.workload_sides import Ours, Real, described
from tests.kubernetes.workload_stories import NODE_STORIES, STORIES

PATIENCE_S = 30.0  # for a real controller to come to where it ends
POLL_S = 0.05


@pytest.mark.parametrize("story", [*STORIES, *NODE_STORIES])
def test_both_come_to_the_same(plane_with_controllers, story):
    asyncio.run(_compare(plane_with_controllers.client, story))


async def _compare(client, story: str) -> None:
    namespace = "w-" + "".join(one if one.isalnum() else "-" for one in story)[:50].strip("-")
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    assert client.request("POST", "/api/v1/namespaces", body).status == 201
    real = Real(client, namespace, time.time)
    cluster = Cluster(CONTROLLERS)
    ours = Ours(cluster)
    for number, step in enumerate({**STORIES, **NODE_STORIES}[story]):
        await step.act(ours)
        await step.act(real)
        await (cluster.wait(step.wait_s) if step.wait_s else cluster.settle())
        mine = await described(ours)
        end_s = time.monotonic() + PATIENCE_S + step.wait_s
        while (theirs := await described(real)) != mine:
            assert time.monotonic() < end_s, f"step {number}, {step.what}:\n" + "\n".join(unlike(mine, theirs))
            await asyncio.sleep(POLL_S)
    await cluster.stop()
