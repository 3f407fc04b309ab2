"""Puts a cluster in simulated time together, out of the parts that `muster up` runs. For tests and the simulator."""

from __future__ import annotations

from functools import cache
from random import Random

from muster.apiserver.admission import Admission, Checks
from muster.apiserver.served import Catalog
from muster.app.config import Configuration
from muster.app.first_objects import first_objects
from muster.app.job_control import JobControl, job_admission
from muster.app.kinds import catalog
from muster.app.living import CONTROLLER_MANAGER, JOBS, SCHEDULER, run_builtin
from muster.app.nodes import NodeOptions, Nodes
from muster.app.scheduling import Scheduling
from muster.controllers.nodes.pools import Pool
from muster.controllers.tidying import Tidying
from muster.sim.world import START_S, Cluster, Process, World
from muster.store.aio import AsyncStore
from muster.store.client import PlainClient
from muster.store.clock import VirtualClock
from muster.store.identities import Identities
from muster.store.memory import MemoryStore
from muster.store.objects import Notes, Objects


def simulated_world(
    nodes: tuple[Pool, ...], *, seed: int = 0, configuration: Configuration | None = None
) -> World:
    """A cluster with simulated nodes in which everything runs that `muster up` runs, but for the server itself."""
    clock = VirtualClock(START_S)
    store = MemoryStore(clock)
    world = World(clock, store, simulated_cluster(clock, store, nodes, seed=seed, configuration=configuration))
    world.start()
    return world


def simulated_cluster(
    clock: VirtualClock,
    store: MemoryStore,
    nodes: tuple[Pool, ...],
    *,
    seed: int = 0,
    configuration: Configuration | None = None,
) -> Cluster:
    """What such a world is made of; the objects that every cluster has are written."""
    chosen = configuration or Configuration()
    jobs = job_admission(store, chosen)
    objects = Objects(
        _served().rules, clock, identities=Identities(Random(f"{seed}/identities")), notes=Notes(guard=Checks(jobs))
    )
    admission = Admission(store, Random(f"{seed}/addresses"), jobs=jobs)
    for change in first_objects(objects, store):
        store.write(change)

    def client(link: AsyncStore, user: str) -> PlainClient:
        return PlainClient(link, objects, user, complete=admission.complete_new)

    processes: dict[str, Process] = {
        "scheduler": lambda link: Scheduling(link, client(link, SCHEDULER), clock, configuration=chosen).run(),
        "jobs": lambda link: JobControl(link, client(link, JOBS), clock, configuration=chosen).run(),
        "controllers": lambda link: run_builtin(link, client(link, CONTROLLER_MANAGER), clock),
        "nodes": lambda link: Nodes(NodeOptions(has_local=False, pools=nodes), link, objects, clock).run(),
        "collector": lambda link: Tidying(link, objects, clock).run(),
    }
    return Cluster(objects=objects, complete=admission.complete_new, processes=processes)


@cache
def _served() -> Catalog:
    """Nothing in a simulated cluster adds kinds, so all of them share one catalog."""
    return catalog()
