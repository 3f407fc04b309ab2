"""The control of jobs put together: a job becomes a workload, its pods get their places, and people are told."""

from __future__ import annotations

import asyncio
from random import Random

from muster.app.config import Configuration
from muster.app.job_control import JobControl, job_admission, job_feed, job_rules, managed_kinds
from muster.app.kinds import catalog
from muster.controllers.feed import run_together
from muster.dialects.kueue.job_steps import WORKLOADS
from muster.dialects.kueue.topology_assignment import compacted
from muster.store.aio import AsyncStore
from muster.store.client import PlainClient
from muster.store.clock import VirtualClock
from muster.store.identities import Identities
from muster.store.memory import MemoryStore
from muster.store.objects import Objects, Part, decode
from muster.store.records import Key, Scope
from tests.controllers.jobs_world import FLAVORS, JOBS, PODS, QUEUES, a_flavor, a_job, a_queue
from tests.store.kinds import START_S


async def _rounds(count: int = 200) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_job_with_a_place():
    async def story() -> None:
        clock = VirtualClock(START_S)
        store = MemoryStore(clock)
        front = AsyncStore(store, pace_s=0)
        objects = Objects(catalog().rules, clock, identities=Identities(Random(1)), has_namespaces=False)
        client = PlainClient(front, objects, "tests")
        feed = job_feed(front, clock)
        running = asyncio.create_task(run_together(feed.run(), *JobControl(feed, client, clock).works()))
        await client.create(FLAVORS, a_flavor())
        await client.create(QUEUES, a_queue())
        await client.create(JOBS, job_admission(store).complete_new(JOBS, a_job(parallelism=1, completions=1)))
        await _rounds()
        (workload,) = [decode(record) for record in store.page(Scope(WORKLOADS)).records]
        place = compacted({"levels": ["host"], "domains": [{"values": ["h1"], "count": 1}]})
        given = {"name": "main", "count": 1, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "1"}}
        stamp = {"message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        conditions = [
            {"type": name, "status": "True", "reason": name, **stamp} for name in ("QuotaReserved", "Admitted")
        ]
        assignments = [{**given, "topologyAssignment": place}]
        status = {"admission": {"clusterQueue": "all", "podSetAssignments": assignments}, "conditions": conditions}
        name = workload["metadata"]["name"]
        await client.update(Key(WORKLOADS, "team", name), {**workload, "status": status}, Part.STATUS)
        await _rounds()
        template = decode(store.get(Key(JOBS, "team", "train")))["spec"]["template"]
        assert template["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/topology"}]
        metadata = {**template["metadata"], "name": "train-0", "namespace": "team"}
        await client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
        await _rounds()
        pod = decode(store.get(Key(PODS, "team", "train-0")))
        assert "schedulingGates" not in pod["spec"]
        assert pod["spec"]["nodeSelector"] == {"instance": "spot", "host": "h1"}
        told = [decode(record)["reason"] for record in store.page(Scope("events")).records]
        assert sorted(told) == ["CreatedWorkload", "Started"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())


def test_the_configuration_says_which_jobs():
    assert {kind.name for kind in managed_kinds(Configuration())} >= {"batch/job", "pod", "ray.io/rayjob"}
    chosen = {kind.name for kind in managed_kinds(Configuration(frameworks=("pod",)))}
    assert chosen == {"pod", "replicaset", "batch.volcano.sh/job"}, "and what Kueue has no name for, with its pods"
    assert job_rules(Configuration(manages_jobs_without_queue=True)).manages_without_queue
    assert job_rules(Configuration()).has_readiness
