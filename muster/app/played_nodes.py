"""Simulated nodes in a real cluster: Muster plays the agents of machines that are not there. Put together by `manage`.

For trying out and for tests: what the cluster's own controllers do with nodes, such as telling that one has died, they
do with these too.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any

from muster.app.node_pools import habits_by_node, nodes_of
from muster.controllers.feed import Changes
from muster.controllers.loop import Controller, Loop
from muster.controllers.nodes.cards import LostCards
from muster.controllers.nodes.heartbeat import LEASES, NODES, Heartbeats
from muster.controllers.nodes.pools import Pool, is_starting, name_of
from muster.controllers.nodes.simulated import BY_NODE, PODS, SimulatedNodes, is_failed, node_terms
from muster.controllers.view import Terms
from muster.store.client import Client
from muster.store.clock import Clock
from muster.store.errors import AlreadyExists
from muster.store.records import Key

RESOURCES = (PODS, NODES, LEASES, "configmaps")
INDEXES: dict[tuple[str, str], Terms] = {(PODS, BY_NODE): node_terms}


class PlayedNodes:
    """The nodes of some pools."""

    def __init__(self, pools: Iterable[Pool], feed: Changes, client: Client, clock: Clock) -> None:
        self._pools = tuple(pools)
        self._view = feed.view
        self._client = client
        possible = {name_of(node): node for node in nodes_of(self._pools)}
        controllers: list[Controller] = [
            LostCards(possible),
            Heartbeats(possible, lambda node: is_failed(node) or is_starting(node)),
            SimulatedNodes(habits_by_node(self._pools)),
        ]
        self._loops = [Loop(one, feed, client, clock) for one in controllers]

    async def register(self) -> None:
        """Have those nodes be there that always are."""
        for pool in self._pools:
            for node in pool.nodes[: pool.minimum]:
                if self._view.record(Key(NODES, "", name_of(node))) is None:
                    try:
                        await self._client.create(NODES, node)
                    except AlreadyExists:
                        continue

    def works(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """What has to be run beside the feed."""
        return tuple(loop.run() for loop in self._loops)
