"""Machines that several processes of one kind run on: clocks that go wrong, pauses, and a way to the store that loses
requests and answers and lets writes arrive when their sender is long gone. Driven by `take_overs`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import TypeVar

from muster.controllers.leadership import LEASES, ClientLeases, Elector
from muster.model.election import Election
from muster.sim.network import Link, Network
from muster.store.binding import Binding
from muster.store.client import Client
from muster.store.clock import VirtualClock
from muster.store.kinds import Object
from muster.store.objects import PLAINLY, Part, Written, decode
from muster.store.port import Change, Outcome, Result, Store
from muster.store.records import Key
from muster.store.rules import Deletion

DRIFT_MOST = 0.1  # clocks go at most this much faster or slower than time
SKEW_MOST_S = 30.0  # and show up to so much more or less than others

Answer = TypeVar("Answer")


class Machine:
    """What one process runs on: its clocks, and whether it runs at all. It is a clock to the process."""

    def __init__(self, time: VirtualClock, chance: Random) -> None:
        self.time = time
        self.is_paused = False
        self.is_cut_off = False  # from the store: nothing is sent, and nothing heard
        self.is_mute = False  # its lease is not renewed, for whatever reason, and all else arrives
        self.skew_s = chance.uniform(-SKEW_MOST_S, SKEW_MOST_S)
        self.rate = 1 + DRIFT_MOST * chance.choice((-1.0, 1.0, chance.uniform(-1, 1)))
        self._chance = chance
        self._late: list[Callable[[], None]] = []

    def do(self, call: Callable[[], None]) -> None:
        """Make a call as soon as the machine runs."""
        if self.is_paused:
            self._late.append(call)
        else:
            call()

    def resume(self) -> None:
        """Go on; what has come meanwhile comes by and by in any order, deadlines before answers or after."""
        self.is_paused = False
        late, self._late = self._late, []
        for call in late:
            self._later(self._chance.choice((0.0, 0.01, 0.1)), call)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        timer = self.time.timer(seconds)
        timer.add_done_callback(lambda _: self.do(call))

    def now_s(self) -> float:
        return self.time.now_s() + self.skew_s

    def monotonic_s(self) -> float:
        return self.time.monotonic_s() * self.rate

    async def sleep(self, seconds: float) -> None:
        """Wait by this machine's clock."""
        await self.timer(seconds)

    def timer(self, seconds: float) -> asyncio.Future[None]:
        """A future that is done after so long by this machine's clock."""
        rung: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def ring() -> None:
            if not rung.done():
                rung.set_result(None)

        inner = self.time.timer(seconds / self.rate)
        inner.add_done_callback(lambda one: None if one.cancelled() else self.do(ring))
        rung.add_done_callback(lambda _: inner.cancel())
        return rung


class Terms:
    """Who acts, by what has happened and not by what anybody believes."""

    def __init__(self) -> None:
        self.count = 0
        self.violations: list[str] = []
        self.leader = ""  # who has begun last
        self.began_s = 0.0
        self._leading: dict[str, Callable[[], bool]] = {}

    def stand(self, process: str, is_leading: Callable[[], bool]) -> None:
        """A process stands for election."""
        self._leading[process] = is_leading

    def begin(self, process: str, now_s: float) -> None:
        """A process begins to act: from now on nobody else does, nor does it by what it knew before."""
        self.count += 1
        self.leader, self.began_s = process, now_s
        for other, is_leading in self._leading.items():
            if other != process and is_leading():
                self.violations.append(f"I20: {process} begins to act, and {other} may still write")

    def land(self, process: str, term: int, what: str) -> None:
        """A write of a term arrives."""
        if term != self.count:
            told = f"of {process} in term {term} arrived after {self.leader} had begun term {self.count}"
            self.violations.append(f"I20: a write to {what} {told}")


