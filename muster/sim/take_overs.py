"""Take-overs: several managers of which one leads, and whatever can go wrong with the one that does.

Leaders die, stop, are paused, are cut off from the store and come back, all at times that the seed decides, on machines
whose clocks differ, while their writes arrive late. After each moment the invariants are checked that storms check,
and that nobody's writes take effect once another has begun to act.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from muster.controllers.belonging import PODS, WORKLOADS, has_condition
from muster.model.errors import InvalidObject
from muster.sim.census import Census, Change
from muster.sim.invariants import Invariants, unfinished
from muster.sim.mixes import MIXES, Mix
from muster.sim.objects import first_objects
from muster.sim.replicas import SKEW_MOST_S, Machine, ReplicaNetwork
from muster.sim.troubles import remove
from muster.sim.world import World
from muster.store.errors import StoreError

MANAGERS_MIXES = tuple(mix for mix in MIXES if mix.name in ("lending", "gangs", "slices", "pods"))
NAMES = tuple("abcdefgh")  # of what is submitted: so many that some always wait
AFTER_DEATH_S, AFTER_STOP_S = 20.0, 3.0  # in which another has to act
LONGEST_S = 1_800.0  # until all work has come to its end, with nothing broken
_MOMENTS_S = (0.05, 0.2, 0.5, 1.0, 2.0, 3.0)
_FAULTS = (("kill", 3), ("end", 2), ("pause", 4), ("cut", 3), ("mute", 4), ("set", 1))

Make = Callable[[Mix, int], World]


@dataclass(slots=True)
class TakeOvers:
    """How it went."""

    seed: int
    mix: str
    count: int = 0  # leaders that have begun to act after the first
    violations: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    digest: str = ""


def run_take_overs(seed: int, make: Make, *, count: int) -> TakeOvers:
    """Have so many leaders follow each other."""
    mix = MANAGERS_MIXES[seed % len(MANAGERS_MIXES)]
    unrest = _Unrest(seed, mix, make(mix, seed))
    unrest.run(count)
    return unrest.report


class _Unrest:
    """Lives for one run."""

    def __init__(self, seed: int, mix: Mix, world: World) -> None:
        assert isinstance(world.network, ReplicaNetwork), "there are managers to take over from"
        self.report = TakeOvers(seed, mix.name)
        self._chance = Random(f"{seed}/take-overs")
        self._mix = mix
        self._world = world
        self._network = world.network
        self._terms = world.network.terms
        self._census = Census(world.store, world.objects)
        self._invariants = Invariants(self._census)
        self._due: list[tuple[float, Callable[[], None]]] = []  # what ends a fault, and when

    def run(self, count: int) -> None:
        try:
            self._begin()
            self._network.is_rough = True
            while self._terms.count <= count and not self.report.violations:
                self._step()
            if not self.report.violations:
                self._calm()
        except Exception as problem:
            # Whatever ends a process or the run itself is a violation too.
            self._complain(f"I16: {problem!r}")
        finally:
            self.report.count = self._terms.count - 1
            self.report.digest = self._census.digest()
            self._world.close()

    def _complain(self, *found: str) -> None:
        self.report.violations += [f"step {len(self.report.steps)}: {one}" for one in found]

    def _begin(self) -> None:
        self._world.start()
        self._world.run(1)
        for one in first_objects(self._mix.queues(self._chance)):
            self._world.create(one)
        for name in NAMES:
            self._submit(name)
        self._world.run(0)
        self._look()

    # While things go wrong -------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """One thing that happens, and the time after it."""
        chance, drawn = self._chance, self._chance.random()
        if drawn < 0.15:
            done = self._break()
        elif drawn < 0.45:
            done = self._submit(chance.choice(NAMES))
        elif drawn < 0.55:
            done = self._attempt(lambda: remove(self._world, chance))
        else:
            done = ""
        self.report.steps.append(done)
        self._pass(chance.choice(_MOMENTS_S))

    def _pass(self, seconds: float) -> None:
        """Let time pass, bring some of the news, mend what is due, and look."""
        self._world.run(seconds)
        for name, machine in self._network.machines.items():
            is_there = name in self._world.running and not machine.is_paused and not machine.is_cut_off
            if is_there and self._chance.random() < 0.8:
                self._network.links[name].deliver()
        self._world.settle()
        now_s = self._world.clock.monotonic_s()
        due = [mend for at_s, mend in self._due if at_s <= now_s]
        self._due = [one for one in self._due if one[0] > now_s]
        for mend in due:
            mend()
        self._world.settle()
        self._look()

    def _break(self) -> str:
        """Something goes wrong with a manager, mostly with the one that leads."""
        chance = self._chance
        name = self._terms.leader if chance.random() < 0.8 else chance.choice(sorted(self._network.machines))
        machine = self._network.machines[name]
        if name not in self._world.running or machine.is_paused or machine.is_cut_off:
            return ""
        (fault,) = chance.choices([one for one, _ in _FAULTS], [weight for _, weight in _FAULTS])
        lasts_s = chance.choice((0.5, 4.0, 9.0, 12.0, 16.0, 25.0, 40.0)) * chance.uniform(0.8, 1.2)
        self.report.faults[fault] += 1
        mend = self._broken(fault, name, machine)
        if mend is not None:
            self._due.append((self._world.clock.monotonic_s() + lasts_s, mend))
        return f"{fault} {name} for {lasts_s:.3g} s"

    def _broken(self, fault: str, name: str, machine: Machine) -> Callable[[], None] | None:
        """Break it; gives what mends it."""
        if fault in ("kill", "end"):
            (self._world.stop if fault == "kill" else self._world.end)(name)
            return lambda: self._world.start(name)
        if fault == "pause":
            machine.is_paused = True
            return lambda: self._resume(machine)
        if fault == "cut":
            machine.is_cut_off = True
            return lambda: setattr(machine, "is_cut_off", False)
        if fault == "mute":
            machine.is_mute = True
            return lambda: setattr(machine, "is_mute", False)
        machine.skew_s = self._chance.uniform(-SKEW_MOST_S, SKEW_MOST_S)
        return None

    def _resume(self, machine: Machine) -> None:
        self._world.loop.call_soon(machine.resume)

    def _submit(self, name: str) -> str:
        given = self._chance.choice(self._mix.submit)(self._chance, name)
        return self._attempt(lambda: f"submit {self._world.create(given)['metadata']['name']}")

    def _attempt(self, act: Callable[[], str]) -> str:
        try:
            return act()
        except (StoreError, InvalidObject) as problem:
            return type(problem).__name__

    # Looking ---------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._complain(*self._terms.violations, *self._invariants.after_step([]))
        self._terms.violations.clear()
        for change in self._census.changes:
            self._complain(*_decided_twice(change))

    # When nothing goes wrong any more --------------------------------------------------------------------------------

    def _calm(self) -> None:
        self._network.is_rough = False
        while self._due:
            self._due.pop(0)[1]()
        for link in self._network.links.values():
            link.deliver()
        until_s = self._world.clock.monotonic_s() + LONGEST_S
        while self._world.clock.monotonic_s() < until_s:
            self._world.run(30)
            self._look()
            if not any(True for _ in unfinished(self._census)):
                break
        self._complain(*self._invariants.at_rest())
        self._complain(*self._slow("end", AFTER_STOP_S), *self._slow("kill", AFTER_DEATH_S))

    def _slow(self, fault: str, most_s: float) -> Iterator[str]:
        """What it takes with nothing else in the way until another acts."""
        before, name, since_s = self._terms.count, self._terms.leader, self._world.clock.monotonic_s()
        self._broken(fault, name, self._network.machines[name])
        self._world.run(most_s)
        if self._terms.count == before:
            yield f"I6: nobody acts {most_s:g} s after {fault} of {name} at {since_s:g} s"
        else:
            self._world.start(name)
            self._world.run(1)


def _decided_twice(change: Change) -> Iterator[str]:
    """I20: a pod that gets another node, or a workload that gets quota while it has some."""
    if change.before is None or change.now is None:
        return
    if change.key.resource == PODS:
        node, now = change.before["spec"].get("nodeName"), change.now["spec"].get("nodeName")
        if node and node != now and change.before["metadata"]["uid"] == change.now["metadata"]["uid"]:
            yield f"I20: {change.key} was bound to {node} and is bound to {now}"
    elif change.key.resource == WORKLOADS:
        before, now = (one.get("status") or {} for one in (change.before, change.now))
        is_held = has_condition(change.before, "QuotaReserved") and has_condition(change.now, "QuotaReserved")
        if is_held and _paid(before) != _paid(now):
            yield f"I20: {change.key} was given {_paid(now)} when it had {_paid(before)}"


def _paid(status: object) -> object:
    """Which queue pays for what."""
    assert isinstance(status, dict), "a status is a mapping"
    admission = status.get("admission") or {}
    given = [(one["name"], one.get("flavors"), one.get("resourceUsage")) for one in admission["podSetAssignments"]]
    return admission["clusterQueue"], given
