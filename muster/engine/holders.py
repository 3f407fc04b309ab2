"""Workloads that hold quota: what each uses of which queue, indexed for the victim search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from muster.engine.places import Places, Use
from muster.engine.slot_asks import SlotUse
from muster.engine.topology import PlacedUse
from muster.engine.tree import QuotaNode
from muster.model.resources import FlavorResource
from muster.model.workload import Admission, PodSetAdmission, Slot, Workload

if TYPE_CHECKING:
    from muster.engine.slots import NodeSlots


@dataclass(slots=True)
class Holder:
    """A workload with quota, what it uses, and the queue that pays. Nobody changes one (to freeze it takes long)."""

    workload: Workload
    queue: QuotaNode
    usage: Mapping[FlavorResource, int]
    flavored: frozenset[FlavorResource]  # the resources that were given a flavor, zero amounts included
    places: tuple[Use, ...] = ()

    def uses_any(self, keys: Iterable[FlavorResource]) -> bool:
        return not self.flavored.isdisjoint(keys)

    def is_same_charge(self, other: Holder) -> bool:
        """Whether both are the same charge to the same queue."""
        return (
            self.queue is other.queue
            and self.usage == other.usage
            and self.flavored == other.flavored
            and self.places == other.places
        )


def holder_of(
    workload: Workload,
    queue: QuotaNode,
    *,
    releases_finished_pods: bool,
    places: Places | None = None,
) -> Holder:
    """The quota that an admitted workload holds now: finished pods may have given theirs back."""
    assert workload.admission is not None, f"{workload.key} holds no quota"
    usage = usage_of(workload, workload.admission, releases_finished_pods=releases_finished_pods)
    held = tuple(places_of(workload, workload.admission, places)) if places is not None and places.is_any else ()
    return Holder(workload, queue, usage, workload.admission.flavored(), held)


def places_of(workload: Workload, admission: Admission, places: Places) -> Iterator[Use]:
    """The places that an admission holds; what a pod needs of a node is what its spec says, whatever quota counts."""
    pod_sets = {pod_set.name: pod_set for pod_set in workload.pod_sets}
    trees = places.topologies.trees if places.topologies is not None else ()
    for given in admission.pod_sets:
        if given.name not in pod_sets:
            continue
        pod_set = pod_sets[given.name]
        flavor = next((name for _, name in sorted(given.flavors.items()) if name in trees), "")
        if given.place is not None and flavor:
            yield PlacedUse(flavor, given.place, pod_set.shape.requests)
        if given.slots and places.slots is not None:
            yield SlotUse(places.slots.demand_of(workload, pod_set, given.flavors.values()), given.slots)


def part_of(holder: Holder, left: Mapping[str, tuple[Slot, ...]], slots: NodeSlots) -> Holder:
    """What a workload gives back when some of its pods leave their slots, pod set by pod set."""
    admission = holder.workload.admission
    assert admission is not None, f"{holder.workload.key} holds slots without an admission"
    given = tuple(_scaled(one, len(left[one.name])) for one in admission.pod_sets if one.name in left)
    pod_sets = {pod_set.name: pod_set for pod_set in holder.workload.pod_sets}
    uses = tuple(
        SlotUse(slots.demand_of(holder.workload, pod_sets[one.name], one.flavors.values()), left[one.name])
        for one in given
    )
    usage = Admission(queue=admission.queue, pod_sets=given).usage()
    return Holder(holder.workload, holder.queue, usage, holder.flavored, uses)


def usage_of(workload: Workload, admission: Admission, *, releases_finished_pods: bool) -> Mapping[FlavorResource, int]:
    """What an admission uses, less the share of pods that have finished or are not wanted any more."""
    left = {
        pod_set.name: pod_set.count_left if releases_finished_pods else pod_set.count for pod_set in workload.pod_sets
    }
    if all(left.get(given.name, given.count) >= given.count for given in admission.pod_sets):
        return admission.usage()
    pod_sets = tuple(
        _scaled(given, min(given.count, left.get(given.name, given.count))) for given in admission.pod_sets
    )
    return Admission(queue=admission.queue, pod_sets=pod_sets).usage()


def still_held(holder: Holder) -> dict[str, PodSetAdmission]:
    """What each pod set of a workload holds by now, by name: finished pods may have given their quota back."""
    admission = holder.workload.admission
    assert admission is not None, f"{holder.workload.key} holds quota without an admission"
    if holder.usage == admission.usage():
        return {given.name: given for given in admission.pod_sets}
    left = {pod_set.name: pod_set.count_left for pod_set in holder.workload.pod_sets}
    return {
        given.name: _scaled(given, min(given.count, left.get(given.name, given.count))) for given in admission.pod_sets
    }


def _scaled(given: PodSetAdmission, count: int) -> PodSetAdmission:
    """The same assignment for fewer pods: the usage of one pod times their number."""
    if count == given.count or given.count == 0:
        return given
    usage = {resource: amount // given.count * count for resource, amount in given.usage.items()}
    return PodSetAdmission(name=given.name, count=count, flavors=given.flavors, usage=usage)


class Holders:
    """All workloads that hold quota, by queue."""

    def __init__(self) -> None:
        self._by_queue: dict[str, dict[str, Holder]] = {}
        self._by_key: dict[str, Holder] = {}
        self._priorities: dict[str, dict[int, int]] = {}  # by queue: how many workloads of each priority
        self._leaving: dict[str, None] = {}  # those that were told to go

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, workload: str) -> Holder | None:
        return self._by_key.get(workload)

    def in_queue(self, queue: str) -> Mapping[str, Holder]:
        return self._by_queue.get(queue, {})

    def all(self) -> Iterable[Holder]:
        return self._by_key.values()

    def leaving_uncounted(self) -> Iterator[Holder]:
        """Those that leave their nodes and that no quota counts any more: pods that outlive what their job held."""
        holders = (self._by_key[key] for key in self._leaving)
        return (holder for holder in holders if holder.queue.queue.is_unlimited)

    def add(self, holder: Holder) -> None:
        assert holder.workload.key not in self._by_key, f"{holder.workload.key} holds quota already"
        self._by_key[holder.workload.key] = holder
        self._by_queue.setdefault(holder.queue.name, {})[holder.workload.key] = holder
        self._count(holder, 1)

    def lowest_priority(self, queue: str) -> int | None:
        """The lowest priority of those that hold quota of a queue; `None` where nobody does."""
        return min(self._priorities.get(queue, ()), default=None)

    def _count(self, holder: Holder, sign: int) -> None:
        counts = self._priorities.setdefault(holder.queue.name, {})
        priority = holder.workload.priority
        counts[priority] = counts.get(priority, 0) + sign
        if not counts[priority]:
            del counts[priority]
        if holder.workload.is_evicted and sign > 0:
            self._leaving[holder.workload.key] = None
        else:
            self._leaving.pop(holder.workload.key, None)

    def replace(self, holder: Holder) -> None:
        """Keep what is charged and remember the newer object."""
        self._count(self._by_key[holder.workload.key], -1)
        self._count(holder, 1)
        self._by_key[holder.workload.key] = holder
        self._by_queue[holder.queue.name][holder.workload.key] = holder

    def remove(self, workload: str) -> Holder | None:
        holder = self._by_key.pop(workload, None)
        if holder is not None:
            del self._by_queue[holder.queue.name][workload]
            self._count(holder, -1)
        return holder
