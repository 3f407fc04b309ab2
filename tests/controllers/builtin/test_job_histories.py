"""Jobs whose pods fare by chance: whatever happens, and wherever the controllers die, the count is right in the end."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from muster.store.client import PlainClient
from muster.store.errors import NotFound
from muster.store.objects import PLAINLY, Part
from muster.store.records import Key
from muster.store.rules import Deletion
from tests.controllers.builtin.job_cluster import JOBS, PODS, Cluster, Json, a_job, ended
from tests.support import assert_sound, proof_count

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
ROUNDS = 400  # far more than any history needs


class Killed(Exception):
    """The process is gone."""


class MortalClient(PlainClient):
    """Writes until it dies: at the last write, before or after that has become durable."""

    def __init__(self, cluster: Cluster, writes: int, *, is_answer_lost: bool) -> None:
        super().__init__(cluster.front, cluster.objects, "mortal")
        self._left = writes
        self._is_answer_lost = is_answer_lost
        self.is_dead = False

    async def create(self, resource: str, given: Json) -> Json:
        return await self._do(super().create(resource, given))

    async def update(self, key: Key, given: Json, part: Part = Part.MAIN) -> Json:
        return await self._do(super().update(key, given, part))

    async def delete(self, key: Key, deletion: Deletion = PLAINLY) -> Json:
        return await self._do(super().delete(key, deletion))

    async def _do(self, write: Any) -> Json:
        self._left -= 1
        if self._left > 0:
            return await write
        if self._left == 0 and self._is_answer_lost:
            await write
        else:
            write.close()
        self.is_dead = True
        await asyncio.get_running_loop().create_future()  # nothing comes back, until whoever waits is cancelled
        raise Killed


def is_active(pod: Json) -> bool:
    return pod["status"].get("phase") not in ("Succeeded", "Failed") and "deletionTimestamp" not in pod["metadata"]


class History:
    """One job, a node that does with its pods what chance says, and controllers that die."""

    def __init__(self, chance: Random, cluster: Cluster) -> None:
        self.chance = chance
        self.cluster = cluster
        self.spec = self._spec()

    def _spec(self) -> Json:
        chance = self.chance
        completions = chance.randint(1, 6)
        spec: Json = {"completions": completions, "parallelism": chance.randint(1, 4), "backoffLimit": 1_000}
        if chance.random() < 0.5:
            spec["completionMode"] = "Indexed"
            if chance.random() < 0.4:
                spec["backoffLimitPerIndex"] = chance.randint(0, 2)
        if chance.random() < 0.3:
            spec["podReplacementPolicy"] = "Failed"
        return spec

    async def run(self, deaths: int) -> Json:
        """Let the job run to its end; gives its last state."""
        cluster, chance = self.cluster, self.chance
        client = self._start(deaths)
        await cluster.apply(a_job(**self.spec))
        for _ in range(ROUNDS):
            if client is not None and client.is_dead:
                deaths -= 1
                assert cluster.controllers is not None
                await cluster.controllers.stop()
                client = self._start(deaths)
                await cluster.settle()
            job = cluster.get(JOBS, "j")
            assert job is not None
            self.check(job)
            if any(one["type"] in ("Complete", "Failed") for one in job["status"].get("conditions", ())):
                await self._live_on()
                return cluster.get(JOBS, "j") or {}
            await self._happen()
            await cluster.wait(chance.choice((0, 0, 1, 30, 700)))
        raise AssertionError("the job does not end")

    async def _live_on(self) -> None:
        """A last life of the controllers, that does not end."""
        assert self.cluster.controllers is not None
        await self.cluster.controllers.stop()
        self.cluster.start()
        await self.cluster.settle()

    def _start(self, deaths: int) -> MortalClient | None:
        if deaths <= 0:
            self.cluster.start()
            return None
        is_answer_lost = self.chance.random() < 0.5
        client = MortalClient(self.cluster, self.chance.randint(1, 12), is_answer_lost=is_answer_lost)
        self.cluster.start(client)
        return client

    async def _happen(self) -> None:
        """Something happens to a pod."""
        pods = [pod for pod in self.cluster.all(PODS) if pod["status"].get("phase") not in ("Succeeded", "Failed")]
        if not pods:
            return
        pod = self.chance.choice(pods)
        name, is_leaving = pod["metadata"]["name"], "deletionTimestamp" in pod["metadata"]
        what = self.chance.random()
        if is_leaving:
            await self.cluster.play(name, ended(137, self.cluster.clock.now_s()))
            await self._delete(name, 0)
        elif what < 0.45:
            await self.cluster.play(name, ended(0, self.cluster.clock.now_s()))
        elif what < 0.7:
            await self.cluster.play(name, ended(1, self.cluster.clock.now_s()))
        elif what < 0.85 and not pod["spec"].get("nodeName"):
            await self.cluster.bind(name)
        else:
            await self._delete(name, None)

    async def _delete(self, name: str, grace_s: int | None) -> None:
        try:
            await self.cluster.client.delete(Key(PODS, "x", name), Deletion(grace_s=grace_s))
        except NotFound:
            return

    def check(self, job: Json) -> None:
        """What must hold at any time when all is quiet."""
        pods = self.cluster.all(PODS)
        active = [pod for pod in pods if is_active(pod)]
        assert len(active) <= self.spec["parallelism"], [pod["metadata"]["name"] for pod in active]
        indexes = [pod["metadata"].get("annotations", {}).get(INDEX) for pod in active]
        if self.spec.get("completionMode") == "Indexed":
            assert len(set(indexes)) == len(indexes), f"an index runs twice: {indexes}"
        assert int(job["status"].get("succeeded", 0)) <= self.spec["completions"], job["status"]


class Ends:
    """How all pods of a history have ended, as the store's own history tells."""

    def __init__(self) -> None:
        self.succeeded: set[str] = set()
        self.failed: set[str] = set()

    def see(self, pod: Json, *, only_failed: bool) -> None:
        uid, phase = pod["metadata"]["uid"], pod["status"].get("phase")
        if FINALIZER not in pod["metadata"].get("finalizers", ()) or uid in self.succeeded | self.failed:
            return
        if phase == "Succeeded":
            self.succeeded.add(uid)
        elif phase == "Failed" or ("deletionTimestamp" in pod["metadata"] and not only_failed):
            self.failed.add(uid)


