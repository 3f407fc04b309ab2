"""A cluster in memory that does one step after the other: what Muster's sides of the stories have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Self

from tests.controllers.builtin.job_cluster import START_S, Cluster


class Stepped:
    """A cluster that has settled after each step."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cluster: Cluster) -> None:
        self._loop = loop
        self._cluster = cluster

    def _run(self, step: Coroutine[Any, Any, Any]) -> None:
        self._loop.run_until_complete(step)
        self._loop.run_until_complete(self._cluster.settle())

    @classmethod
    @contextmanager
    def at_work(cls, start_s: float = START_S) -> Iterator[Self]:
        """A cluster of its own, with the controllers at work."""

        async def start() -> Cluster:
            cluster = Cluster(start_s=start_s)
            cluster.start()
            return cluster

        loop = asyncio.new_event_loop()
        try:
            cluster = loop.run_until_complete(start())
            try:
                yield cls(loop, cluster)
            finally:
                loop.run_until_complete(cluster.close())
        finally:
            loop.close()
