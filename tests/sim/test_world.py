"""A cluster in simulated time lives: jobs run to their end, processes die and come back, and runs repeat."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from muster.app.node_pools import pools_of
from muster.app.simulation import simulated_world
from muster.model.errors import InvalidObject
from muster.sim.network import Fate, Network
from muster.sim.world import World
from muster.store.kinds import Object, Propagation
from muster.store.records import Key
from muster.store.rules import Deletion
from tests.support import outputs_under_hash_seeds

KUEUE = "kueue.x-k8s.io/v1beta2"
QUEUE = "kueue.x-k8s.io/queue-name"
PLAIN: Object = {"pools": [{"name": "cpu", "count": 3}]}


def an_object(kind: str, name: str, spec: Any, *, api: str = KUEUE, **metadata: Any) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def a_job(name: str, pods: int = 2) -> Object:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return an_object("Job", name, spec, api="batch/v1", namespace="default", labels={QUEUE: "main"})


@pytest.fixture
def world():
    made = a_world()
    yield made
    made.close()


def a_world(seed: int = 0, pools: Object = PLAIN) -> World:
    world = simulated_world(pools_of(pools), seed=seed)
    world.create(an_object("ResourceFlavor", "default", {}))
    resources = [{"name": "cpu", "nominalQuota": "6"}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}
    world.create(an_object("ClusterQueue", "main", {"namespaceSelector": {}, "resourceGroups": [group]}))
    world.create(an_object("LocalQueue", "main", {"clusterQueue": "main"}, namespace="default"))
    return world


def are_complete(world: World) -> bool:
    jobs = world.all("jobs.batch")
    return all(one.get("status", {}).get("succeeded") == one["spec"]["completions"] for one in jobs)


def test_jobs_wait_for_each_other_and_run_to_their_end(world):
    for number in range(3):
        world.create(a_job(f"train-{number}"))
    world.run(1)
    assert sum(not job["spec"]["suspend"] for job in world.all("jobs.batch")) == 1
    world.run_until(lambda: are_complete(world), within_s=120)
    assert {pod["status"]["phase"] for pod in world.all("pods")} == {"Succeeded"}


@pytest.mark.parametrize("name", ["scheduler", "jobs", "controllers", "nodes", "collector"])
def test_a_process_that_dies_goes_on_from_the_store(world, name):
    world.create(a_job("train"))
    world.run(3)
    world.stop(name)
    world.run(5)
    world.start(name)
    world.run_until(lambda: are_complete(world), within_s=120)


def test_what_a_user_gets_wrong_is_told(world):
    with pytest.raises(InvalidObject, match="give a kind that the server has"):
        world.create(an_object("Nothing", "x", {}))
    with pytest.raises(AssertionError, match="did not come to that within 60 s"):
        world.run_until(lambda: False, within_s=60)


def test_what_is_deleted_takes_along_what_it_owns(world):
    world.create(a_job("train"))
    world.run(3)
    assert world.all("pods")
    world.delete(Key("jobs.batch", "default", "train"), Deletion(propagation=Propagation.BACKGROUND))
    world.run(120)
    assert not world.all("jobs.batch") and not world.all("pods") and not world.all("workloads.kueue.x-k8s.io")


def test_a_gang_that_came_too_late_waits_again(world):
    world.run(1)
    world.stop("controllers")  # so that nobody makes its pods
    world.create(a_job("train"))
    world.run(310)
    (workload,) = world.all("workloads.kueue.x-k8s.io")
    conditions = {one["type"]: (one["status"], one["reason"]) for one in workload["status"]["conditions"]}
    assert conditions["Requeued"] == ("True", "GangDeadline") and conditions["Admitted"] == ("True", "Admitted")
    world.start("controllers")
    world.run_until(lambda: are_complete(world), within_s=120)


def test_pods_are_bound_when_their_node_comes_back(world):
    world.run(1)
    world.stop("controllers")
    world.create(a_job("train"))
    world.run(1)
    for node in world.all("nodes"):
        world.delete(Key("nodes", "", node["metadata"]["name"]))
    world.start("controllers")
    world.run(5)
    assert [pod["spec"].get("nodeName") for pod in world.all("pods")] == [None, None]
    world.stop("nodes")
    world.start("nodes")
    world.run_until(lambda: are_complete(world), within_s=60)


def test_nodes_come_up_though_the_store_is_away_at_first(monkeypatch):
    fates = iter([Fate.REFUSED] * 5)
    monkeypatch.setattr(Network, "fate", lambda _self: next(fates, Fate.MADE))
    world = simulated_world(pools_of({"pools": [{"name": "cpu", "count": 3}]}))
    world.run_until(lambda: len(world.all("nodes")) == 3, within_s=30)
    world.close()


def test_a_pod_that_takes_the_name_of_one_on_a_node_is_let_be(world):
    world.run(1)
    pod = {**a_job("x")["spec"]["template"], "apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {"name": "one", "namespace": "default"}
    world.create(pod)
    world.run(1)
    world.stop("scheduler")
    world.network.is_calm = False  # the nodes do not hear of anything
    world.change(
        Key("pods", "default", "one"), lambda one: {**one, "metadata": {**one["metadata"], "labels": {"a": "b"}}}
    )
    world.delete(Key("pods", "default", "one"), Deletion(grace_s=0))
    world.create(pod)
    world.network.calm()  # now of all at once
    world.run(5)
    assert "nodeName" not in world.get("pods", "one", "default")["spec"]


def trace(seed: int) -> str:
    """What a story has written, in short."""
    world = a_world(seed)
    world.create(a_job("one"))
    world.create(a_job("two", 3))
    world.run(200)
    found = hashlib.sha256()
    for resource in ("pods", "jobs.batch", "workloads.kueue.x-k8s.io", "events", "nodes"):
        for one in world.all(resource):
            found.update(repr(one).encode())
    world.close()
    return found.hexdigest()


def test_the_same_seed_is_the_same_run_in_every_process():
    program = "from tests.sim.test_world import trace; print(trace(7))"
    assert len(outputs_under_hash_seeds(program)) == 1


def test_a_pool_brings_back_the_node_that_a_pod_has_its_place_on():
    sizes = {"minimum": 1, "maximum": 2, "nodeStartTime": "1s", "idleTime": "600s"}
    world = a_world(pools={"pools": [{"name": "few", **sizes, "capacity": {"cpu": "4"}, "runTime": "300s"}]})
    for name in ("one", "two", "three"):
        world.create(a_job(name, 1))
    world.run_until(lambda: len(nodes_of_pods(world)) == 3, within_s=60)
    assert set(nodes_of_pods(world)) == {"few-0", "few-1"}
    world.delete(Key("nodes", "", "few-1"))
    world.run_until(lambda: are_complete(world), within_s=2_000)
    world.close()


def test_a_node_that_comes_after_its_pods_runs_them(world):
    world.run(1)
    node = world.get("nodes", "cpu-0")
    world.delete(Key("nodes", "", "cpu-0"))
    world.run(1)
    world.stop("scheduler", "controllers")
    pod = {**a_job("x")["spec"]["template"], "apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {"name": "one", "namespace": "default"}
    world.create({**pod, "spec": {**pod["spec"], "nodeName": "cpu-0"}})
    world.run(1)
    kept = {name: node["metadata"][name] for name in ("name", "labels", "annotations")}
    world.create({**node, "metadata": kept})
    world.run_until(lambda: world.get("pods", "one", "default")["status"]["phase"] == "Running", within_s=30)


def nodes_of_pods(world: World) -> list[str]:
    return [pod["spec"]["nodeName"] for pod in world.all("pods") if pod["spec"].get("nodeName")]
