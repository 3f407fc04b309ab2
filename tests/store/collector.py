"""A garbage collector for tests: follows the store and takes steps until nothing is left to do."""

from __future__ import annotations

from collections import deque

from muster.store import garbage
from muster.store.records import Scope
from tests.store.builders import nothing
from tests.store.kinds import World


class Collector:
    """Steps are taken one by one, so that a test can stop in between and start another collector."""

    def __init__(self, world: World, since: int | None = None) -> None:
        self._world = world
        self._watch = world.store.watch(Scope(), world.store.revision if since is None else since, nothing)
        self._todo: deque[str] = deque()
        if since is None:
            self._todo.extend(garbage.first_steps(world.store, world.objects.kinds))

    def step(self) -> bool:
        """Take one step; gives whether there was one to take."""
        for event in self._watch.take().events:
            self._todo.extend(garbage.steps_after(event))
        if not self._todo:
            return False
        uid = self._todo.popleft()
        if self._world.store.write(garbage.collect(self._world.objects, uid)):
            self._todo.append(uid)
        return True

    def run(self, most: int = 10_000) -> None:
        """Go on until nothing is left to do."""
        for _ in range(most):
            if not self.step():
                return
        raise AssertionError(f"not done after {most} steps")
