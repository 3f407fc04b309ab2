"""Every kind of job with the definition that its users have: it waits, starts, makes room, comes back and ends.

The scheduler, the control of jobs and the nodes are the real ones, in simulated time; the test plays the operator of
each kind by writing what that would say of its job.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from muster.app.node_pools import pools_of
from muster.app.plugins import job_kinds
from muster.app.simulation import simulated_world
from muster.engine.contracts import Integration
from muster.engine.job_forms import STOPPING, fields_at
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.sim.world import World
from muster.store.kinds import Object, Propagation
from muster.store.objects import Part
from muster.store.records import Key
from muster.store.rules import Deletion
from tests.stories.job_kinds import SAMPLES, Sample, definition, played, template
from tests.support import shared

WORKLOADS, QUEUES = "workloads.kueue.x-k8s.io", "clusterqueues.kueue.x-k8s.io"
KUEUE = "kueue.x-k8s.io/v1beta2"
NODES: Object = {"pools": [{"name": "spot", "count": 2, "labels": {"instance": "spot"}}]}
QUEUE = "kueue.x-k8s.io/queue-name"


def an_object(kind: str, name: str, spec: Any, **metadata: Any) -> Object:
    return {"apiVersion": KUEUE, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def a_world(*definitions: str) -> World:
    """A queue of four CPUs on labelled nodes, and kinds that were added to what the server has by itself."""
    world = simulated_world(pools_of(NODES), has_definitions=True)
    world.run(1)
    for name in definitions:
        world.create(definition(name))
    world.run(1)
    world.create(an_object("ResourceFlavor", "spot", {"nodeLabels": {"instance": "spot"}}))
    resources = [{"name": name, "nominalQuota": amount} for name, amount in (("cpu", "4"), ("memory", "8Gi"))]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "spot", "resources": resources}]}
    preemption = {"withinClusterQueue": "LowerPriority"}
    queue = {"namespaceSelector": {}, "resourceGroups": [group], "preemption": preemption, "stopPolicy": "Hold"}
    world.create(an_object("ClusterQueue", "main", queue))
    world.create(an_object("LocalQueue", "main", {"clusterQueue": "main"}, namespace="default"))
    world.create({**an_object("WorkloadPriorityClass", "high", None), "value": 100})
    return world


@pytest.fixture(params=played(), ids=lambda sample: sample.kind_name)
def sample(request) -> Sample:
    shared("crds")  # skips where the definitions are not
    return request.param


@pytest.fixture
def world(sample) -> Iterator[World]:
    made = a_world(sample.resource, *sample.definitions)
    for other in sample.others:
        made.create(other)
    yield made
    made.close()


class Player:
    """Tells a story of one job."""

    def __init__(self, world: World, sample: Sample) -> None:
        self.world, self.sample = world, sample
        self.key = Key(sample.resource, "default", "train")

    @property
    def job(self) -> Object:
        return self.world.get(*self.key[::2], self.key.namespace)

    @property
    def is_running(self) -> bool:
        *way, name = self.sample.switch
        return not fields_at(Fields(self.job), tuple(way)).flag(str(name))

    @property
    def workload(self) -> Object:
        (found,) = (one for one in self.world.all(WORKLOADS) if self.sample.kind_name in owner_kinds(one))
        return found

    def condition(self, name: str) -> tuple[str, str]:
        conditions = self.workload.get("status", {}).get("conditions", ())
        return next(((one["status"], one["message"]) for one in conditions if one["type"] == name), ("", ""))

    def report(self, status: Any) -> None:
        """Say something of the job as its operator does."""
        self.world.change(self.key, lambda job: {**job, "status": status}, Part.STATUS)
        self.world.run(1)

    def open_queue(self) -> None:
        self.world.change(Key(QUEUES, "", "main"), lambda one: {**one, "spec": {**one["spec"], "stopPolicy": "None"}})
        self.world.run(2)

    def switch(self, *, is_on: bool) -> None:
        key = Key(WORKLOADS, "default", self.workload["metadata"]["name"])
        self.world.change(key, lambda one: {**one, "spec": {**one["spec"], "active": is_on}})
        self.world.run(2)

    @property
    def nodes(self) -> list[dict[str, str]]:
        return [fields_at(Fields(self.job), way).text_map("nodeSelector") for way in self.sample.selectors]


def owner_kinds(workload: Object) -> list[str]:
    return [owner["kind"] for owner in workload["metadata"]["ownerReferences"]]


def urgent_job() -> Object:
    spec = {"parallelism": 4, "completions": 4, "template": template(restartPolicy="Never")}
    labels = {QUEUE: "main", "kueue.x-k8s.io/priority-class": "high"}
    metadata = {"name": "urgent", "namespace": "default", "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


@pytest.mark.prove
def test_a_life(world, sample):
    player = Player(world, sample)
    world.create(sample.job)
    world.run(1)
    assert not player.is_running, "it waits while its queue is stopped"
    sets = player.workload["spec"]["podSets"]
    assert {one["name"]: one["count"] for one in sets} == sample.counts
    assert [one["name"] for one in sets] == list(sample.counts)
    player.report(sample.stopped)
    before = player.job["spec"]
    player.open_queue()
    assert player.is_running and player.nodes == [{"instance": "spot"}] * len(sample.selectors)
    assert player.condition("PodsReady")[0] == "False"
    player.report(sample.ready)
    assert player.condition("PodsReady")[0] == "True"

    world.create(urgent_job())
    world.run(1)
    assert not player.is_running and player.condition("QuotaReserved")[0] == "True", "its pods are still there"
    player.report(sample.stopped)
    assert player.job["spec"] == before and STOPPING not in player.job["metadata"].get("annotations", {})
    assert player.condition("QuotaReserved")[0] == "False"
    world.run_until(lambda: player.is_running, within_s=120)
    assert world.get("jobs.batch", "urgent", "default")["status"]["succeeded"] == 4
    assert player.nodes == [{"instance": "spot"}] * len(sample.selectors)
    player.report(sample.ready)

    player.switch(is_on=False)
    assert not player.is_running and player.condition("QuotaReserved")[0] == "True"
    player.report(sample.stopped)
    assert player.condition("QuotaReserved")[0] == "False"
    player.switch(is_on=True)
    assert player.is_running
    player.report(sample.ready)

    if sample.done is not None:
        player.report(sample.done)
        status, message = player.condition("Finished")
        assert status == "True"
        wanted = [one["message"] for one in sample.done.get("conditions", ()) if one["message"]]
        assert message in (wanted or [sample.done.get("message", "")])
    world.delete(player.key, Deletion(propagation=Propagation.BACKGROUND))
    world.run(120)
    assert not [one for one in world.all(WORKLOADS) if sample.kind_name in owner_kinds(one)]


def test_a_kind_without_its_definition_costs_nothing_and_is_followed_once_it_comes():
    shared("crds")
    world = a_world()
    try:
        with pytest.raises(InvalidObject, match="give a kind that the server has"):
            world.create(SAMPLES[0].job)
        world.create(definition(SAMPLES[0].resource))
        world.run(1)
        player = Player(world, SAMPLES[0])
        world.create(SAMPLES[0].job)
        player.open_queue()
        assert player.is_running
    finally:
        world.close()


def test_every_kind_that_waits_plays_a_life():
    waiting = {name for name, kind in job_kinds().items() if isinstance(kind, Integration)}
    assert waiting - {one.kind for one in SAMPLES} == {"batch/job", "pod"}, "which have stories of their own"
