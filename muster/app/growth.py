"""Which nodes would be used if they were there: the engine decides on the cluster as it would be then.

Called by the controller of node pools. It decides on a state of its own, so that what it pretends reaches nobody.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from muster.app.config import Configuration
from muster.app.scheduling import parts_of
from muster.controllers.belonging import INDEXES, PODS
from muster.controllers.cache import RESOURCES, Cache
from muster.controllers.nodes.pool_requests import Room
from muster.controllers.scheduler import Decided, Think, at_once, run_cycles
from muster.controllers.view import View
from muster.dialects.pods import workload_key
from muster.engine.profile import DEFAULT, PolicyUse, tier
from muster.model.plan import Reserve
from muster.store.clock import Clock
from muster.store.kinds import Object
from muster.store.records import Key, Record

REST = 4  # times as long as a look has taken, until the next one
# New nodes are filled one after the other, so that no more are started than are needed.
PACKING = replace(
    DEFAULT,
    name="growth",
    tiers=(tier("priority", PolicyUse(name="gang", off=frozenset(("preempt", "reclaim")))), tier("binpack")),
)


class Growth:
    """Asks the engine who would go to nodes that are not there."""

    def __init__(self, view: View, clock: Clock, think: Think[list[dict[str, set[str]]]] = at_once) -> None:
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
        placed = await self._think(lambda: self._placed(known, (coming, *candidates), now))
        self._rest(begun_s)
        return {node for batch in placed for nodes in batch.values() for node in nodes}

    async def room(
        self, pods: Sequence[Object], coming: Sequence[Object], candidates: Sequence[Sequence[Object]]
    ) -> Room | None:
        """Whether there is room for pods that nobody has made, or would be."""
        begun_s, now = self._clock.monotonic_s(), self._clock.now_s()
        if begun_s < self._next_s:
            return None
        known = {resource: self._view.records(resource) for resource in RESOURCES}
        # Every state has a revision of its own, by which it is known.
        last = max((one.revision for records in known.values() for one in records), default=0)
        known[PODS] = [*known[PODS], *(_record(pod, last + number) for number, pod in enumerate(pods, 1))]
        batches = await self._think(lambda: self._placed(known, ((), coming, *candidates), now))
        self._rest(begun_s)
        asked = {workload_key(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods}
        placed = {workload: nodes for batch in batches for workload, nodes in batch.items() if workload in asked}
        used = frozenset(node for nodes in placed.values() for node in nodes)
        return Room(asked <= batches[0].keys(), asked <= placed.keys(), used)

    def _rest(self, begun_s: float) -> None:
        ended_s = self._clock.monotonic_s()
        self._next_s = ended_s + REST * (ended_s - begun_s)

    def _placed(
        self, known: Mapping[str, list[Record]], batches: Sequence[Sequence[Object]], now: float
    ) -> list[dict[str, set[str]]]:
        """Decide on a copy of what is known, in a thread of its own where there is much of it.

        Gives who goes where, for each batch of nodes after those before it.
        """
        view = View(INDEXES)
        for resource, records in known.items():
            view.learn_all(resource, records, 0)
        cache = Cache(view, self._parts)
        cache.sync(now)
        placed = []
        for batch in batches:
            cache.pretend(_ready(node) for node in batch)
            placed.append(dict(_nodes_of(run_cycles(cache.state, now))))
        return placed


def _ready(node: Object) -> Object:
    """A node as it is once it is up."""
    return {**node, "status": {**node["status"], "conditions": [{"type": "Ready", "status": "True"}]}}


def _record(pod: Object, revision: int) -> Record:
    """A pod as a store would keep it."""
    metadata = pod["metadata"]
    key = Key(PODS, metadata["namespace"], metadata["name"])
    value = json.dumps(pod).encode()
    return Record(key=key, uid=metadata["uid"], value=value, created=revision, revision=revision)


def _nodes_of(decided: Decided) -> Iterator[tuple[str, set[str]]]:
    """Who was given places, and on which nodes."""
    for workload, decisions in decided.decisions.items():
        slots = [
            slot
            for decision in decisions
            if isinstance(decision, Reserve)
            for given in decision.admission.pod_sets
            for slot in given.slots
        ]
        if slots:
            yield workload, {slot.node for slot in slots}
