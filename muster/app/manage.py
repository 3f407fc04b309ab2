"""Muster beside a real cluster: its scheduler and its control of jobs over the cluster's own API. Called by the CLI.

`work` is all that decides and writes: it lists anew when it begins and does nothing more once it is cancelled, so that
whoever holds the lead may run it and others wait.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from muster.apiserver.hooks.configurations import Reached
from muster.apiserver.hooks.serving import ServedCertificate
from muster.app import played_nodes
from muster.app.config import Configuration
from muster.app.figures import Figures
from muster.app.hook_cluster import KubeCluster
from muster.app.hooks import HookOptions, WebhookServer
from muster.app.job_control import JobControl, job_indexes, job_resources
from muster.app.monitoring import Monitoring, Tokens, own_certificate
from muster.app.played_nodes import PlayedNodes
from muster.app.scheduling import INDEXES, Scheduling
from muster.controllers.cache import RESOURCES
from muster.controllers.default_queues import DefaultQueues
from muster.controllers.feed import run_together
from muster.controllers.kube_feed import KubeFeed
from muster.controllers.leadership import ClientLeases, Elector
from muster.controllers.loop import Loop
from muster.controllers.nodes.pools import Pool
from muster.controllers.pace import Pace
from muster.controllers.view import View
from muster.model.election import Election
from muster.store.clock import Clock, RealClock
from muster.store.errors import StoreError
from muster.store.identities import Identities
from muster.store.kube import Guard, Kube, Limits, at_once
from muster.store.kube_client import KubeClient
from muster.store.kube_config import Access
from muster.store.kube_events import TellingClient
from muster.store.readings import Readings

log = logging.getLogger(__name__)
SCHEDULERS = frozenset({"muster", "volcano", "yunikorn"})  # whose pods are bound where nothing is configured
_ASKED_AGAIN_S = 1.0
PACE = Pace(queue_s=5.0, refusal_s=2.0, refusals_per_s=20.0, refusals_at_once=100, decisions_at_once=32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManageOptions:
    """Which cluster is managed, and how."""

    access: Access
    limits: Limits = field(default_factory=Limits)
    configuration: Configuration = field(default_factory=Configuration)
    pools: tuple[Pool, ...] = ()  # of simulated nodes, which are played here
    hooks: Reached | None = None  # where the cluster finds the webhooks; None: they are not served


async def run_beside(options: ManageOptions, on_ready: Callable[[], None]) -> None:
    """Manage a cluster until somebody asks the process to stop."""
    stopped = asyncio.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(sign, stopped.set)
    async with AsyncExitStack() as connections:
        process = _Process(options, connections, RealClock())
        await _until(stopped, run_together(*await process.works(on_ready)))


class _Process:
    """What runs in one process, each part by a connection of its own."""

    def __init__(self, options: ManageOptions, connections: AsyncExitStack, clock: Clock) -> None:
        self._options = options
        self._connections = connections
        self._clock = clock
        self._served = ServedCertificate()
        settings = options.configuration.monitoring
        self._figures = Figures(settings) if settings.is_on else None

    async def works(self, on_ready: Callable[[], None]) -> list[Coroutine[Any, Any, None]]:
        """All that has to be run: every replica answers for the webhooks and tells of itself, and one acts."""
        options, clock = self._options, self._clock
        works = []
        if self._figures is not None:
            tokens = Tokens(KubeClient(await self._connected(replace(options.limits, in_flight=2))), clock)
            monitoring = Monitoring(options.configuration.monitoring, self._figures, tokens)
            works.append(monitoring.run(self._served if options.hooks is not None else own_certificate(clock)))
        if options.hooks is not None:
            # Apart from what is written: see `hook_cluster`.
            works.append(answer_hooks(await self._connected(options.limits), clock, options, self._served))
        chosen = options.configuration.election
        if chosen.is_on:
            elector = await self._elector(replace(chosen, namespace=chosen.namespace or options.access.namespace))
            limits = replace(options.limits, write_s=elector.election.request_s)
            kube = await self._connected(limits, guard=elector.write)
            works.append(elector.run(lambda: work(kube, clock, options, on_ready, figures=self._figures)))
            works.append(_find(kube, options))
        else:
            kube = await self._connected(options.limits)
            works.append(work(kube, clock, options, on_ready, figures=self._figures))
        return works

    async def _elector(self, election: Election) -> Elector:
        # By a way of its own: whoever has a lot to write has to be heard of all the same.
        client = KubeClient(await self._connected(Limits(in_flight=2, timeout_s=election.request_s)))
        identity = f"{socket.gethostname()}_{Identities().uid()}"
        return Elector(ClientLeases(client, client.get, election), self._clock, identity=identity, election=election)

    async def _connected(self, limits: Limits, guard: Guard = at_once) -> Kube:
        kube = Kube(self._options.access, self._clock, limits=limits, guard=guard)
        if self._figures is not None:
            self._figures.count_requests(lambda: kube.requests)
        return await self._connections.enter_async_context(kube)


async def _until(stopped: asyncio.Event, working: Coroutine[Any, Any, None]) -> None:
    task, stop = asyncio.create_task(working), asyncio.create_task(stopped.wait())
    await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if task.done():
        await task  # it fails, and says why
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def answer_hooks(kube: Kube, clock: Clock, options: ManageOptions, served: ServedCertificate) -> None:
    """Answer the cluster's questions about objects on their way in, until cancelled; whoever leads or not."""
    cluster = KubeCluster(kube, clock)
    while True:
        try:
            own_user = await cluster.own_user()
            break
        except StoreError as problem:
            log.warning("the webhooks wait for the cluster: %s", problem)
            await clock.sleep(_ASKED_AGAIN_S)
    known = HookOptions(own_user=own_user, reached=options.hooks, served=served)
    await run_together(cluster.run(), WebhookServer(options.configuration, cluster, clock, known).run())


