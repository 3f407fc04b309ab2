"""A storm: some hundred steps in which chance decides what happens next, then calm, and a look at what is left.

A step is one thing that happens: a process hears of some events, a write that was under way arrives, time passes,
somebody does something, a process dies or comes back. After each the invariants are checked. The seed decides
everything, so a storm can be seen again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from muster.controllers.belonging import WORKLOADS, has_condition
from muster.controllers.cache import Cache
from muster.model.errors import InvalidObject
from muster.sim.census import Census
from muster.sim.invariants import Invariants, broken_state, drifted_state, oversized, unfinished
from muster.sim.mixes import MIXES, NAMES, Mix
from muster.sim.network import Landed
from muster.sim.objects import first_objects
from muster.sim.troubles import TROUBLES, heal
from muster.sim.world import World
from muster.store.errors import StoreError
from muster.store.kinds import Object

STEPS = 300
DEATH_RATE = 0.01  # of writes
REST_S, LONGEST_S = 30.0, 1_800.0  # how long nothing may happen at rest, and how long it may take to get there
_DRIFT_EVERY = 50  # steps
_WRITTEN_AT_REST = ("leases.coordination.k8s.io", "nodes", "events")
_WAITS_S = (0.01, 0.2, 0.2, 1.0, 1.0, 3.0, 3.0, 10.0, 45.0)
_FEW = 8  # events that are told at a time, if not all are


@dataclass(slots=True)
class Report:
    """How a storm went."""

    seed: int
    mix: str
    violations: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    digest: str = ""
    points: Counter[str] = field(default_factory=Counter)  # where processes have died
    writes: int = 0


@dataclass(frozen=True, slots=True)
class Ground:
    """What a storm takes place on: a world that was not started yet, and the way into its scheduler."""

    world: World
    cache: Callable[[], Cache | None]  # of the scheduler that runs
    fresh: Callable[[], Cache | None]  # what one would know that starts now, by what that one has heard


Make = Callable[[Mix, int], Ground]


def mix_of(seed: int) -> Mix:
    """Every mix comes equally often."""
    return MIXES[seed % len(MIXES)]


def run_storm(seed: int, make: Make, *, steps: int = STEPS) -> Report:
    """Run the storm of a seed."""
    mix = mix_of(seed)
    storm = _Storm(seed, mix, make(mix, seed))
    with _Faults() as faults:
        storm.run(steps, faults)
    return storm.report


class _Storm:
    """Lives for one storm."""

    def __init__(self, seed: int, mix: Mix, ground: Ground) -> None:
        self.report = Report(seed, mix.name)
        self._chance = Random(f"{seed}/storm")
        self._mix = mix
        self._ground = ground
        self._world = ground.world
        self._network = ground.world.network
        self._census = Census(ground.world.store, ground.world.objects)
        self._invariants = Invariants(self._census)
        self._queues = mix.queues(self._chance)

    def run(self, steps: int, faults: _Faults) -> None:
        try:
            self._begin()
            self._rage(steps, faults)
            if not self.report.violations:
                self._calm(faults)
        except Exception as problem:
            # Whatever ends a process or the run itself is what storms are for.
            self._complain(f"I16: {problem!r}")
        finally:
            self.report.digest = self._census.digest()
            self.report.points = self._network.points
            self.report.writes = self._world.store.revision
            self._world.close()

    def _complain(self, *found: str) -> None:
        self.report.violations += [f"step {len(self.report.steps)}: {one}" for one in found]

    def _begin(self) -> None:
        self._world.start()
        self._world.run(1)
        for one in first_objects(self._queues):
            self._world.create(one)
        for name in NAMES:
            self._submit(name)
        self._world.run(0)
        self._look([])

    # The storm -------------------------------------------------------------------------------------------------------

    def _rage(self, steps: int, faults: _Faults) -> None:
        self._network.is_calm = False
        self._network.death_rate = DEATH_RATE
        for number in range(steps):
            self._network.landed.clear()
            self.report.steps.append(self._step())
            self._world.settle()
            self._bury()
            found = [*self._look(self._network.landed), *faults.take()]
            if number % _DRIFT_EVERY == _DRIFT_EVERY - 1:
                found += self._drift()
            if found:
                self._complain(*found)
                return

    def _step(self) -> str:
        """One thing that happens."""
        chance, network = self._chance, self._network
        drawn = chance.random()
        late, down = network.late(), [name for name in self._world.process_names if name not in self._world.running]
        if down and drawn > 0.9:
            name = chance.choice(down)
            self._world.start(name)
            return f"start {name}"
        if drawn < 0.12:
            return self._wait()
        if drawn < 0.20:
            return self._happen()
        if drawn < 0.26:
            return self._submit(chance.choice(NAMES))
        if drawn < 0.27:
            name = chance.choice(self._world.process_names)
            if name in self._world.running:
                network.points[f"{name} at any time"] += 1
                self._world.network.links[name].is_dead = True
            return f"kill {name}"
        if drawn < 0.45 and network.held:
            held = network.held.pop(chance.randrange(len(network.held)))
            held.go()
            return f"land a write of {held.link.name}"
        if not late:
            return self._wait()
        heard = chance.sample(late, min(len(late), chance.randint(1, 3)))
        return ", ".join([self._deliver(link.name) for link in heard])

    def _wait(self) -> str:
        waited_s = self._chance.choice(_WAITS_S)
        self._world.run(waited_s)
        return f"wait {waited_s:g} s"

    def _deliver(self, name: str) -> str:
        chance, link = self._chance, self._network.links[name]
        drawn = chance.random()
        if drawn < 0.02:
            link.cut()
            return f"cut {name}"
        most = chance.randint(1, _FEW) if drawn < 0.25 else 1 << 30
        again = chance.randint(1, 3) if chance.random() < 0.2 else 0
        link.deliver(most, again=again, chance=chance if chance.random() < 0.15 else None)
        return f"deliver {most if most <= _FEW else 'all'} to {name}{f' and {again} again' if again else ''}"

    def _happen(self) -> str:
        (trouble,) = self._chance.choices([one for one, _ in TROUBLES], [weight for _, weight in TROUBLES])
        return self._attempt(trouble.__name__, lambda: trouble(self._world, self._chance))

    def _submit(self, name: str) -> str:
        given = self._chance.choice(self._mix.submit)(self._chance, name)
        return self._attempt(f"submit {given['kind']} {given['metadata']['name']}", lambda: self._create(given))

    def _create(self, given: Object) -> str:
        self._world.create(given)
        return f"submit {given['kind']} {given['metadata']['name']}"

    def _attempt(self, what: str, act: Callable[[], str]) -> str:
        try:
            return act()
        except (StoreError, InvalidObject) as problem:
            return f"{what}: {type(problem).__name__}"

    def _bury(self) -> None:
        """Have processes be gone that have died; what they had under way arrives, or not, before they come back."""
        for name in [one for one in self._world.running if self._network.links[one].is_dead]:
            link = self._network.links[name]
            own = [one for one in self._network.held if one.link is link]
            self._network.held = [one for one in self._network.held if one.link is not link]
            for held in own:
                if self._chance.random() < 0.5:
                    held.go()
            self._world.stop(name)

    def _look(self, landed: list[Landed]) -> list[str]:
        found = list(self._invariants.after_step(landed))
        cache = self._ground.cache()
        if cache is not None and landed and "scheduler" in self._world.running:
            found += broken_state(cache)
        return found

    def _drift(self) -> list[str]:
        """What the scheduler knows and should not, if it is at rest."""
        cache, fresh = self._ground.cache(), self._ground.fresh()
        return [] if cache is None or fresh is None else list(drifted_state(cache, fresh))

    # The calm --------------------------------------------------------------------------------------------------------

    def _calm(self, faults: _Faults) -> None:
        self._network.calm()
        self._world.settle()
        self._bury()
        for name in self._world.process_names:
            if name == "nodes" and name in self._world.running:
                self._world.stop(name)  # nodes that are gone come back with their agent
            if name not in self._world.running:
                self._world.start(name)
        self._world.run(1)
        self._complain(*self._look(self._network.landed))  # by the quotas that there were up to now
        heal(self._world, self._queues)
        self._rest()
        self._complain(*self._look([]), *faults.take(), *self._invariants.at_rest(), *self._oversized(), *self._drift())
        if not self.report.violations:
            self._complain(*self._idle("I12"))
        if not self.report.violations and self._chance.random() < 0.5:
            self._world.stop()
            self._world.start()
            self._complain(*self._idle("I9"), *faults.take(), *self._drift())

    def _rest(self) -> None:
        """Give everybody time to come to an end."""
        preempted: Counter[str] = Counter()
        until_s = self._world.clock.monotonic_s() + LONGEST_S
        while self._world.clock.monotonic_s() < until_s:
            self._world.run(REST_S)
            self._complain(*self._look([]))
            for change in self._census.changes:
                if change.key.resource == WORKLOADS and _is_preempted(change.now) and not _is_preempted(change.before):
                    preempted[str(change.key)] += 1
            if not any(True for _ in (*unfinished(self._census), *self._oversized())):
                break
        self._complain(*(f"I14: {key} was preempted {count} times" for key, count in preempted.items() if count > 3))

    def _oversized(self) -> Iterator[str]:
        return oversized(self._census, self._mix.pools)

    def _idle(self, name: str) -> Iterator[str]:
        """Writes of a cluster in which there is nothing to do."""
        self._world.run(REST_S)
        self._complain(*self._look([]))
        for change in self._census.changes:
            if change.key.resource not in _WRITTEN_AT_REST:
                yield f"{name}: {change.key} was written and nothing had happened"


def _is_preempted(workload: Object | None) -> bool:
    return workload is not None and has_condition(workload, "Preempted")


class _Faults(logging.Handler):
    """Hears what processes report of themselves: a fault is a violation, however well it was survived."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        problem = record.exc_info[1] if record.exc_info else None
        self._heard.append(f"I16: {record.getMessage()} {problem!r}")

    def take(self) -> list[str]:
        heard, self._heard = self._heard, []
        return heard

    def __enter__(self) -> _Faults:
        logging.getLogger("muster").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("muster").removeHandler(self)
