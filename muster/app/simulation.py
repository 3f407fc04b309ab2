"""Puts a cluster in simulated time together, out of the parts that `muster up` runs. For tests and the simulator."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from muster.apiserver.admission import Admission, Checks
from muster.apiserver.definitions.establishing import Definitions
from muster.apiserver.served import Catalog
from muster.app.config import Configuration
from muster.app.first_objects import first_objects
from muster.app.job_control import JobControl, job_admission, job_feed
from muster.app.kinds import catalog
from muster.app.living import CONTROLLER_MANAGER, JOBS, NODE_POOLS, SCHEDULER, resize, run_builtin
from muster.app.multikueue import multikueue
from muster.app.node_pools import pools_of
from muster.app.nodes import NodeOptions, Nodes
from muster.app.scheduling import Scheduling, scheduling_feed
from muster.controllers.builtin.autoscaler import Autoscalers
from muster.controllers.builtin.autoscaler_sources import WrittenMetrics
from muster.controllers.builtin.autoscaler_targets import KINDS as SCALED_KINDS
from muster.controllers.builtin.autoscaler_targets import BuiltinTargets
from muster.controllers.cache import Cache
from muster.controllers.checks.http import Outside
from muster.controllers.feed import run_together
from muster.controllers.leadership import Elector
from muster.controllers.multikueue.clusters import Open
from muster.controllers.nodes.pools import Pool
from muster.controllers.tidying import Tidying
from muster.controllers.view import View
from muster.controllers.volcano import Outside as VolcanoOutside
from muster.dialects.volcano.flow import Check
from muster.dialects.volcano.job.plugins import Keys
from muster.dialects.volcano.names import POD_GROUP, POD_GROUPS, QUEUE, QUEUES, SCHEDULING
from muster.model.election import Election
from muster.model.errors import InvalidObject
from muster.model.usage import NoUsages
from muster.sim.mixes import Mix
from muster.sim.network import Network
from muster.sim.replicas import GuardedClient, Machine, ReplicaLeases, ReplicaLink, ReplicaNetwork
from muster.sim.storm import Ground
from muster.sim.world import START_S, Cluster, Process, World
from muster.store.aio import AsyncStore
from muster.store.client import PlainClient
from muster.store.clock import VirtualClock
from muster.store.identities import Identities
from muster.store.kinds import KindRules, Object
from muster.store.memory import MemoryStore
from muster.store.objects import Notes, Objects
from muster.store.records import Key

REPLICAS = 3
VOLUMES = Path("/volumes")  # where folders of claims would be; nobody looks
# As their definitions have them, where nobody adds kinds; nothing else of a definition matters to who decides on them.
_GROUPS = {
    QUEUES: KindRules(resource=QUEUES, kind=QUEUE, api_version=SCHEDULING, is_namespaced=False, has_status=True),
    POD_GROUPS: KindRules(resource=POD_GROUPS, kind=POD_GROUP, api_version=SCHEDULING),
}


def _nowhere(_cluster: Object) -> NoReturn:
    raise InvalidObject("spec.clusterSource", "leads nowhere", "there is one simulated cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Among:
    """What there is around a simulated cluster."""

    beside: World | None = None  # with which it shares time
    open_: Open = _nowhere  # the way to those that it sends workloads to
    outside: Outside | None = None  # who answers for the servers that checks name


ALONE = Among()


def simulated_world(
    nodes: tuple[Pool, ...],
    *,
    seed: int = 0,
    configuration: Configuration | None = None,
    has_definitions: bool = False,  # whether kinds can be added
    among: Among = ALONE,
) -> World:
    """A cluster with simulated nodes in which everything runs that `muster up` runs, but for the server itself."""
    served = catalog() if has_definitions else _served()
    parts = _Parts(nodes, seed, configuration or Configuration(), served, among)
    world = parts.world(has_definitions=has_definitions)
    world.start()
    return world


def storm_ground(mix: Mix, seed: int) -> Ground:
    """A world for a storm, not started yet, with the way into its scheduler."""
    parts = _Parts(pools_of(mix.pools), seed, Configuration(), _served())
    return Ground(parts.world(), parts.cache, parts.fresh)


def take_over_ground(mix: Mix, seed: int) -> World:
    """A world with several managers, not started yet."""
    return _Parts(pools_of(mix.pools), seed, Configuration(), _served()).replicas(REPLICAS)


class _Parts:
    """What a world is made of, and the scheduler that was started in it last."""

    def __init__(
        self,
        nodes: tuple[Pool, ...],
        seed: int,
        configuration: Configuration,
        served: Catalog,
        among: Among = ALONE,
    ) -> None:
        self._catalog = served
        self._nodes = nodes
        self._seed = seed
        self._configuration = configuration
        self._clock = VirtualClock(START_S) if among.beside is None else among.beside.clock
        self._loop = None if among.beside is None else among.beside.loop
        self._among = among
        self._store = MemoryStore(self._clock)
        jobs = job_admission(self._store, configuration)
        rules = {**served.rules, **_GROUPS} if served is _served() else served.rules
        self._objects = Objects(
            rules,
            self._clock,
            identities=Identities(Random(f"{seed}/identities")),
            notes=Notes(guard=Checks(jobs)),
        )
        self._admission = Admission(self._store, Random(f"{seed}/addresses"), jobs=jobs)
        self._scheduling: Scheduling | None = None
        self._election = Election(namespace="kube-system")

    def replicas(self, count: int) -> World:
        """The same with several managers, one of which leads, in place of one scheduler and one control of jobs."""
        machines = {
            f"manager-{number}": Machine(self._clock, Random(f"{self._seed}/machine {number}"))
            for number in range(1, count + 1)
        }
        chance = Random(f"{self._seed}/network")
        network = ReplicaNetwork(self._store, chance, machines=machines, election=self._election)
        return self._world({**dict.fromkeys(machines, self._manage), **self._others()}, network)

    def world(self, *, has_definitions: bool = False) -> World:
        """The world, with the objects that every cluster has."""
        processes: dict[str, Process] = {"scheduler": self._schedule, "jobs": self._control_jobs, **self._others()}
        if has_definitions:
            processes["definitions"] = lambda link: Definitions(link, self._objects, self._catalog, self._clock).run()
        return self._world(processes, Network(self._store, Random(f"{self._seed}/network")))

    def _world(self, processes: dict[str, Process], network: Network) -> World:
        for change in first_objects(self._objects, self._store, VOLUMES):
            self._store.write(change)
        cluster = Cluster(objects=self._objects, complete=self._admission.complete_new, processes=processes)
        return World(self._clock, self._store, cluster, network, loop=self._loop)

    def _others(self) -> dict[str, Process]:
        """What runs besides Muster's own managers."""
        processes: dict[str, Process] = {
            "controllers": self._control,
            "nodes": self._run_nodes,
            "collector": lambda link: Tidying(link, self._objects, self._clock).run(),
        }
        if elastic := [pool for pool in self._nodes if pool.is_elastic]:
            processes["pools"] = lambda link: resize(elastic, link, self._client(link, NODE_POOLS), self._clock)
        return processes

    def cache(self) -> Cache | None:
        """What the scheduler knows."""
        return None if self._scheduling is None else self._scheduling.scheduler.cache

    def fresh(self) -> Cache | None:
        """What one would know that starts now, by what that one has heard; `None` while it is at work."""
        scheduling = self._scheduling
        if scheduling is None or not scheduling.scheduler.is_at_rest:
            return None
        made = Cache(scheduling.view, scheduling.parts)
        scheduling.scheduler.remind(made)
        return made

    def _client(self, link: AsyncStore, user: str) -> PlainClient:
        return PlainClient(link, self._objects, user, complete=self._admission.complete_new)

    def _schedule(self, link: AsyncStore) -> Coroutine[Any, Any, None]:
        client = self._client(link, SCHEDULER)
        feed = scheduling_feed(link, self._clock)
        self._scheduling = Scheduling(feed, client, self._clock, configuration=self._configuration)
        return run_together(feed.run(), *self._scheduling.works())

    def _control_jobs(self, link: AsyncStore) -> Coroutine[Any, Any, None]:
        feed = job_feed(link, self._clock, self._configuration)
        client, chosen = self._client(link, JOBS), self._configuration
        control = JobControl(feed, client, self._clock, configuration=chosen, outside=self._among.outside)
        sending = multikueue(feed, client, self._clock, configuration=chosen, open_=self._among.open_)
        return run_together(feed.run(), *control.works(), *sending.works())

    def _manage(self, link: AsyncStore) -> Coroutine[Any, Any, None]:
        way = link.store
        assert isinstance(way, ReplicaLink), "a manager has a machine of its own"
        identities = Identities(Random(f"{self._seed}/{way.name} since {self._store.revision}"))
        elector = Elector(
            ReplicaLeases(self._client(link, SCHEDULER), way, self._election),
            way.machine,
            identity=f"{way.name}_{identities.uid()}",
            election=self._election,
        )
        way.terms.stand(way.name, lambda: elector.is_leading and not way.is_dead)

        def client(user: str) -> GuardedClient:
            return GuardedClient(self._client(link, user), elector)

        async def work() -> None:
            way.terms.begin(way.name, self._clock.monotonic_s())
            clock, chosen = way.machine, self._configuration
            feeds = (scheduling_feed(link, clock), job_feed(link, clock, chosen))
            scheduling = Scheduling(feeds[0], client(SCHEDULER), clock, configuration=chosen)
            jobs = JobControl(feeds[1], client(JOBS), clock, configuration=chosen)
            await run_together(*(feed.run() for feed in feeds), *scheduling.works(), *jobs.works())

        return elector.run(work)

    def _control(self, link: AsyncStore) -> Coroutine[Any, Any, None]:
        client = self._client(link, CONTROLLER_MANAGER)
        return run_builtin(link, client, self._clock, also=_autoscalers, outside=VolcanoOutside(_same_keys, _no_answer))

    def _run_nodes(self, link: AsyncStore) -> Coroutine[Any, Any, None]:
        options = NodeOptions(has_local=False, pools=self._nodes)
        return Nodes(options, link, self._objects, self._clock).run()


def _autoscalers(view: View) -> Autoscalers:
    """The controller of autoscalers, for metrics that are written on what it scales."""

    def find(api_version: str, kind: str, namespace: str, name: str) -> Object | None:
        resource = SCALED_KINDS.get((api_version.rpartition("/")[0], kind))
        return None if resource is None else view.get(Key(resource, namespace, name))

    return Autoscalers(WrittenMetrics(view, NoUsages(), find), BuiltinTargets())


async def _same_keys() -> Keys:
    """Keys that nobody logs in with: real ones are made by chance."""
    return Keys("private", "ssh-rsa public")


async def _no_answer(_check: Check) -> bool:
    """Simulated pods have no addresses."""
    return False


@cache
def _served() -> Catalog:
    """Simulated clusters to which nobody adds kinds share one catalog."""
    return catalog()
