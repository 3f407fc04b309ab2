"""The visibility API: who waits in a queue, and in which place."""

from __future__ import annotations

import pytest

from muster.app.kinds import catalog
from tests.apiserver.world import World, in_world

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
VISIBLE = "/apis/visibility.kueue.x-k8s.io"
OF_ALL = "clusterqueues/all/pendingworkloads"
OF_ONE = "namespaces/default/localqueues/first/pendingworkloads"


def workload(name, queue, priority=0, **spec):
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    pods = [{"name": "main", "count": 1, "template": template}]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"queueName": queue, "priority": priority, "podSets": pods, **spec},
    }


async def filled(world: World) -> None:
    """Two local queues that lead to one queue, and one that leads elsewhere."""
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "all"}, "spec": {}}
    assert (await world.request("POST", f"{KUEUE}/clusterqueues", queue)).status == 201
    for name, leads_to in (("first", "all"), ("second", "all"), ("other", "elsewhere")):
        local = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": name}}
        made = {**local, "spec": {"clusterQueue": leads_to}}
        assert (await world.request("POST", f"{KUEUE}/namespaces/default/localqueues", made)).status == 201
    waiting = [
        workload("a", "first"),
        workload("b", "second", 5),
        workload("c", "first", 5),
        workload("d", "other", 9),
        workload("off", "first", 9, active=False),
    ]
    for one in waiting:
        answer = await world.request("POST", f"{KUEUE}/namespaces/default/workloads", one)
        assert answer.status == 201, answer.json
        world.clock.advance(10)


def told(answer):
    """Name, places in the queue and in the local queue, and priority of each."""
    return [
        (one["metadata"]["name"], one["positionInClusterQueue"], one["positionInLocalQueue"], one["priority"])
        for one in answer.json["items"]
    ]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_those_who_wait_are_told_in_their_order(version):
    async def story(world: World) -> None:
        await filled(world)
        answer = await world.get(f"{VISIBLE}/{version}/{OF_ALL}")
        assert answer.json["kind"] == "PendingWorkloadsSummary"
        assert answer.json["apiVersion"] == f"visibility.kueue.x-k8s.io/{version}"
        assert told(answer) == [("b", 0, 0, 5), ("c", 1, 0, 5), ("a", 2, 1, 0)]
        assert answer.json["items"][0]["localQueueName"] == "second"
        of_one = await world.get(f"{VISIBLE}/{version}/{OF_ONE}")
        assert told(of_one) == [("c", 1, 0, 5), ("a", 2, 1, 0)]

    in_world(story, catalog=catalog())


def test_a_page_of_them():
    async def story(world: World) -> None:
        await filled(world)
        page = await world.get(f"{VISIBLE}/v1beta2/{OF_ALL}?limit=1&offset=1")
        assert told(page) == [("c", 1, 0, 5)]
        assert told(await world.get(f"{VISIBLE}/v1beta2/{OF_ALL}?offset=9")) == []
        assert (await world.get(f"{VISIBLE}/v1beta2/{OF_ALL}?limit=-1")).status == 400
        assert (await world.get(f"{VISIBLE}/v1beta2/{OF_ALL}?offset=1e9")).status == 400

    in_world(story, catalog=catalog())


def test_a_queue_that_is_not_there():
    async def story(world: World) -> None:
        answer = await world.get(f"{VISIBLE}/v1beta2/clusterqueues/none/pendingworkloads")
        assert (answer.status, answer.json["reason"]) == (404, "NotFound")
        assert answer.json["message"] == 'clusterqueue.visibility.kueue.x-k8s.io "none" not found'

    in_world(story, catalog=catalog())


def test_it_is_found_and_changes_nothing_for_those_who_name_no_group():
    async def story(world: World) -> None:
        found = (await world.get(f"{VISIBLE}/v1beta2")).json["resources"]
        assert [one["name"] for one in found] == [
            "clusterqueues",
            "clusterqueues/pendingworkloads",
            "localqueues",
            "localqueues/pendingworkloads",
        ]
        groups = [one["name"] for one in (await world.get("/apis")).json["groups"]]
        assert groups.index("kueue.x-k8s.io") < groups.index("visibility.kueue.x-k8s.io")
        assert (await world.get(f"{VISIBLE}/v1beta2/clusterqueues")).status == 405
        assert (await world.get("/openapi/v3/apis/visibility.kueue.x-k8s.io/v1beta2")).status == 200

    in_world(story, catalog=catalog())
