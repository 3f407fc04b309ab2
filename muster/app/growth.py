"""Which nodes would be used if they were there: the engine decides on the cluster as it would be then.

Called by the controller of node pools. It decides on a state of its own, so that what it pretends reaches nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from muster.app.config import Configuration
from muster.app.scheduling import parts_of
from muster.controllers.cache import Cache
from muster.controllers.scheduler import Decided, Think, at_once, run_cycles
from muster.controllers.view import View
from muster.engine.profile import DEFAULT, PolicyUse, tier
from muster.model.plan import Reserve
from muster.store.clock import Clock
from muster.store.kinds import Object

# New nodes are filled one after the other, so that no more are started than are needed.
PACKING = replace(
    DEFAULT,
    name="growth",
    tiers=(tier("priority", PolicyUse(name="gang", off=frozenset(("preempt", "reclaim")))), tier("binpack")),
)


class Growth:
    """Asks the engine who would go to nodes that are not there."""

    def __init__(self, view: View, clock: Clock, think: Think[Decided] = at_once) -> None:
        self._view = view
        self._clock = clock
        self._think = think
        self._parts = parts_of(Configuration(profile=PACKING))

    async def __call__(self, coming: Sequence[Object], candidates: Sequence[Sequence[Object]]) -> set[str]:
        """Which of the candidates would be used: those of each batch after those before it are taken."""
        now = self._clock.now_s()
        cache = Cache(self._view, self._parts)
        cache.sync(now)
        used: set[str] = set()
        for batch in (coming, *(each for each in candidates if each)):
            cache.pretend(_ready(node) for node in batch)
            decided = await self._think(lambda: run_cycles(cache.state, now))
            used.update(_nodes_of(decided))
        return used


def _ready(node: Object) -> Object:
    """A node as it is once it is up."""
    return {**node, "status": {**node["status"], "conditions": [{"type": "Ready", "status": "True"}]}}


def _nodes_of(decided: Decided) -> Iterator[str]:
    for decisions in decided.decisions.values():
        for decision in decisions:
            if isinstance(decision, Reserve):
                yield from (slot.node for given in decision.admission.pod_sets for slot in given.slots)
