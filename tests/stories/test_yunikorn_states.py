"""What is told of YuniKorn's applications, in simulated time with simulated nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from muster.app.node_pools import pools_of
from muster.app.simulation import simulated_world
from muster.sim.world import World
from muster.store.kinds import Object


@pytest.fixture
def world() -> Iterator[World]:
    made = simulated_world(pools_of({"pools": [{"name": "cpu", "count": 1}]}))
    made.run(10)
    yield made
    made.close()


def a_pod(name: str, run: str = "5s", **asks: str) -> Object:
    annotations = {"yunikorn.apache.org/app-id": "shop", "sim.muster.dev/run-time": run}
    container = {"name": "main", "image": "i", "resources": {"requests": asks}}
    spec = {"schedulerName": "yunikorn", "restartPolicy": "Never", "containers": [container]}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def told(world: World) -> list[str]:
    events = [one for one in world.all("events") if one["reason"].startswith("Application")]
    assert {one["involvedObject"]["name"] for one in events} <= {"first"}
    events.sort(key=lambda one: int(one["metadata"]["resourceVersion"]))
    return [one["message"].removeprefix("Application shop is ") for one in events]


def test_an_application_runs_and_completes(world: World) -> None:
    world.create(a_pod("first"))
    world.run(4)
    assert told(world) == ["Accepted", "Running"]
    world.create(a_pod("second", run="20s"))
    world.run(60)
    assert told(world) == ["Accepted", "Running", "Completing", "Completed"]


def test_an_application_that_waits_is_accepted(world: World) -> None:
    world.create(a_pod("first", cpu="1000"))
    world.run(10)
    assert told(world) == ["Accepted"]


def test_a_controller_that_starts_anew_tells_nothing_twice(world: World) -> None:
    world.create(a_pod("first", run="60s"))
    world.run(10)
    world.stop("controllers")
    world.start("controllers")
    world.run(5)
    assert told(world) == ["Accepted", "Running"]
    world.run(100)
    assert told(world) == ["Accepted", "Running", "Completing", "Completed"]
