"""An elector leads while it may and no moment longer; its lease is the one that client-go's leader election knows."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from muster.controllers.leadership import Elector
from muster.controllers.lease_record import LeaseRecord, record_of
from muster.model.election import Election
from muster.sim.loop import StillLoop
from muster.sim.replicas import DRIFT_MOST
from muster.store.clock import VirtualClock
from muster.store.errors import Conflict, NotFound, Unavailable
from muster.store.kinds import Object
from muster.store.records import Key

ELECTION = Election(namespace="muster")
KEY = Key("leases.coordination.k8s.io", "muster", ELECTION.name)
START_S = 1_700_000_000.0


class OneLease:
    """The lease of a server that answers at once, or not at all."""

    def __init__(self) -> None:
        self.kept: Object | None = None
        self.is_silent = False
        self.loses_answers = False
        self._revision = 0

    async def read(self) -> Object | None:
        await self._heard()
        return self.kept

    async def create(self, lease: Object) -> Object:
        await self._heard()
        return await self._written(lease)

    async def update(self, lease: Object) -> Object:
        await self._heard()
        if self.kept is None:
            raise NotFound(KEY)
        if lease["metadata"]["resourceVersion"] != self.kept["metadata"]["resourceVersion"]:
            raise Conflict(KEY, "it has changed")
        return await self._written(lease)

    def put(self, **spec: Any) -> None:
        """Somebody else writes it."""
        self._revision += 1
        metadata = {"name": KEY.name, "namespace": KEY.namespace, "resourceVersion": str(self._revision)}
        self.kept = {"metadata": metadata, "spec": spec}

    async def _heard(self) -> None:
        if self.is_silent:
            await asyncio.get_running_loop().create_future()

    async def _written(self, lease: Object) -> Object:
        self.put(**lease["spec"])
        assert self.kept is not None
        if self.loses_answers:
            await asyncio.get_running_loop().create_future()
        return self.kept


class Stage:
    """Electors on one clock, and what their work does."""

    def __init__(self) -> None:
        self.loop = StillLoop()
        self.clock = VirtualClock(START_S)
        self.lease = OneLease()
        self.acting: list[str] = []

    def stand(self, name: str = "a") -> tuple[Elector, asyncio.Task[None]]:
        elector = Elector(self.lease, self.clock, identity=name, election=ELECTION)

        async def work() -> None:
            self.acting.append(name)
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self.acting.remove(name)

        task = self.loop.create_task(elector.run(work))
        self.run(0)
        return elector, task

    def run(self, for_s: float) -> None:
        until_s = self.clock.monotonic_s() + for_s
        self.loop.run_ready()
        while (due_s := self.clock.next_due_s()) is not None and due_s <= until_s:
            self.clock.advance_to(due_s)
            self.loop.run_ready()
        self.clock.advance_to(until_s)
        self.loop.run_ready()

    @property
    def spec(self) -> Object:
        assert self.lease.kept is not None
        return self.lease.kept["spec"]  # type: ignore[no-any-return]


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.loop.close()


def test_the_first_one_acts_at_once_and_renews_its_lease(stage):
    stage.stand()
    assert stage.acting == ["a"]
    first = dict(stage.spec)
    assert first["holderIdentity"] == "a" and first["leaseDurationSeconds"] == 15 and first["leaseTransitions"] == 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first["renewTime"])
    stage.run(100)
    assert stage.acting == ["a"]
    assert stage.spec["renewTime"] > first["renewTime"]
    assert {**stage.spec, "renewTime": first["renewTime"]} == first


@pytest.mark.parametrize("renewed", ["2000-01-01T00:00:00.000000Z", "2100-01-01T00:00:00.000000Z", "?", None])
def test_a_lease_lasts_from_when_it_was_seen_whatever_its_times_say(stage, renewed):
    stage.lease.put(holderIdentity="kueue-1", leaseDurationSeconds=7, renewTime=renewed, leaseTransitions=4)
    stage.stand()
    stage.run(7 + ELECTION.settle_s - 0.01)
    assert stage.acting == []
    stage.run(0.02)
    assert stage.acting == ["a"]
    assert stage.spec["leaseTransitions"] == 5


def test_whoever_is_heard_of_is_waited_for(stage):
    stage.lease.put(holderIdentity="kueue-1", leaseDurationSeconds=15)
    stage.stand()
    for number in range(10):
        stage.run(14)
        stage.lease.put(holderIdentity="kueue-1", leaseDurationSeconds=15, renewTime=str(number))
        stage.run(1)
    assert stage.acting == []


def test_a_lease_that_was_let_go_is_taken_at_once(stage):
    stage.lease.put(holderIdentity="kueue-1", leaseDurationSeconds=15)
    stage.stand()
    stage.run(3)
    stage.lease.put(holderIdentity="", leaseDurationSeconds=1, leaseTransitions=1, strategy="kept")
    stage.run(ELECTION.look_s)
    assert stage.acting == ["a"]
    assert stage.spec["leaseTransitions"] == 2 and stage.spec["strategy"] == "kept"


def test_a_lease_that_is_deleted_lasts_as_long_as_it_would_have(stage):
    stage.lease.put(holderIdentity="kueue-1", leaseDurationSeconds=15)
    stage.stand()
    stage.lease.kept = None
    stage.run(14.9)
    assert stage.acting == []
    stage.run(3)
    assert stage.acting == ["a"]


def test_a_leader_whose_lease_is_deleted_makes_it_anew(stage):
    stage.stand()
    stage.lease.kept = None
    stage.run(3)
    assert stage.acting == ["a"] and stage.spec["holderIdentity"] == "a"


def test_a_leader_that_cannot_renew_stops_by_its_own_deadline(stage):
    elector, _ = stage.stand()
    stage.lease.is_silent = True
    stage.run(ELECTION.renew_deadline_s - 0.01)
    assert stage.acting == ["a"] and elector.is_leading
    stage.run(0.02)
    assert stage.acting == [] and not elector.is_leading


def test_a_leader_counts_from_when_it_asked(stage):
    elector, _ = stage.stand()
    stage.lease.loses_answers = True
    stage.run(ELECTION.renew_deadline_s + 0.01)
    assert not elector.is_leading


def test_whoever_gets_its_own_lease_back_waits_for_its_own_writes(stage):
    stage.stand()
    stage.lease.is_silent = True
    stage.run(ELECTION.renew_deadline_s + 0.01)
    stage.lease.is_silent = False
    stage.run(ELECTION.look_s + ELECTION.request_s)
    assert stage.spec["holderIdentity"] == "a" and stage.acting == []
    stage.run(ELECTION.margin_s)
    assert stage.acting == ["a"]


def test_a_leader_that_sees_another_one_stops_at_once(stage):
    elector, _ = stage.stand()
    stage.lease.put(holderIdentity="b", leaseDurationSeconds=15)
    stage.run(ELECTION.retry_s + 0.01)
    assert stage.acting == [] and not elector.is_leading


def test_an_edit_by_somebody_else_loses_nothing(stage):
    stage.stand()
    stage.lease.put(**stage.spec)
    stage.run(30)
    assert stage.acting == ["a"]


def test_one_follows_the_other_when_it_dies_and_when_it_stops(stage):
    _, first = stage.stand("a")
    _, second = stage.stand("b")
    stage.run(5)
    first.cancel()
    stage.run(0)
    assert stage.spec["holderIdentity"] == "" and stage.acting == []
    stage.run(ELECTION.look_s)
    assert stage.acting == ["b"]
    stage.lease.is_silent = True  # to it
    stage.run(11)
    second.cancel()
    stage.lease.is_silent = False
    stage.stand("c")
    stage.run(17.1)
    assert stage.acting == ["c"]


def write_of(stage: Stage, elector: Elector, request: Callable[[], Coroutine[Any, Any, str]]) -> asyncio.Task[str]:
    task: asyncio.Task[str] = stage.loop.create_task(elector.write(request))
    stage.run(0)
    return task


def test_a_write_passes_while_the_lease_lasts_and_is_refused_after_it(stage):
    elector, _ = stage.stand()

    async def answer() -> str:
        return "made"

    assert write_of(stage, elector, answer).result() == "made"
    stage.lease.is_silent = True
    stage.run(ELECTION.renew_deadline_s)
    with pytest.raises(Unavailable, match="does not lead"):
        write_of(stage, elector, answer).result()


def test_a_write_is_given_up_within_the_margin(stage):
    elector, _ = stage.stand()

    async def silence() -> str:
        return await stage.loop.create_future()

    sent = write_of(stage, elector, silence)
    stage.run(ELECTION.request_s - 0.01)
    assert not sent.done()
    stage.run(0.02)
    with pytest.raises(Unavailable, match="no answer within 3 s"):
        sent.result()


def test_whoever_stops_waits_for_its_writes_before_it_lets_go(stage):
    elector, running = stage.stand()
    under_way: asyncio.Future[str] = stage.loop.create_future()

    async def slow() -> str:
        return await under_way

    sent = write_of(stage, elector, slow)
    sent.cancel()  # who has asked is gone, and the write is not
    running.cancel()
    stage.run(1)
    assert stage.spec["holderIdentity"] == "a"
    under_way.set_result("made")
    stage.run(0)
    assert stage.spec["holderIdentity"] == "" and running.cancelled()


def test_a_process_that_has_slept_through_its_deadline_does_not_begin(stage):
    stage.lease.put(holderIdentity="b", leaseDurationSeconds=15)
    elector, _ = stage.stand()
    stage.run(15.01)
    assert elector.is_leading and stage.acting == []
    stage.lease.put(holderIdentity="c", leaseDurationSeconds=15)
    stage.clock.advance(60)  # everything that has become due comes at once
    stage.loop.run_ready()
    assert stage.acting == []


def test_what_ends_the_work_ends_the_process(stage):
    elector = Elector(stage.lease, stage.clock, identity="a", election=ELECTION)

    async def work() -> None:
        raise KeyError("nobody thought of this")

    task = stage.loop.create_task(elector.run(work))
    stage.run(0)
    with pytest.raises(KeyError):
        task.result()


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        (None, LeaseRecord("", 0.0, 0)),
        ({"holderIdentity": None, "leaseDurationSeconds": "15"}, LeaseRecord("", 0.0, 0)),
        ({"holderIdentity": "a", "leaseDurationSeconds": -3, "leaseTransitions": -1}, LeaseRecord("a", 0.0, 0)),
        ({"holderIdentity": "a", "leaseDurationSeconds": 2**31 - 1}, LeaseRecord("a", 3600.0, 0)),
    ],
)
def test_a_lease_may_say_anything(spec, want):
    assert record_of({"metadata": {}, "spec": spec}) == want


@pytest.mark.parametrize(
    ("election", "drift"), [(ELECTION, DRIFT_MOST), (Election(lease_s=137, renew_deadline_s=107, retry_s=26), 0.08)]
)
def test_the_last_write_has_arrived_when_a_successor_begins(election, drift):
    # The leader's clock is the slowest that there may be, and its successor's the fastest.
    last_s = (election.renew_deadline_s + election.request_s) / (1 - drift)
    assert last_s < (election.lease_s + election.settle_s) / (1 + drift)
    assert last_s > election.lease_s / (1 + drift), "without the wait it would not have"