async def _find(kube: Kube, options: ManageOptions) -> None:
    """Learn where the cluster has everything while another leads: that is half of what a successor has to ask."""
    for resource in sorted(_followed(options)):
        try:
            await kube.where(resource)
        except StoreError as problem:
            log.info("where %s are will be asked again: %s", resource, problem)


def _followed(options: ManageOptions) -> set[str]:
    played = played_nodes.RESOURCES if options.pools else ()
    return {*RESOURCES, *job_resources(options.configuration), *played}


async def work(
    kube: Kube, clock: Clock, options: ManageOptions, on_ready: Callable[[], None], *, figures: Figures | None = None
) -> None:
    """Decide and write, from a list of everything on, until cancelled."""
    configuration = options.configuration
    ours = SCHEDULERS if configuration.schedulers is None else configuration.schedulers
    chosen = replace(configuration, schedulers=ours, pace=PACE)
    readings = Readings()
    indexes = {**INDEXES, **job_indexes(chosen), **(played_nodes.INDEXES if options.pools else {})}
    feed = KubeFeed(kube, View(indexes, readings), clock, resources=_followed(options), readings=readings)
    client = TellingClient(KubeClient(kube, bound_seen=feed.bound_seen), clock, per_s=chosen.events_per_s)
    scheduling = Scheduling(feed, client, clock, configuration=chosen, think=asyncio.to_thread)
    jobs = JobControl(feed, client, clock, configuration=chosen)
    nodes = PlayedNodes(options.pools, feed, client, clock)
    beside_hooks = () if options.hooks is None else (Loop(DefaultQueues(), feed, client, clock),)

    async def decide() -> None:
        await feed.ready()
        log.info("all objects are known")
        await nodes.register()
        on_ready()
        loops = (loop.run() for loop in beside_hooks)
        await run_together(*scheduling.works(), *jobs.works(), *nodes.works(), *loops)

    with figures.of(feed) if figures is not None else nullcontext():
        await run_together(feed.run(), client.run(), decide())
