"""Variants: one workload raced in several flavors at once; the best flavor that works wins."""

from __future__ import annotations

from muster.engine.cycle import Cycle
from muster.engine.holders import Holder
from muster.engine.order import Entry
from muster.engine.tree import QuotaNode
from muster.model.workload import Workload


def better_variant(cycle: Cycle, entry: Entry) -> Holder | None:
    """A running sibling in a better flavor: there is nothing left to gain."""
    if not cycle.settings.concurrent_admission:
        return None
    siblings = list(cycle.state.siblings(entry.workload))
    own = _position(entry.queue, entry.workload) if siblings else 0
    return next((sibling for sibling in siblings if _position(entry.queue, sibling.workload) < own), None)


def worse_variant(cycle: Cycle, entry: Entry) -> Holder | None:
    """A running sibling in a worse flavor, which makes way unless the queue does not want moves to this flavor."""
    if not cycle.settings.concurrent_admission:
        return None
    siblings = list(cycle.state.siblings(entry.workload))
    own = _position(entry.queue, entry.workload) if siblings else 0
    if not siblings or own > _last_acceptable(entry.queue):
        return None
    return next((sibling for sibling in siblings if _position(entry.queue, sibling.workload) > own), None)


def _flavors(queue: QuotaNode | None) -> tuple[str, ...]:
    """The flavors of a queue, best first; variants are compared in its first group."""
    return queue.queue.groups[0].flavors if queue is not None and queue.queue.groups else ()


def _position(queue: QuotaNode | None, workload: Workload) -> int:
    flavors = _flavors(queue)
    positions = [flavors.index(name) for name in workload.allowed_flavors or () if name in flavors]
    return min(positions, default=len(flavors))


def _last_acceptable(queue: QuotaNode | None) -> int:
    flavors = _flavors(queue)
    last = queue.queue.last_acceptable_flavor if queue is not None else ""
    return flavors.index(last) if last in flavors else len(flavors)
