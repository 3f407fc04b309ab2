"""What makes the API a cluster: the scheduler, the control of jobs, Kubernetes' own controllers, and nodes that come.

Loaded by `run` once the server answers, since it brings numpy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from muster.apiserver.admission.jobs import stored_in
from muster.apiserver.api import Api
from muster.app.admitted_client import AdmittedClient
from muster.app.autoscaling import autoscalers
from muster.app.checks import outside_of
from muster.app.config import Configuration
from muster.app.growth import Growth
from muster.app.job_control import JobControl, job_feed
from muster.app.multikueue import multikueue, ways_out
from muster.app.scheduling import Scheduling, scheduling_feed
from muster.controllers import belonging
from muster.controllers.builtin import CONTROLLERS, FOLLOWED, INDEXES
from muster.controllers.builtin.autoscaler import RESOURCES as AUTOSCALING
from muster.controllers.cache import RESOURCES
from muster.controllers.feed import Feed
from muster.controllers.loop import Controller, Loop
from muster.controllers.multikueue.remote import ReadSecret
from muster.controllers.nodes import pool_sizes
from muster.controllers.nodes.costs import COSTS
from muster.controllers.nodes.pool_requests import TEMPLATES, PoolRequests
from muster.controllers.nodes.pool_sizes import NodePools
from muster.controllers.nodes.pools import Pool
from muster.controllers.nodes.simulated import BY_NODE, PODS, node_terms
from muster.controllers.scheduler import Think, at_once
from muster.controllers.view import View
from muster.dialects.kueue.check_kinds import PROVISIONING_REQUESTS
from muster.store.aio import AsyncStore
from muster.store.client import Client, PlainClient
from muster.store.clock import Clock
from muster.store.kinds import Object
from muster.store.records import Key

# The users that they write as.
SCHEDULER = "system:kube-scheduler"
CONTROLLER_MANAGER = "system:kube-controller-manager"
JOBS = "muster-jobs"
NODE_POOLS = "muster-node-pools"
SECRETS_NAMESPACE = "kueue-system"  # where credentials for other clusters are, unless a configuration names another


async def live(api: Api, configuration: Configuration, pools: Iterable[Pool] = ()) -> None:
    """Run all of it until cancelled."""
    feed = scheduling_feed(api.store, api.clock)
    scheduler = Scheduling(
        feed, _client(api, SCHEDULER), api.clock, configuration=configuration, think=asyncio.to_thread
    )
    of_jobs = job_feed(api.store, api.clock, configuration)
    outside = outside_of(api.store, configuration)
    jobs = JobControl(of_jobs, _client(api, JOBS), api.clock, configuration=configuration, outside=outside)
    open_ = ways_out(configuration, api.clock, _secrets(api, configuration.secrets_namespace or SECRETS_NAMESPACE))
    sending = multikueue(of_jobs, _client(api, JOBS), api.clock, configuration=configuration, open_=open_)
    client = _client(api, CONTROLLER_MANAGER)
    builtin = run_builtin(api.store, client, api.clock, also=lambda view: autoscalers(api, view))
    async with asyncio.TaskGroup() as group:
        for work in (builtin, feed.run(), *scheduler.works(), of_jobs.run(), *jobs.works(), *sending.works()):
            group.create_task(work)
        if changing := [pool for pool in pools if pool.is_elastic or pool.price]:
            client = _client(api, NODE_POOLS)
            group.create_task(resize(changing, api.store, client, api.clock, think=asyncio.to_thread))


async def run_builtin(
    store: AsyncStore, client: Client, clock: Clock, *, also: Callable[[View], Controller] | None = None
) -> None:
    """Run Kubernetes' own controllers until cancelled, and one more that works on their view."""
    view = View(INDEXES, store.readings)
    feed = Feed(store, view, clock, resources=FOLLOWED | AUTOSCALING)
    controllers = [make() for make in CONTROLLERS]
    if also is not None:
        controllers.append(also(view))
    loops = [Loop(one, feed, client, clock) for one in controllers]
    async with asyncio.TaskGroup() as group:
        for work in (feed.run(), *(loop.run() for loop in loops)):
            group.create_task(work)


async def resize(
    pools: list[Pool], store: AsyncStore, client: Client, clock: Clock, *, think: Think[Any] = at_once
) -> None:
    """Have pools grow and shrink; with a view of its own, which others do without."""
    indexes = {**belonging.INDEXES, **pool_sizes.INDEXES, (PODS, BY_NODE): node_terms}
    view = View(indexes, store.readings)
    feed = Feed(store, view, clock, resources={*RESOURCES, COSTS.resource, PROVISIONING_REQUESTS, TEMPLATES})
    growth = Growth(view, clock, think)
    loop = Loop(NodePools(pools, growth, PoolRequests(growth.room)), feed, client, clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(feed.run())
        group.create_task(loop.run())


def _secrets(api: Api, namespace: str) -> ReadSecret:
    look = stored_in(api.store.store)

    async def secret(name: str) -> Object | None:
        return look(Key("secrets", namespace, name))

    return secret


def _client(api: Api, user: str) -> Client:
    """A client whose new objects are completed as everybody's are, and whose writes webhooks have a say in."""
    plain = PlainClient(api.store, api.objects, user, complete=api.admission.complete_new)
    return AdmittedClient(api, plain, user)
