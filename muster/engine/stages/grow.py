"""Grow: give elastic workloads that run with fewer pods than they want as many more as quota and nodes have.

Starting goes before growing: it waits until everybody in line was tried. What those could use that go before a workload
and wait for more than there is, it leaves to them. It never fails what runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from muster.engine.cycle import Cycle
from muster.engine.growth import rank_of
from muster.engine.holders import Holder
from muster.engine.quota import available, fits
from muster.engine.slot_asks import SlotAsk, SlotUse
from muster.engine.topology import PlacedUse
from muster.engine.tree import QuotaNode
from muster.model.flavor import ANY_FLAVOR
from muster.model.plan import Amend
from muster.model.resources import FlavorResource
from muster.model.workload import PodSet, PodSetAdmission, Slot, Workload

HELD_FOR_MOST = 16  # of those that wait: a long line does not make growing dear


def grow(cycle: Cycle) -> None:
    """Try every workload that could have more pods, the most important first."""
    if not cycle.state.may_grow:
        return
    waiting = cycle.state.growth.waiting()[:HELD_FOR_MOST]
    for workload in cycle.state.growing():
        while waiting and rank_of(waiting[0]) < rank_of(workload):
            _leave_to(cycle, waiting.pop(0))
        holder = cycle.state.holders.get(workload.key)
        if holder is not None and not cycle.ledger.is_gone(workload.key) and workload.key not in cycle.leaving:
            _grow(cycle, holder)


def _leave_to(cycle: Cycle, workload: Workload) -> None:
    """Hold the quota and the slots that one who waits could use now, though they are not enough for it."""
    slots, queue = cycle.state.places.slots, cycle.state.tree.leaf(workload.queue)
    if slots is None or queue is None:
        return
    for pod_set in workload.pod_sets:
        missing = pod_set.count_left
        for flavor in _flavors_for(queue, pod_set):
            cycle.ledger.charge(queue, _usable_quota(queue, pod_set, flavor))
            demand = slots.demand_of(workload, pod_set, (flavor,))
            ask = SlotAsk(name=pod_set.name, demand=demand, count=missing, request=pod_set.topology)
            found = slots.find_some(workload, ask, beside=()) if missing else ()
            if found:
                cycle.ledger.charge_places((SlotUse(demand, found),))
                missing -= len(found)


def _usable_quota(queue: QuotaNode, pod_set: PodSet, flavor: str) -> dict[FlavorResource, int]:
    """What the pods of a pod set could use of a flavor's quota now."""
    usable: dict[FlavorResource, int] = {}
    for resource, amount in pod_set.requests.items():
        group = queue.queue.group_of(resource)
        if group is not None and flavor in group.flavors:
            key = (flavor, resource)
            usable[key] = min(amount * pod_set.count_left, max(0, available(queue, key)))
    return usable


def _flavors_for(queue: QuotaNode, pod_set: PodSet) -> Iterator[str]:
    """The flavors that could pay for a pod set."""
    if queue.queue.is_unlimited:
        yield ANY_FLAVOR
    groups = (queue.queue.group_of(resource) for resource in sorted(pod_set.requests))
    yield from dict.fromkeys(flavor for group in groups if group is not None for flavor in group.flavors)


def _grow(cycle: Cycle, holder: Holder) -> None:
    workload = holder.workload
    assert workload.admission is not None, "only what runs can grow"
    pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    given = tuple(_grown(cycle, holder, pod_sets[one.name], one) for one in workload.admission.pod_sets)
    if given != workload.admission.pod_sets:
        admission = replace(workload.admission, pod_sets=given)
        cycle.decisions.append(Amend(workload=workload.key, admission=admission, is_admitted=workload.is_admitted))


def _grown(cycle: Cycle, holder: Holder, pod_set: PodSet, given: PodSetAdmission) -> PodSetAdmission:
    """What a pod set holds with as many more pods as there is quota and room for; they are charged at once."""
    slots = cycle.state.places.slots
    # Where a topology decides, a larger workload is another placement: growth there is a new slice.
    if slots is None or given.place is not None or not given.count:
        return given
    one_pod = {resource: amount // given.count for resource, amount in given.usage.items()}
    amounts = {(given.flavors[name], name): amount for name, amount in one_pod.items() if name in given.flavors}
    count = _most_in_quota(holder, amounts, pod_set.count_left - given.count)
    demand = slots.demand_of(holder.workload, pod_set, given.flavors.values())
    ask = SlotAsk(name=given.name, demand=demand, count=count, request=pod_set.topology)
    more = slots.find_some(holder.workload, ask, beside=given.slots) if count > 0 else ()
    if not more:
        return given
    _take(cycle, holder, {key: amount * len(more) for key, amount in amounts.items()}, SlotUse(demand, more))
    return replace(
        given,
        count=given.count + len(more),
        usage={name: amount * (given.count + len(more)) for name, amount in one_pod.items()},
        slots=(*given.slots, *more),
    )


def _most_in_quota(holder: Holder, one_pod: dict[FlavorResource, int], wanted: int) -> int:
    """How many more pods the queue has quota for, by halves; never by taking from others."""
    low, high = 0, max(0, wanted)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(holder.queue, {key: amount * middle for key, amount in one_pod.items()}):
            low = middle
        else:
            high = middle - 1
    return low


def _take(cycle: Cycle, holder: Holder, amounts: dict[FlavorResource, int], use: SlotUse | PlacedUse) -> None:
    cycle.ledger.charge(holder.queue, amounts)
    cycle.ledger.charge_places((use,))


def without_slots(given: PodSetAdmission, left: tuple[Slot, ...]) -> PodSetAdmission:
    """What a pod set holds when some of its slots were left."""
    kept = list(given.slots)
    for slot in left:
        kept.remove(slot)
    count = len(kept)
    usage = {name: amount // given.count * count for name, amount in given.usage.items()}
    return replace(given, count=count, usage=usage, slots=tuple(kept))