class ReplicaLink(Link):
    """The store as a process sees it from its machine."""

    def __init__(self, network: ReplicaNetwork, name: str, machine: Machine) -> None:
        super().__init__(network, name)
        self.machine = machine
        self.terms = network.terms
        self._roughness = network

    @property
    def is_calm(self) -> bool:
        return not self._roughness.is_rough

    def submit(self, change: Change[Result], done: Callable[[Outcome[Result]], None]) -> None:
        """Send a write; it arrives within the time that its sender gives it, or never."""
        if self.is_dead:
            return
        began, term = self.known, self.terms.count

        def answered(outcome: Outcome[Result]) -> None:
            if outcome.error is None and (what := _resource(outcome.get())) != LEASES:
                self.terms.land(self.name, term, what)
            self._after(self._delay_s(), lambda: self._tell(done, outcome))

        self._after(self._delay_s(), lambda: self._make(change, answered, began))

    async def ask(self, read: Callable[[], Answer]) -> Answer:
        """Read something from the store itself, which takes its time; `read` says what and raises what is wrong."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def settle(outcome: Outcome[Answer]) -> None:
            if answer.done():
                return
            if outcome.error is not None:
                answer.set_exception(outcome.error)
            else:
                answer.set_result(outcome.get())

        def arrive() -> None:
            try:
                outcome = Outcome(read())
            except Exception as problem:  # whatever a read raises is its answer
                outcome = Outcome(error=problem)
            self._after(self._delay_s(), lambda: self._tell(settle, outcome))

        self._after(self._delay_s(), arrive)
        return await answer

    def _tell(self, done: Callable[[Outcome[Answer]], None], outcome: Outcome[Answer]) -> None:
        if not self.is_dead:
            self.machine.do(lambda: done(outcome))

    def _after(self, delay_s: float | None, call: Callable[[], object]) -> None:
        if delay_s is None:
            return  # it is lost, and nobody is told
        if delay_s:
            timer = self.machine.time.timer(delay_s)
            timer.add_done_callback(lambda _: call())
        else:
            call()

    def _delay_s(self) -> float | None:
        return None if self.machine.is_cut_off else self._roughness.delay_s(self.machine)


class GuardedClient:
    """The writes of a leader's work, each of which its elector has to let pass."""

    def __init__(self, client: Client, elector: Elector) -> None:
        self._client = client
        self._elector = elector

    async def create(self, resource: str, given: Object) -> Object:
        return await self._elector.write(lambda: self._client.create(resource, given))

    async def update(self, key: Key, given: Object, part: Part = Part.MAIN) -> Object:
        return await self._elector.write(lambda: self._client.update(key, given, part))

    async def delete(self, key: Key, deletion: Deletion = PLAINLY) -> Object:
        return await self._elector.write(lambda: self._client.delete(key, deletion))

    async def bind(self, binding: Binding) -> int:
        return await self._elector.write(lambda: self._client.bind(binding))


class ReplicaLeases(ClientLeases):
    """The lease as a process sees it from its machine."""

    def __init__(self, client: Client, link: ReplicaLink, election: Election) -> None:
        async def read(key: Key) -> Object:
            return decode(await link.ask(lambda: link.get(key)))

        super().__init__(client, read, election)
        self._machine = link.machine

    async def update(self, lease: Object) -> Object:
        if self._machine.is_mute:
            await asyncio.get_running_loop().create_future()
        return await super().update(lease)


class ReplicaNetwork(Network):
    """The links of all processes; those of replicas are rough at times."""

    def __init__(self, store: Store, chance: Random, *, machines: Mapping[str, Machine], election: Election) -> None:
        super().__init__(store, chance)
        self.machines = machines
        self.terms = Terms()
        self.is_rough = False
        self._election = election

    def connect(self, name: str) -> Link:
        """A link for a process that starts now."""
        if name not in self.machines:
            return super().connect(name)
        self.links[name] = ReplicaLink(self, name, self.machines[name])
        return self.links[name]

    def delay_s(self, machine: Machine) -> float | None:
        """How long a request or an answer takes; `None` if it is lost."""
        if not self.is_rough:
            return 0.0
        drawn = self._chance.random()
        longest_s = self._election.request_s / machine.rate  # by the sender's clock: later it is not sent any more
        if drawn < (0.4 if machine.is_mute else 0.7):
            return 0.0
        if drawn < 0.85:
            return self._chance.uniform(0, longest_s / 10)
        if drawn < 0.97:
            return longest_s * self._chance.choice((0.99, self._chance.random()))
        return None


def _resource(result: object) -> str:
    return result.record.key.resource if isinstance(result, Written) else "pods"
