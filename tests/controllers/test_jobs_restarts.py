"""Whatever is done to a job and whenever the reconciler dies: the end is the same, and nothing runs without quota."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from random import Random

import pytest

from muster.dialects.kueue.job_steps import WORKLOADS
from muster.jobs.job.counts import MIN_PARALLELISM
from muster.model.errors import InvalidObject
from muster.store.errors import Conflict, NotFound
from muster.store.kinds import Object
from muster.store.objects import decode
from muster.store.records import Scope
from tests.controllers.jobs_world import FLAVORS, JOBS, PODS, World, a_flavor, a_job, a_pod, status_of
from tests.support import assert_sound, is_full_proof, proof_count

FORGOTTEN = ("uid", "resourceVersion", "generation", "ownerReferences", "creationTimestamp", "labels")


async def long_life(world: World) -> None:
    """All that can happen to a job, one after the other."""
    await world.create(FLAVORS, a_flavor())
    await world.create(JOBS, a_job(annotations={MIN_PARALLELISM: "1"}))
    await world.admit(count=2)
    await world.run_jobs(ready=2)
    await world.evict()
    await world.run_jobs()
    await world.change(JOBS, "train", parallelism=2)
    await world.change(JOBS, "train", suspend=False)
    await world.admit()
    await world.run_jobs(ready=1)
    await world.delete(WORKLOADS, world.workload()["metadata"]["name"])
    await world.run_jobs()
    await world.admit()
    await world.run_jobs(succeeded=2)
    await world.run_jobs(succeeded=3, conditions=world.conditions({}, Complete="True"))


async def life_of_a_pod(world: World) -> None:
    """A pod that is started and evicted, and one that waits."""
    await world.create(FLAVORS, a_flavor())
    await world.create(PODS, a_pod())
    await world.admit()
    await world.evict()
    await world.create(PODS, a_pod("two"))


def end_of(story, dies_at: int = -1, *, dies_after: bool = False) -> tuple[list[Object], int]:
    """What a story leaves, without what chance has given; and how many writes it took."""

    async def play() -> tuple[list[Object], int]:
        world = World()
        world.client.dies_at, world.client.dies_after = dies_at, dies_after
        try:
            await story(world)
            left = [
                decode(record) for kind in (JOBS, PODS, WORKLOADS) for record in world.store.page(Scope(kind)).records
            ]
            return [_without_chance(one) for one in left], world.client.writes
        finally:
            await world.stop()

    return asyncio.run(play())


def _without_chance(obj: Object) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name not in FORGOTTEN}
    if obj["kind"] == "Workload":
        metadata["name"] = metadata["name"].rpartition("-")[0]
    spec = dict(obj["spec"])
    if obj["kind"] == "Job":
        spec.pop("selector", None)
        spec["template"] = {**spec["template"], "metadata": None}
    return {**obj, "metadata": metadata, "spec": spec}


@pytest.mark.prove
@pytest.mark.parametrize("story", [long_life, life_of_a_pod])
@pytest.mark.parametrize("dies_after", [False, True], ids=["before the write", "right after it"])
def test_a_reconciler_that_dies_at_any_write_leaves_the_same(story, dies_after):
    want, writes = end_of(story)
    assert writes > 3
    step = 1 if is_full_proof() else 4
    for number in range(0, writes, step):
        left, _ = end_of(story, number, dies_after=dies_after)
        assert left == want, f"it died at write {number}"


# By chance ----------------------------------------------------------------------------------------------------------


async def _one_thing(world: World, chance: Random) -> None:
    """Something that a user, the scheduler, the controller of Jobs or fate may do."""
    workloads = world.workloads()
    job = world.get(JOBS, "train")
    match chance.randrange(9):
        case 0 if job is None:
            await world.create(JOBS, a_job(annotations={MIN_PARALLELISM: "1"} if chance.random() < 0.5 else None))
        case 0 | 1 if workloads and status_of(workloads[0], "QuotaReserved")[0] != "True" and len(workloads) == 1:
            if workloads[0]["spec"]["active"] and not workloads[0]["metadata"].get("deletionTimestamp"):
                await world.admit()
        case 2 if workloads and status_of(workloads[0], "Admitted")[0] == "True" and len(workloads) == 1:
            await world.evict(chance.choice(["Preempted", "PodsReadyTimeout"]))
        case 3 if job is not None:
            await world.change(JOBS, "train", parallelism=chance.choice([2, 3]))
        case 4 if job is not None:
            await world.change(JOBS, "train", suspend=chance.random() < 0.5)
        case 5 if workloads:
            await world.change(WORKLOADS, workloads[0]["metadata"]["name"], active=chance.random() < 0.7)
        case 6 if workloads and chance.random() < 0.5:
            await world.delete(WORKLOADS, workloads[0]["metadata"]["name"])
        case 7 if chance.random() < 0.5:
            world.client.dies_at, world.client.dies_after = world.client.writes, chance.random() < 0.5
        case _:
            await world.run_jobs(ready=chance.randrange(3))


def _assert_at_rest(world: World, originals: dict[str, Object], *, is_hasty: bool) -> None:
    """What is true of a job whenever nobody has anything to do."""
    job = world.get(JOBS, "train")
    own = [one for one in world.workloads() if job and one["metadata"]["ownerReferences"][0]["uid"] == _uid(job)]
    if job is None:
        return
    assert len(own) == 1, f"{len(own)} workloads"
    (workload,) = own
    is_admitted = status_of(workload, "Admitted")[0] == "True" and status_of(workload, "QuotaReserved")[0] == "True"
    may_run = (
        is_admitted and status_of(workload, "Evicted")[0] != "True" and "deletionTimestamp" not in workload["metadata"]
    )
    is_running = not job["spec"]["suspend"]
    assert not is_running or may_run, "it runs without quota"
    has_pods = (job.get("status") or {}).get("active", 0) > 0
    has_quota = status_of(workload, "QuotaReserved")[0] == "True"
    # In haste a user can start a job by hand, and it has pods before anybody can stop it.
    assert is_hasty or not has_pods or has_quota, "its pods have lost their quota"
    count = workload["spec"]["podSets"][0]["count"]
    if may_run and not is_running:
        assert has_pods, "it may run and does not, with no pods to wait for"
        assert count != job["spec"]["parallelism"]
    if not is_running:
        first = originals.setdefault(_uid(job), job["spec"]["template"])
        assert job["spec"]["template"] == first, "its template is not as it was"
    if not has_quota and "deletionTimestamp" not in workload["metadata"]:
        assert "admission" not in (workload.get("status") or {})
        assert count == min(job["spec"]["parallelism"], 3)


def _uid(obj: Object) -> str:
    return obj["metadata"]["uid"]


def _sound_by_chance(chance: Random, *, is_hasty: bool = False) -> None:
    async def play() -> None:
        world, originals = World(chance.randrange(1_000)), {}
        try:
            await world.create(FLAVORS, a_flavor())
            await world.create(JOBS, a_job())
            world.haste = chance if is_hasty else None
            for _ in range(15):
                for _ in range(chance.randrange(1, 4) if is_hasty else 1):
                    with suppress(InvalidObject, NotFound, Conflict):  # what is refused does not happen
                        await _one_thing(world, chance)
                await world.settle()
                _assert_at_rest(world, originals, is_hasty=is_hasty)
            await world.run_jobs()
            await world.settle()
            await world.stop()
            made = world.client.writes
            world.start()
            await world.settle()
            assert world.client.writes == made, "a reconciler that starts anew finds nothing to do"
        finally:
            await world.stop()

    asyncio.run(play())


@pytest.mark.prove
def test_nothing_runs_without_quota_whatever_happens():
    assert_sound(_sound_by_chance, range(proof_count(1_000)))


@pytest.mark.prove
def test_nothing_runs_without_quota_even_if_all_happens_at_once():
    assert_sound(partial(_sound_by_chance, is_hasty=True), range(proof_count(1_000)))