async def history(chance: Random, deaths: int) -> None:
    cluster = Cluster(chance.randrange(1 << 30))
    ends = Ends()
    try:
        one = History(chance, cluster)
        only_failed = one.spec.get("podReplacementPolicy") == "Failed"
        follow_pods(cluster, lambda pod: ends.see(pod, only_failed=only_failed))
        job = await one.run(deaths)
        status = job["status"]
        finals = [cond["type"] for cond in status["conditions"]]
        wanted = "Failed" if status.get("failedIndexes") else "Complete"
        assert wanted in finals, finals
        assert not status["uncountedTerminatedPods"] and not status.get("active"), status
        assert int(status.get("failed", 0)) == len(ends.failed), (status, one.spec)
        if wanted == "Complete":
            assert status["succeeded"] == one.spec["completions"], status
            assert len(ends.succeeded) == one.spec["completions"]
        assert not [pod for pod in cluster.all(PODS) if FINALIZER in pod["metadata"].get("finalizers", ())]
    finally:
        await cluster.close()


def follow_pods(cluster: Cluster, see: Any) -> None:
    """Have every state of every pod seen, in the moment in which it is written."""
    inner = cluster.front.write

    async def write(change: Any) -> Any:
        answer = await inner(change)
        for pod in cluster.all(PODS):
            see(pod)
        return answer

    cluster.front.write = write  # type: ignore[method-assign]


@pytest.mark.prove
def test_every_end_is_counted_exactly_once():
    assert_sound(lambda chance: asyncio.run(history(chance, 0)), range(proof_count(1_000)))


@pytest.mark.prove
def test_controllers_that_die_at_any_write_leave_nothing_uncounted():
    assert_sound(lambda chance: asyncio.run(history(chance, chance.randint(1, 8))), range(proof_count(2_000)))
