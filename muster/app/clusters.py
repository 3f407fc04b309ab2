"""All clusters that workloads are sent to, at one look: who is there and has what. Called by `muster clusters`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from muster.controllers.kube_feed import KubeFeed
from muster.controllers.multikueue.clusters import CLUSTERS, lost_at
from muster.controllers.view import View
from muster.dialects.kueue.job_steps import WORKLOADS
from muster.dialects.kueue.validate_workload import has_condition
from muster.model.fields import Fields
from muster.store.clock import RealClock
from muster.store.errors import Unavailable
from muster.store.kinds import Object
from muster.store.kube import Kube
from muster.store.kube_config import Access
from muster.store.readings import Readings

LOOK_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLine:
    """One cluster as its sender sees it."""

    name: str
    state: str  # Connected, or since when it is away, or nothing where nobody has tried yet
    offered: int = 0  # workloads that it may have, if it has room first
    running: int = 0  # that it has
    finished: int = 0  # that have ended there and are still known
    problem: str = ""


async def look(access: Access) -> list[ClusterLine]:
    """Ask the cluster that sends; raises `Unavailable` where it does not answer."""
    clock, readings = RealClock(), Readings()
    async with Kube(access, clock) as kube:
        view = View({}, readings)
        feed = KubeFeed(kube, view, clock, resources={CLUSTERS, WORKLOADS}, readings=readings)
        following = asyncio.create_task(feed.run())
        try:
            async with asyncio.timeout(LOOK_S):
                await feed.ready()
        except TimeoutError:
            raise Unavailable(f"no answer within {LOOK_S:g} s") from None
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        return lines_of(view.all(CLUSTERS), view.all(WORKLOADS), clock.now_s())


def lines_of(clusters: Iterable[Object], workloads: Iterable[Object], now_s: float) -> list[ClusterLine]:
    """A line for each cluster, in the order of their names."""
    offered: Counter[str] = Counter()
    running: Counter[str] = Counter()
    finished: Counter[str] = Counter()
    for workload in map(Fields, workloads):
        status = workload.child("status")
        offered.update(status.texts("nominatedClusterNames"))
        if name := status.text("clusterName"):
            (finished if has_condition(workload, "Finished") else running)[name] += 1
    return [
        ClusterLine(
            name=name,
            state=_state(cluster, now_s),
            offered=offered[name],
            running=running[name],
            finished=finished[name],
            problem=_problem(Fields(cluster)),
        )
        for cluster in clusters
        if (name := cluster["metadata"]["name"])
    ]


def _state(cluster: Object, now_s: float) -> str:
    since_s = lost_at(cluster)
    if since_s is not None:
        return f"away for {max(0, int(now_s - since_s))} s"
    return "Connected" if Fields(cluster).child("status").items("conditions") else ""


def _problem(cluster: Fields) -> str:
    conditions = cluster.child("status").children("conditions")
    return next((one.text("message") for one in conditions if one.text("status") == "False"), "")
