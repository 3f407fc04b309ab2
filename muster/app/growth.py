"""Which nodes would be used if they were there: the engine decides on the cluster as it would be then.

Called by the controller of node pools. It decides on a state of its own, so that what it pretends reaches nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from muster.app.config import Configuration
from muster.app.scheduling import parts_of
from muster.controllers.belonging import INDEXES
from muster.controllers.cache import RESOURCES, Cache
from muster.controllers.deciding import Decided, run_cycles
from muster.controllers.scheduler import Think, at_once
from muster.controllers.view import View
from muster.engine.profile import DEFAULT, PolicyUse, tier
from muster.model.plan import Reserve
from muster.store.clock import Clock
from muster.store.kinds import Object
from muster.store.records import Record

REST = 4  # times as long as a look has taken, until the next one
# New nodes are filled one after the other, so that no more are started than are needed.
PACKING = replace(
    DEFAULT,
    name="growth",
    tiers=(tier("priority", PolicyUse(name="gang", off=frozenset(("preempt", "reclaim")))), tier("binpack")),
)


class Growth:
    """Asks the engine who would go to nodes that are not there."""

    def __init__(self, view: View, clock: Clock, think: Think[set[str]] = at_once) -> None:
        self._view = view
        self._clock = clock
        self._think = think
        self._parts = parts_of(Configuration(profile=PACKING))
        self._next_s = 0.0

    async def __call__(self, coming: Sequence[Object], candidates: Sequence[Sequence[Object]]) -> set[str] | None:
        """Which of the candidates would be used: those of each batch after those before it are taken."""
        begun_s, now = self._clock.monotonic_s(), self._clock.now_s()
        if begun_s < self._next_s:
            return None
        known = {resource: self._view.records(resource) for resource in RESOURCES}
        used = await self._think(lambda: self._used(known, (coming, *candidates), now))
        ended_s = self._clock.monotonic_s()
        self._next_s = ended_s + REST * (ended_s - begun_s)
        return used

    def _used(self, known: Mapping[str, list[Record]], batches: Sequence[Sequence[Object]], now: float) -> set[str]:
        """Decide on a copy of what is known; in a thread of its own where there is much of it."""
        view = View(INDEXES)
        for resource, records in known.items():
            view.learn_all(resource, records, 0)
        cache = Cache(view, self._parts)
        cache.sync(now)
        used: set[str] = set()
        for batch in batches:
            cache.pretend(_ready(node) for node in batch)
            used.update(_nodes_of(run_cycles(cache.state, now)))
        return used


def _ready(node: Object) -> Object:
    """A node as it is once it is up."""
    return {**node, "status": {**node["status"], "conditions": [{"type": "Ready", "status": "True"}]}}


def _nodes_of(decided: Decided) -> Iterator[str]:
    for decisions in decided.decisions.values():
        for decision in decisions:
            if isinstance(decision, Reserve):
                yield from (slot.node for given in decision.admission.pod_sets for slot in given.slots)
