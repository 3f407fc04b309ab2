"""A stage whose server is killed at random moments and started anew. Used by `test_killed`.

Whoever plays on it notices nothing: what was asked when the server died is asked again. An object that was made before
the answer was lost is not made twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from http.client import HTTPException
from pathlib import Path
from random import Random
from threading import Timer
from typing import TypeVar

from muster.app.demo.story import Story, Target, Wanted
from muster.store.kinds import Object
from tests.e2e.process import Muster, started
from tests.stories.stages import HttpStage, Processes, Refused, arguments_for, resource_of

EXISTS = 409
GONE = (OSError, HTTPException, EOFError)  # what a client of a killed server meets
Result = TypeVar("Result")


class MortalStage:
    """The lives of a server, one after another, over the same folder."""

    def __init__(self, story: Story, folder: Path, processes: Processes | None = None) -> None:
        self._folder = folder
        self._arguments = arguments_for(story, folder, is_local=processes is not None)
        self._processes = processes
        self._running = ExitStack()
        self._timer = Timer(0, lambda: None)
        self._chance: Random | None = None
        self._within_s = 0.0
        self.kills = 0
        self._kills_left = 0
        self._muster = self._begin()

    def kill_by(self, chance: Random, *, times: int, within_s: float) -> None:
        """Kill it so many times, each at a moment within so long after the start of a life."""
        self._chance, self._kills_left, self._within_s = chance, times, within_s
        self._arm()

    def close(self) -> None:
        """End it."""
        self._timer.cancel()
        self._running.close()

    def stop(self) -> int:
        """End it as a user does, with what it runs; gives its exit status."""
        self._timer.cancel()
        return self._muster.stop()

    def _begin(self) -> Muster:
        self._running.close()
        return self._running.enter_context(started(self._folder / "state", *self._arguments))

    def _arm(self) -> None:
        if self._chance is not None and self._kills_left > 0:
            self._timer = Timer(self._chance.random() * self._within_s, self._muster.process.kill)
            self._timer.start()

    def _lasting(self, ask: Callable[[HttpStage], Result]) -> Result:
        """Ask until there is an answer."""
        while True:
            try:
                return ask(HttpStage(self._muster, self._processes))
            except GONE:
                self._muster.process.wait(10)  # it was killed, or else this is the failure
            self._timer.join()
            self.kills += 1
            self._kills_left -= 1
            self._muster = self._begin()
            self._arm()

    # What a stage does -----------------------------------------------------------------------------------------------

    def create(self, objects: tuple[Object, ...], /) -> None:
        for one in objects:
            self._lasting(partial(_create_once, given=one))

    def wait(self, target: Target, wanted: Wanted, /) -> None:
        self._lasting(lambda stage: stage.wait(target, wanted))

    def patch(self, target: Target, change: Object, /) -> None:
        self._lasting(lambda stage: stage.patch(target, change))

    def finish(self, job: Target, /) -> None:
        self._lasting(lambda stage: stage.finish(job))

    def all(self, resource: str, /) -> list[Object]:
        return self._lasting(lambda stage: stage.all(resource))


def _create_once(stage: HttpStage, given: Object) -> None:
    """Make an object, unless it is there because a server died before it had answered."""
    prefix = given["metadata"].get("generateName")
    if prefix and any(one["metadata"].get("generateName") == prefix for one in stage.all(resource_of(given))):
        return
    try:
        stage.create((given,))
    except Refused as refused:
        if refused.status != EXISTS:
            raise


def processes_of(folder: Path) -> list[int]:
    """The processes that name a folder in their command or their environment: keepers, and what they keep."""
    found = []
    mark = os.fsencode(folder)
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        try:
            told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:  # it has ended
            continue
        if mark in told:
            found.append(int(process.name))
    return found
