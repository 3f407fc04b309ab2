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
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from muster.apiserver.hooks.configurations import Reached
from muster.app import played_nodes
from muster.app.checks import outside_of_cluster
from muster.app.config import Configuration
from muster.app.hook_cluster import KubeCluster
from muster.app.hooks import HookOptions, WebhookServer
from muster.app.job_control import JobControl, job_indexes, job_resources
from muster.app.multikueue import multikueue, ways_out
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
from muster.store.clock import Clock, RealClock
from muster.store.errors import StoreError
from muster.store.identities import Identities
from muster.store.kinds import Object
from muster.store.kube import Kube, Limits
from muster.store.kube_client import KubeClient
from muster.store.kube_config import Access
from muster.store.kube_events import TellingClient
from muster.store.readings import Readings
from muster.store.records import Key

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
    clock = RealClock()
    stopped = asyncio.Event()
    for sign in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(sign, stopped.set)
    chosen = options.configuration.election
    async with AsyncExitStack() as connections:
        works = []
        if options.hooks is not None:
            # Every replica answers, by a connection for the webhooks alone: see `hook_cluster`.
            hooks_kube = await connections.enter_async_context(Kube(options.access, clock, limits=options.limits))
            works.append(answer_hooks(hooks_kube, clock, options.configuration, options.hooks))
        if not chosen.is_on:
            kube = await connections.enter_async_context(Kube(options.access, clock, limits=options.limits))
            works.append(work(kube, clock, options, on_ready))
        else:
            election = replace(chosen, namespace=chosen.namespace or options.access.namespace)
            # By a way of its own: whoever has a lot to write has to be heard of all the same.
            few = Limits(in_flight=2, timeout_s=election.request_s)
            client = KubeClient(await connections.enter_async_context(Kube(options.access, clock, limits=few)))
            identity = f"{socket.gethostname()}_{Identities().uid()}"
            elector = Elector(ClientLeases(client, client.get, election), clock, identity=identity, election=election)
            limits = replace(options.limits, write_s=election.request_s)
            guarded = Kube(options.access, clock, limits=limits, guard=elector.write)
            kube = await connections.enter_async_context(guarded)
            works.append(elector.run(lambda: work(kube, clock, options, on_ready)))
        await _until(stopped, run_together(*works))


async def _until(stopped: asyncio.Event, working: Coroutine[Any, Any, None]) -> None:
    task, stop = asyncio.create_task(working), asyncio.create_task(stopped.wait())
    await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if task.done():
        await task  # it fails, and says why
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def answer_hooks(kube: Kube, clock: Clock, configuration: Configuration, reached: Reached) -> None:
    """Answer the cluster's questions about objects on their way in, until cancelled; whoever leads or not."""
    cluster = KubeCluster(kube, clock)
    while True:
        try:
            own_user = await cluster.own_user()
            break
        except StoreError as problem:
            log.warning("the webhooks wait for the cluster: %s", problem)
            await clock.sleep(_ASKED_AGAIN_S)
    options = HookOptions(own_user=own_user, reached=reached)
    await run_together(cluster.run(), WebhookServer(configuration, cluster, clock, options).run())


async def work(kube: Kube, clock: Clock, options: ManageOptions, on_ready: Callable[[], None]) -> None:
    """Decide and write, from a list of everything on, until cancelled."""
    configuration = options.configuration
    ours = SCHEDULERS if configuration.schedulers is None else configuration.schedulers
    chosen = replace(configuration, schedulers=ours, pace=PACE)
    readings = Readings()
    resources, indexes = {*RESOURCES, *job_resources(chosen)}, {**INDEXES, **job_indexes(chosen)}
    if options.pools:
        resources |= set(played_nodes.RESOURCES)
        indexes |= played_nodes.INDEXES
    feed = KubeFeed(kube, View(indexes, readings), clock, resources=resources, readings=readings)
    plain = KubeClient(kube, bound_seen=feed.bound_seen)
    client = TellingClient(plain, clock, per_s=chosen.events_per_s)
    scheduling = Scheduling(feed, client, clock, configuration=chosen, think=asyncio.to_thread)
    outside = outside_of_cluster(plain, chosen)
    jobs = JobControl(feed, client, clock, configuration=chosen, outside=outside)
    namespace = chosen.secrets_namespace or options.access.namespace

    async def secret(name: str) -> Object | None:
        return await plain.find(Key("secrets", namespace, name))

    sending = multikueue(feed, client, clock, configuration=chosen, open_=ways_out(chosen, clock, secret))
    nodes = PlayedNodes(options.pools, feed, client, clock)
    beside_hooks = () if options.hooks is None else (Loop(DefaultQueues(), feed, client, clock),)

    async def decide() -> None:
        await feed.ready()
        log.info("all objects are known")
        await nodes.register()
        on_ready()
        loops = (loop.run() for loop in beside_hooks)
        works = (*scheduling.works(), *jobs.works(), *sending.works(), *nodes.works(), *loops)
        await run_together(*works)

    await run_together(feed.run(), client.run(), decide())
