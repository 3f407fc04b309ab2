"""A cluster in simulated time: everything that runs beside the server, on one store, with nobody else around.

`app.simulation` puts one together. Whoever has it makes objects as a user does, lets time pass, and reads the store:

    world = simulated_world(pools)
    world.create(job)
    world.run_until(lambda: is_complete(world.find("jobs.batch", "train", "team")), within_s=600)

Nothing runs between two calls, and nothing is left to chance but what the seed says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from muster.model.errors import InvalidObject
from muster.sim.loop import StillLoop
from muster.sim.network import Network
from muster.store.aio import AsyncStore
from muster.store.clock import VirtualClock
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.memory import MemoryStore
from muster.store.objects import PLAINLY, By, Objects, Part, decode
from muster.store.records import Key, Record, Scope
from muster.store.rules import Deletion

START_S = 1_700_000_000.0  # when simulated time begins
USER = By("user")

Process = Callable[[AsyncStore], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What a world is made of: the rules for its objects, and what runs in it."""

    objects: Objects
    complete: Callable[[str, Object], Object]  # what a new object of a resource gets from others
    processes: Mapping[str, Process]  # by name; each starts from the store alone


class World:
    """One cluster, with its clock and its store."""

    def __init__(
        self,
        clock: VirtualClock,
        store: MemoryStore,
        cluster: Cluster,
        network: Network,
        *,
        loop: StillLoop | None = None,  # of another world with the same clock; None: one of its own
    ) -> None:
        self.clock = clock
        self.network = network
        self.store = store
        self.objects = cluster.objects
        self.complete = cluster.complete
        self._processes = cluster.processes
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ending: list[asyncio.Task[None]] = []
        self.loop = loop or StillLoop()

    # Processes -------------------------------------------------------------------------------------------------------

    def start(self, *names: str) -> None:
        """Start processes that know nothing yet, all of them unless some are named."""
        for name in names or self._processes:
            assert name not in self._tasks, f"{name} runs already"
            self._tasks[name] = self.loop.create_task(self._run(name))

    def stop(self, *names: str) -> None:
        """Have processes be gone, all of them unless some are named."""
        for name in names or tuple(self._tasks):
            self.network.links[name].is_dead = True  # whatever it still tries on its way out
            self._tasks.pop(name).cancel()
        self.loop.run_ready()

    def end(self, name: str) -> None:
        """Ask a process to end, which it does in its own way and time."""
        task = self._tasks.pop(name)
        task.cancel()
        self._ending = [one for one in self._ending if not one.done()] + [task]

    @property
    def running(self) -> tuple[str, ...]:
        """The processes that run."""
        return tuple(self._tasks)

    @property
    def process_names(self) -> tuple[str, ...]:
        """All processes there are."""
        return tuple(self._processes)

    def close(self) -> None:
        """End the world."""
        self.stop()
        self.loop.close()

    async def _run(self, name: str) -> None:
        await self._processes[name](AsyncStore(self.network.connect(name), pace_s=0))

    # Time ------------------------------------------------------------------------------------------------------------

    def run(self, for_s: float = 0.0) -> None:
        """Let everybody work until nobody has anything to do, and time pass that far."""
        until_s = self.clock.monotonic_s() + for_s
        self.settle()
        while (due_s := self.clock.next_due_s()) is not None and due_s <= until_s:
            self.clock.advance_to(due_s)
            self.settle()
        self.clock.advance_to(until_s)

    def run_until(self, holds: Callable[[], bool], *, within_s: float = 3_600.0) -> None:
        """Let time pass until something holds; it has to come to that in time."""
        until_s = self.clock.monotonic_s() + within_s
        self.settle()
        while not holds():
            due_s = self.clock.next_due_s()
            assert due_s is not None and due_s <= until_s, f"it did not come to that within {within_s:g} s"
            self.clock.advance_to(due_s)
            self.settle()

    def settle(self) -> None:
        """Let everybody work until nobody has anything to do."""
        self.loop.run_ready()
        for name, task in self._tasks.items():
            if task.done():
                task.result()  # raises what has ended it
                raise AssertionError(f"{name} has ended by itself")

    # Objects ---------------------------------------------------------------------------------------------------------

    def create(self, given: Object) -> Object:
        """Add an object as a user does; gives it as it is kept."""
        resource = self.resource_of(given)
        change = self.objects.create(
            resource, given, self._by(given), complete=lambda new, _: self.complete(resource, new)
        )
        return decode(self.store.write(change).record)

    def change(self, key: Key, how: Callable[[Object], Object], part: Part = Part.MAIN) -> Object:
        """Make something else of an object, which `how` may change, as a user does."""
        return decode(self.store.write(self.objects.modify(key, how, part=part, by=USER)).record)

    def delete(self, key: Key, deletion: Deletion = PLAINLY) -> None:
        """Remove an object, or mark it, as a user does."""
        self.store.write(self.objects.delete(key, deletion, by=USER))

    def find(self, resource: str, name: str, namespace: str = "") -> Object | None:
        """An object as it is now, if it is there."""
        try:
            return decode(self.store.get(Key(resource, namespace, name)))
        except NotFound:
            return None

    def get(self, resource: str, name: str, namespace: str = "") -> Object:
        """An object as it is now, which has to be there."""
        return decode(self.store.get(Key(resource, namespace, name)))

    def all(self, resource: str, namespace: str = "") -> list[Object]:
        """The objects of a resource, in one namespace or in all, in order."""
        return [decode(record) for record in self.records(resource, namespace)]

    def records(self, resource: str, namespace: str = "") -> list[Record]:
        """The same unread."""
        return self.store.page(Scope(resource, namespace)).records

    def resource_of(self, given: Object) -> str:
        """What the keys of objects like this one say: `pods`, `jobs.batch`."""
        group, kind = _group(str(given.get("apiVersion"))), str(given.get("kind"))
        for name, one in self.objects.kinds.items():  # definitions may have added some
            if (_group(one.api_version), one.kind) == (group, kind):
                return name
        raise InvalidObject("kind", f"is {kind} of the group {group!r}", "give a kind that the server has")

    def _by(self, given: Object) -> By:
        return USER._replace(api_version=str(given.get("apiVersion")))


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
