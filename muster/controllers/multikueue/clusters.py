"""The connections to other clusters: each is kept by a task of its own, which goes on trying while it is away.

Made by `app`. Nothing that a cluster does or fails to do is waited for by anybody but its own task: others look at what
is known of it, which is nothing while it cannot be reached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from muster.controllers.feed import Changes, run_together
from muster.controllers.loop import Controller, Loop, Turn
from muster.controllers.view import Seen, View
from muster.dialects.kueue.names import GROUP
from muster.dialects.kueue.write import Setting, status_with
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.times import moment
from muster.store.client import Client
from muster.store.clock import Clock
from muster.store.errors import StoreError, Unavailable
from muster.store.kinds import Object
from muster.store.records import Key

log = logging.getLogger(__name__)
CLUSTERS = f"multikueueclusters.{GROUP}"
HEARTBEAT_S = 5.0  # between two questions whether a cluster is there
READY_S = 30.0  # for the first lists
FIRST_WAIT_S = 1.0  # before another try; each further one doubles it
LONGEST_WAIT_S = 60.0
_MESSAGE_MOST = 300


class Remote(Protocol):
    """An open connection to a cluster."""

    @property
    def feed(self) -> Changes:
        """What is known of the cluster."""

    @property
    def client(self) -> Client:
        """Who writes there."""

    async def run(self) -> None:
        """Keep the feed up to date until cancelled."""

    async def ready(self) -> None:
        """Wait until everything is known."""

    async def probe(self) -> None:
        """Ask whether the cluster is there, and is still the one that was opened; raises where it is not."""


Open = Callable[[Object], AbstractAsyncContextManager[Remote]]  # by the MultiKueueCluster that says how


@dataclass(slots=True)
class Link:
    """What is known of one cluster now."""

    name: str
    view: View | None = None  # None: it cannot be reached
    loop: Loop | None = None  # what brings its copies on
    problem: str | None = None  # why it cannot be reached; None: it can, or nobody knows yet
    reason: str = "Active"
    task: asyncio.Task[None] | None = None
    spec: Any = None  # of the object that it was opened by


@dataclass(slots=True)
class Hearing:
    """Who has to know what becomes of clusters."""

    link_changed: Callable[[str], None] = lambda _name: None  # one can be reached, or no longer
    mirror_of: Callable[[Link], Controller] | None = None  # who makes copies in a cluster


@dataclass(slots=True)
class Clusters:
    """The controller of MultiKueueClusters: keeps a connection to each, and says whether there is one."""

    open: Open
    clock: Clock
    hearing: Hearing = field(default_factory=Hearing)
    links: dict[str, Link] = field(default_factory=dict)
    name: str = "multikueue-clusters"

    def keys(self, seen: Seen, _view: View) -> Iterable[Key]:
        if seen.key.resource == CLUSTERS:
            yield seen.key

    async def reconcile(self, turn: Turn) -> None:
        obj, link = turn.view.get(turn.key), self.links.get(turn.key.name)
        if link is not None and (obj is None or link.spec != _source(obj)):
            await _end(link)
            del self.links[turn.key.name]
            self.hearing.link_changed(link.name)
        if obj is None:
            return
        if turn.key.name not in self.links:
            link = self.links[turn.key.name] = Link(turn.key.name, spec=_source(obj))
            link.task = asyncio.create_task(self._keep(link, obj))
        link = self.links[turn.key.name]
        if (setting := _setting(link)) is None:
            return
        status = status_with(obj, setting, turn.now_s)
        if status != obj.get("status"):
            await turn.update_status(turn.key, {**obj, "status": status})

    async def run(self) -> None:
        """Hold the connections until cancelled, and give them up then."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await _end(*self.links.values())

    # One connection --------------------------------------------------------------------------------------------------

    async def _keep(self, link: Link, obj: Object) -> None:
        wait_s = FIRST_WAIT_S
        while True:
            told = link.problem
            try:
                async with self.open(obj) as remote:
                    await run_together(remote.run(), self._use(link, remote))
            except InvalidObject as problem:
                link.reason, link.problem = "BadKubeConfig", str(problem)
            except (StoreError, OSError, TimeoutError) as problem:
                link.reason, link.problem = "ClientConnectionFailed", str(problem) or type(problem).__name__
            except Exception as problem:
                # Whatever a server answers that no server should: it is the end of this connection alone.
                link.reason = "ClientConnectionFailed"
                link.problem = f"it answers what cannot be read ({type(problem).__name__}: {problem})"
            has_worked, link.view, link.loop = link.view is not None, None, None
            if has_worked or link.problem != told:
                log.warning("cluster %s cannot be reached: %s", link.name, link.problem)
                self.hearing.link_changed(link.name)
            wait_s = FIRST_WAIT_S if has_worked else min(LONGEST_WAIT_S, 2 * wait_s)
            await self.clock.sleep(wait_s)

    async def _use(self, link: Link, remote: Remote) -> None:
        """Have copies brought on while the cluster is there."""
        assert self.hearing.mirror_of is not None, "somebody makes the copies"
        loop = Loop(self.hearing.mirror_of(link), remote.feed, remote.client, self.clock)
        await self._in_time(remote.ready(), READY_S)
        link.view, link.loop, link.problem, link.reason = remote.feed.view, loop, None, "Active"
        log.info("cluster %s is connected", link.name)
        self.hearing.link_changed(link.name)
        await run_together(loop.run(), self._ask_again_and_again(remote))

    async def _ask_again_and_again(self, remote: Remote) -> None:
        while True:
            await self.clock.sleep(HEARTBEAT_S)
            await self._in_time(remote.probe(), 2 * HEARTBEAT_S)

    async def _in_time(self, work: Coroutine[Any, Any, None], limit_s: float) -> None:
        """Wait for work that has to end; by the given clock, which need not be the machine's."""
        task, timer = asyncio.create_task(work), self.clock.timer(limit_s)
        try:
            await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Unavailable(f"no answer within {limit_s:g} s")
            await task
        finally:
            task.cancel()
            timer.cancel()


def lost_at(cluster: Object | None) -> float | None:
    """Since when a cluster cannot be reached, as its object says; `None` where it can be, or nobody has tried yet."""
    for condition in Fields(cluster or {}).child("status").children("conditions"):
        if condition.text("type") == "Active" and condition.text("status") == "False":
            return moment(condition, "lastTransitionTime")
    return None


async def _end(*links: Link) -> None:
    tasks = [link.task for link in links if link.task is not None]
    for link in links:
        link.view = link.loop = None
    for task in tasks:
        task.cancel()  # all of them before any is waited for: whoever waits may be cancelled once more
    await asyncio.gather(*tasks, return_exceptions=True)


def _source(obj: Object) -> Any:
    return (obj.get("spec") or {}).get("clusterSource")


def _setting(link: Link) -> Setting | None:
    if link.problem is not None:
        return Setting(type="Active", is_true=False, reason=link.reason, message=link.problem[:_MESSAGE_MOST])
    if link.view is None:
        return None  # nobody knows yet
    return Setting(type="Active", is_true=True, reason="Active", message="Connected")
