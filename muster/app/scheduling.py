"""The scheduler of a cluster, put together: what it follows, how it reads, and who carries out what it decides.

Called by `muster up` once the server answers, and by tests: it loads numpy, which nobody should have to wait for.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any

from muster.app.config import Configuration
from muster.app.placement import frame_of, node_slots, placement_reader, plain_queue, tiers_of
from muster.app.plugins import vendors
from muster.controllers import belonging, pod_claims
from muster.controllers.binder import Binder
from muster.controllers.cache import NODES, RESOURCES, Cache, Parts
from muster.controllers.feed import Changes, Feed
from muster.controllers.loop import Controller, Loop
from muster.controllers.node_failures import NodeFailures
from muster.controllers.scheduler import Decided, Scheduler, Think, at_once
from muster.controllers.view import View
from muster.dialects.hami.cards import slice_annotations, whole_slices
from muster.dialects.kueue.read import ReadOptions
from muster.dialects.pods import SCHEDULERS
from muster.engine.node_table_rows import TableNode
from muster.engine.reading import PlacementReader
from muster.model.fields import Fields
from muster.model.workload import Slot
from muster.store.aio import AsyncStore
from muster.store.client import Client
from muster.store.clock import Clock
from muster.store.records import Key

INDEXES = {**belonging.INDEXES, **pod_claims.INDEXES}  # what the view has to be made with


def scheduling_feed(store: AsyncStore, clock: Clock) -> Feed:
    """What a scheduler on a store of this process needs to know."""
    return Feed(store, View(INDEXES, store.readings), clock, resources=RESOURCES)


class Scheduling:
    """The scheduler of one cluster, and what works beside it on the same view."""

    def __init__(
        self,
        feed: Changes,
        client: Client,
        clock: Clock,
        *,
        configuration: Configuration | None = None,
        think: Think[Decided] = at_once,
    ) -> None:
        self.view = feed.view
        self.parts = parts_of(configuration or Configuration())
        annotate = _Annotating(feed.view, self.parts.placement)
        self.scheduler = Scheduler(Cache(feed.view, self.parts), feed, client, clock, annotate=annotate)
        self.scheduler.think = think
        self.scheduler.keep((configuration or Configuration()).pace)
        beside: list[Controller] = [Binder(annotate, self.parts.schedulers)]
        if (gates := (configuration or Configuration()).gates).is_on("TASFailedNodeReplacement"):
            beside.append(NodeFailures(waits_for_pods=not gates.is_on("TASReplaceNodeDueToNotReadyOverFixedTime")))
        self.beside = [Loop(one, feed, client, clock) for one in beside]

    def works(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """What has to be run beside the feed."""
        return self.scheduler.run(), *(loop.run() for loop in self.beside)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do but wait."""
        has_rest = self.scheduler.is_pausing or (self.scheduler.is_idle and not self.scheduler.cache.has_news)
        return has_rest and all(loop.is_idle for loop in self.beside)


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
        schedulers=SCHEDULERS if configuration.schedulers is None else configuration.schedulers,
    )


def _read_options(configuration: Configuration, now: float) -> ReadOptions:
    """How the objects of a cluster are read: its namespaces are objects themselves, and admission needs a place."""
    options = replace(configuration.read_options(now), assumes_namespaces=False)
    settings = replace(
        options.settings,
        needs_slots=True,
        places_queued_pods=configuration.profile.places_workloads,
        schedulers=configuration.schedulers,
    )
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
