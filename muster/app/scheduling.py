"""The scheduler of a cluster, put together: what it follows, how it reads, and who carries out what it decides.

Called by `muster up` once the server answers, and by tests: it loads numpy, which nobody should have to wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from muster.app.config import Configuration
from muster.app.placement import frame_of, node_slots, placement_reader, plain_queue, tiers_of
from muster.app.plugins import vendors
from muster.app.policies import build_tiers
from muster.controllers import pod_claims
from muster.controllers.belonging import INDEXES
from muster.controllers.binder import Binder
from muster.controllers.cache import NODES, RESOURCES, Cache, Parts
from muster.controllers.feed import Feed
from muster.controllers.loop import Loop
from muster.controllers.pod_groups import PodGroupMaker
from muster.controllers.scheduler import Decided, Scheduler, Think, at_once
from muster.controllers.view import View
from muster.dialects.hami.cards import slice_annotations, whole_slices
from muster.dialects.kueue.read import ReadOptions
from muster.engine.node_table_rows import TableNode
from muster.engine.reading import PlacementReader
from muster.model.fields import Fields
from muster.model.workload import Slot
from muster.store.aio import AsyncStore
from muster.store.client import Client
from muster.store.clock import Clock
from muster.store.records import Key


class Scheduling:
    """The scheduler and the binder of one store."""

    def __init__(
        self,
        store: AsyncStore,
        client: Client,
        clock: Clock,
        *,
        configuration: Configuration | None = None,
        think: Think[Decided] = at_once,
    ) -> None:
        view = View({**INDEXES, **pod_claims.INDEXES}, store.readings)
        self.feed = Feed(store, view, clock, resources=RESOURCES)
        self.parts = parts_of(configuration or Configuration())
        annotate = _Annotating(view, self.parts.placement)
        self.scheduler = Scheduler(Cache(view, self.parts), self.feed, client, clock, annotate=annotate)
        self.scheduler.think = think
        self.binding = Loop(Binder(annotate), self.feed, client, clock)
        self.grouping = Loop(PodGroupMaker(), self.feed, client, clock)

    async def run(self) -> None:
        """Work until cancelled."""
        tasks = [asyncio.create_task(one.run()) for one in self._parts_at_work]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def _parts_at_work(self) -> tuple[Feed | Scheduler | Loop, ...]:
        return self.feed, self.scheduler, self.binding, self.grouping

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do but wait."""
        has_rest = self.scheduler.is_pausing or (self.scheduler.is_idle and not self.scheduler.cache.has_news)
        return has_rest and self.binding.is_idle and self.grouping.is_idle


def parts_of(configuration: Configuration) -> Parts:
    """What a cache of the engine's state is put together from."""
    # Once: the table of nodes is built anew more often than anybody changes a policy.
    configuration = replace(configuration, tiers=tiers_of(configuration))
    return Parts(
        options=lambda now: _read_options(configuration, now),
        placement=placement_reader(),
        plain_queue=plain_queue(),
        slots=lambda snapshot: node_slots(snapshot, configuration),
        frame=frame_of,
        tiers=build_tiers,
    )


def _read_options(configuration: Configuration, now: float) -> ReadOptions:
    """How the objects of a cluster are read: its namespaces are objects themselves, and admission needs a place."""
    options = replace(configuration.read_options(now), assumes_namespaces=False)
    settings = replace(options.settings, needs_slots=True, places_queued_pods=configuration.profile.places_workloads)
    return replace(options, settings=settings)


class _Annotating:
    """What is written on a pod for the plugin of its node."""

    def __init__(self, view: View, reader: PlacementReader) -> None:
        self._view = view
        self._reader = reader
        self._vendors = tuple(vendors().values())

    def __call__(self, pod: Fields, slot: Slot, now: float) -> Mapping[str, str]:
        if slot.slices is None and not slot.names:
            return {}
        obj = self._view.get(Key(NODES, "", slot.node))
        devices = self._reader.devices_of(Fields(obj)) if obj is not None else ()
        slices = slot.slices or whole_slices(pod, slot.names, self._vendors, devices)
        if slices is None:
            return {}
        node = TableNode(name=slot.node, devices=devices)
        return slice_annotations(pod, slices, self._vendors, node=node, now_s=int(now))
