"""Pools of nodes on a virtual clock: they grow for pods that wait, shrink when idle, and count what that costs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import yaml

from muster.app.growth import Growth
from muster.app.node_pools import habits_by_node, nodes_of
from muster.controllers import belonging
from muster.controllers.cache import RESOURCES
from muster.controllers.feed import Feed
from muster.controllers.loop import Loop
from muster.controllers.node_lifecycle import NodeLifecycle, TaintEviction
from muster.controllers.nodes import pool_sizes
from muster.controllers.nodes.costs import COSTS
from muster.controllers.nodes.heartbeat import LEASES, Heartbeats, node_object
from muster.controllers.nodes.pool_requests import PoolRequests
from muster.controllers.nodes.pool_sizes import NodePools
from muster.controllers.nodes.pools import Pool, is_starting, name_of
from muster.controllers.nodes.simulated import SimulatedNodes, is_failed, node_terms
from muster.controllers.nodes.timing import Length
from muster.controllers.view import View
from muster.store.kinds import Object
from tests.controllers.cluster import Cluster, pod, queue, workload


def pool(name: str, most: int, **more: object) -> Pool:
    """A pool of nodes with four cores; they take half a minute to come up, and five minutes of rest to go."""
    nodes = tuple(
        node_object(f"{name}-{one}", capacity={"cpu": "4", "pods": "9"}, labels={"pool": name}, address="198.18.0.1")
        for one in range(most)
    )
    usual = {"start": Length("fixed", 30.0), "idle_s": 300.0}
    return Pool(name=name, nodes=nodes, **{**usual, **more})  # type: ignore[arg-type]


class Growing(Cluster):
    """A cluster whose nodes come and go."""

    def begin(self, *pools: Pool) -> None:
        view = View({**belonging.INDEXES, **pool_sizes.INDEXES, ("pods", "node"): node_terms})
        feed = Feed(self.front, view, self.clock, resources={*RESOURCES, LEASES, COSTS.resource})
        possible = {name_of(node): node for node in nodes_of(pools)}
        growth = Growth(view, self.clock)
        controllers = (
            NodePools(pools, growth, PoolRequests(growth.room)),
            Heartbeats(possible, lambda node: is_failed(node) or is_starting(node)),
            SimulatedNodes(habits_by_node(pools)),
            NodeLifecycle(),
            TaintEviction(),
        )
        self.loops = [Loop(one, feed, self.plain, self.clock) for one in controllers]
        self.tasks = [asyncio.create_task(one.run()) for one in (feed, *self.loops)]

    async def _rest(self) -> None:
        await super()._rest()
        while not all(loop.is_idle for loop in self.loops):
            await super()._rest()

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.stop()

    def nodes(self) -> dict[str, str]:
        """Whether each node is ready, as `kubectl get nodes` tells."""
        found = {}
        for node in self.all("nodes"):
            conditions = node["status"].get("conditions") or ()
            is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
            found[name_of(node)] = "Ready" if is_ready else "NotReady"
        return found

    def cost(self, name: str) -> float:
        return float(yaml.safe_load(self.get("configmaps", COSTS.name, COSTS.namespace)["data"][name])["cost"])


def in_cluster(story: Callable[[Growing], Awaitable[None]], *pools: Pool) -> None:
    async def run() -> None:
        cluster = Growing()
        await cluster.set_up(queue("q", {"cpu": "100"}))
        system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
        leases = {**system, "metadata": {"name": "kube-node-lease"}}
        for one in (system, leases):
            await cluster.add("namespaces", one)
        await cluster.start()
        cluster.begin(*pools)
        try:
            await cluster.settle(2)
            await story(cluster)
        finally:
            await cluster.close()

    asyncio.run(run())


def lasting(name: str, cpu: str, **spec: object) -> Object:
    made = pod(name, cpu=cpu)
    made["spec"] |= spec
    return made


def test_a_pool_grows_for_pods_that_wait_and_no_further_than_they_need():
    async def story(cluster: Growing) -> None:
        assert cluster.nodes() == {}
        for name in ("a", "b", "c"):
            await cluster.add("pods", lasting(name, "2"))
        await cluster.settle(5)
        assert cluster.nodes() == {"n-0": "NotReady", "n-1": "NotReady"}
        assert set(cluster.nodes_of_pods().values()) == {""}
        await cluster.settle(40)
        assert cluster.nodes() == {"n-0": "Ready", "n-1": "Ready"}
        assert sorted(cluster.nodes_of_pods().values()) == ["n-0", "n-0", "n-1"]

    in_cluster(story, pool("n", 5))


def test_a_pool_shrinks_when_its_nodes_have_stood_idle():
    async def story(cluster: Growing) -> None:
        for name in ("a", "b", "c"):
            await cluster.add("pods", lasting(name, "4"))
        await cluster.settle(60)
        assert len(cluster.nodes()) == 3
        for name in ("a", "b", "c"):
            await cluster.remove("pods", name)
        await cluster.settle(280)
        assert len(cluster.nodes()) == 3
        await cluster.settle(40)
        assert cluster.nodes() == {"n-0": "Ready"}, "the least that it has stays"

    in_cluster(story, pool("n", 3, minimum=1))


def test_a_node_that_is_used_again_stays():
    async def story(cluster: Growing) -> None:
        await cluster.add("pods", lasting("a", "4"))
        await cluster.settle(60)
        await cluster.remove("pods", "a")
        await cluster.settle(290)
        await cluster.add("pods", lasting("b", "4"))
        await cluster.settle(400)
        assert cluster.nodes() == {"n-0": "Ready"}
        assert not cluster.get("nodes", "n-0", "")["spec"].get("unschedulable")

    in_cluster(story, pool("n", 1))


def test_a_pool_does_not_grow_beyond_its_most_nor_for_pods_that_do_not_fit():
    async def story(cluster: Growing) -> None:
        await cluster.add("pods", lasting("big", "5"))
        await cluster.add("pods", lasting("picky", "1", nodeSelector={"pool": "other"}))
        await cluster.settle(60)
        assert cluster.nodes() == {}
        for number in range(5):
            await cluster.add("pods", lasting(f"p{number}", "4"))
        await cluster.settle(60)
        assert len(cluster.nodes()) == 2

    in_cluster(story, pool("n", 2))


def test_the_cheapest_pool_that_fits_grows():
    async def story(cluster: Growing) -> None:
        await cluster.add("pods", lasting("any", "4"))
        await cluster.settle(5)
        assert list(cluster.nodes()) == ["cheap-0"]
        await cluster.add("pods", lasting("dear", "4", nodeSelector={"pool": "dear"}))
        await cluster.settle(5)
        assert list(cluster.nodes()) == ["cheap-0", "dear-0"]

    in_cluster(story, pool("dear", 3, price=9.0), pool("cheap", 3, price=1.0))


def test_a_gang_that_waits_in_a_queue_gets_its_nodes_from_several_pools():
    async def story(cluster: Growing) -> None:
        await cluster.add("workloads.kueue.x-k8s.io", workload("gang", "q", 4, cpu="4"))
        await cluster.settle(60)
        assert sorted(cluster.nodes()) == ["a-0", "a-1", "b-0", "b-1"]
        assert cluster.is_admitted("gang")

    in_cluster(story, pool("a", 2), pool("b", 3))


def test_a_gang_that_no_pools_could_hold_costs_nothing():
    async def story(cluster: Growing) -> None:
        await cluster.add("workloads.kueue.x-k8s.io", workload("gang", "q", 4, cpu="4"))
        await cluster.settle(60)
        assert cluster.nodes() == {}

    in_cluster(story, pool("a", 3))


def test_what_nodes_cost_is_counted_from_when_they_were_asked_for():
    async def story(cluster: Growing) -> None:
        await cluster.add("pods", lasting("a", "4"))
        await cluster.settle(1800)
        assert abs(cluster.cost("n") - 6.0) < 0.5, "half an hour at twelve"
        await cluster.remove("pods", "a")
        await cluster.settle(3600)
        assert abs(cluster.cost("n") - 7.0) < 0.5, "five minutes more"

    in_cluster(story, pool("n", 2, price=12.0))
