"""A scheduler that tells people less often: what others overtake is not said, and what stays true is said in time."""

from __future__ import annotations

import asyncio

import pytest

from muster.app.config import Configuration
from muster.app.manage import PACE
from muster.controllers.pace import Allowance, Pace
from tests.controllers.cluster import GROUP, WORKLOADS, Cluster, node, queue, workload

QUEUES = f"clusterqueues.{GROUP}"
WHEN = "2023-11-14T22:13:20Z"
DONE = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": WHEN}


@pytest.mark.parametrize(
    ("per_s", "at_once", "asked", "given"),
    [
        pytest.param(2, 3, [10] * 4, 3, id="some at once"),
        pytest.param(2, 3, [10] * 4 + [11] * 4, 5, id="more with time"),
        pytest.param(2, 3, [10] * 4 + [99] * 5, 6, id="no more after a long time"),
        pytest.param(0, 0, [10] * 500, 500, id="no bound"),
    ],
)
def test_allowances(per_s, at_once, asked, given):
    allowance = Allowance(per_s, at_once)
    assert sum(allowance.has_one(now_s) for now_s in asked) == given


def play(story):
    async def run():
        cluster = Cluster(Configuration(pace=PACE))
        try:
            await cluster.set_up(queue("q", {"cpu": "2"}), nodes=[node("n")])
            await cluster.start()
            await story(cluster)
        finally:
            await cluster.stop()

    asyncio.run(run())


async def two_of_which_one_waits(cluster: Cluster) -> None:
    for name in ("first", "second"):
        await cluster.add(WORKLOADS, workload(name, "q", 2))
        await cluster.settle()


def test_who_is_served_soon_is_not_told_why_it_waits():
    async def story(cluster):
        await two_of_which_one_waits(cluster)
        await cluster.settle(1)
        assert cluster.conditions("second") == {}
        conditions = cluster.get(WORKLOADS, "first")["status"]["conditions"]
        await cluster.set_status(WORKLOADS, "first", {"conditions": [*conditions, DONE]})
        await cluster.settle(5)
        assert cluster.is_admitted("second")
        assert {event["type"] for event in cluster.all("events")} == {"Normal"}

    play(story)


def test_who_waits_for_longer_is_told_why():
    async def story(cluster):
        await two_of_which_one_waits(cluster)
        await cluster.settle(3)
        assert cluster.conditions("second")["QuotaReserved"] == ("False", "WaitingForQuota")

    play(story)


def test_queues_tell_their_last_counts_in_time():
    async def story(cluster):
        await cluster.settle(6)
        revisions = set()
        for number in range(20):
            await cluster.add(WORKLOADS, workload(f"w{number}", "q", 1))
            await cluster.settle(0.1)
            revisions.add(cluster.get(QUEUES, "q", "")["metadata"]["resourceVersion"])
        assert len(revisions) <= 2, "it was written more often than the pace allows"
        await cluster.settle(6)
        status = cluster.get(QUEUES, "q", "")["status"]
        assert (status["pendingWorkloads"], status["admittedWorkloads"]) == (18, 2)

    play(story)


def test_a_pass_does_not_wait_until_everybody_was_told():
    async def story(cluster):
        await cluster.settle(6)
        held = asyncio.Event()
        write = cluster.client.update

        async def update(key, given, *rest):
            if key.resource == QUEUES:
                await held.wait()
            return await write(key, given, *rest)

        cluster.client.update = update
        for name in ("a", "b"):
            await cluster.add(WORKLOADS, workload(name, "q", 1))
            await cluster.settle(1)
            assert cluster.is_admitted(name)
        held.set()
        await cluster.settle(6)
        assert cluster.get(QUEUES, "q", "")["status"]["admittedWorkloads"] == 2
        assert {event["involvedObject"]["name"] for event in cluster.all("events")} == {"a", "b"}

    play(story)


def test_a_pass_that_is_cut_short_is_followed_by_the_next():
    async def run():
        cluster = Cluster(Configuration(pace=Pace(decisions_at_once=2)))
        try:
            await cluster.set_up(queue("q", {"cpu": "9"}), nodes=[node("n", cpu="16")])
            for number in range(9):
                await cluster.add(WORKLOADS, workload(f"w{number}", "q", 1))
            await cluster.start()
            await cluster.settle()
            assert all(cluster.is_admitted(f"w{number}") for number in range(9))
        finally:
            await cluster.stop()

    asyncio.run(run())
