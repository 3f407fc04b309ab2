"""The scheduler of a cluster, put together: what it follows, how it reads, and who carries out what it decides.

Called by `muster up` once the server answers, and by tests: it loads numpy, which nobody should have to wait for.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from muster.app.config import Configuration
from muster.app.outside import post_json
from muster.app.placement import frame_of, node_slots, placement_reader, plain_queue, tiers_of
from muster.app.plugins import vendors
from muster.app.policies import build_tiers, without_extender
from muster.controllers import belonging, pod_claims
from muster.controllers.binder import Binder
from muster.controllers.cache import NODES, RESOURCES, Cache, Parts
from muster.controllers.deciding import Decided
from muster.controllers.feed import Changes, Feed
from muster.controllers.loop import Loop
from muster.controllers.scheduler import Scheduler, Think, at_once
from muster.controllers.view import View
from muster.controllers.volcano_groups import GroupMaker
from muster.dialects.hami.cards import slice_annotations, whole_slices
from muster.dialects.kueue.read import ReadOptions
from muster.dialects.pods import SCHEDULERS
from muster.engine.node_table_rows import TableNode
from muster.engine.outside import ask_nobody
from muster.engine.profile import Tier
from muster.engine.reading import PlacementReader
from muster.engine.tiers import Tiers
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
    """The scheduler and the binder of one cluster."""

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
        self.binding = Loop(Binder(annotate, self.parts.schedulers), feed, client, clock)
        self.grouping = Loop(GroupMaker(self.parts.schedulers), feed, client, clock)

    def works(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """What has to be run beside the feed."""
        return self.scheduler.run(), self.binding.run(), self.grouping.run()

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
        schedulers=SCHEDULERS if configuration.schedulers is None else configuration.schedulers,
        tiers=build_tiers if configuration.asks_extenders else _build_alone,
        ask=post_json if configuration.asks_extenders else ask_nobody,
    )


def _build_alone(tiers: Sequence[Tier]) -> Tiers:
    return build_tiers(without_extender(tiers))


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
